//! Runs all tests as `cargo test --workspace --no-fail-fast` does, but as many test programs at a
//! time as there are processors. Many tests wait for a program that they record or ask, so one test
//! program at a time keeps less than two processors busy.
//!
//! A test program runs in its package's folder, with the two of cargo's variables that name the
//! package. Its output stands in a file until the program ends, because a process that it leaves
//! behind would hold a pipe open.

use crate::check::cargo_program;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::collections::VecDeque;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::Instant;

const SOUND: &str = "no lane panics";

/// A built test program.
pub struct Program {
    executable: PathBuf,
    /// The package's folder.
    folder: PathBuf,
    package: String,
    /// As cargo takes it: `--lib`, `--test curve`.
    target: String,
}

/// Runs all test programs.
pub fn run(mut programs: Vec<Program>) -> Result<()> {
    // Integration tests take longest: the short ones fill the lanes at the end.
    programs.sort_by_key(|program| !program.target.starts_with("--test"));
    let output = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../target/test-output"));
    std::fs::create_dir_all(output).with_context(|| output.display().to_string())?;
    let (count, waiting) = (programs.len(), Mutex::new(VecDeque::from(programs)));
    let (done, failed) = (Mutex::new((0, 0.0)), Mutex::new(Vec::new()));
    let lane = |number: usize| -> Result<()> {
        let path = output.join(format!("{number}.txt"));
        while let Some(program) = { waiting.lock().expect(SOUND).pop_front() } {
            let start = Instant::now();
            let (is_good, cpu_seconds) = program.run(&path)?;
            let said = std::fs::read(&path).with_context(|| path.display().to_string())?;
            // The lock keeps the output of the lanes apart.
            let mut done = done.lock().expect(SOUND);
            done.0 += 1;
            done.1 += cpu_seconds;
            print!("{}", String::from_utf8_lossy(&said));
            let (name, seconds) = (program.name(), start.elapsed().as_secs_f64());
            println!(
                "test program {} of {count}: {name}, {seconds:.1} s, {cpu_seconds:.1} s of CPU\n",
                done.0
            );
            if !is_good {
                failed.lock().expect(SOUND).push(name);
            }
        }
        Ok(())
    };
    let lanes = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let lanes: Vec<_> = (0..lanes).map(|number| scope.spawn(move || lane(number))).collect();
        lanes.into_iter().try_for_each(|lane| lane.join().expect(SOUND))
    })?;
    println!("test programs: {:.0} s of CPU", done.lock().expect(SOUND).1);
    let failed = failed.lock().expect(SOUND);
    if !failed.is_empty() {
        bail!("{} of {count} test programs failed: {}", failed.len(), failed.join("; "));
    }
    Ok(())
}

/// Builds all test programs; cargo's messages name them.
pub fn build() -> Result<Vec<Program>> {
    let arguments = [
        "test",
        "--workspace",
        "--locked",
        "--no-run",
        "--message-format",
        "json-render-diagnostics",
    ];
    println!("$ cargo {}", arguments.join(" "));
    let built = Command::new(cargo_program())
        .args(arguments)
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start cargo")?;
    if !built.status.success() {
        bail!("cargo {} failed ({})", arguments.join(" "), built.status);
    }
    let messages = String::from_utf8(built.stdout).context("cargo's messages")?;
    messages.lines().filter_map(|line| Program::of(line).transpose()).collect()
}

impl Program {
    /// The test program that a message of cargo names; `None`: the message is of something else.
    fn of(message: &str) -> Result<Option<Program>> {
        let message: Value = serde_json::from_str(message).context("a message of cargo")?;
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let (executable, is_test) = (&message["executable"], &message["profile"]["test"]);
        let (Some(executable), Some(true)) = (text(executable), is_test.as_bool()) else {
            return Ok(None);
        };
        let manifest = text(&message["manifest_path"]).context("a manifest")?;
        let folder = Path::new(&manifest).parent().context("a package's folder")?.to_owned();
        let name = text(&message["target"]["name"]).context("a target's name")?;
        let id = text(&message["package_id"]).context("a package")?;
        let package = package(&id).with_context(|| format!("the package {id}"))?;
        let kind = text(&message["target"]["kind"][0]).context("a target's kind")?;
        let target = match kind.as_str() {
            "test" | "bin" | "example" | "bench" => format!("--{kind} {name}"),
            _ => "--lib".into(),
        };
        Ok(Some(Program { executable: executable.into(), folder, package, target }))
    }

    fn name(&self) -> String {
        format!("cargo test -p {} {}", self.package, self.target)
    }

    /// Runs it with its output in a file: whether all its tests passed, and its CPU seconds.
    fn run(&self, output: &Path) -> Result<(bool, f64)> {
        let file = File::create(output).with_context(|| output.display().to_string())?;
        let same = file.try_clone().context("the output's file")?;
        let child = Command::new(&self.executable)
            .current_dir(&self.folder)
            .env("CARGO_MANIFEST_DIR", &self.folder)
            .env("CARGO_PKG_NAME", &self.package)
            .stdin(Stdio::null())
            .stdout(file)
            .stderr(same)
            .spawn()
            .with_context(|| self.executable.display().to_string())?;
        wait(&child).with_context(|| self.executable.display().to_string())
    }
}

/// Waits for a child: whether it succeeded, and the CPU seconds of the child and of all processes
/// that it waited for.
fn wait(child: &Child) -> std::io::Result<(bool, f64)> {
    let mut status = 0;
    // SAFETY: all fields of rusage are integers, for which zero is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to locals of the types that wait4 writes.
    if unsafe { libc::wait4(child.id() as i32, &mut status, 0, &mut usage) } < 0 {
        return Err(std::io::Error::last_os_error());
    }
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    Ok((status == 0, seconds(usage.ru_utime) + seconds(usage.ru_stime)))
}

/// The name in a package's id: `path+file:///folder/name#0.1.0` or `path+file:///folder#name@0.1.0`.
fn package(id: &str) -> Option<String> {
    let (path, version) = id.rsplit_once('#')?;
    let name = match version.split_once('@') {
        Some((name, _)) => name,
        None => path.rsplit('/').next()?,
    };
    Some(name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::{Program, package, wait};
    use std::process::Command;

    #[test]
    fn a_childs_cpu_seconds_cover_its_own_children() {
        let busy = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";
        let run =
            |script: &str| wait(&Command::new("sh").args(["-c", script]).spawn().unwrap()).unwrap();
        let (is_good, seconds) = run(&format!("sh -c '{busy}'; exit 1"));
        assert!(!is_good && seconds > 0.01, "{seconds}");
        let (is_good, seconds) = run("sleep 0.2");
        assert!(is_good && seconds < 0.1, "{seconds}");
    }

    #[test]
    fn a_message_names_a_test_program_or_something_else() {
        let message = r#"{"package_id":"path+file:///src/crates/curve#heaplab-curve@0.1.0",
            "manifest_path":"/src/crates/curve/Cargo.toml","profile":{"test":true},
            "target":{"kind":["test"],"name":"coverage"},"executable":"/src/target/coverage-1"}"#;
        let program = Program::of(message).unwrap().unwrap();
        assert_eq!(program.name(), "cargo test -p heaplab-curve --test coverage");
        assert_eq!(program.folder.to_str(), Some("/src/crates/curve"));
        let library = message.replace(r#"["test"]"#, r#"["lib"]"#);
        let library = Program::of(&library).unwrap().unwrap();
        assert_eq!(library.name(), "cargo test -p heaplab-curve --lib");
        let program = message.replace(r#""test":true"#, r#""test":false"#);
        for other in [program.as_str(), r#"{"reason":"build-finished","success":true}"#] {
            assert!(Program::of(other).unwrap().is_none());
        }
        assert!(Program::of("not JSON").is_err());
        assert_eq!(package("path+file:///src/crates/heaplab#0.1.0").unwrap(), "heaplab");
    }
}
