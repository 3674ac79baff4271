//! Which requests a rule concerns: those of a function and of what it calls, or those of given
//! stacks.
//!
//! A function is named as reports name it: without arguments; `*` stands for any letters, and what
//! stands before a `::` may be left out. A name that a report has cut ends in `...`, and may be
//! copied so.

use crate::WhatIfError;
use heaplab_trace::StackId;
use heaplab_trace::tables::{Tables, bare_name};

/// Names listed when a function is not found.
const NEAR_MAX: usize = 8;

/// Which requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Those whose stack has a function of this name.
    Function(String),
    /// Those of these stacks.
    Stacks {
        /// What to call them.
        name: String,
        /// Rows of the `stacks` table; 0: requests without a stack.
        stacks: Vec<StackId>,
    },
}

impl Place {
    /// What to call it.
    pub fn name(&self) -> &str {
        match self {
            Place::Function(name) | Place::Stacks { name, .. } => name,
        }
    }

    /// For each row of `stacks`, whether it is of this place.
    ///
    /// # Errors
    /// No stack has the function.
    pub(crate) fn rows(&self, tables: &Tables) -> Result<Vec<bool>, WhatIfError> {
        let mut rows = vec![false; tables.stacks.len().max(1)];
        match self {
            Place::Stacks { stacks, .. } => {
                for stack in stacks {
                    if let Some(row) = rows.get_mut(*stack as usize) {
                        *row = true;
                    }
                }
            }
            Place::Function(name) => {
                let frames = frames_called(tables, name);
                for (row, node) in tables.stacks.iter().enumerate().skip(1) {
                    let parent = node.parent as usize;
                    rows[row] = (parent < row && rows[parent])
                        || frames.get(node.frame as usize).copied().unwrap_or(false);
                }
                if !rows.contains(&true) {
                    let near = near(tables, name);
                    return Err(WhatIfError::NoFunction { name: name.clone(), near });
                }
            }
        }
        Ok(rows)
    }
}

/// For each row of `frames`, whether it or what it was inlined into is called so.
fn frames_called(tables: &Tables, name: &str) -> Vec<bool> {
    let mut called: Vec<bool> = (0..tables.frames.len())
        .map(|row| is_called(&tables.frame_label(row as u32), name))
        .collect();
    // The outer frame is a later row.
    for row in (0..called.len()).rev() {
        if let Some(outer) = tables.frames[row].inlined_into.filter(|outer| *outer as usize > row) {
            called[row] |= called.get(outer as usize).copied().unwrap_or(false);
        }
    }
    called
}

/// Whether the function `label` is meant by `name`.
fn is_called(label: &str, name: &str) -> bool {
    let pattern = match name.strip_suffix("...") {
        Some(cut) => format!("{cut}*"),
        None => name.to_owned(),
    };
    let bare = bare_name(label);
    let is_whole = |text: &str| matches(text.as_bytes(), pattern.as_bytes());
    is_whole(bare)
        || is_whole(label)
        || bare.match_indices("::").any(|(at, _)| is_whole(&bare[at + 2..]))
}

/// Whether `text` is `pattern`, in which `*` stands for any letters.
fn matches(text: &[u8], pattern: &[u8]) -> bool {
    let (mut at, mut of) = (0, 0);
    // Where the last star was, and how much of the text it stands for.
    let mut star: Option<(usize, usize)> = None;
    while at < text.len() {
        match pattern.get(of) {
            Some(b'*') => {
                star = Some((of, at));
                of += 1;
            }
            Some(letter) if *letter == text[at] => {
                at += 1;
                of += 1;
            }
            _ => {
                let Some((star_at, from)) = star else { return false };
                star = Some((star_at, from + 1));
                (at, of) = (from + 1, star_at + 1);
            }
        }
    }
    pattern[of..].iter().all(|letter| *letter == b'*')
}

/// Functions with a part of the name, in order.
fn near(tables: &Tables, name: &str) -> Vec<String> {
    let part = name.trim_matches('*').rsplit("::").next().unwrap_or(name).to_ascii_lowercase();
    let stem: String = part.chars().take(4).collect();
    let named = || tables.frames.iter().filter_map(|frame| frame.function.as_deref());
    let with = |part: &str| {
        let mut found: Vec<String> = named()
            .map(bare_name)
            .filter(|label| label.to_ascii_lowercase().contains(part))
            .map(|label| label.chars().take(60).collect())
            .collect();
        found.sort();
        found.dedup();
        found.truncate(NEAR_MAX);
        found
    };
    let found = with(&part);
    if found.is_empty() && !stem.is_empty() { with(&stem) } else { found }
}

#[cfg(test)]
mod tests {
    use super::*;
    use heaplab_trace::tables::{Frame, StackNode};

    #[test]
    fn names_match_as_reports_write_them() {
        for (label, name, is) in [
            ("pcache1Alloc", "pcache1Alloc", true),
            ("pcache1Alloc", "pcache1", false),
            ("pcache1Alloc", "pcache*", true),
            ("a::b::load(char const*)", "load", true),
            ("a::b::load(char const*)", "b::load", true),
            ("a::b::load(char const*)", "a::b::load(char const*)", true),
            ("a::reload", "load", false),
            ("a::reload", "*load", true),
            ("abcabc", "a*c*c", true),
            ("abcab", "a*c*c", false),
            ("very::long::name", "very::lo...", true),
            ("", "*", true),
        ] {
            assert_eq!(is_called(label, name), is, "{label} {name}");
        }
    }

    #[test]
    fn a_function_is_what_it_calls_and_what_is_inlined_into_it() {
        let frame = |name: &str, inlined_into| Frame {
            function: Some(name.into()),
            inlined_into,
            ..Frame::default()
        };
        let tables = Tables {
            frames: vec![frame("inner", Some(1)), frame("outer", None), frame("main", None)],
            stacks: vec![
                StackNode::default(),
                StackNode { parent: 0, frame: 2 },
                StackNode { parent: 1, frame: 0 },
                StackNode { parent: 2, frame: 2 },
            ],
            ..Tables::default()
        };
        let rows = |name: &str| Place::Function(name.into()).rows(&tables).unwrap();
        assert_eq!(rows("outer"), [false, false, true, true]);
        assert_eq!(rows("inner"), [false, false, true, true]);
        assert_eq!(rows("main"), [false, true, true, true]);
        let error = Place::Function("out".into()).rows(&tables).unwrap_err().to_string();
        assert_eq!(error, "no stack has a function called \"out\"; there are outer");
    }
}
