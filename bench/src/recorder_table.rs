//! The tables of the recording benchmark: CPU time added, as two estimates, and the bounds.
//!
//! Other load on the machine only adds to a run's CPU time, by taking caches and memory, and comes
//! and goes over seconds. So the judged figure is the lower quartile of many runs minus the lower
//! quartile of the plain runs between them, with a bootstrap interval of 95 %. Even if runs differ
//! by a third of their time, this quartile stays in place. The median's estimate stands beside it:
//! the Hodges-Lehmann estimate of the differences between each run and its two neighbouring plain
//! runs.

use super::bounds::Bounds;
use super::measure::{Spread, Used};
use super::recorder::{FLOORS, Run, Way};
use anyhow::{Context, Result};
use heaplab_statistics::{Estimate, bootstrap_apart, hodges_lehmann, lower_quartile};

/// Confidence of every interval.
const CONFIDENCE: f64 = 0.95;
/// Resamplings of the bootstrap.
const RESAMPLES: usize = 4000;
/// Seed of the bootstrap, so that the same runs give the same interval.
const SEED: u64 = 1;
/// ns an event in the target, by stack depth, on the programs below.
const IN_TARGET: [(u32, f64); 2] = [(0, 15.0), (16, 100.0)];
/// Programs that do other work too.
const REAL: [&str; 2] = ["sqlite", "C++ compiler"];
/// Two threads' cost an event, as a multiple of one thread's.
const TWO_THREADS: f64 = 1.2;
/// KiB that a recorder may add, and KiB that each thread may add.
const MEMORY_KIB: (f64, f64) = (4096.0, 1024.0);

/// A run, and the plain runs just before and after it.
#[derive(Clone, Copy, Default)]
pub struct Beside {
    /// The run in one of the ways.
    pub run: Run,
    /// The plain run before.
    pub before: Used,
    /// The plain run after.
    pub after: Used,
}

/// The measurements of one program.
pub struct Table<'a> {
    /// The program's name.
    pub name: &'static str,
    /// The ways in which it ran.
    pub ways: &'a [Way],
    /// For each repetition a run in each way.
    pub rows: Vec<Vec<Beside>>,
}

/// Prints each program's table, and gathers the bounds.
///
/// # Errors
/// Nothing was recorded.
pub fn print(tables: &[Table], bounds: &mut Bounds) -> Result<()> {
    let reps = tables[0].rows.len();
    println!(
        "CPU added, ns an event, {reps} repetitions: lower quartile less that of the plain runs (95 % interval);"
    );
    println!(
        "pairs: each run less the plain runs next to it; system: the kernel's share; KiB: resident memory added"
    );
    for table in tables {
        table.print()?;
        table.judge(bounds)?;
    }
    if let [.., one, two] = tables
        && (one.name, two.name) == ("one thread", "two threads")
    {
        two.beside_one_thread(one, bounds)?;
    }
    Ok(())
}

impl Table<'_> {
    fn print(&self) -> Result<()> {
        let events = self.events()?;
        let Spread { median, least, most } = Spread::of(self.plain(|used| used.cpu_s));
        println!(
            "\n{}: {events:.0} events, {median:.3} s of CPU when not recorded ({least:.3} to {most:.3})",
            self.name
        );
        println!(
            "{:<17} {:>22} {:>7} {:>6} {:>22} {:>7}",
            "", "in the target", "pairs", "system", "in all processes", "KiB"
        );
        for (place, &way) in self.ways.iter().enumerate() {
            let target = self.added(place, |used| used.cpu_s, |run| run.target)?;
            let system = self.added(place, |used| used.system_s, |run| run.target)?.value;
            let all = self.added(place, |used| used.cpu_s, |run| run.all)?;
            let pairs = self.pairs(place)?.value;
            let (target, all, kib) =
                (text(&target), text(&all), Spread::of(self.resident_added(place)).median);
            println!(
                "{:<17} {target:>22} {pairs:>7.1} {system:>6.1} {all:>22} {kib:>7.0}",
                name(way)
            );
        }
        Ok(())
    }

    /// Judges the cost of recording at each depth.
    fn judge(&self, bounds: &mut Bounds) -> Result<()> {
        let peer = self.ways.iter().position(|&way| way == Way::Heaptrack);
        let threads = if self.name == "two threads" { 2.0 } else { 1.0 };
        for (place, &way) in self.ways.iter().enumerate() {
            let Way::Heaplab(depth) = way else { continue };
            let what = format!("{}, depth {depth}", self.name);
            if let Some((_, most)) =
                IN_TARGET.iter().find(|(of, _)| *of == depth && REAL.contains(&self.name))
            {
                bounds.estimate_at_most(
                    &format!("{what}, in the target"),
                    &self.added(place, |used| used.cpu_s, |run| run.target)?,
                    "ns an event",
                    *most,
                );
            }
            if let Some(peer) = peer {
                let samples = [
                    self.sample(place, |run| run.all),
                    self.sample(peer, |run| run.all),
                    self.plain(|used| used.cpu_s),
                ];
                bounds.estimate_at_most(
                    &format!("{what}, all processes"),
                    &ratio_beyond(&samples, [0, 2], [1, 2])?,
                    "times heaptrack",
                    1.0,
                );
            }
            let resident = self.resident_added(place);
            bounds.median_at_most(
                &format!("{what}, memory added"),
                resident,
                "KiB",
                MEMORY_KIB.0 + threads * MEMORY_KIB.1,
            );
        }
        Ok(())
    }

    /// Two threads' cost an event as a multiple of one's, in each way; judged if heaplab records.
    fn beside_one_thread(&self, one: &Table, bounds: &mut Bounds) -> Result<()> {
        let events = [one.events()?, self.events()?];
        for (place, &way) in self.ways.iter().enumerate() {
            let an_event = |values: Vec<f64>, events: f64| {
                values.into_iter().map(|value| value / events).collect::<Vec<f64>>()
            };
            let of = |table: &Table, events| {
                [
                    an_event(table.sample(place, |run| run.target), events),
                    an_event(table.plain(|used| used.cpu_s), events),
                ]
            };
            let ([two, two_plain], [one, one_plain]) = (of(self, events[1]), of(one, events[0]));
            let ratio = ratio_beyond(&[two, two_plain, one, one_plain], [0, 1], [2, 3])?;
            match way {
                Way::Heaplab(depth) => {
                    bounds.estimate_at_most(
                        &format!("two threads, depth {depth}, in the target"),
                        &ratio,
                        "times one thread",
                        TWO_THREADS,
                    );
                }
                _ => println!(
                    "two threads in times of one, {}, in the target: {}",
                    name(way),
                    text(&ratio)
                ),
            }
        }
        Ok(())
    }

    fn events(&self) -> Result<f64> {
        let most = self.rows.iter().flatten().map(|beside| beside.run.events).max();
        Ok(most
            .filter(|events| *events > 0)
            .with_context(|| format!("{}: heaplab recorded no event", self.name))?
            as f64)
    }

    /// CPU seconds of the runs in one way.
    fn sample(&self, place: usize, run: impl Fn(&Run) -> Used) -> Vec<f64> {
        self.rows.iter().map(|row| run(&row[place].run).cpu_s).collect()
    }

    /// A figure of the plain runs, each once.
    fn plain(&self, of: impl Fn(&Used) -> f64) -> Vec<f64> {
        self.rows.iter().flatten().map(|beside| of(&beside.after)).collect()
    }

    /// ns an event beyond the plain runs, by lower quartiles.
    fn added(
        &self,
        place: usize,
        of: impl Fn(&Used) -> f64,
        run: impl Fn(&Run) -> Used,
    ) -> Result<Estimate> {
        let events = self.events()?;
        let recorded: Vec<f64> =
            self.rows.iter().map(|row| of(&run(&row[place].run)) / events * 1e9).collect();
        let plain: Vec<f64> =
            self.plain(of).into_iter().map(|seconds| seconds / events * 1e9).collect();
        let difference = |samples: &[Vec<f64>]| {
            Some(lower_quartile(&samples[0])? - lower_quartile(&samples[1])?)
        };
        bootstrap_apart(&[&recorded, &plain], difference, CONFIDENCE, RESAMPLES, SEED)
            .context("no repetition")
    }

    /// ns an event in the target beyond the plain runs next to each run.
    fn pairs(&self, place: usize) -> Result<Estimate> {
        let events = self.events()?;
        let difference = |beside: &Beside| {
            beside.run.target.cpu_s - (beside.before.cpu_s + beside.after.cpu_s) / 2.0
        };
        let values: Vec<f64> =
            self.rows.iter().map(|row| difference(&row[place]) / events * 1e9).collect();
        hodges_lehmann(&values, CONFIDENCE).context("no repetition")
    }

    /// KiB beyond the plain run after.
    fn resident_added(&self, place: usize) -> Vec<f64> {
        self.rows
            .iter()
            .map(|row| {
                row[place].run.target.resident_kib as f64 - row[place].after.resident_kib as f64
            })
            .collect()
    }
}

/// The ratio of two differences of lower quartiles: that of two samples (given by their places) to
/// that of two others.
fn ratio_beyond(
    samples: &[Vec<f64>],
    [upper, upper_plain]: [usize; 2],
    [lower, lower_plain]: [usize; 2],
) -> Result<Estimate> {
    let samples: Vec<&[f64]> = samples.iter().map(Vec::as_slice).collect();
    let ratio = |of: &[Vec<f64>]| {
        let quartile = |place: usize| lower_quartile(&of[place]);
        Some(
            (quartile(upper)? - quartile(upper_plain)?)
                / (quartile(lower)? - quartile(lower_plain)?),
        )
    };
    bootstrap_apart(&samples, ratio, CONFIDENCE, RESAMPLES, SEED).context("no repetition")
}

fn name(way: Way) -> String {
    match way {
        Way::Plain => String::from("plain"),
        Way::Heaplab(depth) => format!("heaplab, depth {depth}"),
        Way::Before(depth) => format!("before, depth {depth}"),
        Way::Heaptrack => String::from("heaptrack, raw"),
        Way::Floor(place) => String::from(FLOORS[place].0),
    }
}

fn text(estimate: &Estimate) -> String {
    format!("{:.1} ({:.1} to {:.1})", estimate.value, estimate.low, estimate.high)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(cpu_s: f64) -> Used {
        Used { cpu_s, resident_kib: (cpu_s * 1000.0) as i64, ..Used::default() }
    }

    /// 1,000 events. Plain runs take 1 s, but every other one is disturbed; recorded runs take 2 s
    /// and are disturbed alike.
    fn table(ways: &[Way]) -> Table<'_> {
        let row = |repetition: usize| {
            let disturbed = if repetition.is_multiple_of(2) { 0.0 } else { 5.0 };
            let run =
                Run { target: used(2.0 + disturbed), all: used(4.0 + disturbed), events: 1000 };
            ways.iter()
                .map(|_| Beside {
                    run,
                    before: used(1.0 + disturbed),
                    after: used(1.0 + disturbed),
                })
                .collect()
        };
        Table { name: "sqlite", ways, rows: (0..20).map(row).collect() }
    }

    #[test]
    fn load_that_comes_and_goes_is_not_counted() {
        let table = table(&[Way::Heaplab(0)]);
        let added = table.added(0, |used| used.cpu_s, |run| run.target).unwrap();
        assert!((added.value - 1e6).abs() < 1.0, "{added:?}");
        assert!((table.pairs(0).unwrap().value - 1e6).abs() < 1.0);
        assert_eq!(Spread::of(table.resident_added(0)).median, 1000.0);
    }

    #[test]
    fn a_peer_that_costs_as_much_is_once() {
        let table = table(&[Way::Heaplab(0), Way::Heaptrack]);
        let samples = [
            table.sample(0, |run| run.all),
            table.sample(1, |run| run.all),
            table.plain(|used| used.cpu_s),
        ];
        assert!((ratio_beyond(&samples, [0, 2], [1, 2]).unwrap().value - 1.0).abs() < 1e-9);
        let mut bounds = Bounds::default();
        print(&[table], &mut bounds).unwrap();
        assert!(bounds.finish().is_err(), "15 ns an event is missed by a million");
    }

    #[test]
    fn what_recorded_nothing_is_an_error() {
        let mut table = table(&[Way::Heaplab(0)]);
        table.rows.iter_mut().flatten().for_each(|beside| beside.run.events = 0);
        assert!(table.events().unwrap_err().to_string().contains("sqlite"));
    }
}
