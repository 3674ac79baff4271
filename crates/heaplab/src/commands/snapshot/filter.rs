//! The Summary's filters, as a user names them.

use super::file::{self, Reading};
use super::pattern::object;
use anyhow::{Context, Result, bail};
use heaplab_snapshot::Node;
use heaplab_snapshot::analysis::{Analysis, Class, Filter};
use std::fmt::Write;
use std::path::Path;

/// What `--filter` takes, for help and for errors.
pub const FORMS: &str = "contexts, detached, console, event-handlers, duplicates, shared-context, no-context, context:@ID, ids:AFTER..UNTIL, \
                         allocated-by:FUNCTION";

/// Functions of one name that are listed.
const LISTED_MAX: usize = 10;

/// A filter before there is a file to find its objects in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// One that is the same in every file.
    Named(Filter),
    /// Objects of the native context with this id.
    Context(u32),
    /// Objects that this function allocated: a name, or one and its place as NAME:LINE:COLUMN.
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
                let id =
                    id.strip_prefix('@').unwrap_or(id).parse().map_err(|_| wrong("a context is named by its id, such as context:@17"))?;
                return Ok(Wanted::Context(id));
            }
            Some(("ids", range)) => {
                let ends = range.split_once("..").and_then(|(after, until)| Some((after.parse().ok()?, until.parse().ok()?)));
                let (after, until) = ends.ok_or_else(|| wrong("ids are two numbers, such as ids:1000..2000"))?;
                Filter::Ids(after, until)
            }
            Some(("allocated-by", function)) if !function.is_empty() => return Ok(Wanted::AllocatedBy(function.into())),
            Some(_) => return Err(wrong("there is no such filter")),
        }))
    }
}

impl Wanted {
    /// The filter in a file.
    fn filter(&self, analysis: &Analysis) -> Result<Filter> {
        match self {
            Wanted::Named(filter) => Ok(*filter),
            Wanted::Context(id) => {
                let node = object(analysis, *id)?;
                let contexts = analysis.native_contexts().contexts;
                if !contexts.contains(&node) {
                    bail!("@{id} is no native context; there are {}", listed(analysis, &contexts));
                }
                Ok(Filter::NativeContext(node))
            }
            Wanted::AllocatedBy(function) => Ok(Filter::AllocatedBy(allocator(analysis, function)?)),
        }
    }

    /// The classes of what passes, those that DevTools would show.
    pub fn classes(&self, analysis: &Analysis) -> Result<Vec<Class>> {
        let classes = analysis.filtered_classes(self.filter(analysis)?);
        Ok(classes.into_iter().filter(|class| class.count > 0 && !class.shadowed).collect())
    }
}

/// What was allocated after an older snapshot of the same process was taken.
pub fn since(older: &Path, reading: &Reading, analysis: &Analysis) -> Result<Wanted> {
    let after = file::analysed(older, reading, |older| Ok(older.last_object_id()))?;
    Ok(Wanted::Named(Filter::Ids(after, analysis.last_object_id())))
}

fn listed(analysis: &Analysis, contexts: &[Node]) -> String {
    let graph = &analysis.snapshot().graph;
    let names: Vec<String> =
        contexts.iter().take(LISTED_MAX).map(|node| format!("@{} ({})", graph.id(*node), analysis.name(*node))).collect();
    if names.is_empty() { "none".into() } else { names.join(", ") }
}

/// The function of that name, or of that name and place; its index in the trace functions.
fn allocator(analysis: &Analysis, wanted: &str) -> Result<u32> {
    let snapshot = analysis.snapshot();
    let sites = analysis.allocation_sites();
    if sites.is_empty() {
        bail!("the file does not tell who allocated what: take it while allocations are tracked");
    }
    let name = |function: u32| snapshot.strings.text(snapshot.traces.functions[function as usize].name).into_owned();
    let place = |function: u32| {
        let function_info = &snapshot.traces.functions[function as usize];
        format!("{}:{}:{}", name(function), function_info.line.wrapping_add(1), function_info.column.wrapping_add(1))
    };
    let fits = |function: &u32| name(*function) == wanted || place(*function) == wanted;
    let found: Vec<u32> = sites.iter().map(|site| site.function).filter(fits).collect();
    match found.as_slice() {
        [one] => Ok(*one),
        [] => {
            let most = sites.first().context("a function that allocated")?.function;
            bail!("no function {wanted:?} allocated; {:?} did most", name(most))
        }
        several => {
            let mut text = format!("several functions are called {wanted:?}; name one with its place:");
            for function in several.iter().take(LISTED_MAX) {
                let _ = write!(text, "\n  allocated-by:{}", place(*function));
            }
            bail!(text)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
