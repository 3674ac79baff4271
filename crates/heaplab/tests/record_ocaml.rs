//! `heaplab record --ocaml` on real OCaml programs, compiled here with the recorder of `ocaml/`:
//! what is exact, threads, forks, signals, and deaths found by forced collections.

use heaplab_trace::bundle::{Bundle, Selection};
use heaplab_trace::tables::Ended;
use heaplab_trace::{Event, EventSource, Op};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const STRCACHE: &str = include_str!("data/strcache.ml");
/// Four threads that allocate and give each other turns.
const THREADS: &str = "
let work seed () =
  let keep = Array.make 100 \"\" in
  let state = ref seed in
  for _ = 1 to 5_000 do
    state := (!state * 1103515245 + 12345) land 0x3fffffff;
    keep.(!state mod 100) <- String.make (1 + !state mod 500) 'x';
    if !state mod 50 = 0 then Thread.yield ()
  done
let () = List.iter Thread.join (List.init 4 (fun seed -> Thread.create (work seed) ()))
";
/// A fork that allocates more than its parent, and then the parent, which ends with status 7.
const FORK: &str = "
let keep = Array.make 100 \"\"
let work n = for i = 1 to n do keep.(i mod 100) <- String.make (i mod 300 + 1) 'x' done
let () =
  work 1_000;
  match Unix.fork () with
  | 0 -> work 50_000
  | child -> ignore (Unix.waitpid [] child); work 1_000; exit 7
";
/// Allocates, and then kills itself.
const KILLED: &str = "
let keep = Array.make 100 \"\"
let () =
  for i = 1 to 20_000 do keep.(i mod 100) <- String.make (i mod 300 + 1) 'x' done;
  Unix.kill (Unix.getpid ()) Sys.sigterm;
  while true do Unix.sleep 1 done
";

/// A folder with one program in it; nothing where OCaml 4 is not installed and need not be.
struct Built {
    folder: tempfile::TempDir,
}

impl Built {
    fn new(source: &str) -> Option<Built> {
        let version = Command::new("ocamlopt").arg("-version").output();
        let is_known = version.is_ok_and(|output| output.stdout.starts_with(b"4."));
        if !is_known {
            heaplab_oracle::skip("OCaml 4 is not installed");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let recorder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ocaml");
        for name in
            ["src/heaplab_stubs.c", "src/heaplab.mli", "src/heaplab.ml", "auto/heaplab_auto.ml"]
        {
            let from = recorder.join(name);
            std::fs::copy(&from, folder.path().join(from.file_name().unwrap())).unwrap();
        }
        std::fs::write(folder.path().join("program.ml"), source).unwrap();
        let built = Built { folder };
        built.compile(&[]);
        Some(built)
    }

    /// Compiles the program and the recorder, behind other modules.
    fn compile(&self, before: &[&str]) {
        let libraries = ["-I", "+threads", "unix.cmxa", "threads.cmxa"];
        let recorder = ["heaplab_stubs.c", "heaplab.mli", "heaplab.ml", "heaplab_auto.ml"];
        let output = Command::new("ocamlopt")
            .current_dir(self.folder.path())
            .args(libraries)
            .args(before)
            .args(recorder)
            .args(["program.ml", "-o", "program"])
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    fn program(&self) -> PathBuf {
        self.folder.path().join("program")
    }

    fn record(&self, options: &[&str], arguments: &[&str]) -> (Output, PathBuf) {
        let bundle = self.folder.path().join("recorded.heaplab");
        let output = Command::new(env!("CARGO_BIN_EXE_heaplab"))
            .args(["record", "--ocaml", "--force", "-o"])
            .arg(&bundle)
            .args(options)
            .arg("--")
            .arg(self.program())
            .args(arguments)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        (output, bundle)
    }
}

/// All events of a recording, which is whole.
fn events(bundle: &Bundle) -> Vec<Event> {
    bundle.verify().unwrap();
    let (mut all, mut batch) = (Vec::new(), Vec::new());
    let mut source = bundle.events(Selection::default()).unwrap();
    loop {
        source.next_batch(&mut batch).unwrap();
        if batch.is_empty() {
            return all;
        }
        all.extend_from_slice(&batch);
    }
}

fn count(events: &[Event], op: Op) -> usize {
    events.iter().filter(|event| event.op == op).count()
}

#[test]
fn a_recording_has_what_the_runtime_counts() {
    let Some(built) = Built::new(STRCACHE) else { return };
    // What the runtime counts of the program alone.
    let alone = Command::new(built.program())
        .args(["500", "5000"])
        .env("OCAMLRUNPARAM", "v=0x400")
        .output()
        .unwrap();
    let counters = String::from_utf8(alone.stderr).unwrap();
    let minor_words = counters.lines().find_map(|line| line.strip_prefix("minor_words: "));
    let minor_words: f64 = minor_words.expect("the runtime's counters").trim().parse().unwrap();
    let (output, path) = built.record(&[], &["500", "5000"]);
    assert!(output.status.success(), "{output:?}");
    let bundle = Bundle::open(&path).unwrap();
    let events = events(&bundle);
    let births = events.iter().filter(|event| event.op == Op::Alloc);
    let young = births.filter(|event| event.size <= 256 * 8);
    let words: u64 = young.map(|event| event.size / 8 + 1).sum();
    // OCaml's own modules begin before the recorder does.
    let missed = minor_words - words as f64;
    assert!((0.0..1000.0).contains(&missed), "{minor_words} words, {words} recorded");
    assert!(events.is_sorted_by_key(|event| event.time_ns) && events[events.len() - 1].time_ns > 0);
    let meta = bundle.meta();
    assert_eq!((meta.cut.as_deref(), meta.granularity_bytes), (None, 0));
    assert!(meta.losses.iter().any(|loss| loss.contains("OCAMLRUNPARAM=s=")), "{:?}", meta.losses);
    assert_eq!(bundle.tables().processes[0].ended, Ended::Exited(0));
}

#[test]
fn forced_collections_find_the_dead_soon() {
    let Some(built) = Built::new(STRCACHE) else { return };
    let late = built.record(&[], &["500", "20000"]).1;
    let late = events(&Bundle::open(&late).unwrap());
    let (output, path) = built.record(&["--granularity", "1M"], &["500", "20000"]);
    assert!(output.status.success(), "{output:?}");
    let bundle = Bundle::open(&path).unwrap();
    assert_eq!(bundle.meta().granularity_bytes, 1 << 20);
    let soon = events(&bundle);
    assert_eq!(count(&soon, Op::Alloc), count(&late, Op::Alloc));
    // Between two collections 1 MiB is born at most, with headers and what the last birth adds.
    let bytes = |events: &[Event]| -> u64 {
        let (mut between, mut most, mut last) = (0, 0, 0);
        for event in events {
            if event.op == Op::Alloc {
                between += event.size + 8;
            } else if event.op == Op::Free && event.collection != last {
                (most, between, last) = (most.max(between), 0, event.collection);
            }
        }
        most
    };
    assert!(bytes(&soon) < (1 << 20) + (1 << 16), "{}", bytes(&soon));
    assert!(count(&soon, Op::Free) > count(&late, Op::Free));
}

#[test]
fn threads_are_recorded_and_forks_are_not() {
    let Some(built) = Built::new(THREADS) else { return };
    let (output, path) = built.record(&[], &[]);
    assert!(output.status.success(), "{output:?}");
    let all = events(&Bundle::open(&path).unwrap());
    let strings = all.iter().filter(|event| event.op == Op::Alloc && event.size <= 504);
    assert!(strings.count() >= 20_000);

    let built = Built::new(FORK).unwrap();
    let (output, path) = built.record(&[], &[]);
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    let bundle = Bundle::open(&path).unwrap();
    let births = count(&events(&bundle), Op::Alloc);
    assert!((2_000..3_000).contains(&births), "{births}");
    assert_eq!(bundle.tables().processes[0].ended, Ended::Exited(7));
}

#[test]
fn a_killed_program_leaves_what_it_did_until_then() {
    let Some(built) = Built::new(KILLED) else { return };
    let (output, path) = built.record(&[], &[]);
    assert_eq!(output.status.code(), Some(128 + 15), "{output:?}");
    let bundle = Bundle::open(&path).unwrap();
    assert!(bundle.meta().cut.as_deref().is_some_and(|cut| cut.contains("killed")));
    assert_eq!(bundle.tables().processes[0].ended, Ended::Signalled(15));
    // The last 4 KiB of the stream are lost, some 1,400 events.
    let births = count(&events(&bundle), Op::Alloc);
    assert!((18_000..=20_100).contains(&births), "{births}");
}

/// OCaml 5.0 to 5.2, whose `Gc.Memprof.start` fails: a module in place of Gc fails alike.
#[test]
fn without_memprof_the_program_runs_and_says_why_it_is_not_recorded() {
    let Some(built) = Built::new("let () = print_endline \"done\"") else { return };
    let module = "include Stdlib.Gc
        module Memprof = struct
          include Stdlib.Gc.Memprof
          let start ~sampling_rate:_ ?callstack_size:_ _ =
            failwith \"Gc.Memprof.start: not implemented in multicore\"
        end";
    std::fs::write(built.folder.path().join("gc.ml"), module).unwrap();
    built.compile(&["gc.ml"]);
    let (output, path) = built.record(&[], &[]);
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.stdout, b"done\n", "{error}");
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("heaplab: cannot record: OCaml 4."), "{error}");
    assert!(
        error.contains("not implemented in multicore; the recorder needs Gc.Memprof"),
        "{error}"
    );
    let left: Vec<_> = std::fs::read_dir(path.parent().unwrap()).unwrap().collect();
    let is_ours = |name: &str| name.contains("recorded.heaplab");
    assert!(!left.into_iter().any(|entry| is_ours(&entry.unwrap().file_name().to_string_lossy())));
}

/// What `ocaml/` publishes, built and installed by its dune files.
#[test]
fn dune_installs_the_recorder() {
    let Some(built) = Built::new("let () = print_newline ()") else { return };
    let (source, prefix) = (built.folder.path().join("source"), built.folder.path().join("prefix"));
    let recorder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ocaml");
    for folder in ["", "src", "auto"] {
        std::fs::create_dir_all(source.join(folder)).unwrap();
        for entry in std::fs::read_dir(recorder.join(folder)).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_file() {
                std::fs::copy(entry.path(), source.join(folder).join(entry.file_name())).unwrap();
            }
        }
    }
    let run = |name: &str, arguments: &[&str]| {
        let mut command = Command::new(name);
        command.current_dir(&source).args(arguments).env("HOME", built.folder.path()).output()
    };
    if run("dune", &["--version"]).is_err() {
        heaplab_oracle::skip("dune is not installed");
        return;
    }
    let succeeds = |name: &str, arguments: &[&str]| {
        let output = run(name, arguments).unwrap();
        assert!(output.status.success(), "{name} {arguments:?}: {output:?}");
    };
    succeeds("dune", &["build", "--root", ".", "@install"]);
    let prefix = prefix.to_str().unwrap();
    succeeds("dune", &["install", "--root", ".", "--prefix", prefix]);
    // As `ocamlfind ocamlopt -package heaplab.auto -linkpkg` calls it.
    let library = format!("{prefix}/lib/heaplab");
    let auto = format!("{library}/auto");
    let main = built.folder.path().join("program.ml");
    let (main, program) = (main.to_str().unwrap(), built.program());
    std::fs::write(main, STRCACHE).unwrap();
    let archives = ["heaplab.cmxa", "heaplab_auto.cmxa", main, "-o", program.to_str().unwrap()];
    succeeds("ocamlopt", &[&["-I", &library, "-I", &auto][..], &archives].concat());
    let (output, path) = built.record(&[], &["500", "5000"]);
    assert!(output.status.success(), "{output:?}");
    assert!(count(&events(&Bundle::open(&path).unwrap()), Op::Alloc) > 10_000);
}

#[test]
fn a_granularity_needs_a_heap_that_collects() {
    let output = Command::new(env!("CARGO_BIN_EXE_heaplab"))
        .args(["record", "--granularity", "1M", "--", "true"])
        .current_dir(std::env::temp_dir())
        .output()
        .unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(2) && error.contains("--node or --ocaml"), "{error}");
}
