//! Runs a workload on this heap and in the real V8. Says for each strategy whether old space and
//! map space are equal to the byte before and after each forced collection, free lists by category
//! included, and prints both sides if not.
//!
//! `cargo run --release -p heaplab-v8 --example against_node -- SHAPE BIRTHS EVERY SEED NODE
//! COMPACT STRATEGIES [lines|least|golden] [own] [limit=MB] [whole]`
//!
//! SHAPE is one of `tests/shapes`, `all`, or `all-maps` (those with hidden classes); NODE a version
//! (`14.0.0`), COMPACT `never`, `regular` or `always`, STRATEGIES numbers in a row (`025`). `lines`
//! prints both sides even if they are equal. `least` looks for the least limit, up to `limit`, with
//! which each side does not run out of memory. `golden` prints the real figures as
//! `tests/against_recorded_node.rs` reads them. `own` leaves collections to V8, `limit` is the most
//! that V8's old generation may take, Node's own objects included. With `whole` the first hidden
//! class after a collection finds all pages swept.

#[path = "../tests/oracle/mod.rs"]
mod oracle;
#[path = "../tests/shapes/mod.rs"]
mod shapes;

use heaplab_heap::Collection;
use heaplab_node::NodeError;
use oracle::{Line, Real, Setting, blocks, equal, line, map_line};
use shapes::{Length, MAP_SHAPES, SHAPES, Step, workload};

const USAGE: &str = "usage: against_node SHAPE BIRTHS EVERY SEED NODE COMPACT STRATEGIES \
                     [lines|least|golden] [own] [limit=MB] [whole]";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [shape, births, every, seed, node, compact, strategies, rest @ ..] = &arguments[..] else {
        return Err(USAGE.into());
    };
    let length = Length { births: births.parse()?, every: every.parse()?, seed: seed.parse()? };
    let chosen: Vec<&str> = match shape.as_str() {
        "all" => SHAPES.to_vec(),
        "all-maps" => MAP_SHAPES.to_vec(),
        _ => SHAPES.into_iter().chain(MAP_SHAPES).filter(|one| one == shape).collect(),
    };
    let numbers = strategies.chars().map(|digit| digit.to_digit(6).map(|number| number as usize));
    let numbers: Option<Vec<usize>> = numbers.collect();
    let numbers = numbers.ok_or("strategies are numbers from 0 to 5")?;
    if chosen.is_empty() {
        return Err(format!("no shape {shape:?}; there are {SHAPES:?} and \"all\"").into());
    }
    let asked = |word: &str| rest.iter().any(|one| one == word);
    let gc = if asked("own") { "own" } else { "forced" };
    let sweeping = if asked("whole") { "whole" } else { "lazy" };
    let limit = rest.iter().find_map(|word| word.strip_prefix("limit="));
    let limit_mb = limit.map_or(Ok(0), str::parse)?;
    let (mut same, mut all) = (0, 0);
    for shape in chosen {
        let steps = workload(shape, length);
        for &strategy in &numbers {
            let setting = Setting { node, compact, strategy, gc, limit_mb, sweeping };
            all += 1;
            if asked("least") {
                let [real, ours] = least_limits(&setting, &steps)?;
                println!("{shape} {strategy}: least limit {real} MB real, {ours} MB ours");
                same += u32::from(real == ours);
                continue;
            }
            let ran = setting.real(&steps)?;
            if asked("golden") {
                golden(shape, strategy, &ran);
                continue;
            }
            same += u32::from(compare(shape, &setting, &steps, ran, asked("lines")));
        }
    }
    if !asked("golden") {
        println!("{same} of {all} runs equal");
    }
    Ok(())
}

/// Prints whether both sides are equal, and both if they are not or if `lines` says so.
fn compare(shape: &str, setting: &Setting<'_>, steps: &[Step], ran: Real, lines: bool) -> bool {
    let strategy = setting.strategy;
    if setting.compact == "regular" {
        let percents = &ran.run.thresholds;
        println!("{shape} {strategy}: pages emptied from {percents:?} % free on");
    }
    let ours = setting.ours(steps, &ran);
    let real = ran.run.collections;
    let pairs = || real.iter().zip(&ours);
    let differ = pairs().position(|(real, ours)| !equal(real, ours));
    match differ {
        None => println!("{shape} {strategy}: {} of {} equal", ours.len(), real.len()),
        Some(at) => println!("{shape} {strategy}: collection {at} differs"),
    }
    if differ.is_some() || lines {
        pairs().enumerate().for_each(|(at, (real, ours))| print(at, real, ours));
    }
    differ.is_none()
}

/// Prints a run's old space at each collection, as a golden file has it.
fn golden(shape: &str, strategy: usize, ran: &Real) {
    for (at, one) in ran.run.collections.iter().enumerate() {
        let [[a, b, c], [d, e, f]] = line(one);
        println!("{shape} {strategy} {at} {a} {b} {c} {d} {e} {f}");
    }
}

fn print(at: usize, real: &Collection, ours: &Collection) {
    for (side, one) in [("real", real), ("ours", ours)] {
        let waste = one.free_lists.as_ref().map(|lists| lists.waste_bytes);
        println!("  {at} {side} {} {} {:?} waste {waste:?}", one.kind, one.births, line(one));
        let maps = map_line(one);
        if maps != Line::default() {
            println!("  {at} {side} maps {maps:?}");
        }
    }
    let sides = blocks(real).into_iter().flatten().zip(blocks(ours).into_iter().flatten());
    for (moment, (real, ours)) in ["before", "swept"].into_iter().zip(sides) {
        for (category, (real, ours)) in real.iter().zip(ours).enumerate() {
            if real != ours {
                println!("  {at} {moment}, category {category}: real {real:?} ours {ours:?}");
            }
        }
    }
}

/// The least limits in MB, up to the setting's, under which the real V8 and this heap finish.
fn least_limits(setting: &Setting<'_>, steps: &[Step]) -> Result<[usize; 2], NodeError> {
    let unlimited = setting.real(steps)?;
    let mut failed = None;
    let with = |limit_mb| Setting { limit_mb, ..*setting };
    let real = least(setting.limit_mb, |limit_mb| match with(limit_mb).real(steps) {
        Ok(_) => true,
        Err(NodeError::OutOfMemory { .. }) => false,
        Err(other) => failed.replace(other).is_some(),
    });
    let ours = least(setting.limit_mb, |limit_mb| {
        shapes::try_run(&mut with(limit_mb).heap(&unlimited), steps, false).is_ok()
    });
    failed.map_or(Ok([real, ours]), Err)
}

/// The least number up to `most` that suffices, as `most` does.
fn least(most: usize, mut suffices: impl FnMut(usize) -> bool) -> usize {
    let (mut fails, mut enough) = (0, most);
    while enough - fails > 1 {
        let middle = usize::midpoint(fails, enough);
        if suffices(middle) { enough = middle } else { fails = middle }
    }
    enough
}
