//! Conditions on a heap, for CI: comparisons of counts and bytes of classes.

use super::subject::{classes, of_classes, retained_by_all, suggestion};
use crate::Node;
use crate::analysis::Analysis;
use crate::leaks::{Born, Grown, Leaks, OwnSizes, grown};
use crate::session::SnapshotIds;
use heaplab_expression::{Expression, Misread, Pattern, Tokens, Value};
use std::collections::{BTreeMap, BTreeSet};

/// Functions with a class, and without.
const OF_CLASS: [&str; 8] =
    ["count", "shallow", "retained", "distance", "grew", "largest", "added", "leaked"];
const OF_HEAP: [&str; 7] = ["total", "nodes", "edges", "duplicates", "largest", "added", "leaked"];
const IN_BYTES: [&str; 6] = ["shallow", "retained", "total", "duplicates", "largest", "leaked"];

/// Objects of each class, by the pattern that names it.
pub type Counts = BTreeMap<String, usize>;

/// Data from older snapshots.
#[derive(Clone, Debug, Default)]
pub struct Older {
    /// The named classes in the older snapshot.
    pub counts: Counts,
    /// The objects of the older one, for `added`.
    pub moment: Option<SnapshotIds>,
    /// Objects born between the older snapshot and one before, and the sizes of the one before,
    /// for `leaked`.
    pub born: Option<(Born, OwnSizes)>,
}

impl Older {
    /// Says which older snapshots the assertions need and the caller lacks.
    pub fn needed(assertions: &[Assertion]) -> Option<String> {
        let one = ["grew", "added"].into_iter().find(|name| any_asks(assertions, name));
        let two = || "leaked(...) needs two older snapshots: --base before.heapsnapshot --since after.heapsnapshot";
        one.map(|name| format!("{name}(...) needs an older snapshot: --since before.heapsnapshot"))
            .or_else(|| any_asks(assertions, "leaked").then(|| two().into()))
    }

    fn has(&self, id: u32) -> bool {
        self.moment.as_ref().is_some_and(|moment| moment.ids().binary_search(&id).is_ok())
    }
}

/// Whether one of the assertions asks for a function.
pub fn any_asks(assertions: &[Assertion], function: &str) -> bool {
    assertions.iter().any(|assertion| assertion.asks_for(function))
}

/// The classes that assertions name.
pub fn classes_of(assertions: &[Assertion]) -> BTreeSet<String> {
    assertions.iter().flat_map(Assertion::classes).collect()
}

/// The named classes that no object is of, now or before, each with what may have been meant.
pub fn unknown_classes(
    assertions: &[Assertion],
    older: &Older,
    analysis: &Analysis,
) -> Vec<(String, String)> {
    let mut unknown = Vec::new();
    for class in classes_of(assertions) {
        let pattern = Pattern::new(class.clone());
        if !classes(analysis, &pattern).contains(&true)
            && older.counts.get(&class).is_none_or(|count| *count == 0)
        {
            unknown.push((class, suggestion(analysis, &pattern)));
        }
    }
    unknown
}

/// The subject of a check.
pub struct Heap<'h, 's, 'a> {
    /// The heap.
    pub analysis: &'h Analysis<'s, 'a>,
    /// The older snapshots.
    pub older: &'h Older,
    /// The objects that functions of a class count.
    pub chosen: &'h dyn Fn(Node) -> bool,
}

/// An assertion with known names only.
#[derive(Clone, Debug)]
pub struct Assertion {
    text: String,
    expression: Expression,
}

/// One value that an assertion asked for.
#[derive(Clone, Debug)]
pub struct Asked {
    /// `count("Session")`.
    pub call: String,
    /// Objects, references or bytes; infinite: the distance of no object.
    pub value: f64,
    /// The unit of `value`.
    pub unit: Unit,
}

/// The unit of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Bytes.
    Bytes,
    /// References from a root.
    Steps,
    /// Objects, references, or their difference.
    Objects,
}

impl Unit {
    fn of(function: &str) -> Unit {
        match function {
            "distance" => Unit::Steps,
            name if IN_BYTES.contains(&name) => Unit::Bytes,
            _ => Unit::Objects,
        }
    }
}

/// The result of an assertion about a heap.
#[derive(Clone, Debug)]
pub struct Checked {
    /// Whether the assertion holds.
    pub holds: bool,
    /// The values used, each once.
    pub asked: Vec<Asked>,
}

/// Something is divided by zero, which is neither more nor less than anything.
#[derive(Clone, Debug, thiserror::Error)]
#[error(
    "{0}: something is divided by zero or too large, which is neither more nor less than anything"
)]
pub struct Undefined(String);

impl Assertion {
    /// Reads an assertion. Checks that every name is known, and that the assertion compares
    /// numbers: next to a number, a text would make it hold or fail for every heap.
    ///
    /// # Errors
    /// The text is not an assertion; the error points at the place.
    pub fn read(text: &str) -> Result<Assertion, Misread> {
        let expression = Expression::read(text)?;
        let mut wrong = None;
        expression.names(&mut |name, argument, place| {
            let why = match argument {
                Some("") if OF_HEAP.contains(&name) => return,
                Some("") if OF_CLASS.contains(&name) => {
                    format!("{name} needs a class, such as {name}(Session)")
                }
                Some(class) if !class.is_empty() && OF_CLASS.contains(&name) => return,
                Some(_) if OF_HEAP.contains(&name) => {
                    format!("{name} is of the whole heap: {name}()")
                }
                None if OF_HEAP.contains(&name) => format!("write {name}()"),
                None if OF_CLASS.contains(&name) => {
                    format!("{name} needs a class, such as {name}(Session)")
                }
                _ => format!(
                    "{name} is not known; there are {}, {}",
                    OF_CLASS.join(", "),
                    OF_HEAP
                        .iter()
                        .filter(|name| !OF_CLASS.contains(name))
                        .copied()
                        .collect::<Vec<_>>()
                        .join(", ")
                ),
            };
            wrong.get_or_insert((why, place));
        });
        if let Some(stray) = expression.text() {
            let place = [format!("\"{stray}\""), format!("'{stray}'")]
                .iter()
                .find_map(|quoted| text.find(quoted))
                .unwrap_or(0);
            let why = format!(
                "there is no text to compare with; a class stands in a function, such as count({stray:?})"
            );
            wrong.get_or_insert((why, place));
        }
        match wrong {
            Some((why, place)) => Err(Tokens::of(text)?.misread_at(place, why)),
            None => Ok(Assertion { text: text.into(), expression }),
        }
    }

    /// The assertion as written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The classes that are named, as patterns.
    pub fn classes(&self) -> BTreeSet<String> {
        let mut classes = BTreeSet::new();
        self.expression.names(&mut |_, argument, _| {
            classes.extend(argument.filter(|class| !class.is_empty()).map(str::to_owned))
        });
        classes
    }

    /// Whether it asks for that function.
    pub fn asks_for(&self, function: &str) -> bool {
        let mut asks = false;
        self.expression.names(&mut |name, _, _| asks |= name == function);
        asks
    }

    /// Whether it holds.
    ///
    /// # Errors
    /// It divides by zero.
    pub fn check(&self, heap: &Heap) -> Result<Checked, Undefined> {
        let mut asked: Vec<Asked> = Vec::new();
        let mut ask = |name: &str, argument: Option<&str>| {
            let class = argument.unwrap_or_default();
            let call =
                if class.is_empty() { format!("{name}()") } else { format!("{name}({class:?})") };
            if let Some(known) = asked.iter().find(|asked| asked.call == call) {
                return Value::from(known.value);
            }
            let value = heap.value(name, class);
            asked.push(Asked { call, value, unit: Unit::of(name) });
            Value::from(value)
        };
        if self.expression.is_undefined(&mut ask) {
            return Err(Undefined(self.text.clone()));
        }
        let holds = self.expression.is_true(&mut ask);
        Ok(Checked { holds, asked })
    }
}

/// Objects of each class that a pattern names.
pub fn counts(analysis: &Analysis, classes: BTreeSet<String>) -> Counts {
    let count =
        |class: &str| of_classes(analysis, &self::classes(analysis, &Pattern::new(class))).len();
    classes
        .into_iter()
        .map(|class| {
            let count = count(&class);
            (class, count)
        })
        .collect()
}

impl Heap<'_, '_, '_> {
    /// The value of a function; of the heap where no class is named.
    fn value(&self, name: &str, class: &str) -> f64 {
        let analysis = self.analysis;
        let graph = &analysis.snapshot().graph;
        let of_class = || {
            let mut nodes = of_classes(analysis, &classes(analysis, &Pattern::new(class)));
            nodes.retain(|node| (self.chosen)(*node));
            nodes
        };
        let chosen = || match class {
            "" => {
                let is_object = |node: &Node| analysis.self_size(*node) > 0;
                graph.nodes().filter(is_object).filter(|node| (self.chosen)(*node)).collect()
            }
            _ => of_class(),
        };
        let own = |node: &Node| analysis.self_size(*node);
        match name {
            "count" => chosen().len() as f64,
            "grew" => {
                chosen().len() as f64 - self.older.counts.get(class).copied().unwrap_or(0) as f64
            }
            "shallow" => chosen().iter().map(own).sum::<u64>() as f64,
            "retained" => retained_by_all(analysis, &chosen()) as f64,
            "distance" => chosen()
                .iter()
                .map(|node| analysis.distance(*node))
                .min()
                .map_or(f64::INFINITY, f64::from),
            "largest" => chosen().iter().map(own).max().unwrap_or(0) as f64,
            "added" => {
                chosen().iter().filter(|node| !self.older.has(graph.id(**node))).count() as f64
            }
            "leaked" => self.leaked(class) as f64,
            "duplicates" => {
                let groups = analysis.duplicate_strings();
                groups.iter().map(|group| group.saving_bytes()).sum::<u64>() as f64
            }
            "total" => analysis.total_bytes() as f64,
            "nodes" => graph.node_count() as f64,
            _ => graph.edge_count() as f64,
        }
    }

    /// What objects retain that leaked, and by how much older ones grew: all, or those of a class.
    fn leaked(&self, class: &str) -> u64 {
        let Some((born, before)) = &self.older.born else { return 0 };
        let analysis = self.analysis;
        let classes = (!class.is_empty()).then(|| self::classes(analysis, &Pattern::new(class)));
        let of_class = |node: Node| {
            classes.as_ref().is_none_or(|classes| classes[analysis.class_of(node) as usize])
        };
        let keep = |node: Node| of_class(node) && (self.chosen)(node);
        let grown = grown(analysis, before, born, keep);
        Leaks::of(analysis, born, keep).retained_bytes()
            + grown.iter().map(Grown::growth_bytes).sum::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_is_pointed_at() {
        let misread = |text: &str| Assertion::read(text).unwrap_err().to_string();
        assert_eq!(
            misread("1 < cuont(Session)"),
            "cuont is not known; there are count, shallow, retained, distance, grew, largest, added, leaked, total, nodes, edges, duplicates\n  1 < cuont(Session)\n      ^"
        );
        assert!(
            misread("count() < 1").contains("needs a class")
                && misread("count < 1").contains("needs a class")
        );
        assert!(
            misread("total(Map) < 1").contains("whole heap")
                && misread("total < 1").contains("write total()")
        );
        assert!(Assertion::read("count(Session) <= 10 and total() < 1GB").is_ok());
        assert!(
            misread("count(A) != 'many'").ends_with("\n  count(A) != 'many'\n              ^"),
            "it would always hold"
        );
        assert!(misread("not (\"A\" = \"B\")").contains("no text to compare with"));
    }
}
