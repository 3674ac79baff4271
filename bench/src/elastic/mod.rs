//! `cargo xtask bench elastic`: elastic arenas beside bumpalo, mallocs, talloc and HotSpot's own
//! arenas; each bound has a row.
//!
//! Space is measured in fresh processes (RssAnon above the start). Time is measured by the thread's
//! CPU clock in pairs, one after the other, because other work on the machine moves absolute times
//! far more than ratios.

mod bundle;
mod drops;
mod fresh;
mod hotspot;
mod large;
mod peers;
mod phases;
mod settings;
mod space;
mod threads;
mod time;
mod workload;

use anyhow::{Context, Result, bail, ensure};
use serde::Serialize;
use std::path::PathBuf;
use time::Ratio;

/// Arguments of `cargo xtask bench elastic`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Pairs of each time; the median ratio and its limit are printed
    #[arg(long, default_value_t = 31)]
    repetitions: usize,
    /// Seeds of the sizes and of the drops: each is a fresh process for every heap and order, and
    /// every one must be within the bounds
    #[arg(long, default_value_t = 3)]
    seeds: u64,
    /// Only the parts whose name contains this: hotspot, space, drops, settings, reuse, fresh,
    /// large, replay, threads
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Replay this bundle, too: a JVM's metaspace, recorded with `heaplab record --jvm-metaspace`
    #[arg(long, value_name = "BUNDLE", value_parser = super::existing)]
    recording: Vec<PathBuf>,
    /// Write the figures to this file as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// One space measurement, in this process
    #[arg(long, hide = true)]
    child: Option<String>,
}

/// Rounds of the threads' rows for each repetition: the rounds are short, and their noise is large.
const ROUNDS_A_REPETITION: usize = 8;

/// A bound and whether it holds.
#[derive(Debug, Serialize)]
struct Row {
    what: String,
    measured: String,
    bound: String,
    holds: bool,
}

/// Everything that was measured.
#[derive(Debug, Default, Serialize)]
struct Figures {
    rows: Vec<Row>,
    space: Vec<space::Measured>,
    drops: Vec<drops::Drop>,
    old_drops: Vec<hotspot::OldDrop>,
    settings: Vec<(String, settings::Replay)>,
    ratios: Vec<(String, Ratio)>,
    fresh: Vec<(String, fresh::Fresh)>,
    /// Live arenas at a time, and the measurement.
    threads: Vec<(usize, threads::Threads)>,
}

/// The choices of `--only`.
const PARTS: [&str; 9] =
    ["hotspot", "space", "drops", "settings", "reuse", "fresh", "large", "replay", "threads"];

impl Figures {
    fn row(&mut self, what: &str, measured: String, bound: &str, holds: bool) {
        println!("{}  {what}: {measured} (bound: {bound})", if holds { "PASS" } else { "FAIL" });
        self.rows.push(Row { what: what.into(), measured, bound: bound.into(), holds });
    }
}

fn megabytes(bytes: usize) -> f64 {
    bytes as f64 / 1e6
}

/// Runs the benchmark.
pub fn run(args: &Args) -> Result<()> {
    if let Some(child) = &args.child {
        return space::child(child);
    }
    if let Some(only) =
        args.only.as_deref().filter(|only| !PARTS.iter().any(|name| name.contains(only)))
    {
        bail!("--only {only}: there is no such part; there are {}", PARTS.join(", "));
    }
    let wanted = |name: &str| args.only.as_ref().is_none_or(|only| name.contains(only.as_str()));
    let mut figures = Figures::default();
    if wanted("hotspot") {
        hotspots(&mut figures)?;
    }
    if wanted("space") {
        spaces(&mut figures, args.seeds)?;
    }
    if wanted("drops") {
        committed(&mut figures)?;
    }
    if wanted("settings") {
        settings_cost(&mut figures, args.repetitions.div_ceil(8))?;
    }
    if wanted("reuse") {
        for (name, count) in [("reuse, 20 k blocks", 20_000), ("reuse, 1 M blocks", 1_000_000)] {
            let ratio = time::reuse(count, args.repetitions)?;
            against_bumpalo(&mut figures, name, ratio);
        }
    }
    if wanted("fresh") {
        fresh(&mut figures, args.repetitions)?;
    }
    if wanted("large") {
        large_blocks(&mut figures, args.repetitions.div_ceil(4))?;
    }
    if wanted("replay") {
        replays(&mut figures, args.repetitions, &args.recording)?;
    }
    if wanted("threads") {
        for at_a_time in [100, 1] {
            two_threads(&mut figures, args.repetitions * ROUNDS_A_REPETITION, at_a_time)?;
        }
    }
    let failed = figures.rows.iter().filter(|row| !row.holds).count();
    let bounds = figures.rows.len();
    println!("\n{bounds} bounds, {failed} not met");
    if let Some(path) = &args.json {
        std::fs::write(path, serde_json::to_string_pretty(&figures)?)?;
    }
    ensure!(failed == 0, "{failed} of {bounds} bounds not met");
    Ok(())
}

/// Checks that HotSpot's arenas here decide as HotSpot's do.
fn hotspots(figures: &mut Figures) -> Result<()> {
    for trace in hotspot::TRACES {
        for policy in hotspot::POLICIES {
            let samples = hotspot::samples(trace, policy)?;
            let what = format!(
                "jdk17 beside HotSpot 17, {trace}, {policy}: used and committed words, samples"
            );
            figures.row(
                &what,
                samples.to_string(),
                "equal, word for word",
                samples.equal == samples.of,
            );
        }
    }
    for trace in hotspot::TRACES {
        let decisions = hotspot::decisions(trace)?;
        let what =
            format!("jdk17 beside HotSpot 17, {trace}: chunk decisions, class and non-class");
        figures.row(&what, decisions.to_string(), "equal", decisions.equal == decisions.of);
    }
    let drops = hotspot::old_drops()?;
    println!("\njdk11 beside JDK 11 at every drop of its own churn, MB:");
    println!(
        "| cycle | used | committed, JDK 11 | jdk11 | class space, JDK 11 | jdk11 | committed / used |"
    );
    println!("|---|---|---|---|---|---|---|");
    let mb = |bytes: u64| megabytes(bytes as usize);
    for drop in &drops {
        let [used, jvm, ours] = [drop.used_bytes, drop.jvm_bytes, drop.ours_bytes].map(mb);
        let [jvm_class, ours_class] = [drop.jvm_class_bytes, drop.ours_class_bytes].map(mb);
        println!(
            "| {} | {used:.2} | {jvm:.2} | {ours:.2} | {jvm_class:.2} | {ours_class:.2} | {:.2} |",
            drop.cycle,
            ours / used
        );
    }
    let off = drops
        .iter()
        .map(|drop| (drop.ours_bytes as f64 / drop.jvm_bytes as f64 - 1.0).abs())
        .fold(0.0, f64::max);
    let shrinks = drops.windows(2).any(|pair| pair[1].ours_class_bytes < pair[0].ours_class_bytes);
    let measured = format!(
        "{:.3} % off at most at {} drops; class space {}",
        off * 100.0,
        drops.len(),
        if shrinks { "shrinks" } else { "never shrinks" }
    );
    let holds = !drops.is_empty() && off <= 0.1 && !shrinks;
    figures.row(
        "jdk11 beside JDK 11: committed at every drop",
        measured,
        "within 10 %; class space never shrinks",
        holds,
    );
    figures.old_drops = drops;
    Ok(())
}

/// The cost of the granule and of the policies of giving memory back: no bounds, only a help to
/// choose.
fn settings_cost(figures: &mut Figures, repetitions: usize) -> Result<()> {
    println!(
        "\nSettings, churn replayed, every block written, {repetitions} times each, the median by the program's own thread:"
    );
    println!(
        "| | ns an event, own thread | all threads | committed / live at drops, at most | page faults | uncommits | ms in them, own thread | background | longest, us | mappings |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    for (name, replay) in settings::replays(repetitions)? {
        let settings::Replay {
            own_ns,
            all_ns,
            committed_to_live,
            faults,
            uncommits,
            times,
            mappings,
        } = replay;
        let ms = |ns: u64| ns as f64 / 1e6;
        println!(
            "| {name} | {own_ns:.1} | {all_ns:.1} | {committed_to_live:.2} | {faults} | {uncommits} | {:.2} | {:.2} | {:.0} | {mappings} |",
            ms(times.own_ns),
            ms(times.background_ns),
            times.longest_ns as f64 / 1e3
        );
        figures.settings.push((name.into(), replay));
    }
    let order = space::ORDERS[0];
    println!(
        "\nSettings, 10,000 arenas x 20 blocks, {order}, seed 1; MB resident above the start:"
    );
    println!("| | filled | 90 % dropped, trimmed | mappings | fill, ns an allocation |");
    println!("|---|---|---|---|---|");
    for one in settings::spaces(order, 1)? {
        let (filled, trimmed) = (megabytes(one.filled_bytes), megabytes(one.trimmed_bytes));
        println!(
            "| {} | {filled:.2} | {trimmed:.2} | {:+} | {:.0} |",
            one.heap, one.mappings, one.fill_ns
        );
        figures.space.push(one);
    }
    Ok(())
}

fn two_threads(figures: &mut Figures, rounds: usize, at_a_time: usize) -> Result<()> {
    let what = format!("two threads, each its own arenas, {at_a_time} at a time");
    let Some(threads) = threads::threads(rounds, at_a_time)? else {
        println!("SKIP  {what}: there is one processor");
        return Ok(());
    };
    println!(
        "\n{what}, {} rounds, in times of one thread ({:.1} ns an allocation), median and limits:",
        threads.rounds, threads.one_ns
    );
    println!("| | by the clock | by CPU time |");
    println!("|---|---|---|");
    println!("| two threads, one space | {} | {} |", threads.by_clock, threads.by_cpu);
    println!(
        "| two processes, a space each | {} | {} |",
        threads.processes_by_clock, threads.processes_by_cpu
    );
    println!("| two threads, arithmetic only | {} | |", threads.arithmetic);
    println!(
        "| two threads / two processes | {} | {} |",
        threads.to_processes_by_clock, threads.to_processes_by_cpu
    );
    println!(
        "of a million allocations of two threads: {:.1} waits, {:.1} page faults",
        threads.waits_per_million, threads.faults_per_million
    );
    let measured = format!(
        "{} times one thread's throughput by the clock; two processes that share nothing {}, arithmetic {}",
        threads.by_clock, threads.processes_by_clock, threads.arithmetic
    );
    figures.row(&what, measured, ">= 1.9 by the clock", threads.by_clock.median >= 1.9);
    let measured = format!(
        "{} of two processes' throughput by CPU time, {} by the clock, {:.1} waits in a million allocations",
        threads.to_processes_by_cpu, threads.to_processes_by_clock, threads.waits_per_million
    );
    // CPU time leaves out the time of other processes, and a wait for a lock only if the waiter
    // sleeps; such sleeps are counted.
    let holds = threads.to_processes_by_cpu.lower >= 0.97 && threads.waits_per_million < 1.0;
    figures.row(
        &format!("{what}, beside two processes"),
        measured,
        "lower limit by CPU time >= 0.97, < 1 wait",
        holds,
    );
    figures.threads.push((at_a_time, threads));
    Ok(())
}

fn against_bumpalo(figures: &mut Figures, name: &str, ratio: Ratio) {
    let measured = format!(
        "{:.2} ns, bumpalo {:.2}; ratio {:.3}, upper limit {:.3}",
        ratio.ours, ratio.peer, ratio.median, ratio.upper
    );
    figures.row(name, measured, "upper 95 % limit of the ratio <= 1.05", ratio.upper <= 1.05);
    figures.ratios.push((name.into(), ratio));
}

fn fresh(figures: &mut Figures, repetitions: usize) -> Result<()> {
    let populated = |bytes| fresh::page_ns(Some(bytes));
    println!(
        "a page costs {:.0} ns at its first touch, populated by 32 KB {:.0}, by 256 KB {:.0}",
        fresh::page_ns(None)?,
        populated(32 << 10)?,
        populated(256 << 10)?
    );
    for (name, count) in [("fresh, 20 k blocks", 20_000), ("fresh, 1 M blocks", 1_000_000)] {
        let small = fresh::fresh(count, false, repetitions)?;
        against_bumpalo(figures, name, small.ratio);
        println!(
            "      by where the loops lie: {} ns; page faults {} and {}",
            small.spread(),
            small.faults.0,
            small.faults.1
        );
        let huge = fresh::fresh(count, true, repetitions)?;
        let Ratio { ours, peer, median, upper } = huge.ratio;
        println!(
            "      {name}, in huge pages: {ours:.2} ns, bumpalo {peer:.2}; ratio {median:.3}, upper limit {upper:.3}"
        );
        let named = format!("{name}, in huge pages");
        figures.ratios.push((named.clone(), huge.ratio));
        figures.fresh.extend([(name.into(), small), (named, huge)]);
    }
    Ok(())
}

fn large_blocks(figures: &mut Figures, repetitions: usize) -> Result<()> {
    let (few, many) =
        (large::give_back_ns(500, repetitions)?, large::give_back_ns(8000, repetitions)?);
    for (nth, order) in large::ORDERS.iter().enumerate() {
        let ratio = many[nth] / few[nth];
        let measured = format!(
            "{:.0} ns a block of 500, {:.0} ns of 8,000; ratio {ratio:.2}",
            few[nth], many[nth]
        );
        figures.row(
            &format!("large blocks given back, {order}"),
            measured,
            "at most 8 times as much of 8,000",
            ratio <= 8.0,
        );
    }
    Ok(())
}

fn replays(figures: &mut Figures, repetitions: usize, bundles: &[PathBuf]) -> Result<()> {
    let (touch_ns, huge_touch_ns) = (fresh::page_ns(None)?, fresh::huge_page_ns()?);
    let bundles: Result<Vec<&str>> =
        bundles.iter().map(|path| path.to_str().context("--recording: a name in UTF-8")).collect();
    for name in ["churn", "jruby"].into_iter().chain(bundles?) {
        let events = workload::recording(name, true)?.steps.len();
        let replays = time::replays(name, repetitions)?;
        let of = |setting: &str| {
            let found = replays
                .iter()
                .find(|replays| (replays.setting, replays.peer) == (setting, "mimalloc"));
            found.map(|replays| replays.ratio).with_context(|| format!("{setting} is replayed"))
        };
        println!(
            "      replay of {name}, chunks by kind of arena to one sequence, by turns in one process: {}",
            time::by_turns(name, repetitions)?
        );
        let (limit, driver_ns) = (of(time::PLACED)?, of(time::DRIVER)?.ours);
        for time::Replays { setting, peer, ratio, faults } in replays {
            let what = format!("replay of {name}, {events} events, {setting}");
            let measured = format!(
                "{:.1} ns an event, {peer} {:.1}; ratio {:.3}, upper limit {:.3}; page faults {} and {}",
                ratio.ours, ratio.peer, ratio.median, ratio.upper, faults.0, faults.1
            );
            if (setting, peer) == (time::FAST_KINDS, "mimalloc") {
                let without = (ratio.ours - driver_ns) / (ratio.peer - driver_ns);
                let measured = format!(
                    "{measured}; without the driver's {driver_ns:.1} ns {without:.3}; {}: {:.1} ns, ratio {:.3}",
                    time::PLACED,
                    limit.ours,
                    limit.median
                );
                figures.row(
                    &what,
                    measured,
                    "upper 95 % limit of the ratio to mimalloc <= 0.7",
                    ratio.upper <= 0.7,
                );
                if let Some(touch_ns) = huge_touch_ns {
                    let (touch_us, kernel_ns) =
                        (touch_ns / 1000.0, touch_ns * faults.0 as f64 / events as f64);
                    println!(
                        "      of it {kernel_ns:.1} ns are the kernel's: a huge page's first touch costs {touch_us:.0} us, whoever makes it"
                    );
                }
            } else {
                println!("      {what}: {measured}");
            }
            if (setting, peer) == (time::SMALL_PAGES, "mimalloc") {
                let (touch_ns, least_ns) = (touch_ns, touch_ns * faults.0 as f64 / events as f64);
                println!(
                    "      of it {least_ns:.1} ns are the kernel's: a page's first touch costs {touch_ns:.0} ns, whoever makes it"
                );
            }
            figures.ratios.push((format!("{what}, {peer}"), ratio));
        }
    }
    Ok(())
}

fn committed(figures: &mut Figures) -> Result<()> {
    let recording = workload::recording("churn", false)?;
    println!("\nchurn's non-class arenas at every drop, KB:");
    println!(
        "| event | arenas | live | elastic, untrimmed | elastic | its pages with live blocks | heads and links | windows | leftovers | least | HotSpot aggressive | elastic / live | HotSpot / live | elastic / HotSpot | least / HotSpot |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|");
    let drops = drops::at_drops(&recording)?;
    let mut worst: f64 = 0.0;
    for drop in &drops {
        let kb = |bytes: usize| bytes as f64 / 1024.0;
        let ratio = drop.elastic_bytes as f64 / drop.hotspot_bytes as f64;
        worst = worst.max(ratio);
        let live = drop.live_bytes as f64;
        println!(
            "| {} | {} | {:.0} | {:.0} | {:.0} | {:.0} | {:.1} | {:.1} | {:.1} | {:.0} | {:.0} | {:.3} | {:.3} | {ratio:.3} | {:.3} |",
            drop.event,
            drop.arenas,
            kb(drop.live_bytes),
            kb(drop.untrimmed_bytes),
            kb(drop.elastic_bytes),
            kb(drop.touched_bytes),
            kb(drop.overhead_bytes),
            kb(drop.window_bytes),
            kb(drop.leftover_bytes),
            kb(drop.least_bytes),
            kb(drop.hotspot_bytes),
            drop.elastic_bytes as f64 / live,
            drop.hotspot_bytes as f64 / live,
            least_ratio(drop)
        );
    }
    let tightest = drops
        .iter()
        .max_by(|one, other| least_ratio(one).total_cmp(&least_ratio(other)))
        .context("churn has drops")?;
    let pages = |bytes: usize| bytes / drops::PAGE_BYTES;
    let measured = format!(
        "at most {worst:.3} of HotSpot's; where it is hardest the bound allows {} pages; live blocks fill {} without any gap and with no heads \
         ({} bytes of {} to spare), {} with heads; each arena in pages of its own {}; ours are {}",
        tightest.hotspot_bytes * 9 / 10 / drops::PAGE_BYTES,
        pages(tightest.blocks_bytes),
        tightest.spare_bytes,
        tightest.blocks_bytes,
        pages(tightest.least_bytes),
        pages(tightest.own_pages_bytes),
        pages(tightest.elastic_bytes)
    );
    figures.row(
        "drops of churn",
        measured,
        "committed <= 0.9 of HotSpot aggressive's",
        worst <= 0.9,
    );
    figures.drops = drops;
    Ok(())
}

/// The minimum of any placement, as a share of HotSpot's.
fn least_ratio(drop: &drops::Drop) -> f64 {
    drop.least_bytes as f64 / drop.hotspot_bytes as f64
}

fn spaces(figures: &mut Figures, seeds: u64) -> Result<()> {
    for seed in 1..=seeds {
        for order in space::ORDERS {
            let what = format!("10,000 arenas x 20 blocks, {order}");
            let measured = space_table(&what, order, seed)?;
            judge(figures, order, seed, &measured);
            figures.space.extend(measured);
        }
    }
    for order in &space::ORDERS[..2] {
        let what = format!("50,000 arenas x 3 blocks of 16 to 128 bytes, {order}");
        figures.space.extend(space_table(&what, &format!("{}{order}", space::TINY), 1)?);
    }
    let (live, committed) = phases::committed_bytes()?;
    let (live, committed) = (megabytes(live), megabytes(committed));
    figures.row(
        "one arena, 12 phases of other sizes, each freed before the next",
        format!("{committed:.2} MB committed, {live:.2} live in a phase"),
        "<= 1.2 times what lives",
        committed <= live * 1.2,
    );
    Ok(())
}

/// Measures all heaps, and prints them.
fn space_table(what: &str, order: &str, seed: u64) -> Result<Vec<space::Measured>> {
    println!("\n{what}, seed {seed}; MB resident above the start:");
    println!(
        "| heap | requested | filled | live | 90 % dropped | trimmed | mappings | all dropped | fill, ns an allocation |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    let mut measured = Vec::new();
    for heap in space::HEAPS {
        let Some(one) = space::fresh(heap, order, seed)? else {
            println!("| {heap} | not installed: skipped | | | | | | | |");
            continue;
        };
        println!(
            "| {heap} | {:.2} | {:.2} | {:.2} | {:.2} | {:.2} | {:+} | {:.2} | {:.0} |",
            megabytes(one.requested_bytes),
            megabytes(one.filled_bytes),
            megabytes(one.live_bytes),
            megabytes(one.dropped_bytes),
            megabytes(one.trimmed_bytes),
            one.mappings,
            megabytes(one.empty_bytes),
            one.fill_ns
        );
        measured.push(one);
    }
    Ok(measured)
}

fn judge(figures: &mut Figures, order: &str, seed: u64, measured: &[space::Measured]) {
    let ours = &measured[0];
    let peers: Vec<&space::Measured> =
        measured[1..].iter().filter(|peer| peer.heap != space::LEARNED).collect();
    let name = |what: &str| format!("{what}, {order}, seed {seed}");
    let (filled, trimmed) = (megabytes(ours.filled_bytes), megabytes(ours.trimmed_bytes));
    if order == space::ORDERS[2] {
        figures.row(&name("90 % dropped"), format!("{trimmed:.2} MB"), "<= 6 MB", trimmed <= 6.0);
    } else if order == space::ORDERS[0] {
        figures.row(&name("filled"), format!("{filled:.2} MB"), "<= 23.5 MB", filled <= 23.5);
        let within = trimmed <= 6.0 && ours.mappings <= 100;
        figures.row(
            &name("90 % dropped"),
            format!("{trimmed:.2} MB, {:+} mappings", ours.mappings),
            "<= 6 MB, <= 100 mappings",
            within,
        );
    } else {
        let least = |of: fn(&space::Measured) -> usize| {
            peers.iter().map(|peer| of(peer)).min().map_or(0.0, megabytes)
        };
        let (peer_filled, peer_trimmed) =
            (least(|peer| peer.filled_bytes), least(|peer| peer.trimmed_bytes));
        let measured = format!(
            "{filled:.2} MB, best peer {peer_filled:.2}; after the drop {trimmed:.2} MB, best peer {peer_trimmed:.2}"
        );
        figures.row(
            &name("filled and dropped"),
            measured,
            "ahead of every peer in both",
            filled < peer_filled && trimmed < peer_trimmed,
        );
    }
    let committed = ours.committed_bytes.unwrap_or(usize::MAX);
    figures.row(
        &name("everything dropped and trimmed"),
        format!("{committed} bytes committed"),
        "0",
        committed == 0,
    );
}
