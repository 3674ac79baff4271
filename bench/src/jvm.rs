//! `cargo xtask bench jvm`: the cost of recording a JVM's metaspace. Reports the run's time and all
//! processes' CPU time, beside the plain run and the JVM writing the same log to a file.
//!
//! Each repetition runs the program in each way, in this order, so that a slow minute of the
//! machine affects all of them. The figures are ratios within a repetition, as median and range.

use super::{measure, programs};
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// Arguments of `cargo xtask bench jvm`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Repetitions
    #[arg(long, default_value_t = 7, value_parser = super::one_or_more)]
    reps: usize,
    /// The heaplab to measure [default: a release build of this tree]
    #[arg(long, value_parser = super::existing)]
    heaplab: Option<PathBuf>,
}

/// The cost of one run.
#[derive(Clone, Copy, Default)]
struct Run {
    wall_s: f64,
    cpu_s: f64,
}

const WAYS: [&str; 3] = ["plain", "log to a file", "heaplab record"];

/// Runs the benchmark.
pub fn run(args: &Args) -> Result<()> {
    let heaplab = programs::heaplab(args.heaplab.as_deref())?;
    let folder = tempfile::tempdir()?;
    let classes = folder.path().display().to_string();
    let source =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/heaplab/tests/java/Loaders.java");
    measure::run(Command::new("javac").arg("-d").arg(&classes).arg(&source))?;
    let source = source.display().to_string();
    let programs: [(&str, Vec<&str>); 3] = [
        (
            "java, 4,000 class loaders, 90 % dropped",
            vec!["java", "-Xshare:auto", "-cp", &classes, "Loaders", "4000", "10", "0"],
        ),
        ("javac of one file", vec!["javac", "-d", &classes, &source]),
        ("java -version", vec!["java", "-version"]),
    ];
    println!("time and CPU, times the plain run's: median (range) of {} repetitions;", args.reps);
    println!("an allocation is one of the metaspace");
    for (name, command) in &programs {
        let mut rows = Vec::new();
        let (mut allocations, mut log_bytes) = (0, 0);
        for _ in 0..args.reps {
            let mut row = [Run::default(); 3];
            for (way, run) in row.iter_mut().enumerate() {
                *run =
                    once(folder.path(), &heaplab, command, way, &mut allocations, &mut log_bytes)?;
            }
            rows.push(row);
        }
        println!("{name}: {allocations} allocations, {:.1} MB of log", log_bytes as f64 / 1e6);
        for (way, title) in WAYS.iter().enumerate() {
            let spread = |value: &dyn Fn(&[Run; 3]) -> f64| {
                let mut values: Vec<f64> = rows.iter().map(value).collect();
                values.sort_by(f64::total_cmp);
                (values[values.len() / 2], values[0], values[values.len() - 1])
            };
            let (wall, least, most) = spread(&|row| row[way].wall_s / row[0].wall_s);
            let (cpu, cpu_least, cpu_most) = spread(&|row| row[way].cpu_s / row[0].cpu_s);
            let (seconds, _, _) = spread(&|row| row[way].wall_s);
            println!(
                "  {title:<14} {seconds:>7.3} s; time {wall:.2} ({least:.2} to {most:.2}), CPU {cpu:.2} ({cpu_least:.2} to {cpu_most:.2})"
            );
        }
    }
    Ok(())
}

fn once(
    folder: &Path,
    heaplab: &Path,
    command: &[&str],
    way: usize,
    allocations: &mut u64,
    log_bytes: &mut u64,
) -> Result<Run> {
    let (log, bundle) = (folder.join("jvm.log"), folder.join("run.heaplab"));
    let mut started =
        Command::new(if way == 2 { heaplab.as_os_str() } else { command[0].as_ref() });
    if way == 2 {
        started
            .args(["record", "--jvm-metaspace", "--json", "--force", "-o"])
            .arg(&bundle)
            .arg("--")
            .args(command);
    } else {
        started.args(&command[1..]);
    }
    if way == 1 {
        started.env(
            "JAVA_TOOL_OPTIONS",
            format!(
                "-Xlog:metaspace*=trace:file={}:uptimenanos,pid,tid:filecount=0",
                log.display()
            ),
        );
    }
    let said = folder.join("said");
    started.stdin(Stdio::null()).stdout(Stdio::null()).stderr(std::fs::File::create(&said)?);
    let begun = Instant::now();
    let used = measure::run(&mut started)?;
    let run = Run { wall_s: begun.elapsed().as_secs_f64(), cpu_s: used.cpu_s };
    match way {
        1 => *log_bytes = std::fs::metadata(&log)?.len(),
        2 => {
            let text = std::fs::read_to_string(&said)?;
            let summary: serde_json::Value =
                serde_json::from_str(text.lines().last().context("heaplab printed nothing")?)?;
            *allocations = summary["allocations"].as_u64().context("no number of allocations")?;
            if let Some(cut) = summary["cut"].as_str() {
                bail!("the recording was cut: {cut}");
            }
        }
        _ => {}
    }
    Ok(run)
}
