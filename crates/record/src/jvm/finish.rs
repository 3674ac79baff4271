//! Makes a bundle from the spool of a JVM's recording, after a normal end or after heaplab was
//! killed.

use super::Recorded;
use super::spool::{self, Facts};
use crate::error::RecordError;
use crate::target::Ending;
use crate::{control, mark};
use heaplab_jvm::log::Importer;
use heaplab_trace::TraceError;
use heaplab_trace::bundle::{BundleWriter, Meta};
use heaplab_trace::import::{self, Imported};
use heaplab_trace::tables::{Ended, Tables};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};

/// Finishes `spool` into a bundle at `output`, which must not exist unless it may be replaced.
pub fn finish(
    spool: &Path,
    output: &Path,
    replace: bool,
    ending: Option<Ending>,
    missed: Vec<String>,
    spool_failed: Option<String>,
) -> Result<Recorded, RecordError> {
    let facts = Facts::read(spool)?;
    let (origin_ns, clock) = control::clock_of(spool)?;
    let log = import::ImportOptions {
        name: PathBuf::from(format!("the log of {}", facts.command.join(" "))),
        lenient: true,
    };
    let mut importer = Importer::new(&log).recorded(origin_ns, mark::moments(spool, &clock));
    let kept = |source: TraceError| RecordError::Finish {
        spool: spool.to_owned(),
        source: Box::new(source),
    };
    let begin = if replace { BundleWriter::replace } else { BundleWriter::create };
    let mut writer = begin(output).map_err(kept)?;
    let mut number = 0;
    let damage = spool::read(spool, |line, whole| {
        number += 1;
        importer.line(number, line, whole, &mut writer).map_err(kept)
    })?;
    let counts = importer.counts();
    // Lines without an arena prove a JVM all the same: the importer reports what it did not
    // understand.
    if counts.lines == 0 || importer.is_old() {
        return Err(nothing(&facts, ending.as_ref(), &missed, importer.is_old()));
    }
    let Imported { mut tables, mut meta } = importer.finish(&mut writer).map_err(kept)?;
    describe(&mut meta, &mut tables, &facts, ending.as_ref());
    meta.cut = spool_failed.or_else(|| meta.cut.take());
    meta.losses.extend(missed);
    meta.losses.extend(damage.map(|damage| format!("{damage}: the rest was left out")));
    writer.finish(&tables, meta.clone()).map_err(kept)?;
    let status = ending.and_then(|ending| ending.status);
    Ok(Recorded { status, meta, counts, processes: tables.processes, output: output.to_owned() })
}

/// Why there is no log to make a bundle of.
fn nothing(facts: &Facts, ending: Option<&Ending>, missed: &[String], is_old: bool) -> RecordError {
    let found = if is_old {
        "started only JVMs before JDK 16, whose metaspace was another: what they log of it cannot be recorded, that of JDK 17 or later can"
    } else if facts.command.iter().any(|word| super::turns_logs_off(word)) {
        "was told -Xlog:disable, which turns off the log of the metaspace that heaplab asks for: leave it out"
    } else {
        "started no JVM that writes a log of its metaspace (JDK 17 or later)"
    };
    let status = Ending::words(ending);
    let missed: String = missed.iter().map(|missed| format!("; not recorded: {missed}")).collect();
    RecordError::Nothing(format!("{} {found}{status}{missed}", facts.program))
}

/// The facts from outside the log.
fn describe(meta: &mut Meta, tables: &mut Tables, facts: &Facts, ending: Option<&Ending>) {
    meta.program = facts.command.join(" ");
    meta.began_unix_s = facts.began_unix_s;
    meta.architecture = std::env::consts::ARCH.into();
    let seconds = meta.duration_ns as f64 / 1e9;
    let Some(&Ending { pid, status }) = ending else {
        meta.cut =
            Some(format!("heaplab was ended; what it had read of the log ends at {seconds:.3} s"));
        return;
    };
    if status.is_none() {
        meta.cut = Some(format!(
            "heaplab stopped the recording at {seconds:.3} s; the program ran on unrecorded"
        ));
    }
    // The started program is a JVM itself, or a script that started them.
    let Some(process) =
        tables.processes.iter_mut().find(|process| process.pid == pid || process.pid == 0)
    else {
        return;
    };
    let Some(status) = status else { return };
    // Where its end was noted, that is when.
    process.ended_ns.get_or_insert(meta.duration_ns);
    process.ended = match (status.code(), status.signal()) {
        (Some(code), _) => Ended::Exited(code),
        (None, signal) => {
            let signal = signal.unwrap_or(0);
            meta.cut =
                Some(format!("signal {signal} ended the JVM; its log ends at {seconds:.3} s"));
            Ended::Signalled(signal)
        }
    };
    if process.executable.is_empty() {
        (process.executable, process.arguments) = (facts.program.clone(), facts.command.clone());
    }
}
