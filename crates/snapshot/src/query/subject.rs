//! The subject of a command: an object by its id, or classes by a pattern.

use super::NotThere;
use crate::Node;
use crate::analysis::Analysis;
use heaplab_expression::Pattern;

/// An object or the objects of some classes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// `@4711`, or `4711`.
    Object(u32),
    /// `Session`, `Detached *`.
    Classes(Pattern),
}

impl std::str::FromStr for Subject {
    type Err = String;

    fn from_str(text: &str) -> Result<Subject, String> {
        let digits = text.strip_prefix('@').unwrap_or(text);
        match digits.parse() {
            Ok(id) => Ok(Subject::Object(id)),
            Err(_) if text.is_empty() => {
                Err("expected an object such as @4711, or a class such as Session".into())
            }
            Err(_) if text.starts_with('@') => {
                Err(format!("{text} is not an object: expected @ and a number below 2^32"))
            }
            Err(_) => Ok(Subject::Classes(Pattern::new(text))),
        }
    }
}

impl Subject {
    /// The objects, those with the largest retained size first.
    ///
    /// # Errors
    /// Nothing fits.
    pub fn nodes(&self, analysis: &Analysis) -> Result<Vec<Node>, NotThere> {
        match self {
            Subject::Object(id) => Ok(vec![object(analysis, *id)?]),
            Subject::Classes(pattern) => {
                let nodes = of_classes(analysis, &classes(analysis, pattern));
                if nodes.is_empty() {
                    return Err(NotThere(format!(
                        "no object is of a class {:?}{}",
                        pattern.text(),
                        suggestion(analysis, pattern)
                    )));
                }
                let mut nodes = nodes;
                nodes.sort_by_key(|node| std::cmp::Reverse(analysis.retained_size(*node)));
                Ok(nodes)
            }
        }
    }

    /// One object: the one with that id, or the one of the class that retains most.
    ///
    /// # Errors
    /// Nothing fits.
    pub fn node(&self, analysis: &Analysis) -> Result<Node, NotThere> {
        self.nodes(analysis).map(|nodes| nodes[0])
    }
}

/// The object with that id.
///
/// # Errors
/// No object has this id.
pub fn object(analysis: &Analysis, id: u32) -> Result<Node, NotThere> {
    analysis.snapshot().graph.node_by_id(id).ok_or_else(|| {
        NotThere(format!("no object has the id @{id}; ids are of one process and its snapshots"))
    })
}

/// Which classes a pattern names, by their index.
pub fn classes(analysis: &Analysis, pattern: &Pattern) -> Vec<bool> {
    analysis.classes().iter().map(|class| pattern.fits(&class.text())).collect()
}

/// The objects with a size whose class is chosen.
pub fn of_classes(analysis: &Analysis, chosen: &[bool]) -> Vec<Node> {
    let nodes = analysis.snapshot().graph.nodes();
    nodes
        .filter(|node| chosen[analysis.class_of(*node) as usize] && analysis.self_size(*node) > 0)
        .collect()
}

/// Bytes that the death of all `nodes` would free: the retained sizes of the nodes that no other of
/// them dominates.
pub fn retained_by_all(analysis: &Analysis, nodes: &[Node]) -> u64 {
    const UNKNOWN: u8 = 0;
    const FREE: u8 = 1;
    const CHOSEN: u8 = 2;
    const BELOW: u8 = 3;
    let mut states = vec![UNKNOWN; analysis.snapshot().graph.node_count()];
    for node in nodes {
        states[*node as usize] = CHOSEN;
    }
    let mut walked = Vec::new();
    let mut total = 0;
    for node in nodes {
        let mut above = *node;
        let below = loop {
            let next = analysis.dominator(above);
            if next == above {
                break false;
            }
            match states[next as usize] {
                UNKNOWN => walked.push(next),
                FREE => break false,
                _ => break true,
            }
            above = next;
        };
        for node in walked.drain(..) {
            states[node as usize] = if below { BELOW } else { FREE };
        }
        if !below {
            total += analysis.retained_size(*node);
        }
    }
    total
}

/// Suggests the class with the largest retained size whose name contains the pattern's text.
pub fn suggestion(analysis: &Analysis, pattern: &Pattern) -> String {
    let wanted = pattern.text().to_lowercase().replace('*', "");
    let near =
        analysis.shown_classes().filter(|(_, class)| class.text().to_lowercase().contains(&wanted));
    match near.max_by_key(|(_, class)| class.retained_size) {
        Some((_, class)) if !wanted.is_empty() => format!("; there is {:?}", class.text()),
        _ => "; heaplab snapshot summary lists them".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_an_object_and_anything_else_a_class() {
        assert_eq!("@47".parse(), Ok(Subject::Object(47)));
        assert_eq!("47".parse(), Ok(Subject::Object(47)));
        assert_eq!("Map".parse(), Ok(Subject::Classes(Pattern::new("Map"))));
        assert!("@x".parse::<Subject>().is_err() && "".parse::<Subject>().is_err());
    }
}
