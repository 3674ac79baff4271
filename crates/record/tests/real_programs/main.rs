//! Whole recordings of programs with known allocations.

#[path = "../common/mod.rs"]
mod common;
mod full_disks;
mod unrecorded;

use common::{compile, counted, counted_events, options, record};
use heaplab_record::finish::merge::Counts;
use heaplab_record::mark;
use heaplab_record::session::{self, Progress, RecordOptions};
use heaplab_trace::tables::{Began, Ended};
use heaplab_trace::{Flags, Op};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

#[test]
fn every_event_of_a_counting_program_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compile(folder.path(), "counting", "cc", &[]) else { return };
    let counts = folder.path().join("counts");
    let recording = record(&options(folder.path(), &[&program, &counts, &"300000"]));
    assert_eq!(recording.recorded.status.and_then(|status| status.code()), Some(3));
    assert_eq!(counted_events(&recording.events)[..], counted(&counts)[..5]);
    assert_eq!((&recording.meta.cut, &recording.meta.losses), (&None, &Vec::<String>::new()));
    assert_eq!(recording.tables.processes.len(), 1);
    let process = &recording.tables.processes[0];
    assert_eq!((process.began, process.ended), (Began::Started, Ended::Exited(3)));
    assert_eq!(
        process.executable.as_bytes(),
        program.canonicalize().unwrap().as_os_str().as_bytes()
    );
    assert!(recording.meta.allocator.starts_with("glibc 2."), "{}", recording.meta.allocator);
    assert!(recording.tables.stacks.len() > 1 && !recording.tables.samples.is_empty());
}

#[test]
fn a_killed_program_loses_nothing_that_it_published() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compile(folder.path(), "counting", "cc", &[]) else { return };
    let counts = folder.path().join("counts");
    let options = options(folder.path(), &[&program, &counts, &"0"]);
    let mut killed = false;
    let recorded = session::record(&options, &mut |_| {
        if !killed && counted(&counts)[5] == 1 {
            killed = true;
            let pid = heaplab_record::discover::process_files(&options.spool).unwrap()[0].0;
            heaplab_record::signals::send(pid, libc::SIGKILL);
        }
    })
    .unwrap();
    assert_eq!(recorded.status.and_then(|status| status.signal()), Some(libc::SIGKILL));
    let (events, tables, meta, _) = common::read(&options.spool);
    let (seen, stated) = (counted_events(&events), counted(&counts));
    // The process was killed between a call and its counting, or between the counts: one of all may
    // be ahead.
    let ahead: u64 = (0..4).map(|at| seen[at].abs_diff(stated[at])).sum();
    assert!(ahead <= 1 && (0..4).all(|at| seen[at] >= stated[at]), "{seen:?} {stated:?}");
    assert_eq!((meta.cut, tables.processes[0].ended), (None, Ended::Signalled(libc::SIGKILL)));
}

/// The child loses its copy of its parent's ring, and gets none of its own.
#[test]
fn a_forked_child_without_a_ring_runs_as_it_would() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compile(folder.path(), "ringless_child", "cc", &[]) else { return };
    let recording = record(&options(folder.path(), &[&program]));
    assert_eq!(
        recording.recorded.status.and_then(|status| status.code()),
        Some(0),
        "the child ended as it would"
    );
    let told = |loss: &String| {
        loss.starts_with("1 process or thread could not be recorded")
            && loss.contains("its limit on the size of files")
    };
    assert!(recording.meta.losses.iter().any(told), "{:?}", recording.meta.losses);
    assert_eq!(recording.births(5000..6000).len(), 1000, "the parent's own are there");
}

#[test]
fn blocks_that_pass_between_threads_are_in_a_legal_order() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compile(folder.path(), "threads", "cc", &[]) else { return };
    let recording = record(&options(folder.path(), &[&program, &"6", &"40000"]));
    assert_eq!(
        recording.counts,
        Counts { ended_by_reuse: 0, unknown_frees: 0, unknown_reallocs: 0, ..recording.counts }
    );
    assert!(recording.tables.threads.len() >= 7);
    assert!(recording.events.iter().any(|event| event.has(Flags::MOVED)));
    let crossed = recording.events.iter().filter(|event| event.op == Op::Free).count();
    assert!(crossed > 10_000, "{crossed}");
}

#[test]
fn an_address_that_a_reallocation_released_may_be_used_before_it_returns() {
    let folder = tempfile::tempdir().unwrap();
    let Some(library) =
        compile(folder.path(), "slow_realloc", "cc", &["-DLIBRARY", "-shared", "-fPIC"])
    else {
        return;
    };
    let beside = folder.path().join("libslow.so");
    std::fs::rename(&library, &beside).unwrap();
    let Some(program) = compile(folder.path(), "slow_realloc", "cc", &[beside.to_str().unwrap()])
    else {
        return;
    };
    let recording = record(&options(folder.path(), &[&program]));
    assert_eq!(
        recording.recorded.status.and_then(|status| status.code()),
        Some(0),
        "the address was used in between"
    );
    assert_eq!(
        recording.counts,
        Counts { ended_by_reuse: 0, unknown_frees: 0, unknown_reallocs: 0, ..recording.counts }
    );
    assert_eq!(recording.events.iter().filter(|event| event.has(Flags::MOVED)).count(), 1);
}

#[test]
fn thousands_of_short_threads_share_few_rings() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compile(folder.path(), "short_threads", "cc", &[]) else { return };
    let recording = record(&options(folder.path(), &[&program]));
    let mut sizes: Vec<u64> =
        recording.births(5000..7000).into_iter().map(|(size, _)| size).collect();
    sizes.sort_unstable();
    assert_eq!(sizes, (5000..7000).collect::<Vec<u64>>());
    assert_eq!(recording.tables.threads.len(), 2001, "each once, and the main thread");
}

#[test]
fn a_family_of_processes_is_one_recording() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compile(folder.path(), "family", "cc", &[]) else { return };
    let recording = record(&options(folder.path(), &[&program]));
    assert_eq!(
        recording.recorded.status.and_then(|status| status.code()),
        Some(5),
        "of what it became"
    );
    let processes = &recording.tables.processes;
    let began: Vec<(Began, Option<u32>)> =
        processes.iter().map(|process| (process.began, process.parent)).collect();
    assert_eq!(began.iter().filter(|(began, _)| *began == Began::Fork).count(), 2, "{began:?}");
    assert_eq!(
        began.iter().filter(|(began, _)| *began == Began::Exec).count(),
        3,
        "spawned, vforked, exec'd: {began:?}"
    );
    assert_eq!(processes[0].ended, Ended::Exec);
    let child = processes.iter().position(|process| process.began == Began::Fork).unwrap() as u32;
    assert_eq!(processes[child as usize].parent, Some(0));
    assert_eq!(recording.births(7000..7100).len(), 100);
    assert!(recording.births(8000..8020).iter().all(|(_, process)| *process == child));
    assert_eq!(recording.births(8000..8020).len(), 20);
    assert_eq!(
        recording.births(8050..8051),
        [(8050, child)],
        "growing an inherited block is a birth"
    );
    assert_eq!(recording.births(6000..6001).len(), 3, "each leaf");
    let inherited = |process: u32| {
        recording
            .events
            .iter()
            .filter(|event| {
                event.op == Op::Free && event.has(Flags::INHERITED) && event.process == process
            })
            .count()
    };
    assert_eq!(inherited(child), 51);
    let grandchild =
        processes.iter().position(|process| process.parent == Some(child)).unwrap() as u32;
    let ends = [child, grandchild].map(|row| processes[row as usize].ended);
    assert_eq!(ends, [Ended::Exited(4), Ended::Exited(0)], "by _exit");
    assert_eq!(
        inherited(grandchild),
        2,
        "one that its parent made, one that its parent's parent made"
    );
    assert_eq!((recording.counts.unknown_frees, recording.counts.ended_by_reuse), (0, 0));
}

#[test]
fn a_signal_handler_may_allocate() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compile(folder.path(), "handler", "cc", &[]) else { return };
    let script = format!("cd '{}' && exec '{}'", folder.path().display(), program.display());
    let recording = record(&options(folder.path(), &[&"sh", &"-c", &script]));
    assert_eq!(recording.recorded.status.and_then(|status| status.code()), Some(0));
    let handled: usize =
        std::fs::read_to_string(folder.path().join("handled")).unwrap().parse().unwrap();
    assert_eq!(recording.births(65536..65537).len(), handled);
}

#[test]
fn marks_from_outside_and_paths_that_are_no_text() {
    let folder = tempfile::tempdir().unwrap();
    let strange = folder.path().join(std::ffi::OsStr::from_bytes(b"caf\xe9 a:b $X"));
    std::fs::create_dir(&strange).unwrap();
    let Some(program) = compile(&strange, "counting", "cc", &[]) else { return };
    let counts = strange.join("counts");
    let options = options(&strange, &[&program, &counts, &"0"]);
    let mut marked = false;
    session::record(&options, &mut |_| {
        if !marked && counted(&counts)[5] == 1 {
            marked = true;
            mark::set(&options.spool, "loaded", None).unwrap();
            let pid = heaplab_record::discover::process_files(&options.spool).unwrap()[0].0;
            heaplab_record::signals::send(pid, libc::SIGTERM);
        }
    })
    .unwrap();
    let (events, tables, ..) = common::read(&options.spool);
    assert_eq!(tables.marks.len(), 1);
    assert_eq!(tables.marks[0].name, "loaded");
    let row = events.iter().position(|event| event.op == Op::Mark).expect("a row for the mark");
    assert!(row > 1000 && events[row].time_ns <= events.last().unwrap().time_ns);
    assert!(
        tables.processes[0].executable.contains("caf%E9 a:b $X/counting"),
        "{}",
        tables.processes[0].executable
    );
}

/// AddressSanitizer's runtime ends a program with an object preloaded before it, unless an option
/// forbids this.
#[test]
fn programs_with_a_sanitizer_run_as_ever_and_are_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let cases: [(&str, &[&str], &str); 4] = [
        ("sanitized", &["-fsanitize=address"], "AddressSanitizer (libasan.so."),
        ("sanitized", &["-fsanitize=address", "-DOWN_OPTIONS"], "AddressSanitizer (libasan.so."),
        ("sanitized", &["-fsanitize=thread"], "ThreadSanitizer (libtsan.so."),
        ("sanitized", &["-fsanitize=leak"], "LeakSanitizer (liblsan.so."),
    ];
    for (number, (name, flags, allocator)) in cases.into_iter().enumerate() {
        let inside = folder.path().join(number.to_string());
        std::fs::create_dir(&inside).unwrap();
        let Some(program) = compile(&inside, name, "gcc", flags) else { continue };
        let seen = inside.join("seen");
        let run = |command: &[&dyn AsRef<std::ffi::OsStr>]| {
            let recording = record(&options(&inside, command));
            std::fs::remove_dir_all(&recording.recorded.spool).unwrap();
            let births = recording.births(5000..5100);
            let own = births
                .iter()
                .filter(|(_, process)| {
                    recording.tables.processes[*process as usize].executable.ends_with(name)
                })
                .count();
            (
                recording.recorded.status.and_then(|status| status.code()),
                own,
                recording.meta,
                std::fs::read_to_string(&seen).unwrap_or_default(),
            )
        };
        let (status, births, meta, options) = run(&[&program, &seen]);
        assert_eq!((status, births), (Some(7), 100), "{flags:?} {:?}", meta.losses);
        assert!(meta.allocator.starts_with(allocator), "{}", meta.allocator);
        let has_own = flags.len() > 1;
        assert_eq!(
            options,
            if has_own { "verify_asan_link_order=0\n" } else { "none\n" },
            "{flags:?}"
        );
        // As a child, when only the program's own file can tell its needs.
        std::fs::remove_file(&seen).unwrap();
        let script = inside.join("script");
        std::fs::write(
            &script,
            format!("#!/bin/sh\n{} {}\nexit $?\n", program.display(), seen.display()),
        )
        .unwrap();
        std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .unwrap();
        let (status, births, meta, options) = run(&[&script]);
        if has_own {
            let losses = meta.losses.join("; ");
            assert!(
                losses.contains("set ASAN_OPTIONS=verify_asan_link_order=0 to record it"),
                "{losses}"
            );
        } else {
            assert_eq!(
                (status, births, options.as_str()),
                (Some(7), 100, "none\n"),
                "{flags:?} {:?}",
                meta.losses
            );
        }
    }
}

/// As a daemon does: the started process ends before its child has made a file.
#[test]
fn a_child_whose_parent_ends_right_after_the_fork_is_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let Some(daemon) = compile(folder.path(), "daemon", "cc", &[]) else { return };
    for round in 0..5 {
        let inside = folder.path().join(round.to_string());
        std::fs::create_dir(&inside).unwrap();
        let recording = record(&options(&inside, &[&daemon, &"3000"]));
        assert_eq!(recording.recorded.status.and_then(|status| status.code()), Some(0));
        let of_100 = recording
            .events
            .iter()
            .filter(|event| event.op == Op::Alloc && event.size == 100)
            .count();
        assert_eq!(of_100, 3000, "round {round}: {:?}", recording.meta.losses);
    }
}

#[test]
fn a_recording_that_leaves_children_leaves_them_alone() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compile(folder.path(), "counting", "cc", &[]) else { return };
    let (counts, enough) = (folder.path().join("counts"), folder.path().join("enough"));
    let script =
        "\"$0\" \"$1\" 0 & echo $! > \"$1.pid\"; while [ ! -e \"$2\" ]; do sleep 0.1; done; exit 4";
    let command: [&dyn AsRef<std::ffi::OsStr>; 6] =
        [&"sh", &"-c", &script, &program, &counts, &enough];
    let options = RecordOptions { detach_children: true, ..options(folder.path(), &command) };
    // The shell ends when the child is well under way.
    let recorded = session::record(&options, &mut |_| {
        if counted(&counts)[5] == 1 {
            std::fs::write(&enough, "").unwrap();
        }
    })
    .unwrap();
    let (events, tables, ..) = common::read(&options.spool);
    assert_eq!(recorded.status.and_then(|status| status.code()), Some(4));
    let child: u32 =
        std::fs::read_to_string(folder.path().join("counts.pid")).unwrap().trim().parse().unwrap();
    let at_end = counted(&counts)[0];
    let asked = Instant::now();
    let later = loop {
        let later = counted(&counts)[0];
        if later > at_end {
            break later;
        }
        assert!(asked.elapsed() < Duration::from_secs(60), "it does not run on: {at_end}");
    };
    heaplab_record::signals::send(child, libc::SIGKILL);
    let row =
        tables.processes.iter().rposition(|process| process.pid == child).expect("the child's row");
    assert_eq!(tables.processes[row].ended, Ended::Unknown);
    let seen = counted_events(&events);
    assert!(seen[0] > 1000 && seen[0] <= later, "{seen:?}");
}

/// A small file system in memory; removed on drop.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount(size: &str) -> Option<SmallDisk> {
        let folder = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", size, "tmpfs"])
            .arg(folder.path())
            .output();
        mounted.is_ok_and(|output| output.status.success()).then(|| SmallDisk(folder))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

#[test]
fn samples_can_be_left_out_and_small_rings_do_with_waiting() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compile(folder.path(), "counting", "cc", &[]) else { return };
    let counts = folder.path().join("counts");
    let mut options = options(folder.path(), &[&program, &counts, &"100000"]);
    (options.samples, options.ring_bytes, options.stack_depth) =
        (Some(Duration::ZERO), 64 << 10, 0);
    let recording = record(&options);
    assert_eq!(counted_events(&recording.events)[..], counted(&counts)[..5]);
    assert!(recording.tables.samples.is_empty());
    assert_eq!(recording.tables.stacks.len(), 1);
    // No stack leads to the C library, yet it is the recorded allocator.
    assert!(recording.meta.allocator.starts_with("glibc 2."), "{}", recording.meta.allocator);
}

#[test]
fn a_program_that_switches_huge_pages_off_is_known() {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    if !status.contains("THP_enabled:") {
        eprintln!("skipped: this kernel does not tell");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compile(folder.path(), "no_huge_pages", "cc", &[]) else { return };
    let mut options = options(folder.path(), &[&program]);
    options.samples = Some(Duration::from_millis(10));
    assert_eq!(record(&options).meta.without_huge_pages, [0]);
    let folder = tempfile::tempdir().unwrap();
    let other = self::options(folder.path(), &[&"sleep", &"0.1"]);
    let here = status.lines().any(|line| line.starts_with("THP_enabled:") && line.ends_with('0'));
    assert_eq!(record(&other).meta.without_huge_pages.is_empty(), !here);
}
