//! The fate of a recording and its target when one of them dies, rings or records are full, or
//! files are damaged.

use super::*;

tests!(here on Some(crate::machine::own()),
    what_was_published_survives_sigkill
    the_target_outlives_its_drainer
    a_ring_that_is_cut_keeps_what_nobody_has_read
    a_spool_that_is_gone_leaves_the_target_alone
    a_target_with_a_limit_on_file_sizes_is_refused_and_not_killed
    a_number_of_rings_that_was_overwritten_gives_no_ring_twice
    a_file_that_has_a_rings_name_is_left_as_it_is
    a_target_whose_files_are_not_read_runs_on
);

tests!(on_aarch64 on crate::machine::aarch64(),
    what_was_published_survives_sigkill
    the_target_outlives_its_drainer
    a_ring_that_is_cut_keeps_what_nobody_has_read
    a_number_of_rings_that_was_overwritten_gives_no_ring_twice
    a_file_that_has_a_rings_name_is_left_as_it_is
    a_target_whose_files_are_not_read_runs_on
);

fn what_was_published_survives_sigkill(machine: &Machine) {
    let mut d = start(machine, Options::default());
    let program = machine.compile(d.folder.path(), "loop.c", "loop", &[]);
    let mut child =
        drainer::start(recorded(machine, &d, &program).args(["3000", "die"]).stdout(Stdio::null()));
    let status = child.wait().unwrap();
    assert!(!status.success());
    d.turn();
    let image = &d.finish()[0];
    assert_eq!(image.of_kind(ALLOC).filter(|e| (60000..60007).contains(&e.size())).count(), 3000);
    assert_eq!(image.exit, None);
}

/// Runs until the target waits for room that nobody makes.
pub fn until_a_ring_is_full(d: &Drainer, child: &mut std::process::Child) {
    while !d.has_full_ring() {
        assert!(child.try_wait().unwrap().is_none(), "it ended although its ring is full");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

fn the_target_outlives_its_drainer(machine: &Machine) {
    for stopped in [false, true] {
        let d = start(machine, Options { ring_bytes: 64 << 10, ..Options::default() });
        let program = machine.compile(d.folder.path(), "loop.c", "loop", &[]);
        // nobody drains: the ring fills, and the target waits
        let mut child =
            drainer::start(recorded(machine, &d, &program).arg("100000").stdout(Stdio::null()));
        until_a_ring_is_full(&d, &mut child);
        if stopped {
            d.control().state.store(CONTROL_STOPPED, std::sync::atomic::Ordering::Release);
        } else {
            d.die();
        }
        assert!(child.wait().unwrap().success());
        let image = &d.finish()[0];
        assert_eq!(
            (image.state, image.cut_reason),
            (PROCESS_CUT, if stopped { CUT_STOPPED } else { CUT_DRAINER_DEAD })
        );
        assert!(image.events.iter().all(|e| e.counter <= image.cut_counter));
        assert!(image.event_count > 1000 && image.event_count < 10000, "{}", image.event_count);
    }
}

/// The event without room needs many words for its stack and is written without the stack: words
/// that the drainer never read stay unchanged.
fn a_ring_that_is_cut_keeps_what_nobody_has_read(machine: &Machine) {
    for ring_bytes in [64 << 10, 128 << 10] {
        let d = start(machine, Options { ring_bytes, ..Options::default() });
        let program = machine.compile(d.folder.path(), "forest.c", "forest", &[]);
        d.control().state.store(CONTROL_STOPPED, std::sync::atomic::Ordering::Release);
        let out = recorded(machine, &d, &program).arg("100000").output().unwrap();
        assert_eq!((out.status.code(), &out.stdout[..]), (Some(0), &b"done\n"[..]));
        let image = &d.finish()[0];
        assert_eq!((image.state, image.cut_reason), (PROCESS_CUT, CUT_STOPPED));
        let of_24 = sized(image, ALLOC, 24).len();
        assert!(of_24 > 100, "{of_24} of {ring_bytes} bytes");
    }
}

fn a_spool_that_is_gone_leaves_the_target_alone(machine: &Machine) {
    let folder = tempfile::tempdir().unwrap();
    let program = machine.compile(folder.path(), "loop.c", "loop", &[]);
    let preload = folder.path().join("preload.so");
    std::fs::write(&preload, heaplab_preload::PRELOAD).unwrap();
    for spool in ["/nonexistent/folder", ""] {
        let run = Command::new(&program)
            .arg("1000")
            .env("LD_PRELOAD", &preload)
            .env(heaplab_preload::SPOOL_VARIABLE, spool)
            .output()
            .unwrap();
        assert_eq!(
            (run.status.code(), &run.stdout[..], &run.stderr[..]),
            (Some(0), &b"done\n"[..], &b""[..])
        );
    }
    // the folder is there, but no file can be made in it: the control page says so
    let d = start(machine, Options::default());
    std::fs::create_dir(d.folder.path().join("real")).unwrap();
    let long = d.folder.path().to_path_buf();
    std::fs::set_permissions(&long, std::os::unix::fs::PermissionsExt::from_mode(0o500)).unwrap();
    let mut child =
        drainer::start(recorded(machine, &d, &program).arg("1000").stdout(Stdio::null()));
    assert!(child.wait().unwrap().success());
    let refused = d.control().refused.load(std::sync::atomic::Ordering::Acquire);
    std::fs::set_permissions(&long, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    // SAFETY: asks for a number. (Root writes where others may not.)
    if unsafe { libc::geteuid() } != 0 {
        assert_eq!(refused, 1);
    }
}

fn a_target_with_a_limit_on_file_sizes_is_refused_and_not_killed(machine: &Machine) {
    let d = start(machine, Options::default());
    let program = machine.compile(d.folder.path(), "loop.c", "loop", &[]);
    let script = format!("ulimit -f 64; exec '{}' 1000", program.display());
    let mut d = d;
    let status = d.drain_until_exit(
        &mut d.spawn(Command::new("sh").args(["-c", &script]).stdout(Stdio::null())),
    );
    assert!(status.success(), "{status}");
    let read =
        |value: &std::sync::atomic::AtomicU32| value.load(std::sync::atomic::Ordering::Acquire);
    let control = d.control();
    assert_eq!((read(&control.refused), read(&control.refused_errno)), (1, libc::EFBIG as u32));
}

/// The count lies where the program can write: a thread that took its ring's number from there
/// would share a ring, and wait for ever if the drainer empties that ring as another thread's.
fn a_number_of_rings_that_was_overwritten_gives_no_ring_twice(machine: &Machine) {
    let d = start(machine, Options { ring_bytes: 64 << 10, ..Options::default() });
    let program = machine.compile(d.folder.path(), "overwritten.c", "overwritten", &[]);
    let (_, images) = record(&mut recorded(machine, &d, &program), d);
    let of = |size| sized(&images[0], ALLOC, size).len();
    assert_eq!((of(701), of(702), images[0].rings), (40_000, 20_000, 3));
}

fn a_file_that_has_a_rings_name_is_left_as_it_is(machine: &Machine) {
    let mut d = start(machine, Options::default());
    let program = machine.compile(d.folder.path(), "overwritten.c", "overwritten", &[]);
    let mut child = drainer::start(recorded(machine, &d, &program).arg("taken"));
    let status = d.drain_until_exit(&mut child);
    assert!(status.success(), "{status}: the file was written over");
    let read =
        |value: &std::sync::atomic::AtomicU32| value.load(std::sync::atomic::Ordering::Acquire);
    let (refused, errno) = (read(&d.control().refused), read(&d.control().refused_errno));
    assert!(refused > 0 && errno == libc::EEXIST as u32, "{refused} times error {errno}");
    let image = &d.finish()[0];
    assert!(
        sized(image, ALLOC, 702).is_empty()
            && image.lost[LOST_NO_RING] >= 40_000
            && image.rings == 1,
        "{:?}",
        image.lost
    );
}

/// Nobody empties its ring although the drainer lives: the drainer marks the image's files as
/// unreadable.
fn a_target_whose_files_are_not_read_runs_on(machine: &Machine) {
    let d = start(machine, Options { ring_bytes: 64 << 10, ..Options::default() });
    let program = machine.compile(d.folder.path(), "loop.c", "loop", &[]);
    let mut child =
        drainer::start(recorded(machine, &d, &program).arg("100000").stdout(Stdio::null()));
    until_a_ring_is_full(&d, &mut child);
    std::fs::write(d.folder.path().join(format!("{}-0.unread", child.id())), "").unwrap();
    assert!(child.wait().unwrap().success());
    let image = &d.finish()[0];
    assert_eq!((image.state, image.cut_reason), (PROCESS_CUT, CUT_UNREAD));
    assert!(image.event_count > 1000 && image.event_count < 10000, "{}", image.event_count);
}

/// Modules beyond the room are counted, and the records before them are whole: readers take no more
/// than the header gives.
#[test]
fn records_that_are_full_end_with_a_whole_one() {
    let machine = crate::machine::own();
    let mut d = Drainer::with_preload(
        Options::default(),
        &machine.object(&["-DRECORDS_CAPACITY=(8u<<10)"]),
    );
    let folder = d.folder.path().to_path_buf();
    let program = machine.compile(&folder, "stacks.c", "stacks", &["-rdynamic"]);
    let library = machine.compile(&folder, "plugin.c", "plugin.so", &["-shared", "-fPIC"]);
    let copies: Vec<_> = (0..80).map(|copy| folder.join(format!("{copy}.so"))).collect();
    for copy in &copies {
        std::fs::copy(&library, copy).unwrap();
    }
    let mut child = drainer::start(
        recorded(machine, &d, &program).args(&copies).stdout(std::process::Stdio::null()),
    );
    assert!(d.drain_until_exit(&mut child).success());
    let image = &d.finish()[0];
    assert!(
        image.lost[LOST_RECORDS_FULL] > 0 && image.modules.len() > 20,
        "{} modules, lost {:?}",
        image.modules.len(),
        image.lost
    );
}
