//! `heaplab snapshot scenario` on pages in the real Chromium: what an action leaks is found, and
//! where the steps fail, what was taken is kept.

use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// Opens dialogs, and keeps what it has closed.
const PAGE: &str = "<title>Dialogs</title><input id=name><button id=open>open</button>\
    <button id=close style='margin-top: 3000px'>close</button><script>\
    const kept = {closed: []}; const named = id => document.getElementById(id);\
    named('open').onclick = () => { for (let number = 0; number < 60; ++number) {\
      const dialog = document.createElement('section'); dialog.className = 'dialog';\
      dialog.title = named('name').value; dialog.innerHTML = '<p>line</p>'.repeat(20);\
      document.body.append(dialog); } };\
    named('close').onclick = () => document.querySelectorAll('.dialog')\
      .forEach(dialog => { dialog.remove(); kept.closed.push(dialog) });</script>";

/// Does these steps after the page was opened; the snapshots go into `out`.
fn scenario(folder: &Path, steps: &str, words: &[&str]) -> Output {
    let page = folder.join("page.html");
    fs::write(&page, PAGE).unwrap();
    let text = format!("goto file://{}\n{steps}", page.display());
    fs::write(folder.join("steps.txt"), text).unwrap();
    Command::new(env!("CARGO_BIN_EXE_heaplab"))
        .args(["snapshot", "scenario", "steps.txt", "-o", "out"])
        .args(words)
        .current_dir(folder)
        .output()
        .unwrap()
}

fn failed(output: &Output, code: i32) -> String {
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn taken(folder: &Path) -> Vec<String> {
    let files = fs::read_dir(folder.join("out")).unwrap();
    let mut names: Vec<_> =
        files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn what_the_steps_leak_is_found_and_comes_first() {
    if !heaplab_oracle::has("chromium") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let steps = "action:\nclick #name\ntype Ada\nclick #open\nwait-for .dialog\n\
        evaluate new Promise((then, not) => \
        document.querySelector('.dialog').title.startsWith('Ada') ? then() : not(1))\n\
        back:\nclick #close\n";
    let output = scenario(folder.path(), steps, &["--json", "--steps", "0"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    let first = &answer["leaks"][0];
    let names: Vec<_> = first["steps"].as_array().unwrap().iter().collect();
    let has = |name: &str| names.iter().any(|step| step["edge"]["name"] == name);
    assert!(has("kept") && has("closed"), "{first}");
    assert_eq!(first["classes"][0]["name"], "Detached <section>");
    assert_eq!(first["classes"][0]["count"], 60, "the first round's are older than the first file");
}

#[test]
fn a_step_that_fails_is_told_and_what_was_taken_is_kept() {
    if !heaplab_oracle::has("chromium") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let steps = "action:\nclick #open\nback:\nclick #close\n\
        evaluate if (kept.closed.length > 60) throw new Error('twice')\n";
    let said = failed(&scenario(folder.path(), steps, &[]), 1);
    assert!(said.contains("steps.txt: line 6, \"evaluate if"), "{said}");
    assert!(said.contains("it throws Error: twice"), "{said}");
    assert_eq!(taken(folder.path()), ["base.heapsnapshot", "target.heapsnapshot"]);

    let folder = tempfile::tempdir().unwrap();
    let said = failed(
        &scenario(
            folder.path(),
            "goto http://127.0.0.1:1/\naction:\nwait 1ms\nback:\nwait 1ms\n",
            &[],
        ),
        1,
    );
    assert!(said.contains("line 2") && said.contains("cannot be opened: net::"), "{said}");
    assert!(said.contains("nothing was taken"), "{said}");
}

#[test]
fn a_dialog_of_the_page_is_dismissed_and_told() {
    if !heaplab_oracle::has("chromium") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let steps = "action:\nclick #open\nevaluate alert('Opened')\nback:\nclick #close\n\
        evaluate if (confirm('Sure?')) throw new Error('yes')\n\
        evaluate setTimeout(() => alert('Later'), 50)\nwait 200ms\n";
    let output = scenario(folder.path(), steps, &["--timeout", "60"]);
    let said = failed(&output, 0);
    for line in [
        "heaplab: the page opened alert(\"Opened\"): it was dismissed, 2 times",
        "heaplab: the page opened confirm(\"Sure?\"): it was dismissed, 2 times",
        "heaplab: the page opened alert(\"Later\"): it was dismissed, 2 times",
    ] {
        assert!(said.contains(line), "{said}");
    }
    assert_eq!(taken(folder.path()).len(), 3);
}

#[test]
fn a_page_that_loads_another_document_cannot_be_compared() {
    if !heaplab_oracle::has("chromium") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    let steps = format!("action:\ngoto chrome://version\nback:\ngoto file://{}\n", page.display());
    let said = failed(&scenario(folder.path(), &steps, &[]), 2);
    assert!(said.contains("no leaks were looked for"), "{said}");
    assert!(said.contains("the page loaded another document"), "{said}");
    assert!(!said.contains("snapshot take") && !said.contains("name the files"), "{said}");
    assert_eq!(taken(folder.path()).len(), 3, "{said}");
}

#[test]
fn what_is_no_scenario_starts_no_browser() {
    let folder = tempfile::tempdir().unwrap();
    let words = ["--browser", "/nonexistent"];
    let said = failed(&scenario(folder.path(), "action:\nhover #open\n", &words), 1);
    assert!(said.contains("steps.txt: line 3: \"hover\" is not a step"), "{said}");
    assert!(!folder.path().join("out").exists());
    let said = failed(&scenario(folder.path(), "action:\nwait 1ms\nback:\nwait 1ms\n", &words), 1);
    assert!(said.contains("/nonexistent cannot be started"), "{said}");
}

/// Processes in whose command line this stands.
fn running(text: &str) -> usize {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|process| fs::read(process.path().join("cmdline")).ok());
    lines.filter(|line| String::from_utf8_lossy(line).contains(text)).count()
}

#[test]
fn a_browser_ends_with_whoever_started_it() {
    if !heaplab_oracle::has("chromium") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let steps = "goto data:text/html,\naction:\nwait 3600s\nback:\nwait 1s\n";
    fs::write(folder.path().join("steps.txt"), steps).unwrap();
    let mut heaplab = Command::new(env!("CARGO_BIN_EXE_heaplab"))
        .args(["snapshot", "scenario", "steps.txt", "-o", "out"])
        .current_dir(folder.path())
        .env("TMPDIR", folder.path())
        .spawn()
        .unwrap();
    let profile = format!("--user-data-dir={}", folder.path().display());
    let wait_until = |is_so: &dyn Fn() -> bool| {
        let until = Instant::now() + Duration::from_secs(300);
        while !is_so() {
            assert!(Instant::now() < until, "{} processes", running(&profile));
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    wait_until(&|| running(&profile) > 1);
    heaplab.kill().unwrap();
    heaplab.wait().unwrap();
    wait_until(&|| running(&profile) == 0);
}
