//! A recording's summary: lines for a person, JSON for a machine.

use crate::drain::Totals;
use crate::finish::{Finished, tables::text_of};
use crate::{jvm, node, ocaml, session};
use heaplab_text::shell::quoted;
use heaplab_text::words::{bytes, count, plural};
use heaplab_trace::bundle::Meta;
use serde_json::{Value, json};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Instant;

/// Pids that are listed.
const PIDS_MAX: usize = 8;

/// The line of progress while a program runs, with the rate since the line before.
#[derive(Debug)]
pub struct Rate {
    at: Instant,
    events: u64,
}

impl Default for Rate {
    fn default() -> Rate {
        Rate { at: Instant::now(), events: 0 }
    }
}

impl Rate {
    /// The next line.
    pub fn line(&mut self, totals: &Totals) -> String {
        let now = Instant::now();
        let seconds = now.duration_since(self.at).as_secs_f64().max(1e-3);
        let rate = totals.events.saturating_sub(self.events) as f64 / seconds;
        *self = Rate { at: now, events: totals.events };
        format!(
            "recording: {} events ({}/s), about {} live, spool {}",
            count(totals.events),
            count(rate as u64),
            bytes(totals.live_bytes_estimate),
            bytes(totals.spool_bytes)
        )
    }
}

/// The summary of a recording.
#[derive(Clone, Debug)]
pub struct Summary {
    /// For a machine.
    pub json: Value,
    /// For a person, the next command last.
    pub lines: Vec<String>,
}

impl Summary {
    /// Of a recording of malloc; `recorded` where this process ran it.
    pub fn of(finished: &Finished, recorded: Option<&session::Recorded>) -> Summary {
        let (meta, counts) = (&finished.meta, &finished.counts);
        let status = recorded.and_then(|recorded| recorded.status);
        let mut json = common_json(&finished.output, meta, finished.processes, status);
        json["bundle_bytes"] = json!(finished.bundle_bytes);
        json["events"] = json!(counts.events);
        json["objects"] = json!(counts.objects);
        json["peak_live_bytes"] = json!(counts.peak_bytes);
        json["duration_ns"] = json!(meta.duration_ns);
        json["signal"] = json!(status.and_then(|status| status.signal()));
        // The program's own obstacle was said when it began.
        let said = recorded.and_then(session::Recorded::obstacle_text);
        let mut lines = missing(meta, said.as_deref());
        lines.extend(status.and_then(ended));
        let processes = match finished.processes {
            1 => String::new(),
            several => format!(" of {several} processes"),
        };
        lines.push(format!(
            "recorded {}{processes}, {}, peak {} live, in {} ({})",
            plural(counts.events, "event"),
            plural(counts.objects, "object"),
            bytes(counts.peak_bytes),
            finished.output.display(),
            bytes(finished.bundle_bytes)
        ));
        Summary::ending(json, lines, &finished.output)
    }

    /// Of a recording of JVMs' metaspaces.
    pub fn of_jvms(recorded: &jvm::Recorded) -> Summary {
        let (meta, counts, output) = (&recorded.meta, &recorded.counts, &recorded.output);
        let pids = || recorded.processes.iter().map(|process| process.pid).collect::<Vec<_>>();
        let mut json = common_json(output, meta, recorded.processes.len(), recorded.status);
        json["pids"] = json!(pids());
        json["arenas"] = json!(counts.arenas);
        json["live_arenas"] = json!(counts.live_arenas);
        json["allocations"] = json!(counts.allocations);
        json["peak_committed_bytes"] = json!(counts.committed_peak_bytes);
        json["duration_ns"] = json!(meta.duration_ns);
        let mut lines = missing(meta, None);
        let jvms: Vec<_> =
            recorded.processes.iter().filter(|process| process.refused.is_none()).collect();
        let of_jvms = if jvms.len() == 1 {
            String::new()
        } else {
            let pids: Vec<String> =
                jvms.iter().take(PIDS_MAX).map(|process| process.pid.to_string()).collect();
            let more = if jvms.len() > pids.len() { ", ..." } else { "" };
            format!(" of {} JVMs ({}{more})", jvms.len(), pids.join(", "))
        };
        lines.push(format!(
            "recorded {} in {}{of_jvms}, at most {} committed at once, in {}",
            plural(counts.allocations, "allocation"),
            plural(counts.arenas, "arena"),
            bytes(counts.committed_peak_bytes),
            output.display()
        ));
        Summary::ending(json, lines, output)
    }

    /// Of a recording of Nodes' heaps.
    pub fn of_nodes(recorded: &node::Recorded) -> Summary {
        let (meta, counts, output) = (&recorded.meta, &recorded.counts, &recorded.output);
        let pids: Vec<u32> = recorded.processes.iter().map(|process| process.pid).collect();
        let mut json = common_json(output, meta, pids.len(), recorded.status);
        json["pids"] = json!(pids);
        json["events"] = json!(counts.events);
        json["objects"] = json!(counts.objects);
        json["object_bytes"] = json!(counts.object_bytes);
        json["live_objects"] = json!(counts.left());
        json["peak_live_bytes"] = json!(counts.peak_bytes);
        json["collections"] = json!(counts.collections);
        json["granularity_bytes"] = json!(meta.granularity_bytes);
        json["largest_interval_bytes"] = json!(counts.interval_bytes_max);
        json["signal"] = json!(recorded.status.and_then(|status| status.signal()));
        let mut lines = missing(meta, None);
        let of_heaps = match pids.len() {
            1 => String::new(),
            heaps => format!(" of {heaps} heaps"),
        };
        lines.push(format!(
            "recorded {}{of_heaps} ({}), peak {} live, in {}",
            plural(counts.objects, "object"),
            bytes(counts.object_bytes),
            bytes(counts.peak_bytes),
            output.display()
        ));
        lines.push(format!(
            "{} noticed the deaths, with at most {} of births between two",
            plural(counts.collections, "full collection"),
            bytes(counts.interval_bytes_max)
        ));
        Summary::ending(json, lines, output)
    }

    /// Of a recording of an OCaml program.
    pub fn of_ocaml(recorded: &ocaml::Recorded) -> Summary {
        let (meta, output) = (recorded.bundle.meta(), recorded.bundle.path());
        let processes = recorded.bundle.tables().processes.len();
        let mut json = common_json(output, meta, processes, Some(recorded.status));
        json["events"] = json!(meta.events);
        json["objects"] = json!(meta.objects);
        json["granularity_bytes"] = json!(meta.granularity_bytes);
        json["signal"] = json!(recorded.status.signal());
        let mut lines = missing(meta, None);
        lines.push(format!(
            "recorded {}, {} in {}; {}",
            plural(meta.events, "event"),
            plural(meta.objects, "object"),
            output.display(),
            meta.allocator
        ));
        Summary::ending(json, lines, output)
    }

    fn ending(json: Value, mut lines: Vec<String>, output: &Path) -> Summary {
        lines.push(format!("next: heaplab report {}", quoted(output)));
        Summary { json, lines }
    }
}

fn common_json(output: &Path, meta: &Meta, processes: usize, status: Option<ExitStatus>) -> Value {
    json!({
        "bundle": text_of(output.as_os_str().as_bytes()),
        "program": meta.program,
        "allocator": meta.allocator,
        "processes": processes,
        "cut": meta.cut,
        "losses": meta.losses,
        "exit_status": status.and_then(|status| status.code()),
    })
}

/// Data that the recording lacks, without those reported before.
fn missing(meta: &Meta, said: Option<&str>) -> Vec<String> {
    let cut = meta.cut.iter().map(|cut| format!("the recording was cut: {cut}"));
    let losses = meta.losses.iter().filter(|loss| said != Some(loss.as_str()));
    cut.chain(losses.map(|loss| format!("lost: {loss}"))).collect()
}

/// How the program ended, if not well.
fn ended(status: ExitStatus) -> Option<String> {
    match (status.code(), status.signal()) {
        (Some(0), _) => None,
        (Some(code), _) => Some(format!("the program ended with status {code}")),
        (None, Some(signal)) => Some(format!("the program was ended by signal {signal}")),
        (None, None) => Some(String::from(
            "the program has ended; another process took its exit status before heaplab could",
        )),
    }
}
