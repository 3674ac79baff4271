//! `cargo xtask bench recorder --only starts`: the cost that recording adds to starting a process
//! that does next to nothing, beside heaptrack.
//!
//! One program forks, or forks and execs itself, some hundred times (`recorder_starts.c`). A
//! repetition runs it plain, recorded and under heaptrack in turn. The time is elapsed time,
//! because a start's waits (for a file system's journal, for the recorder) are part of it; the CPU
//! time of all started processes stands beside it. Files are made in the folder for temporary
//! files: `TMPDIR=/dev/shm` measures without a disk. System calls are counted in a run of their
//! own, by strace if it is installed.

use super::measure::{Spread, Used, read_child, run as run_command, through_child};
use super::programs::{self, Heaptrack, Program, root};
use anyhow::{Context, Result};
use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};

/// Its name for `--only`.
pub const NAME: &str = "starts";
/// Processes that one run starts.
const STARTS: usize = 200;
/// The default depth of `heaplab record`.
const STACK_DEPTH: u32 = 64;

/// The measured recorders, and a folder to write to.
pub struct Bench<'a> {
    /// For all files.
    pub folder: &'a Path,
    /// The heaplab that is measured.
    pub heaplab: &'a Path,
    /// One from before a change.
    pub before: Option<&'a Path>,
    /// The peer.
    pub heaptrack: Option<&'a Heaptrack>,
}

#[derive(Clone, Copy)]
enum Way<'a> {
    Plain,
    Recorded(&'static str, &'a Path),
    Heaptrack(&'a Heaptrack),
}

/// One run: the share of each start.
#[derive(Clone, Copy)]
struct Run {
    wall_ms: f64,
    cpu_ms: f64,
}

/// Measures and prints.
pub fn run(bench: &Bench, reps: usize) -> Result<()> {
    let binary = bench.folder.join("starts");
    run_command(
        Command::new("cc")
            .args(["-O2", "-o"])
            .arg(&binary)
            .arg(root().join("bench/src/recorder_starts.c")),
    )?;
    let mut ways = vec![Way::Plain, Way::Recorded("heaplab", bench.heaplab)];
    ways.extend(bench.before.map(|path| Way::Recorded("before", path)));
    ways.extend(bench.heaptrack.map(Way::Heaptrack));
    let counted = Command::new("strace")
        .arg("-V")
        .stdout(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    for kind in ["forks", "execs"] {
        let command: Vec<OsString> =
            vec![binary.clone().into(), kind.into(), STARTS.to_string().into()];
        let mut rows = Vec::new();
        for _ in 0..reps {
            rows.push(
                ways.iter()
                    .map(|&way| bench.measure(way, &command))
                    .collect::<Result<Vec<Run>>>()?,
            );
        }
        println!(
            "\n{STARTS} {kind}, files in {}: ms a process, median (range) of {reps} repetitions",
            bench.folder.display()
        );
        println!(
            "{:<14} {:>23} {:>23} {:>13}",
            "", "on the wall", "CPU of the program", "system calls"
        );
        for (place, &way) in ways.iter().enumerate() {
            let spread =
                |share: fn(&Run) -> f64| Spread::of(rows.iter().map(|row| share(&row[place])));
            let (wall, cpu) = (fine(spread(|run| run.wall_ms)), fine(spread(|run| run.cpu_ms)));
            let calls = if counted {
                format!("{:.1}", bench.system_calls(way, &command)?)
            } else {
                String::from("no strace")
            };
            println!("{:<14} {wall:>23} {cpu:>23} {calls:>13}", name(way));
        }
    }
    Ok(())
}

fn name(way: Way) -> &'static str {
    match way {
        Way::Plain => "plain",
        Way::Recorded(name, _) => name,
        Way::Heaptrack(_) => "heaptrack, raw",
    }
}

/// With as many digits as a part of a millisecond needs.
fn fine(spread: Spread) -> String {
    format!("{:.2} ({:.2} to {:.2})", spread.median, spread.least, spread.most)
}

impl Bench<'_> {
    /// The time is taken inside of the recorder: looking functions up and writing the bundle happen
    /// once a recording, not once a process.
    fn measure(&self, way: Way, command: &[OsString]) -> Result<Run> {
        let file = self.folder.join("used.json");
        let started = through_child(&file, &self.environment(way), command)?;
        self.start(way, &started)?;
        let Used { cpu_s, wall_s, .. } = read_child(&file)?;
        let share = |seconds: f64| seconds * 1e3 / STARTS as f64;
        Ok(Run { wall_ms: share(wall_s), cpu_ms: share(cpu_s) })
    }

    fn environment(&self, way: Way) -> Vec<String> {
        match way {
            Way::Heaptrack(heaptrack) => heaptrack.environment(&self.folder.join("heaptrack.raw")),
            _ => Vec::new(),
        }
    }

    fn start(&self, way: Way, words: &[OsString]) -> Result<()> {
        if let Way::Recorded(_, heaplab) = way {
            let program = Program { name: NAME, command: words.to_vec(), input: None };
            return programs::record(
                heaplab,
                STACK_DEPTH,
                &program,
                words,
                &self.folder.join("starts.heaplab"),
            )
            .map(|_| ());
        }
        run_command(Command::new(&words[0]).args(&words[1..]).stderr(Stdio::null())).map(|_| ())
    }

    /// System calls of the program and its processes, a process.
    fn system_calls(&self, way: Way, command: &[OsString]) -> Result<f64> {
        let table = self.folder.join("calls");
        let mut words: Vec<OsString> =
            ["strace", "-f", "-c", "-o"].iter().map(OsString::from).collect();
        words.push(table.clone().into());
        for pair in self.environment(way) {
            words.extend(["-E".into(), pair.into()]);
        }
        words.extend(command.iter().cloned());
        self.start(way, &words)?;
        let text = std::fs::read_to_string(&table).with_context(|| table.display().to_string())?;
        let calls =
            total_calls(&text).with_context(|| format!("no total in what strace wrote: {text}"))?;
        Ok(calls / STARTS as f64)
    }
}

/// The calls in the last line of strace's table: `100.00 SECONDS USECS CALLS [ERRORS] total`.
fn total_calls(table: &str) -> Option<f64> {
    table
        .lines()
        .rev()
        .find(|line| line.trim_end().ends_with("total"))?
        .split_whitespace()
        .nth(3)?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_read_from_the_last_line() {
        let table = "% time     seconds  usecs/call     calls    errors syscall\n 40.14    0.082306        1613        51           wait4\n\
                     ------ ----------- ----------- --------- --------- ------------------\n100.00    0.205051          16     12345       208 total\n";
        assert_eq!(total_calls(table), Some(12345.0));
        assert_eq!(total_calls(""), None);
    }
}
