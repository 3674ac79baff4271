//! What `record` and `recover` share: finishing a spool into a bundle and telling what came of it.

use crate::signals::interrupts;
use anyhow::Result;
use heaplab_record::finish::{self, Finished, Options, Progress, tables::text_of};
use heaplab_record::{RecordError, output, session::Recorded};
use heaplab_text::shell::quoted;
use heaplab_text::words::{bytes, count, plural};
use heaplab_trace::bundle::abandon;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::{self, ErrorKind};
use std::os::unix::{ffi::OsStrExt, process::ExitStatusExt};
use std::path::{Path, PathBuf};

/// What of a recording may be left out, as `record` and `recover` are asked.
#[derive(Debug, clap::Args)]
pub struct Contents {
    /// Do not look functions up (`heaplab symbolize` does it later)
    #[arg(long)]
    no_symbols: bool,
    /// Keep the address of every block (a tenth of a byte an event more)
    #[arg(long)]
    addresses: bool,
}

impl Contents {
    /// As the library takes it.
    pub fn options(&self) -> Options {
        Options {
            symbols: (!self.no_symbols).then(heaplab_symbols::Options::default),
            addresses: self.addresses,
            ..Options::default()
        }
    }
}

/// What to finish.
pub struct Finishing {
    /// The spool folder.
    pub spool: PathBuf,
    /// The bundle.
    pub output: PathBuf,
    /// What goes into the bundle.
    pub options: Options,
    /// Show no progress.
    pub quiet: bool,
    /// Leave the spool where it is.
    pub keep_spool: bool,
}

/// Finishes a spool; removes it once the bundle is there.
pub fn finish(finishing: &Finishing) -> Result<Finished> {
    let bar = if finishing.quiet { ProgressBar::hidden() } else { ProgressBar::new_spinner() };
    bar.set_style(ProgressStyle::with_template("{msg}")?);
    let finished = interrupts::watched(
        || {
            finish::finish(&finishing.spool, &finishing.output, &finishing.options, &mut |progress| {
                bar.set_message(match progress {
                    Progress::Rows(done, all) => format!("finishing: {} of {} events", count(done), count(all.max(done))),
                    Progress::Symbols => String::from("finishing: looking functions up"),
                    Progress::Tables => String::from("finishing: writing tables"),
                });
            })
        },
        || {
            bar.finish_and_clear();
            if let Some(folder) = finishing.options.unfinished.get() {
                abandon(folder);
            }
            let spool = quoted(&finishing.spool);
            eprintln!(
                "heaplab: ended by a signal while finishing. What was recorded is kept in {spool}: `heaplab recover {spool}` finishes it"
            );
        },
    )
    .map_err(|error| unfinished(error.into(), finishing))?;
    bar.finish_and_clear();
    if !finishing.keep_spool {
        output::discard_spool(&finishing.spool)?;
    }
    Ok(finished)
}

/// The error of finishing, with what became of the recording and what to do: nothing of it is lost.
/// A spool that is damaged cannot be finished, now or later, which its own error says.
fn unfinished(error: anyhow::Error, finishing: &Finishing) -> anyhow::Error {
    if let Some(RecordError::NotASpool { .. }) = error.downcast_ref() {
        return error;
    }
    let (spool, output) = (quoted(&finishing.spool), finishing.output.display());
    let full = [ErrorKind::StorageFull, ErrorKind::QuotaExceeded, ErrorKind::FileTooLarge];
    let is_full = |cause: &(dyn std::error::Error + 'static)| {
        cause.downcast_ref::<io::Error>().is_some_and(|error| full.contains(&error.kind()))
    };
    let elsewhere = Path::new("/elsewhere").join(finishing.output.file_name().unwrap_or_default());
    let elsewhere = quoted(&elsewhere);
    if error.chain().any(is_full) {
        error.context(format!(
            "there is no room for {output}. What was recorded is kept in {spool}: free some space and run `heaplab recover {spool}`, \
             or write to another disk with `heaplab recover {spool} -o {elsewhere}`"
        ))
    } else {
        error.context(format!(
            "{output} could not be written. What was recorded is kept in {spool}: `heaplab recover {spool}` finishes it, with \
             `-o {elsewhere}` to another place"
        ))
    }
}

/// Says what was recorded: on standard error, because standard output is the program's.
pub fn report(finished: &Finished, recorded: Option<&Recorded>, json: bool) -> Result<()> {
    let (meta, counts) = (&finished.meta, &finished.counts);
    let status = recorded.and_then(|recorded| recorded.status);
    if json {
        let summary = serde_json::json!({
            "bundle": text_of(finished.output.as_os_str().as_bytes()),
            "bundle_bytes": finished.bundle_bytes,
            "program": meta.program,
            "allocator": meta.allocator,
            "processes": finished.processes,
            "events": counts.events,
            "objects": counts.objects,
            "peak_live_bytes": counts.peak_bytes,
            "duration_ns": meta.duration_ns,
            "cut": meta.cut,
            "losses": meta.losses,
            "exit_status": status.and_then(|status| status.code()),
            "signal": status.and_then(|status| status.signal()),
        });
        eprintln!("{}", serde_json::to_string(&summary)?);
        return Ok(());
    }
    if let Some(cut) = &meta.cut {
        eprintln!("heaplab: the recording was cut: {cut}");
    }
    // The program's own obstacle was said when it began.
    let said = recorded.and_then(Recorded::obstacle_text);
    for loss in meta.losses.iter().filter(|loss| said.as_ref() != Some(loss)) {
        eprintln!("heaplab: lost: {loss}");
    }
    match status.map(|status| (status.code(), status.signal())) {
        Some((Some(0), _)) | None => {}
        Some((Some(code), _)) => eprintln!("heaplab: the program ended with status {code}"),
        Some((None, Some(signal))) => {
            eprintln!("heaplab: the program was ended by signal {signal}")
        }
        Some((None, None)) => eprintln!(
            "heaplab: the program has ended; how, only who waited for it before heaplab knows"
        ),
    }
    let processes = if finished.processes == 1 {
        String::new()
    } else {
        format!(" of {} processes", finished.processes)
    };
    eprintln!(
        "heaplab: recorded {}{processes}, {}, peak {} live, in {} ({})",
        plural(counts.events, "event"),
        plural(counts.objects, "object"),
        bytes(counts.peak_bytes),
        finished.output.display(),
        bytes(finished.bundle_bytes)
    );
    eprintln!("heaplab: next: heaplab report {}", quoted(&finished.output));
    Ok(())
}

/// Says what was recorded of JVMs.
pub fn report_jvm(recorded: &heaplab_record::jvm::Recorded, json: bool) -> Result<()> {
    let (meta, counts) = (&recorded.meta, &recorded.counts);
    if json {
        let summary = serde_json::json!({
            "bundle": text_of(recorded.output.as_os_str().as_bytes()),
            "program": meta.program,
            "allocator": meta.allocator,
            "processes": recorded.processes.len(),
            "pids": recorded.processes.iter().map(|process| process.pid).collect::<Vec<_>>(),
            "arenas": counts.arenas,
            "live_arenas": counts.live_arenas,
            "allocations": counts.allocations,
            "peak_committed_bytes": counts.committed_peak_bytes,
            "duration_ns": meta.duration_ns,
            "cut": meta.cut,
            "losses": meta.losses,
            "exit_status": recorded.status.and_then(|status| status.code()),
        });
        eprintln!("{}", serde_json::to_string(&summary)?);
        return Ok(());
    }
    if let Some(cut) = &meta.cut {
        eprintln!("heaplab: the recording was cut: {cut}");
    }
    meta.losses.iter().for_each(|loss| eprintln!("heaplab: lost: {loss}"));
    let jvms: Vec<_> =
        recorded.processes.iter().filter(|process| process.refused.is_none()).collect();
    let of_jvms = if jvms.len() == 1 {
        String::new()
    } else {
        let pids: Vec<String> =
            jvms.iter().take(8).map(|process| process.pid.to_string()).collect();
        let more = if jvms.len() > pids.len() { ", ..." } else { "" };
        format!(" of {} JVMs ({}{more})", jvms.len(), pids.join(", "))
    };
    eprintln!(
        "heaplab: recorded {} in {}{of_jvms}, at most {} committed at once, in {}",
        plural(counts.allocations, "allocation"),
        plural(counts.arenas, "arena"),
        bytes(counts.committed_peak_bytes),
        recorded.output.display()
    );
    eprintln!("heaplab: next: heaplab report {}", quoted(&recorded.output));
    Ok(())
}

/// Says what was recorded of Nodes' heaps.
pub fn report_node(recorded: &heaplab_record::node::Recorded, json: bool) -> Result<()> {
    let (meta, counts) = (&recorded.meta, &recorded.counts);
    if json {
        let summary = serde_json::json!({
            "bundle": text_of(recorded.output.as_os_str().as_bytes()),
            "program": meta.program,
            "allocator": meta.allocator,
            "processes": recorded.processes.len(),
            "pids": recorded.processes.iter().map(|process| process.pid).collect::<Vec<_>>(),
            "events": counts.events,
            "objects": counts.objects,
            "object_bytes": counts.object_bytes,
            "live_objects": counts.left(),
            "peak_live_bytes": counts.peak_bytes,
            "collections": counts.collections,
            "granularity_bytes": meta.granularity_bytes,
            "largest_interval_bytes": counts.interval_bytes_max,
            "cut": meta.cut,
            "losses": meta.losses,
            "exit_status": recorded.status.and_then(|status| status.code()),
            "signal": recorded.status.and_then(|status| status.signal()),
        });
        eprintln!("{}", serde_json::to_string(&summary)?);
        return Ok(());
    }
    if let Some(cut) = &meta.cut {
        eprintln!("heaplab: the recording was cut: {cut}");
    }
    meta.losses.iter().for_each(|loss| eprintln!("heaplab: lost: {loss}"));
    let heaps = recorded.processes.len() as u64;
    let of_heaps = if heaps == 1 { String::new() } else { format!(" of {heaps} heaps") };
    eprintln!(
        "heaplab: recorded {}{of_heaps} ({}), peak {} live, in {}",
        plural(counts.objects, "object"),
        bytes(counts.object_bytes),
        bytes(counts.peak_bytes),
        recorded.output.display()
    );
    eprintln!(
        "heaplab: {} noticed the deaths, with at most {} of births between two",
        plural(counts.collections, "full collection"),
        bytes(counts.interval_bytes_max)
    );
    eprintln!("heaplab: next: heaplab report {}", quoted(&recorded.output));
    Ok(())
}
