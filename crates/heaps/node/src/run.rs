//! One run: writes the workload into a file, runs Node on it, and reads the output as collections.

use crate::process::{self, Ended, Limits};
use crate::results::{self, Head, OLD_SPACE, Record};
use crate::spec::{Compact, Gc};
use crate::traces::{self, Traced, Traces};
use crate::workload::{self, Feed, Forced, Rules, Table, Workload};
use crate::{NodeError, Spec, find, known, own};
use heaplab_heap::{Collection, FreeLists, SpaceChange, SpaceState};
use std::borrow::Cow;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

const DRIVER: &str = include_str!("driver.js");
const MAPS: &str = include_str!("maps.js");
/// Steps that take at most a second on any machine; for the default time limit.
const STEPS_A_SECOND: u64 = 20_000;
const SECONDS_MIN: u64 = 600;

/// A workload's results in a real V8.
#[derive(Clone, Debug)]
pub struct Run {
    /// "Node 13.14.0 (V8 7.9.317.25-node.32)".
    pub version: String,
    /// Bytes of each space before the workload began, which are Node's own objects, by V8's
    /// account.
    pub start: Vec<(String, SpaceState)>,
    /// Collections in order, the last one forced at the end; with `gc=own` scavenges too. States
    /// are relative to the start (see the crate's documentation). With `gc=own` only the last one
    /// has the requested bytes of births.
    pub collections: Vec<Collection>,
    /// With `compact=regular`: the free percentage from which V8 evacuated a page, for each full
    /// collection that considered evacuation.
    pub thresholds: Vec<Option<u32>>,
    /// Full collections that V8 made of its own accord, beside the forced ones; with `gc=forced` a
    /// large limit makes them rare.
    pub unforced: u64,
    /// Pauses of scavenges during the workload, forced and V8's own, by V8's clock, ns.
    pub scavenges_ns: u64,
    /// The same of full collections.
    pub full_ns: u64,
    /// User and system CPU time of the whole Node process, its start included, ns.
    pub cpu_ns: u64,
}

/// Runs the steps of `feed` on `slots` slots, with the parameters of `spec`.
///
/// # Errors
/// See [`NodeError`]. No file or process is left behind.
pub fn run(spec: &Spec, slots: u32, feed: Feed<'_>) -> Result<Run, NodeError> {
    let node = find::node(spec)?;
    let rules = Rules { every: spec.every, leave_out_collections: spec.gc == Gc::Own };
    let workload = workload::write(slots, rules, feed)?;
    own::write(spec, workload.table)?;
    let least = workload.forced.len() + 1;
    let most = if spec.gc == Gc::Own { least + known::OWN_COLLECTIONS_MAX } else { least };
    let timeout =
        spec.timeout.unwrap_or(Duration::from_secs(SECONDS_MIN + workload.steps / STEPS_A_SECOND));
    let limits = limits(timeout, least, most);
    let input = workload.file.try_clone().map_err(|source| NodeError::Start {
        path: node.clone(),
        action: "give the workload to",
        source,
    })?;
    let command = command(spec, &node, workload.table, Purpose::Run);
    let ended = process::run(command, &node, Stdio::from(input), &limits, &mut |_, _| ())?;
    refuse(spec, &node, workload.peak_bytes, &ended, &limits)?;
    let (head, records) =
        results::parse(&ended.results, least, most).map_err(|(expected, found)| {
            NodeError::Output { place: "the results".into(), expected, found }
        })?;
    let said = String::from_utf8_lossy(&ended.stdout);
    let traces = traces::parse(&said).map_err(|(line, expected, found)| NodeError::Output {
        place: format!("standard output, line {line}"),
        expected: expected.into(),
        found: format!("{found:?}"),
    })?;
    assemble(spec, &workload, head, &records, traces, ended.cpu_ns)
}

/// Limits for a run with `least` to `most` records.
pub fn limits(timeout: Duration, least: usize, most: usize) -> Limits {
    Limits {
        timeout,
        results_bytes: results::bytes_max(most),
        output_bytes: traces::BYTES_MAX,
        expected: least,
    }
}

/// The purpose of starting Node.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// To run a workload.
    Run,
    /// To read its memory before the workload.
    Look,
}

impl Purpose {
    /// The source of collections, in the driver's words. Both purposes have names of equal length,
    /// so that Node's own objects have equal sizes.
    fn collector(self, gc: Gc) -> &'static str {
        match (self, gc) {
            (Purpose::Run, gc) => gc.name(),
            (Purpose::Look, Gc::Forced) => "looked",
            (Purpose::Look, Gc::Own) => "see",
        }
    }
}

/// Node with the driver.
pub fn command(spec: &Spec, node: &Path, table: Table, purpose: Purpose) -> Command {
    let mut traced = vec!["--trace-gc", "--trace-gc-nvp"];
    if spec.gc == Gc::Own {
        traced.push("--trace-gc-verbose");
    }
    if spec.compact == Compact::Regular {
        traced.push("--trace-fragmentation-verbose");
    }
    if spec.categories {
        traced.extend(["--trace-gc-freelists", "--trace-gc-freelists-verbose"]);
    }
    let mut command = Command::new(node);
    command.args(spec.flags());
    let driver = if table.hidden_classes {
        command.arg("--no-cache-prototype-transitions");
        Cow::Owned([DRIVER, MAPS].concat())
    } else {
        Cow::Borrowed(DRIVER)
    };
    command.args(["-e", &driver, "--"]).arg(format!(
        "{},{},{},{}",
        table.slots,
        spec.compact.name(),
        purpose.collector(spec.gc),
        traced.join(",")
    ));
    if table.hidden_classes {
        command.arg(if spec.swept_whole { "whole" } else { "lazy" });
    }
    // The environment and the folder become strings in the heap, so they are fixed. Only the
    // library path stays: some programs do not start without it.
    command.env_clear().current_dir("/");
    if let Some(path) = std::env::var_os("LD_LIBRARY_PATH") {
        command.env("LD_LIBRARY_PATH", path);
    }
    command
}

/// Fails if Node did not finish.
pub fn refuse(
    spec: &Spec,
    node: &Path,
    workload_bytes: u64,
    ended: &Ended,
    limits: &Limits,
) -> Result<(), NodeError> {
    // The first record is that of the start.
    let collections = results::count(&ended.results).saturating_sub(1);
    let expected = limits.expected - 1;
    if ended.timed_out {
        let seconds = limits.timeout.as_secs();
        return Err(NodeError::Hung { seconds, collections, expected });
    }
    if ended.succeeded() {
        return Ok(());
    }
    if let Some(said) = ended.stderr.lines().find(|line| line.contains("bad option")) {
        let said = said.rsplit_once(": ").map_or(said, |(_, option)| option);
        return Err(NodeError::NoStrategies {
            path: node.into(),
            said: format!("bad option {said}"),
        });
    }
    if ended.stderr.contains("out of memory") {
        let live = live_at_the_end(&String::from_utf8_lossy(&ended.stdout))
            .unwrap_or_else(|| "an unknown number of bytes".into());
        return Err(NodeError::OutOfMemory {
            live,
            workload_bytes,
            limit: spec.named_limit().map_or_else(String::new, |limit| format!(" ({limit})")),
        });
    }
    let last: Vec<&str> = ended.stderr.lines().filter(|line| !line.trim().is_empty()).collect();
    let said: String = last
        .iter()
        .skip(last.len().saturating_sub(5))
        .copied()
        .collect::<Vec<_>>()
        .join("; ")
        .chars()
        .take(500)
        .collect();
    let mut remedy = "run it again; if it dies again, try another version=";
    let said = match ended.exit_status() {
        Some(71) => ": it could not write its results".into(),
        Some(72) => ": it could not read the workload".into(),
        None if said.is_empty() && ended.how() == "signal 9" => {
            remedy = "run it again, or use a smaller workload";
            ": killed from outside, as the system does where memory is short".into()
        }
        _ if said.is_empty() => String::new(),
        _ => format!(": {said}"),
    };
    Err(NodeError::Died { how: ended.how(), said, collections, expected, remedy })
}

/// Live bytes after the last collection that V8 traced.
fn live_at_the_end(stdout: &str) -> Option<String> {
    let (_, rest) = stdout.rsplit_once("total_size_after=")?;
    let number: u64 = rest.split_ascii_whitespace().next()?.parse().ok()?;
    Some(format!("{number} bytes"))
}

fn assemble(
    spec: &Spec,
    workload: &Workload,
    head: Head,
    records: &[Record],
    traces: Traces,
    cpu_ns: u64,
) -> Result<Run, NodeError> {
    if head.node != spec.version {
        let place = "the results".into();
        return Err(NodeError::Output {
            place,
            expected: format!("Node {}", spec.version),
            found: format!("Node {}", head.node),
        });
    }
    // The driver makes collections of its own to settle the heap and to report the start.
    let traced = traces.collections.get(known::SETTLING_COLLECTIONS..).unwrap_or_default();
    let start = &records[0].after;
    let full = |traced: &&Traced| traced.kind != "s";
    let forced_full = workload.forced.iter().filter(|forced| !forced.minor).count();
    let collections = match spec.gc {
        Gc::Forced => {
            // If V8 collected on its own too, no line is known to belong to a forced collection.
            let all_forced = traced.iter().filter(full).count() == forced_full;
            let mut fulls = traced.iter().filter(|traced| all_forced && full(traced));
            let pairs = workload.forced.iter().zip(&records[1..]);
            let one = |(forced, record): (&Forced, &Record)| {
                let line = if forced.minor { None } else { fulls.next() };
                Collection {
                    free_lists: line.and_then(|line| free_lists(line, &head, record)),
                    ..forced_one(spec.compact, forced, &head, record, start)
                }
            };
            pairs.map(one).collect()
        }
        Gc::Own => own_collections(spec.compact, &workload.forced, &head, records, traced, start),
    };
    let fulls = traced.iter().filter(full).count();
    let pauses = |is_full: bool| {
        let of = traced.iter().filter(|traced| full(traced) == is_full);
        of.map(|traced| traced.pause_ns).sum()
    };
    let thresholds = if spec.compact == Compact::Regular {
        traced.iter().filter(full).map(|traced| traced.threshold_percent).collect()
    } else {
        Vec::new()
    };
    Ok(Run {
        version: format!("Node {} (V8 {})", head.node, head.v8),
        start: head.spaces.iter().cloned().zip(start.iter().copied()).collect(),
        collections,
        thresholds,
        scavenges_ns: pauses(false),
        full_ns: pauses(true),
        unforced: fulls.saturating_sub(forced_full) as u64,
        cpu_ns,
    })
}

/// The kind of a full collection by its permissions; V8 itself prints `ms` for both.
fn full_kind(compact: Compact) -> &'static str {
    if compact == Compact::Never { "mark-sweep" } else { "mark-compact" }
}

const SCAVENGE: &str = "scavenge";

/// A record as a collection, relative to the start.
fn of_record(head: &Head, record: &Record, start: &[SpaceState]) -> Collection {
    let states = || {
        let spaces = head.spaces.iter().zip(&record.before).zip(&record.after).zip(start);
        spaces.map(|(((name, before), after), start)| SpaceChange {
            name: Cow::Owned(name.clone()),
            before: results::relative(name, *before, *start),
            after: results::relative(name, *after, *start),
        })
    };
    let old = states().find(|space| space.name == OLD_SPACE).unwrap_or_default();
    let spaces = states().filter(|space| space.name != OLD_SPACE).collect();
    Collection {
        births: record.births,
        before: old.before,
        after: old.after,
        spaces,
        ..Collection::default()
    }
}

fn forced_one(
    compact: Compact,
    forced: &Forced,
    head: &Head,
    record: &Record,
    start: &[SpaceState],
) -> Collection {
    let kind = if forced.minor { SCAVENGE } else { full_kind(compact) }.into();
    Collection {
        kind,
        cause: "forced".into(),
        born_bytes: forced.born_bytes,
        ..of_record(head, record, start)
    }
}

/// The free lists in a collection's line; waste is the rest of the free bytes.
fn free_lists(traced: &Traced, head: &Head, record: &Record) -> Option<FreeLists> {
    // Only old, code and map space have holes. Code and map space are not swept before the next
    // full collection.
    let holed = ["old_space", "code_space", "map_space"];
    let spaces = head.spaces.iter().zip(&record.before);
    let spaces = spaces.filter(|(name, _)| holed.contains(&name.as_str()));
    let available: u64 = spaces.map(|(_, state)| state.available_bytes).sum();
    let waste_bytes = traced.holes_bytes.saturating_sub(available);
    traced.free_lists.clone().map(|lists| FreeLists { waste_bytes, ..lists })
}

/// V8's own collections. A record covers one birth, in which V8 collected once, or more often after
/// a scavenge that did not help; the trace has a line for each collection. The last of a record's
/// lines has the record's old space; the lines before it have the states between. The last record
/// is that of the driver's forced collection.
fn own_collections(
    compact: Compact,
    forced: &[Forced],
    head: &Head,
    records: &[Record],
    traced: &[Traced],
    start: &[SpaceState],
) -> Vec<Collection> {
    let old = head.spaces.iter().position(|space| space == OLD_SPACE).unwrap_or_default();
    let mut traced = traced.iter().peekable();
    let mut collections = Vec::with_capacity(traced.len());
    for (index, record) in records.iter().enumerate().skip(1) {
        let end = forced.last().filter(|_| index + 1 == records.len());
        let whole = of_record(head, record, start);
        let born_bytes = end.map_or(0, |end| end.born_bytes);
        let whole = Collection { born_bytes, ..whole };
        let after = record.after[old];
        let mut before = whole.before;
        while let Some(line) = traced.next() {
            let scavenge = line.kind == "s";
            let ends = line.old.used_bytes >> 10 == after.used_bytes >> 10
                && line.old.committed_bytes >> 10 == after.committed_bytes >> 10;
            let is_last = ends && (end.is_none() || traced.peek().is_none());
            let step = Collection {
                kind: if scavenge { SCAVENGE } else { full_kind(compact) }.into(),
                cause: if end.is_some() && is_last {
                    "forced"
                } else if scavenge {
                    "allocation"
                } else {
                    "limit"
                }
                .into(),
                before,
                after: results::relative(OLD_SPACE, line.old, start[old]),
                pause_ns: Some(line.pause_ns),
                free_lists: line.free_lists.clone(),
                ..whole.clone()
            };
            before = step.after;
            collections.push(if is_last {
                Collection { after: whole.after, ..step }
            } else {
                step
            });
            if is_last {
                break;
            }
        }
    }
    collections
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_live_is_read_from_the_last_trace() {
        let said = "[1:0x2] 130 ms: pause=1 total_size_after=10 x\n[1:0x2] 131 ms: pause=1 total_size_after=44900 holes=1\n";
        assert_eq!(live_at_the_end(said).as_deref(), Some("44900 bytes"));
        assert_eq!(live_at_the_end("no report"), None);
    }
}
