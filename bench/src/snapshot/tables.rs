//! The tables that `cargo xtask bench snapshot` prints and docs/benchmarks.md quotes; and the
//! bounds.

use super::measurement::{ALL, Measured, One};
use super::peers::Peer;
use super::{Args, Table};
use crate::bounds::Bounds;
use crate::measure::Spread;
use anyhow::{Context, Result};
use std::path::Path;

/// Size of the file for which the bounds were set, MB; they are scaled to other sizes.
const BOUNDS_FOR_MB: f64 = 457.0;
const ONE_THREAD_S: f64 = 2.5;
const ONE_THREAD_MB: f64 = 700.0;
const TWO_THREADS_S: f64 = 1.5;
const INDEX_S: f64 = 0.2;
/// Bound of leaks of three files, as a multiple of one summary: CPU time and memory.
const LEAKS_TIMES: f64 = 3.0;
const LEAKS_MEMORY_TIMES: f64 = 1.5;
const READING_GB_A_SECOND: f64 = 1.5;
/// Bound of three copies, as a multiple of one.
const THREE_COPIES: f64 = 3.1;

/// A row for each measurement: medians, and the range.
pub fn print(args: &Args, peers: &[Peer], file: &Path, table: &Table) -> Result<()> {
    let bytes = bytes_of(file)?;
    println!(
        "{}: {:.0} MB; median and range of {} repetitions in turns\n",
        file.display(),
        bytes / 1e6,
        args.reps
    );
    println!(
        "| what | wall, s | CPU, s | of it system, s | page faults, thousands | peak, MB | read, GB/s by the clock |"
    );
    println!("|---|---|---|---|---|---|---|");
    for ((one, name), measured) in ALL.iter().zip(table) {
        let rate = one.is_reading().then(|| rates(bytes, measured));
        print_row(name, measured, "besides the file", rate);
    }
    for (peer, measured) in peers.iter().zip(&table[ALL.len()..]) {
        print_row(&peer.name, measured, "in all", None);
    }
    println!();
    for (place, (one, name)) in ALL.iter().enumerate() {
        if matches!(one, One::Summary | One::SummaryBy2) {
            print_phases(name, *one, &table[place]);
        }
    }
    println!();
    Ok(())
}

fn bytes_of(file: &Path) -> Result<f64> {
    Ok(std::fs::metadata(file).with_context(|| file.display().to_string())?.len() as f64)
}

/// Reading speed of each repetition, GB/s.
fn rates(bytes: f64, measured: &[Measured]) -> Vec<f64> {
    measured.iter().map(|one| bytes / 1e9 / one.wall_s).collect()
}

fn print_row(name: &str, measured: &[Measured], memory: &str, rates: Option<Vec<f64>>) {
    if measured.is_empty() {
        println!("| {name} | skipped, it cannot be run here | | | | | |");
        return;
    }
    let memory_mb = measured.iter().map(|one| one.anonymous_mb).fold(0.0, f64::max);
    let faults = Spread::of(measured.iter().map(|one| one.faults as f64 / 1e3)).median;
    println!(
        "| {name} | {} | {} | {} | {faults:.0} | {memory_mb:.0} {memory} | {} |",
        spread(measured.iter().map(|one| one.wall_s), 3),
        spread(measured.iter().map(|one| one.cpu_s), 3),
        spread(measured.iter().map(|one| one.system_s), 3),
        rates.map(|rates| spread(rates, 2)).unwrap_or_default(),
    );
}

/// A median and its range; a single value stands alone.
fn spread(values: impl IntoIterator<Item = f64>, digits: usize) -> String {
    let Spread { median, least, most } = Spread::of(values);
    if least == most {
        format!("{median:.digits$}")
    } else {
        format!("{median:.digits$} ({least:.digits$} to {most:.digits$})")
    }
}

/// CPU time by phase; with two threads also the part on the longest way.
fn print_phases(name: &str, one: One, measured: &[Measured]) {
    let Some(first) = measured.first() else { return };
    let phases = first.phases.iter().map(|(phase, _)| {
        let of = |one: &Measured| {
            one.phases.iter().filter(|(other, _)| other == phase).map(|(_, cpu_s)| cpu_s).sum()
        };
        format!("{phase} {:.3}", Spread::of(measured.iter().map(of)).median)
    });
    println!("{name}, CPU s by phase:");
    for line in phases.collect::<Vec<_>>().chunks(4) {
        println!("    {}", line.join(", "));
    }
    if one == One::SummaryBy2 {
        println!(
            "{name}, CPU s on the longest way through both threads:\n    {}",
            spread(measured.iter().map(Measured::critical_s), 3)
        );
    }
}

/// The ladder's time as a multiple of one copy's, repetition by repetition.
pub fn print_growth(peers: &[Peer], copies: u32, tables: &[Table]) {
    println!(
        "{copies} copies, times one, by repetition: median and range\n\n| what | CPU | user | clock |\n|---|---|---|---|"
    );
    let names =
        ALL.iter().map(|(_, name)| *name).chain(peers.iter().map(|peer| peer.name.as_str()));
    for (place, name) in names
        .enumerate()
        .filter(|(place, _)| ALL.get(*place).is_none_or(|(one, _)| *one != One::Index))
    {
        if tables.iter().all(|table| !table[place].is_empty()) {
            let ratio = |of: fn(&Measured) -> f64| spread(growth(tables, place, of), 2);
            println!(
                "| {name} | {} | {} | {} |",
                ratio(|one| one.cpu_s),
                ratio(|one| one.cpu_s - one.system_s),
                ratio(|one| one.wall_s)
            );
        }
    }
}

/// The same figure of the ladder and of one copy, divided, by repetition.
fn growth(
    tables: &[Table],
    place: usize,
    of: fn(&Measured) -> f64,
) -> impl Iterator<Item = f64> + '_ {
    tables[0][place].iter().zip(&tables[1][place]).map(move |(one, many)| of(many) / of(one))
}

/// The measurements of one of ours.
fn ours(table: &Table, wanted: One) -> (&'static str, &[Measured]) {
    let place = ALL.iter().position(|(one, _)| *one == wanted).unwrap_or_default();
    (ALL[place].1, &table[place])
}

/// The bounds on one file: elapsed seconds, because a user waits for them.
pub fn bounds(bounds: &mut Bounds, file: &Path, table: &Table) -> Result<()> {
    let bytes = bytes_of(file)?;
    let scale = bytes / 1e6 / BOUNDS_FOR_MB;
    let wall = |measured: &[Measured]| measured.iter().map(|one| one.wall_s).collect::<Vec<_>>();
    let (name, measured) = ours(table, One::Read);
    bounds.median_at_least(name, rates(bytes, measured), "GB/s", READING_GB_A_SECOND);
    let (name, measured) = ours(table, One::Summary);
    bounds.median_at_most(
        &format!("{name}, one thread"),
        wall(measured),
        "s",
        ONE_THREAD_S * scale,
    );
    let peak_mb = measured.iter().map(|one| one.anonymous_mb).fold(0.0, f64::max);
    bounds.at_most("its peak besides the mapped file", peak_mb, "MB", ONE_THREAD_MB * scale);
    let (leaks_name, leaks) = ours(table, One::Leaks);
    let times = measured.iter().zip(leaks).map(|(one, leaks)| leaks.cpu_s / one.cpu_s);
    bounds.median_at_most(
        &format!("{leaks_name}, CPU time of a summary of one"),
        times.collect::<Vec<_>>(),
        "times",
        LEAKS_TIMES,
    );
    let leaks_mb = leaks.iter().map(|one| one.anonymous_mb).fold(0.0, f64::max);
    bounds.at_most(
        "their peak, that of a summary",
        leaks_mb / peak_mb,
        "times",
        LEAKS_MEMORY_TIMES,
    );
    let (name, measured) = ours(table, One::SummaryBy2);
    bounds.median_at_most(name, wall(measured), "s", TWO_THREADS_S * scale);
    let (name, measured) = ours(table, One::Index);
    bounds.median_at_most(name, wall(measured), "s", INDEX_S);
    Ok(())
}

/// The bound on a ladder's growth: by CPU time, so that other programs do not count.
pub fn ladder_bounds(bounds: &mut Bounds, copies: u32, tables: &[Table]) {
    let bound = THREE_COPIES * f64::from(copies) / 3.0;
    for (one, threads) in [(One::Summary, "one thread"), (One::SummaryBy2, "two threads")] {
        let place = ALL.iter().position(|(other, _)| *other == one).unwrap_or_default();
        let what = format!("a summary of {copies} copies, that of one, {threads}");
        bounds.median_at_most(&what, growth(tables, place, |one| one.cpu_s), "times", bound);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(wall_s: f64, anonymous_mb: f64) -> Measured {
        Measured {
            wall_s,
            cpu_s: wall_s,
            system_s: 0.0,
            faults: 0,
            anonymous_mb,
            phases: Vec::new(),
        }
    }

    /// A file of a tenth of the size, and a table in which every measurement takes this long.
    fn table(seconds: f64, memory_mb: f64) -> (tempfile::NamedTempFile, Table) {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(45_700_000).unwrap();
        (file, vec![vec![measured(seconds, memory_mb); 3]; ALL.len()])
    }

    #[test]
    fn bounds_are_scaled_to_the_file_and_judged() {
        let (file, fast) = table(0.03, 60.0);
        let mut met = Bounds::default();
        bounds(&mut met, file.path(), &fast).unwrap();
        assert!(met.finish().is_ok());
        for (seconds, memory_mb, missed) in
            [(0.031, 60.0, 1), (0.03, 71.0, 1), (0.16, 60.0, 2), (0.26, 60.0, 4)]
        {
            let (file, slow) = table(seconds, memory_mb);
            let mut bound = Bounds::default();
            bounds(&mut bound, file.path(), &slow).unwrap();
            assert_eq!(
                bound.finish().unwrap_err().to_string(),
                format!("{missed} of 7 bounds not met"),
                "{seconds} s, {memory_mb} MB"
            );
        }
    }

    #[test]
    fn a_ladder_may_grow_with_its_copies() {
        let tables = |many: f64| [table(1.0, 1.0).1, table(many, 1.0).1];
        let judged = |copies, many| {
            let mut bounds = Bounds::default();
            ladder_bounds(&mut bounds, copies, &tables(many));
            bounds.finish().is_ok()
        };
        assert!(judged(3, 3.1) && !judged(3, 3.2) && judged(6, 6.2) && !judged(6, 6.3));
    }
}
