//! `heaplab export` and `heaplab symbolize` as a user meets them: files, exit codes, messages.

use heaplab_trace::{
    Event, EventSink, EventSource, Op,
    bundle::{Bundle, BundleWriter, Meta},
    tables::{Arena, Frame, Mark, Module, Process, StackNode, Tables, Thread},
};
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

fn heaplab(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_heaplab"))
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A recording of two processes: `small` (pid 10) and `large` (pid 11), which has 2000 bytes at its
/// peak and 500 at its end; `loaded` is when it has 1500.
fn bundle(folder: &Path) -> PathBuf {
    bundle_of(folder, [10, 11])
}

/// The same where the two processes have these pids.
fn bundle_of(folder: &Path, pids: [u32; 2]) -> PathBuf {
    let process = |pid, name: &str| Process {
        pid,
        executable: format!("/usr/bin/{name}"),
        ..Process::default()
    };
    let thread = |process, tid| Thread { process, tid, name: String::new() };
    let node = |frame| StackNode { parent: 0, frame };
    let frame = |module, address| Frame { module, address, ..Frame::default() };
    // This program is the one module, so that there is something to symbolize.
    let path = std::env::current_exe().unwrap().to_str().unwrap().to_owned();
    let tables = Tables {
        stacks: vec![StackNode::default(), node(0), node(1)],
        frames: vec![frame(Some(0), own_address()), frame(None, 0x1234)],
        modules: vec![Module { path, size: 1 << 24, process: 1, ..Module::default() }],
        processes: vec![process(pids[0], "small"), process(pids[1], "large")],
        threads: vec![thread(0, 10), thread(1, 11)],
        arenas: vec![Arena::default()],
        marks: vec![Mark { name: "loaded".into(), time_ns: 4_000_000, process: None }],
        ..Tables::default()
    };
    let alloc = |process, object, size, stack| Event {
        op: Op::Alloc,
        process,
        thread: process,
        object,
        size,
        stack,
        ..Event::default()
    };
    let free = |object| Event { op: Op::Free, process: 1, thread: 1, object, ..Event::default() };
    let mut events = [
        alloc(0, 0, 100, 1),
        alloc(1, 1, 1000, 1),
        alloc(1, 2, 500, 2),
        free(1),
        alloc(1, 3, 1500, 1),
        free(3),
    ];
    events
        .iter_mut()
        .enumerate()
        .for_each(|(row, event)| event.time_ns = row as u64 * 1_000_000 + 1_000_000);
    let path = folder.join("two.heaplab");
    let mut writer = BundleWriter::create(&path).unwrap();
    events.iter().for_each(|event| writer.push(event).unwrap());
    writer.finish(&tables, Meta { program: "make".into(), ..Meta::default() }).unwrap();
    path
}

/// The return address of a call in this program, as its file numbers addresses.
fn own_address() -> u64 {
    let path = std::env::current_exe().unwrap();
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let first = maps.lines().find(|line| line.ends_with(path.to_str().unwrap())).unwrap();
    let bias = u64::from_str_radix(first.split('-').next().unwrap(), 16).unwrap();
    own_address as fn() -> u64 as usize as u64 - bias + 1
}

#[test]
fn the_largest_process_is_exported_unless_another_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    bundle(folder.path());
    let collapsed = |more: &[&str]| {
        let mut arguments = vec!["export", "two.heaplab", "--format", "collapsed", "-o", "-"];
        arguments.extend(more);
        let output = heaplab(folder.path(), &arguments);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let weights = text(&output.stdout)
            .lines()
            .map(|line| line.rsplit_once(' ').unwrap().1.parse().unwrap())
            .collect::<Vec<u64>>();
        weights.iter().sum::<u64>()
    };
    assert_eq!(collapsed(&[]), 2000);
    assert_eq!(collapsed(&["--at", "end"]), 500);
    assert_eq!(collapsed(&["--at", "3500us"]), 1500);
    assert_eq!(collapsed(&["--at", "loaded"]), 500);
    assert_eq!(collapsed(&["--process", "10"]), 100);
    assert_eq!(collapsed(&["--process", "small"]), 100);
    assert_eq!(collapsed(&["--process", "all"]), 2100);
    assert_eq!(collapsed(&["--weight", "allocated-bytes"]), 3000);
    assert_eq!(collapsed(&["--weight", "allocated-objects", "--process", "all"]), 4);
}

#[test]
fn a_pid_of_two_programs_is_refused_with_what_can_be_chosen() {
    let folder = tempfile::tempdir().unwrap();
    bundle_of(folder.path(), [10, 10]);
    for command in [
        &["report", "two.heaplab"][..],
        &["replay", "two.heaplab"],
        &["export", "two.heaplab", "--format", "collapsed", "-o", "-"],
    ] {
        let output = heaplab(folder.path(), &[command, &["--process", "10"]].concat());
        let error = text(&output.stderr);
        assert!(
            !output.status.success() && error.contains("choose one of: 10#1 small, 10#2 large"),
            "{command:?}: {error}"
        );
    }
    let report = |process: &[&str]| {
        let output = heaplab(folder.path(), &[&["report", "two.heaplab"], process].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let largest = report(&[]);
    assert!(
        largest.contains("pid 10#2, /usr/bin/large")
            && largest.contains("others: 10#1 small (peak 100 bytes)"),
        "{largest}"
    );
    assert!(report(&["--process", "10#1"]).contains("pid 10#1, /usr/bin/small"));
    assert!(report(&["--process", "10#2"]).contains("pid 10#2, /usr/bin/large"));
}

#[test]
fn every_format_is_written_to_a_file() {
    let folder = tempfile::tempdir().unwrap();
    bundle(folder.path());
    for format in ["pprof", "speedscope", "collapsed", "firefox", "dhat", "heapsnapshot"] {
        let output =
            heaplab(folder.path(), &["export", "two.heaplab", "--format", format, "-o", format]);
        assert!(
            output.status.success() && output.stdout.is_empty() && output.stderr.is_empty(),
            "{}",
            text(&output.stderr)
        );
        assert!(fs::metadata(folder.path().join(format)).unwrap().len() > 20);
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 7, "nothing else is left behind");
}

#[test]
fn misuse_is_exit_code_2_and_failure_1() {
    let folder = tempfile::tempdir().unwrap();
    bundle(folder.path());
    let run = |more: &[&str]| {
        let output = heaplab(folder.path(), &[&["export"], more].concat());
        (output.status.code(), text(&output.stderr))
    };
    let (code, message) = run(&["two.heaplab", "--format", "dhat", "--at", "loaded", "-o", "x"]);
    assert!(code == Some(2) && message.contains("no other moment"), "{message}");
    let (code, message) =
        run(&["two.heaplab", "--format", "pprof", "--weight", "allocated-bytes", "-o", "x"]);
    assert!(code == Some(2) && message.contains("collapsed"), "{message}");
    let (code, message) =
        run(&["two.heaplab", "--format", "heapsnapshot", "--weight", "allocated-bytes", "-o", "x"]);
    assert!(code == Some(2) && message.contains("each block"), "{message}");
    assert_eq!(run(&["two.heaplab", "--format", "svg", "-o", "x"]).0, Some(2));
    let (code, message) =
        run(&["two.heaplab", "--format", "dhat", "--process", "medium", "-o", "x"]);
    assert!(code == Some(2) && message.contains("10 small, 11 large"), "{message}");
    let (code, message) = run(&["two.heaplab", "--format", "pprof", "--at", "soon", "-o", "x"]);
    assert!(code == Some(2) && message.contains("the marks are: loaded"), "{message}");
    assert_eq!(run(&["absent.heaplab", "--format", "dhat", "-o", "x"]).0, Some(1));
    assert_eq!(run(&["two.heaplab", "--format", "dhat", "-o", "absent/x"]).0, Some(1));
    assert_eq!(run(&["two.heaplab", "--format", "dhat", "-o", "."]).0, Some(1));
    assert!(!folder.path().join("x").exists());
}

#[test]
fn symbolize_names_frames_in_the_bundle_and_says_how_many() {
    let folder = tempfile::tempdir().unwrap();
    let path = bundle(folder.path());
    let output = heaplab(folder.path(), &["symbolize", "two.heaplab", "--json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&report["modules"][0]["frames"], &report["modules"][0]["functions"]),
        (&1.into(), &1.into())
    );
    let named = Bundle::open(&path).unwrap();
    let names: Vec<String> =
        named.tables().frames_of(1).map(|frame| named.tables().frame_label(frame)).collect();
    assert!(names.iter().any(|name| name.ends_with("own_address")), "{names:?}");
    // Again, as text; what was found stays.
    let output = heaplab(folder.path(), &["symbolize", "two.heaplab"]);
    assert!(
        text(&output.stdout)
            .starts_with("  frames functions    lines  inlined  module\n       1         1"),
        "{}",
        text(&output.stdout)
    );
    assert_eq!(Bundle::open(&path).unwrap().tables(), named.tables());
    assert_eq!(heaplab(folder.path(), &["symbolize", "absent.heaplab"]).status.code(), Some(1));
}

/// Whoever reads the output may have seen enough (`| head`), and nobody may read the errors:
/// neither is a failure, let alone a panic.
#[test]
fn closed_pipes_end_a_command_quietly() {
    let folder = tempfile::tempdir().unwrap();
    bundle(folder.path());
    let closed = || std::io::pipe().unwrap().1;
    let commands: [&[&str]; 9] = [
        &["report", "two.heaplab"],
        &["report", "two.heaplab", "--json"],
        &["export", "two.heaplab", "--format", "collapsed", "--output", "-"],
        &["export", "two.heaplab", "--format", "pprof", "--output", "-"],
        &["export", "two.heaplab", "--format", "heapsnapshot", "--output", "-"],
        &["symbolize", "two.heaplab"],
        &["heaps"],
        &["heaps", "--json"],
        &["replay", "two.heaplab", "--on", "glibc", "--space"],
    ];
    for arguments in commands {
        let mut command = Command::new(env!("CARGO_BIN_EXE_heaplab"));
        let out =
            command.args(arguments).current_dir(folder.path()).stdout(closed()).output().unwrap();
        assert_eq!(
            (out.status.code(), text(&out.stderr)),
            (Some(0), String::new()),
            "{arguments:?}"
        );
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_heaplab"));
    let status = command
        .args(["report", "missing.heaplab"])
        .current_dir(folder.path())
        .stdout(closed())
        .stderr(closed())
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(1));
}

#[test]
fn an_import_says_what_it_read_and_makes_up_no_time() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("trace.txt"), "1: malloc 0x10 20\n").unwrap();
    let out = heaplab(folder.path(), &["import", "trace.txt", "-o", "one.heaplab"]);
    assert_eq!(
        text(&out.stdout),
        "one.heaplab: 1 event, 1 object, 1 process, 1 thread\n  the trace has no time stamps\n"
    );
    let report = text(&heaplab(folder.path(), &["report", "one.heaplab"]).stdout);
    assert!(
        report.contains("peak 20 bytes in 1 object at event 0,")
            && report.contains("· 1 event · no stacks ·"),
        "{report}"
    );
    fs::write(folder.path().join("trace.txt"), "1: malloc 0x10 18446744073709551615\n").unwrap();
    let out = heaplab(folder.path(), &["import", "trace.txt", "-o", "huge.heaplab"]);
    assert_eq!(out.status.code(), Some(1));
    assert!(text(&out.stderr).starts_with("heaplab: trace.txt: line 1: "), "{}", text(&out.stderr));
    assert!(!folder.path().join("huge.heaplab").exists());
}

/// A memtrace file is read by whole packets, so that its first one may be all that is left of it.
#[test]
fn a_trace_that_is_cut_before_its_first_event_is_said_to_be() {
    let folder = tempfile::tempdir().unwrap();
    let whole = concat!(env!("CARGO_MANIFEST_DIR"), "/../trace/tests/data/memtrace-profile.ctf");
    let whole = fs::read(whole).unwrap();
    for (length, said) in [
        (100, "expected memtrace's first packet, found a file that was cut"),
        (300, "app.ctf: cut before its first event, in a packet that ends behind byte 238;"),
    ] {
        fs::write(folder.path().join("app.ctf"), &whole[..length]).unwrap();
        let out = heaplab(folder.path(), &["import", "app.ctf", "-o", "app.heaplab"]);
        assert_eq!(out.status.code(), Some(1));
        assert!(text(&out.stderr).contains(said), "{}", text(&out.stderr));
        assert!(!folder.path().join("app.heaplab").exists());
    }
}

#[test]
fn an_import_replaces_a_bundle_only_where_force_asks_for_that() {
    let folder = tempfile::tempdir().unwrap();
    let import = |trace: &str, options: &[&str]| {
        fs::write(folder.path().join("trace.txt"), trace).unwrap();
        let words = [&["import", "trace.txt", "-o", "one.heaplab"], options].concat();
        heaplab(folder.path(), &words)
    };
    let holds = |events: &str| {
        let report = text(&heaplab(folder.path(), &["report", "one.heaplab"]).stdout);
        assert!(report.contains(&format!("· {events} ·")), "{report}");
    };
    let (one, two) = ("1: malloc 0x10 20\n", "1: malloc 0x10 20\n1: malloc 0x40 20\n");
    assert!(import(one, &[]).status.success());
    let refused = import(two, &[]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("one.heaplab"), "{}", text(&refused.stderr));
    holds("1 event");
    // A trace that cannot be read leaves the earlier bundle as it was.
    assert_eq!(import("nonsense\n", &["--force"]).status.code(), Some(1));
    holds("1 event");
    assert!(import(two, &["--force"]).status.success());
    holds("2 events");
}

/// A bundle of this trace, which lies in the folder.
fn imported(folder: &Path, name: &str) -> Output {
    heaplab(folder, &["import", &format!("{name}.trace"), "-o", &format!("{name}.heaplab")])
}

#[test]
fn a_metaspaces_workload_goes_out_and_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let trace = "#metaspace-trace 1 dt_us op args\n5 b 0 n 0\n0 b 1 c 0\n2 b 2 m 1\n0 a 2 10 7\n1 a 0 3 -1\n0 x 1 99\n1 d 2 10 0\n0 k 2\n3 p\n";
    let kinds = "arena,clms,space,kind\n0,0,n,boot\n1,0,c,boot\n2,1,n,hidden\n";
    fs::write(at("one.trace"), trace).unwrap();
    fs::write(at("one.arenas.csv"), kinds).unwrap();
    assert!(imported(folder.path(), "one").status.success());
    let export = |more: &[&str]| {
        heaplab(
            folder.path(),
            &[&["export", "one.heaplab", "--format", "metaspace-trace"], more].concat(),
        )
    };
    let output = export(&["-o", "two.trace"]);
    assert!(output.status.success() && output.stderr.is_empty(), "{}", text(&output.stderr));
    // What the table says of an arena is not said in the trace, too.
    assert_eq!(fs::read_to_string(at("two.trace")).unwrap(), trace.replace("b 2 m 1", "b 2 n 1"));
    assert_eq!(fs::read_to_string(at("two.arenas.csv")).unwrap(), kinds);
    assert!(imported(folder.path(), "two").status.success());
    let read = |name: &str| {
        let bundle = Bundle::open(&at(name)).unwrap();
        let mut events: Vec<Event> = Vec::new();
        let mut all = bundle.events(heaplab_trace::bundle::Selection::default()).unwrap();
        all.for_each(|event| EventSink::push(&mut events, event)).unwrap();
        (events, bundle.tables().arenas.clone(), bundle.tables().frames.clone())
    };
    assert_eq!(read("two.heaplab"), read("one.heaplab"));
    let output = export(&["-o", "-"]);
    assert!(
        text(&output.stderr).contains("kinds of loaders are left out"),
        "{}",
        text(&output.stderr)
    );
    assert!(text(&output.stdout).ends_with("3 p\n"));
    for (more, expected) in [
        (["--at", "end"], "the whole workload"),
        (["--weight", "allocated-bytes"], "the whole workload"),
    ] {
        let output = export(&[&["-o", "bad.trace"][..], &more].concat());
        assert!(
            output.status.code() == Some(2) && text(&output.stderr).contains(expected),
            "{}",
            text(&output.stderr)
        );
    }
    let of_malloc = |process: &str| {
        let output = heaplab(
            folder.path(),
            &[
                "export",
                "two.heaplab",
                "--process",
                process,
                "--format",
                "metaspace-trace",
                "-o",
                "bad.trace",
            ],
        );
        (output.status.code(), text(&output.stderr))
    };
    fs::remove_dir_all(at("two.heaplab")).unwrap();
    bundle(folder.path());
    let (code, said) = of_malloc("large");
    assert!(
        code == Some(1)
            && said.contains("event 1: expected an arena that was born")
            && said.contains("only the workload of a metaspace"),
        "{said}"
    );
    let (code, said) = of_malloc("all");
    assert!(code == Some(2) && said.contains("of one process"), "{said}");
    assert!(!at("bad.trace").exists() && !at("bad.arenas.csv").exists());
}
