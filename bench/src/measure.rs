//! Tools for benchmarks of whole programs: CPU time and memory of one process, apart from the
//! measuring process, and medians with their spread.
//!
//! The kernel adds up a process's CPU time when its parent waits for it. To measure a recorded
//! program apart from its recorder, the program starts through `heaplab-bench child FILE`, which
//! waits for it and writes its figures down.

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// Figures of a process and the descendants that it waited for.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Used {
    /// User and system time, s.
    pub cpu_s: f64,
    /// Elapsed time from its start to its end, s.
    pub wall_s: f64,
    /// System time within the CPU time, s.
    pub system_s: f64,
    /// CPU time of descendants that the process waited for, s, in the clock's ticks of 10 ms.
    pub children_s: f64,
    /// Largest resident size of any of them, KiB.
    pub resident_kib: i64,
    /// Page faults served without a disk.
    pub faults: u64,
}

/// Runs the command to its end; it must succeed.
pub fn run(command: &mut Command) -> Result<Used> {
    // A child started in its parent's memory (vfork) would count the parent's peak of resident
    // bytes as its own; a forked child counts only the bytes resident now. A closure between fork
    // and exec makes the library fork. SAFETY: the closure does nothing, which is allowed there.
    unsafe { command.pre_exec(|| Ok(())) };
    let began = Instant::now();
    let child = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
    let (mut status, pid) = (0, child.id() as libc::pid_t);
    let children_s = ended(pid)?;
    let wall_s = began.elapsed().as_secs_f64();
    // SAFETY: a rusage of zeros is valid; the call fills it and the status, and the child has not
    // been waited for.
    let (waited, usage) = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        (libc::wait4(pid, &mut status, 0, &mut usage), usage)
    };
    if waited != pid || status != 0 {
        bail!("{command:?} failed (wait status {status})");
    }
    let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 / 1e6;
    let system_s = seconds(usage.ru_stime);
    let cpu_s = seconds(usage.ru_utime) + system_s;
    Ok(Used {
        cpu_s,
        wall_s,
        system_s,
        children_s,
        resident_kib: usage.ru_maxrss,
        faults: usage.ru_minflt as u64,
    })
}

/// Waits until the child has ended, and leaves it for another wait: until then the kernel keeps its
/// own time apart from that of the descendants it waited for. Returns the descendants' time, s.
fn ended(pid: libc::pid_t) -> Result<f64> {
    // SAFETY: a siginfo of zeros is valid, and the call fills it.
    let waited = unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        libc::waitid(libc::P_PID, pid as libc::id_t, &mut info, libc::WEXITED | libc::WNOWAIT)
    };
    if waited != 0 {
        return Err(std::io::Error::last_os_error()).context("waiting for a child");
    }
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .with_context(|| format!("/proc/{pid}/stat"))?;
    // The name, in parentheses, may contain anything. Behind it come the state and, 12 fields
    // later, cutime and cstime.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields).split_whitespace().skip(13);
    let ticks: Vec<f64> = fields
        .take(2)
        .map(str::parse)
        .collect::<Result<_, _>>()
        .context("cutime and cstime in /proc/PID/stat")?;
    // SAFETY: the call has no preconditions.
    let ticks_a_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) } as f64;
    Ok(ticks.iter().sum::<f64>() / ticks_a_second)
}

/// Arguments of the hidden `cargo heaplab-bench child`.
#[derive(Debug, clap::Args)]
pub struct ChildArgs {
    /// Where to write what the program used, as JSON
    file: PathBuf,
    /// NAME=VALUE for the program's environment alone
    #[arg(long)]
    env: Vec<String>,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

/// Runs a program and writes down its figures.
pub fn child(args: &ChildArgs) -> Result<()> {
    let mut command = Command::new(&args.command[0]);
    command.args(&args.command[1..]);
    for pair in &args.env {
        let (name, value) = pair.split_once('=').context("--env NAME=VALUE")?;
        command.env(name, value);
    }
    std::fs::write(&args.file, serde_json::to_string(&run(&mut command)?)?)?;
    Ok(())
}

/// The words that start `command` so that its figures are written to `file`.
pub fn through_child(
    file: &Path,
    environment: &[String],
    command: &[OsString],
) -> Result<Vec<OsString>> {
    let mut words: Vec<OsString> = vec![std::env::current_exe()?.into(), "child".into()];
    for pair in environment {
        words.extend(["--env".into(), pair.into()]);
    }
    words.push(file.into());
    words.extend(command.iter().cloned());
    Ok(words)
}

/// The figures that [`child`] wrote.
pub fn read_child(file: &Path) -> Result<Used> {
    let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
    Ok(serde_json::from_str(&text)?)
}

/// CPU time of this process's main thread so far, ns.
pub fn cpu_ns() -> Result<u64> {
    let text = std::fs::read_to_string("/proc/self/schedstat").context("/proc/self/schedstat")?;
    text.split(' ')
        .next()
        .and_then(|field| field.parse().ok())
        .context("a number of nanoseconds in /proc/self/schedstat")
}

/// A line `KEY NUMBER kB` of a file of the kernel (`/proc/self/status`, `/proc/meminfo`), as bytes.
pub fn status_bytes(file: &str, key: &str) -> Result<u64> {
    let status = std::fs::read_to_string(file).with_context(|| file.to_owned())?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(key))
        .with_context(|| format!("{key} in {file}"))?;
    let kilobytes: u64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kilobytes * 1024)
}

/// A median and the range around it.
#[derive(Clone, Copy, Debug)]
pub struct Spread {
    /// The middle one.
    pub median: f64,
    /// The smallest.
    pub least: f64,
    /// The largest.
    pub most: f64,
}

impl Spread {
    /// From at least one value.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Spread {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let middle = values.len() / 2;
        let median = if values.len() % 2 == 1 {
            values[middle]
        } else {
            (values[middle - 1] + values[middle]) / 2.0
        };
        Spread { median, least: values[0], most: values[values.len() - 1] }
    }
}

impl std::fmt::Display for Spread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.1} ({:.1} to {:.1})", self.median, self.least, self.most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_lies_between() {
        let spread = Spread::of([4.0, 1.0, 3.0, 2.0]);
        assert_eq!((spread.median, spread.least, spread.most), (2.5, 1.0, 4.0));
    }

    #[test]
    fn a_childs_time_is_its_own() {
        let used = run(
            Command::new("sh").args(["-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"])
        )
        .unwrap();
        assert!(used.cpu_s > 0.0 && used.cpu_s < 10.0 && used.resident_kib > 100, "{used:?}");
        assert!(used.children_s == 0.0, "{used:?}");
        assert!(run(&mut Command::new("false")).is_err());
    }

    #[test]
    fn a_childs_children_are_told_apart() {
        let work = "sh -c 'i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done'; true";
        let used = run(Command::new("sh").args(["-c", work])).unwrap();
        assert!(used.children_s > 0.0 && used.children_s > used.cpu_s / 2.0, "{used:?}");
    }

    #[test]
    fn a_childs_memory_is_its_own() {
        const BYTES: usize = 256 << 20;
        let memory = memmap2::MmapMut::map_anon(BYTES)
            .map(|mut memory| memory.iter_mut().step_by(4096).for_each(|byte| *byte = 1));
        memory.unwrap();
        let used = run(&mut Command::new("true")).unwrap();
        assert!(used.resident_kib < (BYTES >> 10) as i64 / 2, "{used:?}");
    }
}
