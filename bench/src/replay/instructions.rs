//! Instructions an event of the replay driver, counted by callgrind: counts repeat even if two
//! honest runs' times differ.
//!
//! One process makes one pass and another makes two. The difference is a pass without the process's
//! start, its table and its first touch of memory.

use anyhow::{Context, Result, ensure};
use heaplab_trace::program::Program;
use std::path::Path;
use std::process::Command;

/// Heaps that callgrind can run unchanged.
const HEAPS: [&str; 2] = ["null", "glibc"];

/// Prints the table.
///
/// # Errors
/// valgrind is missing, or a process fails.
pub fn bench(name: &str, program: &Program) -> Result<()> {
    let events = program.facts().events;
    println!("instructions an event, by callgrind: {name}, {events} events");
    for heap in HEAPS {
        let once = counted(heap, program.path(), 1)?;
        let twice = counted(heap, program.path(), 2)?;
        let pass = twice.checked_sub(once).context("two passes took less than one")?;
        println!("{heap:<10} {:>8.1}", pass as f64 / events as f64);
    }
    Ok(())
}

/// Instructions of a process that makes `passes` passes.
fn counted(heap: &str, program: &Path, passes: u32) -> Result<u64> {
    let run = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(std::env::current_exe()?)
        .args(["replay", "--cell", heap, "--passes", &passes.to_string(), "--program"])
        .arg(program)
        .output()
        .context("cannot run valgrind, whose callgrind counts: install it")?;
    let text = String::from_utf8_lossy(&run.stderr);
    ensure!(run.status.success(), "{heap} under callgrind: {}\n{text}", run.status);
    collected(&text).with_context(|| format!("callgrind does not say `Collected`:\n{text}"))
}

/// The number behind `Collected :`.
fn collected(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.split_once("Collected :"))?;
    line.1.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::collected;

    #[test]
    fn what_callgrind_says_is_read() {
        let text = "==7== \n==7== Events    : Ir\n==7== Collected : 1234567\n==7==\n";
        assert_eq!((collected(text), collected("==7== Events : Ir")), (Some(1_234_567), None));
    }
}
