//! A program recorded by heaplab and by heaptrack in turns: the bytes of each recording, and the
//! CPU time until it exists.
//!
//! heaptrack can leave three files: the recorded program's raw one, the raw one compressed
//! (`heaptrack --raw`), and an interpreted and compressed one (`heaptrack`). All three come from
//! one run; heaptrack's script pipes instead of storing in between. All times of heaplab and
//! heaptrack are those above the plain run of the same repetition, in all processes.

use crate::measure::{Spread, run as run_command};
use crate::programs::{self, Heaptrack, Program};
use anyhow::Result;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The files, in the order of a repetition's figures.
const FILES: [&str; 4] = [
    "heaplab, bundle (depth 64)",
    "heaptrack, raw",
    "heaptrack, raw, zstd",
    "heaptrack, finished, zstd",
];

/// Bytes an event and CPU added, ns an event.
type Figures = (f64, f64);

/// Runs and prints the comparison; returns the last bundle.
pub fn bench(heaplab: &Path, program: &Program, reps: usize, folder: &Path) -> Result<PathBuf> {
    let bundle = folder.join("recorded.heaplab");
    let heaptrack = Heaptrack::find();
    let mut rows: Vec<Vec<Figures>> = Vec::new();
    let mut events = 0;
    for _ in 0..reps {
        let mut plain = Command::new(&program.command[0]);
        program.attach(plain.args(&program.command[1..]).stderr(Stdio::null()))?;
        let plain_s = run_command(&mut plain)?.cpu_s;
        let (used, counted) = programs::record(heaplab, 64, program, &program.command, &bundle)?;
        events = counted;
        let figures = |bytes: u64, cpu_s: f64| {
            (bytes as f64 / counted as f64, (cpu_s - plain_s) / counted as f64 * 1e9)
        };
        let mut row = vec![figures(bytes_in(&bundle)?, used.cpu_s)];
        if let Some(heaptrack) = &heaptrack {
            let raw = folder.join("heaptrack.raw");
            let recording_s = heaptrack.record(program, &raw)?.cpu_s;
            row.push(figures(raw.metadata()?.len(), recording_s));
            let file = folder.join("heaptrack.zst");
            let compressing_s = programs::compress("zstd", &raw, &file)?;
            row.push(figures(file.metadata()?.len(), recording_s + compressing_s));
            let finishing_s = heaptrack.finish(&raw, &file)?;
            row.push(figures(file.metadata()?.len(), recording_s + finishing_s));
            std::fs::remove_file(raw)?;
        }
        rows.push(row);
    }
    println!(
        "{}, recorded in turns: {events} events (as heaplab counts); median (range) of {reps}",
        program.name
    );
    println!("{:<26} {:>22} {:>28}", "file", "bytes an event", "CPU added, ns an event");
    for (place, file) in FILES.iter().enumerate().take(rows[0].len()) {
        let bytes = Spread::of(rows.iter().map(|row| row[place].0));
        let time = Spread::of(rows.iter().map(|row| row[place].1)).to_string();
        let bytes = format!("{:.3} ({:.3} to {:.3})", bytes.median, bytes.least, bytes.most);
        println!("{file:<26} {bytes:>22} {time:>28}");
    }
    Ok(bundle)
}

/// Bytes of all files in the folder.
fn bytes_in(folder: &Path) -> Result<u64> {
    std::fs::read_dir(folder)?.try_fold(0, |sum, entry| Ok(sum + entry?.metadata()?.len()))
}
