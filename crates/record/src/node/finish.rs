//! Turns a spool of a Node's recording into a bundle, both after a recording that has just ended
//! and after a killed heaplab.

use super::chunks::Heap;
use super::events::Writer;
use super::spool::{self, Facts};
use super::{Counts, Recorded};
use crate::error::RecordError;
use crate::target::Ending;
use crate::{control, mark};
use heaplab_text::words::so_many;
use heaplab_trace::bundle::{BundleWriter, Meta};
use heaplab_trace::tables::{Arena, Ended, Process, Tables, Thread};
use heaplab_trace::{NOTICED_AT_COLLECTION, TraceError};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;

/// Finishes `spool` into a bundle at `output`, which must not exist unless `replace` is set.
pub fn finish(
    spool: &Path,
    output: &Path,
    replace: bool,
    ending: Option<&Ending>,
) -> Result<Recorded, RecordError> {
    let facts = Facts::read(spool)?;
    let (origin_ns, clock) = control::clock_of(spool)?;
    let (heaps, mut losses) = open(spool)?;
    if heaps.is_empty() {
        return Err(nothing(&facts, ending, &losses, "started no Node that reads NODE_OPTIONS"));
    }
    let kept = |source: Box<dyn std::error::Error + Send + Sync>| RecordError::Finish {
        spool: spool.to_owned(),
        source,
    };
    let kept_trace = |source: TraceError| kept(Box::new(source));
    let begin = if replace { BundleWriter::replace } else { BundleWriter::create };
    let mut writer = begin(output).map_err(kept_trace)?;
    let mut tables = tables(&heaps, origin_ns);
    let mut events = Writer::new(&mut writer, origin_ns, mark::moments(spool, &clock));
    let heaps = events.write(heaps, &mut tables).map_err(|error| kept(Box::new(error)))?;
    let counts = events.counts;
    if counts.objects == 0 {
        return Err(nothing(
            &facts,
            ending,
            &losses,
            "was ended before its first collection, when nothing had been written yet",
        ));
    }
    for (heap, process) in heaps.iter().zip(&mut tables.processes) {
        ended(heap, process, origin_ns, &mut losses);
    }
    let mut meta = meta(&facts, &heaps, losses);
    describe(&mut meta, &mut tables, &facts, ending);
    writer.finish(&tables, meta.clone()).map_err(kept_trace)?;
    let status = ending.and_then(|ending| ending.status);
    Ok(Recorded { status, meta, counts, processes: tables.processes, output: output.to_owned() })
}

/// The recorded heaps, by the time of their beginnings, and why others were not recorded.
fn open(spool: &Path) -> Result<(Vec<Heap>, Vec<String>), RecordError> {
    let (mut heaps, mut losses) = (Vec::new(), Vec::new());
    for (path, _) in spool::streams(spool) {
        let heap = Heap::open(&path).map_err(RecordError::io("cannot open", &path))?;
        match (&heap.head, &heap.refused, &heap.damage) {
            (Some(head), Some(why), _) => losses.push(format!(
                "the heap of process {} (Node {}) was not recorded: {why}",
                head.pid, head.node
            )),
            (Some(_), None, _) => heaps.push(heap),
            (None, _, Some(damage)) => losses.push(damage.clone()),
            // The process was killed before it wrote anything.
            (None, _, None) => {}
        }
    }
    heaps.sort_by_key(|heap| heap.head.as_ref().map(|head| head.time_ns));
    Ok((heaps, losses))
}

/// Why there is nothing to make a bundle of.
fn nothing(facts: &Facts, ending: Option<&Ending>, losses: &[String], what: &str) -> RecordError {
    let status = Ending::words(ending);
    if losses.is_empty() {
        return RecordError::Nothing(format!("{} {what}{status}", facts.program));
    }
    RecordError::Nothing(format!("{}{status}", losses.join("; ")))
}

/// A row of `processes` and one of `threads` for each heap.
fn tables(heaps: &[Heap], origin_ns: u64) -> Tables {
    let mut tables = Tables {
        arenas: vec![Arena { kind: "malloc".into(), ..Arena::default() }],
        ..Tables::default()
    };
    let heads: Vec<_> = heaps.iter().filter_map(|heap| heap.head.clone()).collect();
    for (row, head) in heads.iter().enumerate() {
        let is_worker = head.tid != head.pid;
        let of = if is_worker { head.pid } else { head.parent };
        let parent = heads[..row]
            .iter()
            .rposition(|other| other.pid == of && other.tid == of)
            .map(|row| row as u32);
        let mut arguments = head.arguments.clone();
        if is_worker {
            arguments.push(format!("[a worker of {}]", head.pid));
        }
        tables.processes.push(Process {
            // The kernel numbers threads and processes alike: a worker's number is unique.
            pid: head.tid,
            parent,
            executable: head.executable.clone(),
            arguments,
            began_ns: head.time_ns.saturating_sub(origin_ns),
            ..Process::default()
        });
        let name = if is_worker { "worker" } else { "main" };
        tables.threads.push(Thread { process: row as u32, tid: head.tid, name: name.into() });
    }
    tables
}

/// Notes how a heap's recording ended, and its losses.
fn ended(heap: &Heap, process: &mut Process, origin_ns: u64, losses: &mut Vec<String>) {
    let of = format!("of the heap {}", process.pid);
    if heap.unseen > 0 {
        let unseen = so_many(heap.unseen, "[object died|objects died] before they could be seen");
        losses.push(format!("{unseen}, {of}"));
    }
    if let Some(damage) = &heap.damage {
        losses.push(format!("{damage}: the rest was left out"));
    }
    let Some((time_ns, why)) = &heap.end else {
        losses.push(format!(
            "the end {of}, since its last collection: the process was killed, runs on, or found no room to write"
        ));
        return;
    };
    process.ended_ns = Some(time_ns.saturating_sub(origin_ns));
    if !why.is_empty() {
        losses.push(format!("the end {of}: {why}"));
    }
}

fn meta(facts: &Facts, heaps: &[Heap], losses: Vec<String>) -> Meta {
    let head = heaps.first().and_then(|heap| heap.head.clone()).unwrap_or_default();
    Meta {
        program: facts.command.join(" "),
        allocator: format!("V8 {} of Node {}", head.v8, head.node),
        death_rule: NOTICED_AT_COLLECTION.into(),
        granularity_bytes: facts.granularity_bytes,
        stack_depth: facts.stack_depth,
        losses,
        began_unix_s: facts.began_unix_s,
        architecture: std::env::consts::ARCH.into(),
        ..Meta::default()
    }
}

/// Writes the facts of the end.
fn describe(meta: &mut Meta, tables: &mut Tables, facts: &Facts, ending: Option<&Ending>) {
    let Some(&Ending { pid, status }) = ending else {
        meta.cut = Some(String::from(
            "heaplab was ended; the recording has the program's records up to the recovery",
        ));
        return;
    };
    let Some(status) = status else {
        meta.cut = Some(String::from("heaplab stopped the recording; the program ran on"));
        return;
    };
    let process = tables.processes.iter_mut().find(|process| process.pid == pid);
    if let Some(signal) = status.signal() {
        meta.cut = Some(format!(
            "signal {signal} ended {}: its events since the last collection are missing",
            facts.program
        ));
    }
    if let Some(process) = process {
        process.ended = match status.code() {
            Some(code) => Ended::Exited(code),
            None => Ended::Signalled(status.signal().unwrap_or(0)),
        };
    }
}

impl Counts {
    /// Objects that were live at the end.
    pub fn left(&self) -> u64 {
        self.objects - self.deaths
    }
}
