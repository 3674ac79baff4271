//! Before the first record: the spool, the page for targets, the target itself.

use super::{RecordOptions, Session};
use crate::clock;
use crate::control::{self, ControlPage, Settings};
use crate::drain::Drainer;
use crate::error::RecordError;
use crate::python::Frames;
use crate::signals::Signals;
use crate::spool::EVENTS_FILE;
use crate::spool::note::Note;
use crate::spool::writer::SpoolWriter;
use crate::unrecorded::Watch;
use crate::{execs, preload, spawn};
use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::Duration;

/// Bytes that must be free in the spool's place.
const FREE_BYTES_MIN: u64 = 64 << 20;

/// Checks that the spool can be made and has room.
pub(super) fn prepare(spool: &Path) -> Result<(), RecordError> {
    if control::is_running(spool) {
        return Err(RecordError::SpoolInUse(spool.to_owned()));
    }
    if spool.symlink_metadata().is_ok() {
        return Err(RecordError::SpoolExists(spool.to_owned()));
    }
    fs::create_dir(spool).map_err(RecordError::io("cannot create the spool", spool))?;
    let place = rustix::fs::statvfs(spool)
        .map_err(|error| RecordError::io("cannot look at", spool)(error.into()))?;
    let free_bytes = place.f_bavail.saturating_mul(place.f_frsize);
    if free_bytes < FREE_BYTES_MIN {
        let _ = fs::remove_dir(spool);
        return Err(RecordError::NoSpace {
            path: spool.to_owned(),
            free_bytes,
            needed_bytes: FREE_BYTES_MIN,
        });
    }
    Ok(())
}

fn settings(options: &RecordOptions) -> Settings {
    Settings {
        stack_depth: options.stack_depth,
        ring_bytes: options.ring_bytes,
        first_ring_bytes: control::first_ring_bytes(options.ring_bytes, options.stack_depth),
        // At least a page, which is 64 KiB on some aarch64 kernels.
        nested_bytes: (options.ring_bytes / 16)
            .max(16 * 1024)
            .max(rustix::param::page_size() as u32),
        mark_signal: options.mark_signal,
        flags: options.python.map_or(0, Frames::flags),
    }
}

/// Makes the files of the spool and starts the target.
pub(super) fn begin<'a>(
    options: &'a RecordOptions,
    program: &Path,
    preloads: bool,
    asan_is_told: bool,
) -> Result<(Session<'a>, Child), RecordError> {
    let spool =
        fs::canonicalize(&options.spool).map_err(RecordError::io("cannot find", &options.spool))?;
    let events = spool.join(EVENTS_FILE);
    let object = preload::place(&spool)?;
    let signals =
        Signals::take().map_err(RecordError::io("cannot take signals over for", &spool))?;
    let control = ControlPage::create(&spool, settings(options))?;
    let programs = spool.join(execs::EXECS_FILE);
    fs::File::create_new(&programs).map_err(RecordError::io("cannot create", &programs))?;
    if options.samples != Some(Duration::ZERO) {
        control.ask_for_memory();
    }
    if options.reports {
        control.ask_for_reports();
    }
    let writer = SpoolWriter::create(&events).map_err(RecordError::io("cannot create", &events))?;
    let mut drainer = Drainer::new(&spool, writer);
    if let Some(bytes) = options.spool_limit_bytes {
        drainer.limit(bytes);
    }
    drainer.ask_jvms(options.jvm_memory);
    let began = Note::Began {
        command: spawn::shown(&options.command),
        unix_s: clock::unix_s(),
        writer: format!("heaplab {}", env!("CARGO_PKG_VERSION")),
    };
    drainer.note(&began).map_err(RecordError::io("cannot write", &events))?;
    let how = spawn::Preloading {
        object: preloads.then_some(object.as_path()),
        asan_is_told,
        sets_python: options.python.is_some(),
        asks_jvms: options.jvm_memory,
    };
    let child = spawn::start(program, &options.command, how, &spool, &signals)?;
    let session = Session {
        options,
        control,
        drainer,
        signals,
        watch: Watch::new(child.id(), &spool),
        spool,
        pid: child.id(),
        status: None,
        stopped: None,
        ending_signals: 0,
        unrecorded: Vec::new(),
        obstacle: None,
        program: PathBuf::new(),
        announced: 0,
        waiting_told: false,
        stop_told: false,
        lost_told: false,
        untold: Vec::new(),
        refused_told: 0,
        cut_told: HashSet::new(),
        awaited: HashMap::new(),
        last_name: None,
    };
    Ok((session, child))
}
