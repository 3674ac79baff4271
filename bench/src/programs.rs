//! The recorded programs of benchmarks, the build of heaplab that records them, and heaptrack,
//! which records the same.

use super::measure::{Used, run as run_command};
use anyhow::{Context, Result, bail};
use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A program to record.
pub struct Program {
    /// Its name in tables.
    pub name: &'static str,
    /// The command that runs it.
    pub command: Vec<OsString>,
    /// Its standard input.
    pub input: Option<PathBuf>,
}

impl Program {
    /// Connects the program's input to `command`, which runs it in some way, and discards the
    /// output.
    pub fn attach(&self, command: &mut Command) -> Result<()> {
        let input =
            self.input.as_ref().map_or(Ok(Stdio::null()), |path| File::open(path).map(Stdio::from));
        command.stdin(input?).stdout(Stdio::null());
        Ok(())
    }
}

/// The workspace's folder.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The given heaplab, or a release build of this tree.
pub fn heaplab(given: Option<&Path>) -> Result<PathBuf> {
    match given {
        Some(path) => path.canonicalize().with_context(|| format!("--heaplab {}", path.display())),
        None => release_build(),
    }
}

fn release_build() -> Result<PathBuf> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let status = Command::new(cargo)
        .args(["build", "--release", "--quiet", "--package", "heaplab"])
        .status()?;
    if !status.success() {
        bail!("cannot build heaplab");
    }
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    Ok(target.join("release/heaplab"))
}

fn words(words: &[&str]) -> Vec<OsString> {
    words.iter().map(OsString::from).collect()
}

/// SQLite's workload, `times` over, so that a recording's fixed costs (starting, looking functions
/// up) weigh no more than in a long-running program.
pub fn sqlite(folder: &Path, times: usize) -> Result<Program> {
    if times == 0 {
        bail!("a workload done 0 times is none: 1 or more");
    }
    let once = std::fs::read_to_string(root().join("traces/sqlite-workload.sql"))?;
    let file = folder.join("workload.sql");
    let text = if times == 1 {
        once
    } else {
        format!("{once}DROP TABLE a; DROP TABLE t;\n").repeat(times)
    };
    std::fs::write(&file, text)?;
    Ok(Program { name: "sqlite", command: words(&["sqlite3", ":memory:"]), input: Some(file) })
}

/// A C++ compiler at work, without its driver and preprocessor.
pub fn compiler(folder: &Path) -> Result<Program> {
    let preprocessed = folder.join("templates.ii");
    run_command(
        Command::new("g++")
            .args(["-std=c++17", "-E", "-o"])
            .arg(&preprocessed)
            .arg(root().join("traces/templates.cpp")),
    )?;
    let compiler = Command::new("g++").args(["-print-prog-name=cc1plus"]).output()?;
    let compiler = String::from_utf8(compiler.stdout)?.trim().to_string();
    let mut command = words(&[&compiler, "-quiet", "-std=c++17", "-O1", "-o", "/dev/null"]);
    command.push(preprocessed.into());
    Ok(Program { name: "C++ compiler", command, input: None })
}

/// One thread, and two, that only allocate and free.
pub fn threads(folder: &Path) -> Result<[Program; 2]> {
    let binary = folder.join("threads");
    let source = root().join("bench/src/recorder_threads.c");
    run_command(
        Command::new("cc")
            .args(["-O2", "-pthread", "-fno-builtin-malloc", "-o"])
            .arg(&binary)
            .arg(source),
    )?;
    let command = |n: &str| vec![binary.clone().into(), n.into(), "8000000".into()];
    Ok([
        Program { name: "one thread", command: command("1"), input: None },
        Program { name: "two threads", command: command("2"), input: None },
    ])
}

/// heaptrack 1.4 as distributions install it. Its script preloads a library into the program. The
/// library writes "raw" lines; the script pipes them through an interpreter, which looks functions
/// up and merges equal allocations, and through a compressor.
pub struct Heaptrack {
    preload: PathBuf,
    interpreter: PathBuf,
}

impl Heaptrack {
    /// Finds an installed heaptrack; prints a line if there is none.
    pub fn find() -> Option<Heaptrack> {
        let folder = Path::new("/usr/lib/heaptrack");
        let heaptrack = Heaptrack {
            preload: folder.join("libheaptrack_preload.so"),
            interpreter: folder.join("libexec/heaptrack_interpret"),
        };
        if heaptrack.preload.exists() && heaptrack.interpreter.exists() {
            return Some(heaptrack);
        }
        println!(
            "heaptrack is not in {}: no peer in this run (Debian's package is heaptrack)",
            folder.display()
        );
        None
    }

    /// The environment that makes a program write its raw file directly.
    pub fn environment(&self, raw: &Path) -> Vec<String> {
        vec![
            format!("LD_PRELOAD={}", self.preload.display()),
            format!("DUMP_HEAPTRACK_OUTPUT={}", raw.display()),
        ]
    }

    /// Records the program into a raw file.
    pub fn record(&self, program: &Program, raw: &Path) -> Result<Used> {
        let mut command = Command::new(&program.command[0]);
        command
            .args(&program.command[1..])
            .env("LD_PRELOAD", &self.preload)
            .env("DUMP_HEAPTRACK_OUTPUT", raw)
            .stderr(Stdio::null());
        program.attach(&mut command)?;
        run_command(&mut command)
    }

    /// Turns a raw file into the script's result, interpreted and compressed by zstd. Returns the
    /// CPU time of both, s.
    pub fn finish(&self, raw: &Path, finished: &Path) -> Result<f64> {
        let interpreted = finished.with_extension("interpreted");
        let mut command = Command::new(&self.interpreter);
        // heaptrack prints its counts on standard error.
        command.stdin(File::open(raw)?).stdout(File::create(&interpreted)?).stderr(Stdio::null());
        let used = run_command(&mut command)?;
        let seconds = used.cpu_s + compress("zstd", &interpreted, finished)?;
        std::fs::remove_file(interpreted)?;
        Ok(seconds)
    }
}

/// Compresses a file with `program -c`, as heaptrack's script does. Returns the CPU time, s.
pub fn compress(program: &str, file: &Path, compressed: &Path) -> Result<f64> {
    let mut command = Command::new(program);
    command
        .arg("-c")
        .stdin(File::open(file)?)
        .stdout(File::create(compressed)?)
        .stderr(Stdio::null());
    Ok(run_command(&mut command)?.cpu_s)
}

/// Records the program with `heaplab record --json` into `bundle`. `words` are the started command:
/// the program's own, or one that runs it. Returns the figures of all processes and the number of
/// events.
pub fn record(
    heaplab: &Path,
    depth: u32,
    program: &Program,
    started: &[OsString],
    bundle: &Path,
) -> Result<(Used, u64)> {
    let summary = bundle.with_extension("summary");
    let mut command = Command::new(heaplab);
    command
        .args(["record", "--quiet", "--json", "--force", "--stack-depth", &depth.to_string(), "-o"])
        .arg(bundle)
        .arg("--")
        .args(started);
    program.attach(&mut command)?;
    command.stderr(File::create(&summary)?);
    let all = run_command(&mut command)
        .with_context(|| std::fs::read_to_string(&summary).unwrap_or_default())?;
    Ok((all, events_of(&summary)?))
}

/// The number of events in the summary's last line.
fn events_of(summary: &Path) -> Result<u64> {
    let text = std::fs::read_to_string(summary)?;
    let line = text.lines().last().context("heaplab record --json printed nothing")?;
    let value: serde_json::Value = serde_json::from_str(line).with_context(|| line.to_string())?;
    value["events"].as_u64().with_context(|| format!("no \"events\" in {line}"))
}
