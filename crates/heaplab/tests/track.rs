//! `heaplab track` on a small project with a real git history: a step, a commit that does not
//! build, one that hangs, an interruption.

use serde_json::Value;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

struct Project {
    folder: tempfile::TempDir,
}

const MAIN: &str = r#"
#include <stdlib.h>
#include <unistd.h>
#include "heaplab.h"
int main(void) {
    void *cache = malloc(CACHE), *page = malloc(100000);
    HEAPLAB_MARK("loaded");
    free(page);
    WAIT;
    HEAPLAB_MARK("closed");
    return cache == 0;
}
"#;

impl Project {
    /// A commit for each text; `CACHE` bytes stay, and `WAIT` is what it does in between.
    fn new(commits: &[&str]) -> Project {
        let project = Project { folder: tempfile::tempdir().unwrap() };
        fs::create_dir(project.path()).unwrap();
        project.git(&["init", "--quiet", "-b", "main"]);
        let header = project.heaplab(&["mark", "--header"]).stdout;
        fs::write(project.path().join("heaplab.h"), header).unwrap();
        fs::write(project.path().join("main.c"), MAIN).unwrap();
        for (at, flags) in commits.iter().enumerate() {
            fs::write(project.path().join("flags"), format!("{flags} -DAT={at}\n")).unwrap();
            project.git(&["add", "."]);
            project.git(&["commit", "--quiet", "-m", &format!("commit {at}: {flags}")]);
        }
        project
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("small")
    }

    fn store(&self) -> PathBuf {
        self.folder.path().join("small.track")
    }

    fn git(&self, arguments: &[&str]) -> String {
        let mut git = Command::new("git");
        for who in ["AUTHOR", "COMMITTER"] {
            git.env(format!("GIT_{who}_NAME"), "t").env(format!("GIT_{who}_EMAIL"), "t@t");
        }
        let output = git.arg("-C").arg(self.path()).args(arguments).output().expect("git");
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_heaplab"));
        command.args(arguments).current_dir(self.path()).env("COLUMNS", "100");
        command
    }

    fn heaplab(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    fn run_arguments<'a>(&self, range: &'a str, more: &[&'a str]) -> Vec<&'a str> {
        let build = "cc -g -o small main.c $(cat flags)";
        [&["track", "run", "--commits", range, "--build", build], more, &["--", "./small"]].concat()
    }

    fn run(&self, range: &str, more: &[&str]) -> Output {
        self.heaplab(&self.run_arguments(range, more))
    }

    fn history(&self) -> Value {
        let output = self.heaplab(&["track", "show", "--json"]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// The user's checkout is as it was, and no tree is left.
    fn is_untouched(&self) {
        assert_eq!(self.git(&["status", "--porcelain"]), "");
        assert_eq!(self.git(&["worktree", "list"]).lines().count(), 1);
        for left in fs::read_dir(self.store()).unwrap() {
            let name = left.unwrap().file_name().into_string().unwrap();
            assert!(name != "tree" && !name.starts_with("scratch-"), "{name} is left");
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn series<'a>(history: &'a Value, phase: &str, figure: &str) -> &'a Value {
    let all = history["series"].as_array().unwrap();
    all.iter().find(|series| series["phase"] == phase && series["figure"] == figure).unwrap()
}

const SMALL: &str = "-DCACHE=65536 -DWAIT=0";
const LARGE: &str = "-DCACHE=98304 -DWAIT=0";

#[test]
fn a_step_has_its_commit_and_what_fails_is_a_gap() {
    let broken = "-DCACHE= -DWAIT=0";
    let fails = "-DCACHE=65536 -DWAIT=_exit(3)";
    let project = Project::new(&[SMALL, SMALL, SMALL, broken, SMALL, fails, LARGE, LARGE]);
    let output = project.run("HEAD~7..HEAD", &["--keep"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    project.is_untouched();
    let printed = text(&output.stdout);
    assert!(printed.contains("exit code 3") && printed.contains("commit 6"), "{printed}");
    assert!(printed.contains("      main.c:"), "the compiler's last lines: {printed}");

    let history = project.history();
    let commits = history["commits"].as_array().unwrap();
    assert_eq!(commits.len(), 8);
    let places: Vec<u64> = commits.iter().map(|of| of["place"].as_u64().unwrap()).collect();
    assert_eq!(places, [1, 2, 3, 4, 5, 6, 7, 8]);
    let runs: Vec<u64> = commits.iter().map(|of| of["runs"].as_u64().unwrap()).collect();
    assert_eq!(runs, [3, 3, 3, 0, 3, 0, 3, 3]);
    let stages = [3, 5].map(|at: usize| commits[at]["failure"]["stage"].clone());
    assert_eq!(stages, ["build", "command"]);
    assert!(commits[3]["failure"]["output"].as_str().unwrap().contains("error"));
    for phase in ["loaded", "closed", "peak", "end"] {
        let steps = series(&history, phase, "live")["steps"].as_array().unwrap();
        assert_eq!(steps.len(), 1, "{phase}: {steps:?}");
        assert_eq!(
            (&steps[0]["commit"], &steps[0]["change"]["value"]),
            (&6.into(), &32768.0.into())
        );
        assert_eq!(steps[0]["change"]["low"], steps[0]["change"]["high"]);
        // The commit between was not measured: either may have made the step.
        assert_eq!(steps[0]["candidates"], 2);
    }
    assert_eq!(series(&history, "loaded", "live")["points"][0]["value"], 165536.0);

    // Nothing is measured again, and more commits join.
    let again = project.run("HEAD~7..HEAD", &[]);
    assert!(
        again.status.success() && !text(&again.stderr).contains("peak"),
        "{}",
        text(&again.stderr)
    );
    let kept = project.store().join("recordings");
    assert_eq!(fs::read_dir(kept).unwrap().count(), 7, "also of the one that failed");

    let page = project.heaplab(&["track", "show", "--html", "../history.html"]);
    assert!(page.status.success(), "{}", text(&page.stderr));
    let page = fs::read_to_string(project.folder.path().join("history.html")).unwrap();
    assert!(page.contains("commit 6") && page.matches("class=\"gap\"").count() >= 2);
}

#[test]
fn a_bisection_measures_only_some_and_finds_the_commit() {
    let mut commits = vec![SMALL; 13];
    commits.extend([LARGE; 7]);
    commits[10] = "-DCACHE= -DWAIT=0";
    let project = Project::new(&commits);
    let output = project.run("HEAD~19..HEAD", &["--at-most", "5", "--runs", "3"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let found = project.heaplab(&["track", "bisect"]);
    assert!(found.status.success(), "{}", text(&found.stderr));
    assert!(text(&found.stdout).contains("commit 13"), "{}", text(&found.stdout));
    project.is_untouched();
    let measured = project.history()["commits"].as_array().unwrap().len();
    assert!(measured < 12, "{measured}");
    let again = project.heaplab(&["track", "bisect"]);
    assert!(again.status.success(), "{}", text(&again.stderr));
    assert!(!text(&again.stderr).contains("to measure"), "{}", text(&again.stderr));
    assert!(text(&again.stdout).contains("commit 13"), "{}", text(&again.stdout));
}

#[test]
fn a_bisection_that_cannot_tell_has_a_code_of_its_own() {
    let project = Project::new(&[SMALL, "-DCACHE= -DWAIT=0", LARGE]);
    assert!(project.run("HEAD~2..HEAD", &[]).status.success());
    let found = project.heaplab(&["track", "bisect", "--between", "HEAD~2..HEAD"]);
    assert_eq!(found.status.code(), Some(3), "{}", text(&found.stderr));
    assert!(text(&found.stdout).starts_with("One of the 2 commits behind"), "{found:?}");
}

#[test]
fn a_killed_heaplab_leaves_nothing_running() {
    let project = Project::new(&["-DCACHE=65536 -DWAIT=sleep(600)"]);
    let arguments = project.run_arguments("HEAD", &[]);
    let mut child = project.command(&arguments).stdout(Stdio::null()).spawn().unwrap();
    let tree = project.store().canonicalize().unwrap_or(project.store()).join("tree");
    let running = || {
        let processes = fs::read_dir("/proc").unwrap().flatten();
        let folders =
            processes.filter_map(|process| fs::read_link(process.path().join("cwd")).ok());
        folders.filter(|folder| folder.starts_with(&tree)).count()
    };
    let wait = |is_reached: &dyn Fn() -> bool| {
        let began = Instant::now();
        while !is_reached() {
            assert!(began.elapsed() < Duration::from_secs(60), "{} run", running());
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    // The recorder and the program itself: the build is over.
    wait(&|| {
        fs::read_dir(project.store()).is_ok_and(|mut all| {
            all.any(|entry| {
                let path = entry.unwrap().path();
                fs::read_dir(path).is_ok_and(|mut inner| {
                    inner.any(|entry| entry.unwrap().file_name() == "run.log")
                })
            })
        }) && running() >= 2
    });
    child.kill().unwrap();
    child.wait().unwrap();
    wait(&|| running() == 0);
}

#[test]
fn an_interruption_keeps_what_was_measured_and_leaves_no_tree() {
    let project = Project::new(&[SMALL, "-DCACHE=65536 -DWAIT=sleep(600)", SMALL]);
    let slow = project.run("HEAD~1", &["--timeout", "0.5"]);
    assert_eq!(slow.status.code(), Some(1), "nothing was measured: {}", text(&slow.stderr));
    assert!(text(&slow.stdout).contains("longer than 0.5 s"), "{}", text(&slow.stdout));
    assert!(text(&slow.stdout).contains("no commit was measured"), "{}", text(&slow.stdout));
    // A killed heaplab leaves its recordings that are not kept.
    fs::create_dir_all(project.store().join("scratch-left/run.heaplab")).unwrap();

    let arguments = project.run_arguments("HEAD~2..HEAD", &["--retry"]);
    let mut child =
        project.command(&arguments).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    // The ends are measured first, and the middle never ends.
    let began = Instant::now();
    let runs = || fs::read_dir(project.store().join("runs")).map_or(0, Iterator::count);
    while runs() < 6 {
        assert!(began.elapsed() < Duration::from_secs(120), "it does not get that far");
        std::thread::sleep(Duration::from_millis(20));
    }
    let busy = project.run("HEAD", &[]);
    assert_eq!(busy.status.code(), Some(1));
    assert!(text(&busy.stderr).contains("another heaplab track"), "{}", text(&busy.stderr));
    std::thread::sleep(Duration::from_millis(300));
    let pid = child.id().to_string();
    // As Ctrl-C; a shell without job control lets what it starts in the background ignore SIGINT.
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    let status = child.wait().unwrap();
    assert_eq!((status.code(), status.signal()), (Some(143), None));
    project.is_untouched();
    assert_eq!(runs(), 6);
}

#[test]
fn what_cannot_be_measured_is_said() {
    let project = Project::new(&[SMALL, SMALL]);
    let said = |output: &Output, code: i32, words: &str| {
        let error = text(&output.stderr).replace('\n', " ");
        assert!(output.status.code() == Some(code) && error.contains(words), "{words}: {error}");
    };
    said(&project.run("HEAD..HEAD~1", &[]), 2, "has no commits: what is older stands first");
    said(&project.run("nowhere..HEAD", &[]), 2, "\"nowhere\" is no commit");
    said(&project.heaplab(&["track", "show"]), 2, "heaplab track run makes one");
    let outside = project
        .command(&project.run_arguments("HEAD", &[]))
        .current_dir(project.folder.path())
        .env("GIT_CEILING_DIRECTORIES", project.folder.path())
        .output()
        .unwrap();
    said(&outside, 1, "not a git repository");
    said(&outside, 1, "name one by --repository");
    assert!(project.run("HEAD", &["--runs", "1"]).status.success());
    fs::write(project.path().join("main.c"), "not committed").unwrap();
    let other = project.heaplab(&["track", "run", "--commits", "HEAD", "--", "./small", "2"]);
    said(&other, 2, "holds runs of another build");
    let noted = project.run("HEAD", &[]);
    assert!(noted.status.success());
    said(&noted, 0, "changes that are not committed");
    let damaged = project.store().join("runs");
    let file = fs::read_dir(&damaged).unwrap().next().unwrap().unwrap().path();
    fs::write(&file, "{").unwrap();
    // The others are shown, and nothing is measured beside it.
    let name = Path::new(&file).to_str().unwrap();
    let shown = project.heaplab(&["track", "show"]);
    said(&shown, 1, name);
    said(&shown, 1, "if it is damaged, delete it, and its run is made again");
    let shown = text(&shown.stdout);
    assert!(
        shown.contains("1 measured in 2 runs") && shown.contains("1 run is left out"),
        "{shown}"
    );
    said(&project.run("HEAD", &[]), 1, name);
    fs::remove_file(&file).unwrap();
    assert!(project.run("HEAD", &[]).status.success());
    assert!(file.exists() && fs::read_dir(&damaged).unwrap().count() == 3);
    assert_eq!(project.history()["cautions"], Value::Array(Vec::new()));
}

#[test]
fn few_runs_a_crash_and_a_run_without_allocations() {
    let crash = "-DCACHE=98304 -DWAIT=__builtin_trap()";
    let project = Project::new(&[SMALL, LARGE, crash]);
    fs::write(project.path().join("main.c"), "int main(void) { return 0; }").unwrap();
    project.git(&["commit", "--quiet", "-a", "-m", "commit 3: nothing"]);
    let output = project.run("HEAD~3..HEAD", &["--runs", "1"]);
    let (shown, notes) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{notes}");
    let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    let few = "None is certain: so few commits and runs may differ by chance. More of either decide (track run --runs, --commits).";
    assert!(shown.contains(few), "{shown}");
    assert!(shown.contains("4 commits") && shown.contains("2 measured in 2 runs"), "{shown}");
    let history = project.history();
    let failure = |commit: usize| {
        let failure = &history["commits"][commit]["failure"];
        let text = |field: &str| failure[field].as_str().unwrap().to_owned();
        (text("stage"), text("reason"), text("output"))
    };
    // What `record` advises to look at is deleted.
    let (stage, reason, said) = failure(2);
    assert_eq!((stage.as_str(), reason.contains("132")), ("command", true), "{reason}");
    assert!(said.contains("heaplab: ") && !said.contains("next: "), "{said}");
    assert!(!said.contains("scratch-") && !said.contains("run.heaplab"), "{said}");
    let (stage, reason, _) = failure(3);
    assert_eq!(
        (stage.as_str(), reason.as_str()),
        ("recording", "no allocation of this process was recorded")
    );
    assert_eq!(history["commits"][3]["runs"], 0);
    project.is_untouched();
}
