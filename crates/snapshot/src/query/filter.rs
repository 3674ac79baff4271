//! The Summary's filters, as a user names them.

use super::NotThere;
use super::subject::object;
use crate::analysis::{Analysis, Class, Filter, NodeSet};
use crate::{Node, Snapshot};
use std::fmt::Write;

/// What `--filter` takes, for help and for errors.
pub const FORMS: &str = "contexts, detached, console, event-handlers, duplicates, shared-context, no-context, context:@ID, ids:AFTER..UNTIL, \
                         allocated-by:FUNCTION";

/// Returns [`NotThere`] with these words.
macro_rules! not_there {
    ($($text:tt)*) => { return Err(NotThere(format!($($text)*))) };
}

/// Functions of one name that are listed.
const LISTED_MAX: usize = 10;

/// A filter before there is a file to find its objects in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// One that is the same in every file.
    Named(Filter),
    /// Objects of the native context with this id.
    Context(u32),
    /// Objects that this function allocated: a name, or one and its place.
    AllocatedBy(String),
}

impl std::str::FromStr for Wanted {
    type Err = String;

    fn from_str(text: &str) -> Result<Wanted, String> {
        let wrong = |why: &str| format!("{why}; expected one of {FORMS}");
        Ok(Wanted::Named(match text.split_once(':') {
            None => match text {
                "contexts" => Filter::RetainedByContexts,
                "detached" => Filter::RetainedByDetachedNodes,
                "console" => Filter::RetainedByConsole,
                "event-handlers" => Filter::RetainedByEventHandlers,
                "duplicates" => Filter::DuplicatedStrings,
                "shared-context" => Filter::SharedByNativeContexts,
                "no-context" => Filter::WithoutNativeContext,
                _ => return Err(wrong("there is no such filter")),
            },
            Some(("context", id)) => {
                let id = id
                    .strip_prefix('@')
                    .unwrap_or(id)
                    .parse()
                    .map_err(|_| wrong("a context is named by its id, such as context:@17"))?;
                return Ok(Wanted::Context(id));
            }
            Some(("ids", range)) => {
                let ends = range
                    .split_once("..")
                    .and_then(|(after, until)| Some((after.parse().ok()?, until.parse().ok()?)));
                let (after, until) =
                    ends.ok_or_else(|| wrong("ids are two numbers, such as ids:1000..2000"))?;
                Filter::Ids(after, until)
            }
            Some(("allocated-by", function)) if !function.is_empty() => {
                return Ok(Wanted::AllocatedBy(function.into()));
            }
            Some(_) => return Err(wrong("there is no such filter")),
        }))
    }
}

impl Wanted {
    /// The filter in a file.
    fn filter(&self, analysis: &Analysis) -> Result<Filter, NotThere> {
        match self {
            Wanted::Named(filter) => Ok(*filter),
            Wanted::Context(id) => {
                let node = object(analysis, *id)?;
                let contexts = analysis.native_contexts().contexts;
                if !contexts.contains(&node) {
                    not_there!(
                        "@{id} is not a native context; there are {}",
                        listed(analysis, &contexts)
                    );
                }
                Ok(Filter::NativeContext(node))
            }
            Wanted::AllocatedBy(function) => {
                Ok(Filter::AllocatedBy(allocator(analysis, function)?))
            }
        }
    }

    /// What passes.
    ///
    /// # Errors
    /// The file lacks the context, or the function that allocated.
    pub fn nodes(&self, analysis: &Analysis) -> Result<NodeSet, NotThere> {
        Ok(analysis.filtered(self.filter(analysis)?))
    }

    /// All classes with the objects that pass, by their numbers in [`Analysis::classes`].
    ///
    /// # Errors
    /// The file lacks the context, or the function that allocated.
    pub fn all_classes(&self, analysis: &Analysis) -> Result<Vec<Class>, NotThere> {
        Ok(analysis.filtered_classes(self.filter(analysis)?))
    }

    /// The classes with objects that pass, as DevTools would show them.
    ///
    /// # Errors
    /// The file lacks the context, or the function that allocated.
    pub fn classes(&self, analysis: &Analysis) -> Result<Vec<Class>, NotThere> {
        let classes = self.all_classes(analysis)?;
        Ok(classes.into_iter().filter(|class| class.count > 0 && !class.shadowed).collect())
    }
}

fn listed(analysis: &Analysis, contexts: &[Node]) -> String {
    let graph = &analysis.snapshot().graph;
    let names: Vec<String> = contexts
        .iter()
        .take(LISTED_MAX)
        .map(|node| format!("@{} ({})", graph.id(*node), analysis.name(*node)))
        .collect();
    if names.is_empty() { "none".into() } else { names.join(", ") }
}

/// How a function can be named, the shortest first: NAME, NAME:LINE:COLUMN, "NAME
/// SCRIPT:LINE:COLUMN" with the script's address or, where a page has loaded it twice, its number.
fn forms(snapshot: &Snapshot, function: u32) -> [String; 4] {
    let function = &snapshot.traces.functions[function as usize];
    let (name, script) =
        (snapshot.strings.text(function.name), snapshot.strings.text(function.script_name));
    let place = format!("{}:{}", function.line.wrapping_add(1), function.column.wrapping_add(1));
    [
        name.to_string(),
        format!("{name}:{place}"),
        format!("{name} {script}:{place}"),
        format!("{name} {}:{place}", function.script_id),
    ]
}

/// The function that is named so; its index in the trace functions.
fn allocator(analysis: &Analysis, wanted: &str) -> Result<u32, NotThere> {
    let snapshot = analysis.snapshot();
    let sites = analysis.allocation_sites();
    if sites.is_empty() {
        not_there!("the file has no allocation sites: take it while allocations are tracked");
    }
    let found: Vec<(u32, [String; 4])> = sites
        .iter()
        .map(|site| (site.function, forms(snapshot, site.function)))
        .filter(|(_, forms)| forms.iter().any(|form| form == wanted))
        .collect();
    match found.as_slice() {
        [(one, _)] => Ok(*one),
        [] => {
            let most = sites[0].function;
            not_there!("no function {wanted:?} allocated; {:?} did most", forms(snapshot, most)[0])
        }
        several => {
            let mut text =
                format!("several functions are called {wanted:?}; name one with its place:");
            for (_, forms) in several.iter().take(LISTED_MAX) {
                let is_only = |form: &&String| {
                    several.iter().filter(|(_, others)| others.contains(form)).count() == 1
                };
                let _ = write!(
                    text,
                    "\n  allocated-by:{}",
                    forms.iter().find(is_only).unwrap_or(&forms[3])
                );
            }
            not_there!("{text}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::Options;
    use crate::names::Hash;
    use crate::write::{Counts, Layout, Node as Row, Writer};

    /// Functions of one name in a file: its script, the script's number, its line.
    fn allocating(functions: &[(&str, u64, u64)]) -> Vec<u8> {
        let counts = Counts { nodes: 1, edges: 0, trace_functions: functions.len() as u64 };
        let mut writer = Writer::new(Vec::new(), Layout::node_20(), counts, Hash::Mixed).unwrap();
        let [root, fill] = ["", "fill"].map(|name| writer.string(name).unwrap());
        let scripts: Vec<_> =
            functions.iter().map(|(script, _, _)| writer.string(script).unwrap()).collect();
        writer.node(&Row { edge_count: 0, ..Row::new(9, root, 1, 0) }).unwrap();
        for (number, (_, script, line)) in functions.iter().enumerate() {
            writer
                .trace_function_info(number as u64 + 1, fill, scripts[number], [*script, *line, 2])
                .unwrap();
        }
        writer.open_trace_node([1, 0, 1, 16]).unwrap();
        for number in 1..functions.len() as u64 {
            writer.open_trace_node([number + 1, number, 1, 16]).unwrap();
            writer.close_trace_node().unwrap();
        }
        writer.close_trace_node().unwrap();
        writer.finish().unwrap().0
    }

    #[test]
    fn every_function_that_allocated_has_a_name_of_its_own() {
        let bytes = allocating(&[
            ("a.js", 5, 1),
            ("a.js", 5, 8),
            ("b.js", 6, 1),
            ("c.js", 7, 1),
            ("c.js", 8, 1),
        ]);
        let snapshot = Snapshot::read(&bytes).unwrap();
        let analysis = Analysis::of(&snapshot, &Options::default());
        let several = allocator(&analysis, "fill").unwrap_err().to_string();
        let mut named: Vec<u32> = Vec::new();
        for line in several.lines().skip(1) {
            named.push(
                allocator(&analysis, line.trim().strip_prefix("allocated-by:").unwrap()).unwrap(),
            );
        }
        named.sort_unstable();
        assert_eq!(named, [0, 1, 2, 3, 4], "{several}");
        for form in ["fill:9:3", "fill a.js:2:3", "fill b.js:2:3", "fill 8:2:3"] {
            assert!(
                several.contains(&format!("allocated-by:{form}\n")) || several.ends_with(form),
                "{form}: {several}"
            );
        }
        assert!(
            allocator(&analysis, "full")
                .unwrap_err()
                .to_string()
                .contains("no function \"full\" allocated")
        );
    }

    #[test]
    fn filters_are_named_and_errors_list_them() {
        let read = |text: &str| text.parse::<Wanted>();
        assert_eq!(read("detached"), Ok(Wanted::Named(Filter::RetainedByDetachedNodes)));
        assert_eq!(read("context:@17"), Ok(Wanted::Context(17)));
        assert_eq!(read("ids:10..20"), Ok(Wanted::Named(Filter::Ids(10, 20))));
        assert_eq!(read("allocated-by:fill:1:2"), Ok(Wanted::AllocatedBy("fill:1:2".into())));
        for wrong in ["", "dom", "ids:1", "ids:b..c", "context:", "allocated-by:"] {
            assert!(read(wrong).unwrap_err().contains("event-handlers"), "{wrong}");
        }
    }
}
