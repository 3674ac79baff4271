//! `heaplab about` and `heaplab pressure` as a user types them, against `examples/reporters`: live,
//! from files, and from a recording with `--dmd`. docs/exit-codes.md has the codes.

use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// The example, built as `cargo run -p reporters` builds it.
fn example() -> PathBuf {
    let built = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--package", "reporters", "--message-format", "json"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let messages = String::from_utf8(built.stdout).unwrap();
    let executable = messages.lines().find_map(|line| {
        let message: Value = serde_json::from_str(line).ok()?;
        let is_example = message["target"]["name"] == "reporters";
        is_example.then(|| message["executable"].as_str().map(PathBuf::from)).flatten()
    });
    executable.expect("cargo names the program")
}

/// The example while it runs; it ends with its standard input.
struct Running {
    child: Child,
    pid: String,
}

impl Running {
    fn start(command: &mut Command) -> Running {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = lines.next().expect("the example says how to ask it").unwrap();
        let pid = line.strip_prefix("heaplab about ").expect("a process").to_owned();
        // What it says at its end goes into the pipe, which stays open.
        std::thread::spawn(move || lines.count());
        Running { child, pid }
    }

    fn signal(&self, name: &str) {
        assert!(Command::new("kill").args([name, &self.pid]).status().unwrap().success());
    }

    fn end(mut self) {
        drop(self.child.stdin.take());
        assert!(self.child.wait().unwrap().success());
    }
}

fn heaplab(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_heaplab"));
    command.args(arguments).current_dir(folder).env_remove("COLUMNS").output().unwrap()
}

/// What a command prints that succeeds; text fits a terminal.
fn printed(folder: &Path, arguments: &[&str]) -> String {
    let output = heaplab(folder, arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    if !arguments.contains(&"--json") {
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{arguments:?}: {line}");
        }
    }
    text
}

fn json(folder: &Path, arguments: &[&str]) -> Value {
    serde_json::from_str(&printed(folder, arguments)).unwrap()
}

#[track_caller]
fn fails(folder: &Path, arguments: &[&str], code: i32, words: &str) {
    let output = heaplab(folder, arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.code() == Some(code) && said.contains(words),
        "{arguments:?} ended with {:?}: {said}",
        output.status.code()
    );
}

fn child<'a>(node: &'a Value, name: &str) -> &'a Value {
    let children = node["children"].as_array().unwrap();
    children.iter().find(|child| child["name"] == name).unwrap_or_else(|| panic!("{name}: {node}"))
}

#[test]
fn a_running_program_is_asked_saved_compared_and_pressed() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let running = Running::start(&mut Command::new(example()));
    let pid = running.pid.as_str();

    let text = printed(here, &["about", pid]);
    for words in ["Explicit allocations", "├─store", "heap-unclassified", "cached-pages"] {
        assert!(text.contains(words), "{text}");
    }
    let model = json(here, &["about", pid, "--json"]);
    let explicit = &model["processes"][0]["explicit"];
    let amount = |node: &Value| node["amount"].as_i64().unwrap();
    // Each child's bytes stand once, and all are what the allocator has given out.
    let sum: i64 = explicit["children"].as_array().unwrap().iter().map(amount).sum();
    assert_eq!(sum, amount(explicit));
    assert_eq!(sum, model["processes"][0]["heap_allocated"]);
    // 200 pages of 16 KiB; glibc's blocks have 8 bytes more, and the table has its own.
    let cache = amount(child(child(explicit, "store"), "cache"));
    assert!((200 * (16 << 10)..200 * (17 << 10)).contains(&cache), "{cache}");
    // The eight blocks that no reporter names, less the journal that two name.
    let journal = amount(child(child(explicit, "store"), "journal"));
    assert_eq!(journal, amount(child(child(explicit, "log"), "lines")));
    let rest = amount(child(explicit, "heap-unclassified"));
    assert!((800_000 - journal..900_000).contains(&rest), "{rest}");

    for file in ["before.json", "packed.json.gz"] {
        assert_eq!(printed(here, &["about", pid, "--save", file]), "");
        assert!(printed(here, &["about", file]).contains("├─store"));
    }
    assert!(std::fs::read(here.join("packed.json.gz")).unwrap().starts_with(&[0x1f, 0x8b]));
    let page = heaplab(here, &["about", "before.json", "--html", "-"]).stdout;
    let page = String::from_utf8(page).unwrap();
    assert!(page.contains("Explicit allocations") && page.contains("heap-unclassified"), "{page}");

    let output = heaplab(here, &["pressure", pid, "--json"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("1 callback ran"));
    let change: Value = serde_json::from_slice(&output.stdout).unwrap();
    let dropped = amount(child(child(&change["processes"][0]["explicit"], "store"), "cache"));
    assert_eq!(dropped, -cache, "the cache is gone, and nothing else of the store");
    let change = json(here, &["about", pid, "--diff", "before.json", "--json"]);
    assert_eq!(change["is_difference"], true);
    let explicit = &change["processes"][0]["explicit"];
    assert_eq!(amount(child(child(explicit, "store"), "cache")), -cache);
    assert!(printed(here, &["about", pid, "--diff", "before.json"]).contains("-3.13 MiB"));
    assert_eq!(
        printed(here, &["about", "before.json", "--diff", "before.json"]).trim(),
        "Nothing differs."
    );
    let two = json(here, &["about", pid, "--readings", "2", "--every", "0.01", "--json"]);
    assert_eq!(two["readings"], 2);

    marks_are_phases(here, pid, cache);
    another_user_is_not_answered(pid);
    let gone = running.pid.clone();
    running.end();
    fails(here, &["about", &gone], 1, "there is no process");
    fails(here, &["pressure", &gone], 1, "there is no process");
}

/// The example has set a mark when its cache was full; the cache is empty now.
fn marks_are_phases(here: &Path, pid: &str, cache: i64) {
    let cache_of = |model: &Value| {
        let explicit = &model["processes"][0]["explicit"];
        child(child(explicit, "store"), "cache")["amount"].as_i64().unwrap()
    };
    let then = json(here, &["about", pid, "--at", "loaded", "--json"]);
    assert_eq!(cache_of(&then), cache);
    assert_eq!(then["marks"][0]["name"], "loaded");
    assert!(then["marks"][0]["seconds_ago"].as_f64().unwrap() > 0.0);
    let since = json(here, &["about", pid, "--since", "loaded", "--json"]);
    assert_eq!((cache_of(&since), &since["is_difference"]), (-cache, &Value::Bool(true)));
    let now = json(here, &["about", pid, "--json"]);
    let marks = child(&now["processes"][0]["explicit"], "heaplab");
    assert!(marks["amount"].as_i64().unwrap() > 0, "{marks}");
    assert!(printed(here, &["about", pid]).contains("Marks for --at and --since: loaded ("));
    fails(here, &["about", pid, "--at", "warm"], 1, "no mark is called warm; it has loaded");
    fails(here, &["about", "before.json", "--at", "loaded"], 2, "a file has no marks");
}

/// As root, the test can be another user: `/proc` may hide the process from this user.
fn another_user_is_not_answered(pid: &str) {
    use std::os::unix::process::CommandExt;
    if std::fs::read_dir("/proc/1/fd").is_err() {
        eprintln!("skipped: only root can be another user");
        return;
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_heaplab"));
    let Ok(output) = command.args(["about", pid]).uid(65534).gid(65534).current_dir("/").output()
    else {
        eprintln!("skipped: another user may not run this build of heaplab");
        return;
    };
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("belongs to user") || said.contains("there is no process"), "{said}");
    assert!(output.stdout.is_empty());
}

#[test]
fn what_cannot_be_shown_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let own = std::process::id().to_string();
    fails(here, &["about", &own], 1, "has no memory reporters");
    fails(here, &["pressure", &own], 1, "has no memory reporters");
    fails(here, &["about", "nothing.json"], 1, "nothing.json");
    let whole = r#"{"version":1,"hasMozMallocUsableSize":true,"reports":[]}"#;
    std::fs::write(here.join("whole.json"), whole).unwrap();
    std::fs::write(here.join("cut.json"), &whole[..30]).unwrap();
    std::fs::write(here.join("cut.json.gz"), b"\x1f\x8b\x08\x00\x00").unwrap();
    std::fs::write(here.join("new.json"), whole.replace(":1", ":9")).unwrap();
    assert!(printed(here, &["about", "whole.json"]).contains("There are no reports."));
    fails(here, &["about", "cut.json"], 1, "cut.json: these are no memory reports");
    fails(here, &["about", "cut.json.gz"], 1, "the compressed reports are damaged");
    fails(here, &["about", "new.json"], 1, "the version is 9");
    fails(here, &["about", "whole.json", "--diff", "cut.json"], 1, "cut.json");
    fails(here, &["about", "whole.json", "--live"], 2, "a file is one reading");
    fails(here, &["about", "whole.json", "--timeout", "0"], 2, "seconds from 0.01");
    fails(here, &["about", "whole.json", "--html", "cut.json"], 1, "is no page of heaplab");
    fails(here, &["about", "whole.json", "--save", "no/x.json"], 1, "no/x.json");
    fails(here, &["pressure", "whole.json"], 2, "invalid value");
    assert!(!here.join("no").exists());
}

#[test]
fn a_recording_shows_who_names_no_block_and_who_names_one_twice() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let mut record = Command::new(env!("CARGO_BIN_EXE_heaplab"));
    record.args(["record", "--dmd", "-o", "app.heaplab", "--"]).arg(example()).current_dir(here);
    let running = Running::start(record.stderr(Stdio::null()));
    printed(here, &["about", &running.pid]);
    running.end();

    let text = printed(here, &["about", "app.heaplab"]);
    assert!(text.starts_with("Dark matter of reporters (pid "), "{text}");
    for words in ["Reported twice or more", "Unreported", "Reported once", "reporters::report"] {
        assert!(text.contains(words), "{text}");
    }
    let found = json(here, &["about", "app.heaplab", "--json"]);
    let bytes = |list: &str| found[list]["blocks"]["usable_bytes"].as_u64().unwrap();
    let sum = bytes("unreported") + bytes("once") + bytes("twice");
    assert_eq!(found["live"]["usable_bytes"], sum, "each live block stands in one list");
    assert_eq!((&found["is_whole"], &found["set_aside"]), (&true.into(), &0.into()));
    // The journal: 200 lines and the block of the vector, named by its author and by the log's.
    assert_eq!(found["twice"]["blocks"]["count"], 201);
    let first = |list: &str| found[list]["groups"][0].clone();
    assert_eq!(first("twice")["reported_at"].as_array().unwrap().len(), 2);
    assert_eq!(first("once")["blocks"]["count"], 200, "the pages");
    let reported_at = first("once")["reported_at"][0].to_string();
    assert!(reported_at.contains("reporters::report"), "{reported_at}");
    assert!(!reported_at.contains("run_all"), "the library's own: {reported_at}");
    // vec![block; 8]: the block, its seven copies and the vector.
    assert_eq!(first("unreported")["blocks"]["count"], 9);
    for list in ["unreported", "once", "twice"] {
        let stack = first(list)["allocated_at"].to_string();
        assert!(stack.contains("reporters::Store::filled"), "{list}: {stack}");
        // What is the library's own is left out, so that the cause is among the frames shown.
        let text = first(list)["allocated_at"][0].as_str().unwrap().to_owned();
        assert!(text.starts_with("reporters::Store::filled"), "{list}: {text}");
    }
    let report = printed(here, &["report", "app.heaplab"]);
    for words in ["Dark matter: what memory reporters name", "Unreported: ", "Reported once: "] {
        assert!(report.contains(words), "{report}");
    }
    assert_eq!(json(here, &["report", "app.heaplab", "--json"])["dark_matter"], found);
    let page = heaplab(here, &["report", "app.heaplab", "--html", "-"]).stdout;
    let page = String::from_utf8(page).unwrap();
    let page = page.split(r#""dark_matter":{"#).nth(1).expect("the page has the lists");
    for words in [r#""name":"Unreported""#, r#""blocks":201"#] {
        assert!(page.contains(words), "{words}");
    }
    let same = json(here, &["about", "app.heaplab", "--diff", "app.heaplab", "--json"]);
    assert_eq!(
        (&same["live"]["count"], &same["once"]["groups"]),
        (&0.into(), &Value::Array(vec![]))
    );
    fails(here, &["about", "app.heaplab", "--save", "it.json"], 2, "shown as text or with --json");
    fails(here, &["about", "app.heaplab", "--diff", "1"], 2, "expected a recording, because");
    let plain = heaplab(here, &["record", "-o", "plain.heaplab", "--", "ls"]);
    assert!(plain.status.success());
    fails(here, &["about", "plain.heaplab"], 1, "heaplab record --dmd");
    assert!(json(here, &["report", "plain.heaplab", "--json"]).get("dark_matter").is_none());
}

/// Two stacks that differ only far out are one group, as in DMD's output, and its functions that
/// allocate are not named as the cause.
#[test]
fn a_file_of_firefoxs_dmd_is_listed_as_dmd_lists_it() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let frames = (0..9).map(|at| format!(r##""F{at}": "#00: f{at}(int) (F.cpp:{at}1)""##));
    let frames = frames.collect::<Vec<_>>().join(", ");
    let within = (0..8).map(|at| format!(r#""F{at}""#)).collect::<Vec<_>>().join(", ");
    let file = format!(
        r##"{{"version": 4,
 "invocation": {{"dmdEnvVar": "1", "mode": "dark-matter", "sampleBelowSize": 1000}},
 "blockList": [{{"req": 4000, "slop": 96, "alloc": "A"}}, {{"alloc": "B", "num": 2}},
  {{"req": 50, "slop": 14, "alloc": "A", "reps": ["R"]}}],
 "traceTable": {{"A": ["M", "X", {within}], "B": ["M", "X", {within}, "F8"], "R": ["F8"]}},
 "frameTable": {{"M": "#00: replace_malloc (DMD.cpp:1)", "X": "#00: moz_xmalloc[libmozglue.so +0x9]",
  {frames}}}
}}"##
    );
    std::fs::write(here.join("dmd.json"), &file).unwrap();
    let said = printed(here, &["import", "dmd.json", "-o", "dmd.heaplab"]);
    assert!(said.contains("2 sampled blocks of 1000 bytes, by DMD's estimate"), "{said}");
    let unreported = |more: &[&str]| {
        let found = json(here, &[&["about", "dmd.heaplab", "--json"], more].concat());
        assert_eq!(found["unreported"]["blocks"]["usable_bytes"], 6096);
        assert_eq!(found["once"]["blocks"]["slop_bytes"], 14);
        let groups = found["unreported"]["groups"].as_array().unwrap().clone();
        groups.iter().map(|group| group["allocated_at"].as_array().unwrap().len()).collect()
    };
    let depths: [Vec<usize>; 2] = [unreported(&[]), unreported(&["--frames", "8"])];
    assert_eq!(depths, [vec![8, 9], vec![8]]);
    let text = printed(here, &["about", "dmd.heaplab"]);
    assert!(text.starts_with("Dark matter of dmd.json\n"), "{text}");
    let list = text.split("Unreported: ").nth(1).and_then(|rest| rest.split("Reported").next());
    let list = list.unwrap_or_default();
    assert!(list.contains("in 3 blocks (100 %)") && list.contains("f0(int) (F.cpp:1)"), "{text}");
    assert!(!list.contains("malloc") && list.matches("allocated at").count() == 1, "{text}");
    let whole = printed(here, &["about", "dmd.heaplab", "--frames", "9"]);
    assert!(whole.contains("f8(int) (F.cpp:81)"), "{whole}");
    fails(here, &["about", "dmd.json", "--frames", "9"], 2, "need a recording");
    fails(here, &["about", "dmd.json", "--sort-by", "slop"], 2, "need a recording");
    // As dmd.py: a file without reports, and what changed since another.
    let without = file.replace(r#", "reps": ["R"]"#, "").replace(r#""num": 2"#, r#""num": 3"#);
    std::fs::write(here.join("without.json"), without).unwrap();
    assert!(heaplab(here, &["import", "without.json", "-o", "without.heaplab"]).status.success());
    let text = printed(here, &["about", "without.heaplab"]);
    assert!(text.contains("Unreported: 6.99 KiB in 5 blocks (100 % of live bytes)"), "{text}");
    let args = ["about", "without.heaplab", "--diff", "dmd.heaplab", "--sort-by", "num-blocks"];
    let text = printed(here, &args);
    for line in [
        "Changes since dmd.heaplab: +1000 bytes in +1 block live.",
        "Unreported: +1.04 KiB in +2 blocks",
        "Reported once: -64 bytes in -1 block",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    fails(here, &["about", "dmd.heaplab", "--frames", "0"], 2, "invalid value");
}

/// The program is stopped, so that the question waits in its socket, and then killed.
#[test]
fn a_program_that_dies_while_it_is_asked_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let mut running = Running::start(&mut Command::new(example()));
    running.signal("-STOP");
    let mut asking = Command::new(env!("CARGO_BIN_EXE_heaplab"));
    asking.args(["about", &running.pid, "--save", "it.json"]).current_dir(folder.path());
    let asking = asking.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Whether the question has come or comes too late, there is no answer.
    std::thread::sleep(std::time::Duration::from_millis(300));
    running.signal("-KILL");
    running.child.wait().unwrap();
    let output = asking.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains(&format!("process {}", running.pid)), "{said}");
    assert!(!folder.path().join("it.json").exists(), "no half of a file");
}
