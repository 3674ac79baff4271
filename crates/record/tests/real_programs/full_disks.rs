//! Disks that take no more.

use super::*;

#[test]
fn a_full_disk_stops_the_recording_and_not_the_program() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compile(folder.path(), "counting", "cc", &[]) else { return };
    let counts = folder.path().join("counts");
    let mut options = options(folder.path(), &[&program, &counts, &"1000000"]);
    options.spool_limit_bytes = Some(200_000);
    let recording = record(&options);
    assert_eq!(
        recording.recorded.status.and_then(|status| status.code()),
        Some(3),
        "it ran to its end"
    );
    let cut = recording.meta.cut.expect("the recording says that it was cut");
    assert!(recording.recorded.cut.unwrap().contains("no space was left"), "{cut}");
    let seen = counted_events(&recording.events);
    assert!(seen[0] > 1000 && seen[0] < counted(&counts)[0]);
}

/// The disk is full before it has taken one block: the events until the program was told are in its
/// rings.
#[test]
fn a_disk_that_takes_no_block_leaves_what_rings_hold() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compile(folder.path(), "counting", "cc", &[]) else { return };
    let counts = folder.path().join("counts");
    let mut options = options(folder.path(), &[&program, &counts, &"1000000"]);
    // Room for the first notes; a ring is emptied into larger blocks.
    options.spool_limit_bytes = Some(1500);
    options.samples = Some(Duration::ZERO);
    let recording = record(&options);
    assert!(recording.recorded.cut.is_some(), "{:?}", recording.recorded);
    assert_eq!(recording.recorded.nothing(), None, "{:?}", recording.recorded);
    assert!(!recording.events.is_empty(), "{:?}", recording.meta);
}

#[test]
fn a_disk_that_somebody_fills_stops_the_recording_and_not_the_program() {
    let Some(disk) = SmallDisk::mount("size=80m") else {
        eprintln!("skipped: no small file system can be mounted here");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compile(folder.path(), "counting", "cc", &[]) else { return };
    let counts = folder.path().join("counts");
    let options = options(disk.0.path(), &[&program, &counts, &"0"]);
    let filler = disk.0.path().join("filler");
    let (mut when_full, mut said) = (0, Vec::new());
    let recorded = session::record(&options, &mut |progress| {
        if let Progress::Stopped(text) | Progress::Missing(text) = progress {
            said.push((text, counted(&counts)[0]));
            return;
        }
        let now = counted(&counts);
        if when_full == 0 && now[5] == 1 {
            let _ = std::fs::write(&filler, vec![1; 100 << 20]);
            when_full = counted(&counts)[0];
        } else if when_full > 0 && now[0] > when_full + 300_000 {
            let pid = heaplab_record::discover::process_files(&options.spool).unwrap()[0].0;
            heaplab_record::signals::send(pid, libc::SIGTERM);
        }
    })
    .unwrap();
    assert_eq!(
        recorded.status.and_then(|status| status.signal()),
        Some(libc::SIGTERM),
        "it ran on until it was told to end"
    );
    assert!(
        recorded.cut.as_ref().is_some_and(|cut| cut.contains("no space was left")),
        "{recorded:?}"
    );
    let stops = said.iter().filter(|(text, _)| Some(text) == recorded.cut.as_ref()).count();
    assert!(
        stops == 1 && said.iter().all(|(text, _)| text.contains("no space was left")),
        "told once: {said:?}"
    );
    assert!(said[0].1 < counted(&counts)[0], "told while the program ran: {said:?}");
}

/// Programs, forks and threads that begin with little or no space left: each behaves as usual, and
/// heaplab survives to report.
#[test]
fn what_begins_on_a_full_disk_runs_as_it_would() {
    let Some(disk) = SmallDisk::mount("size=80m") else {
        eprintln!("skipped: no small file system can be mounted here");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let Some(family) = compile(folder.path(), "family", "cc", &[]) else { return };
    let Some(threads) = compile(folder.path(), "threads", "cc", &[]) else { return };
    let script = "head -c 200m /dev/zero > \"$2\" 2> \"$3\"; for pages in 0 1 2 3 5 8 13; do truncate -s -$((pages * 4096)) \"$2\"; \
                  \"$0\"; [ $? = 5 ] || exit 1; \"$1\" 4 2000 > \"$3\" || exit 2; done; exit 4";
    let (filler, said) = (disk.0.path().join("filler"), folder.path().join("said"));
    let mut options =
        options(disk.0.path(), &[&"sh", &"-c", &script, &family, &threads, &filler, &said]);
    // The rest is for the programs, not for heaplab's notes.
    options.samples = Some(Duration::ZERO);
    let mut told = Vec::new();
    let recorded = session::record(&options, &mut |progress| {
        if let Progress::Missing(text) = progress {
            told.push(format!("heaplab: {text}"));
        }
    })
    .unwrap();
    assert_eq!(recorded.status.and_then(|status| status.code()), Some(4), "{recorded:?}");
    assert!(
        !told.is_empty() && told.iter().all(|line| line.len() <= 80),
        "a line for each process fits: {told:?}"
    );
    assert!(
        recorded.refused.is_some(),
        "nothing was refused, so that the disk was not full: {recorded:?}"
    );
    std::fs::remove_file(filler).unwrap();
    let (_, _, meta, _) = common::read(&options.spool);
    assert!(
        meta.losses.iter().any(|loss| loss.contains("found no space for its file in the spool")),
        "{:?}",
        meta.losses
    );
}
