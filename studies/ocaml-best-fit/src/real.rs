//! The real runtime: `heaplab curve` measures programs, `OCAMLRUNPARAM=v` gives their counters.
//!
//! The measurements behind curves are kept under `target/`, so that claims share them.

use crate::programs::{self, Program};
use crate::{DEFAULT, OVERHEADS, counted, lab};
use anyhow::{Context, Result, ensure};
use heaplab_curve::fit::{Curve, Point};
use heaplab_study::heaplab;
use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Next-fit and best-fit, by their names in `OCAMLRUNPARAM`.
const POLICIES: [&str; 2] = ["a=0", "a=2"];
/// Blocks of a curve.
const BLOCKS: &str = "10";
/// Bytes of a printed megabyte.
const MIB: f64 = 1_048_576.0;

/// A setting of a program.
#[derive(Clone, Copy, Debug, Default)]
pub struct Measured {
    pub seconds: f64,
    pub space_bytes: f64,
    pub cycles: f64,
    pub garbage_bytes: f64,
}

/// A program's points, policy by policy, one for each value of `o`.
pub struct Measurement {
    pub points: [Vec<Measured>; 2],
    /// The output of `heaplab curve --json`.
    pub json: Value,
}

/// The result of `heaplab curve`, with the blocks kept for `name`. It runs in the programs' folder.
pub fn curve(name: &str, options: &[&str], words: &[String]) -> Result<Value> {
    let folder = programs::folder()?;
    let mut command = Command::new(heaplab()?);
    let kept = folder.join("curves").join(name);
    command.args(["curve", "--json", "--time", "cpu", "--reps", BLOCKS]);
    command.arg("--svg").arg(picture(name)?).arg("--results").arg(kept);
    command.args(options).arg("--").args(words).current_dir(&folder);
    command.env_remove("OCAMLRUNPARAM").env_remove("CAMLRUNPARAM");
    let output = command.output()?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "heaplab curve of {name} failed: {error}");
    serde_json::from_slice(&output.stdout).context("reading what heaplab curve printed")
}

/// The picture of the last [`curve`] of `name`.
pub fn picture(name: &str) -> Result<PathBuf> {
    let folder = programs::folder()?.join("pictures");
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    Ok(folder.join(format!("{name}.svg")))
}

/// The curves of one program over `o`.
pub fn measured(program: &Program) -> Result<Measurement> {
    let overheads = OVERHEADS.map(|overhead| overhead.to_string()).join(",");
    let vary = format!("OCAMLRUNPARAM=o={{{overheads}}}");
    let options = ["--vary", &vary, "--compare", &POLICIES.join(",")];
    let json = curve(program.name, &options, &program.words)?;
    let points = [points_of(&json, 0)?, points_of(&json, 1)?];
    Ok(Measurement { points, json })
}

fn points_of(json: &Value, variant: usize) -> Result<Vec<Measured>> {
    let points =
        json["variants"][variant]["points"].as_array().context("a curve without points")?;
    let number = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
    Ok(points
        .iter()
        .filter(|point| !point["value"].is_null())
        .map(|point| Measured {
            seconds: number(&point["time_s"]["value"]),
            space_bytes: number(&point["space_bytes"]["value"]),
            cycles: number(&point["medians"]["cycles"]),
            garbage_bytes: number(&point["medians"]["garbage_bytes"]),
        })
        .collect())
}

/// A counter that the runtime prints at the end of the program with `parameters`.
pub fn counter(program: &Program, parameters: &str, name: &str) -> Result<u64> {
    let mut command = Command::new(&program.words[0]);
    command.args(&program.words[1..]).current_dir(programs::folder()?);
    command.env("OCAMLRUNPARAM", format!("{parameters},v=0x400")).stdout(Stdio::null());
    let output = command.output().with_context(|| program.words[0].clone())?;
    let text = String::from_utf8_lossy(&output.stderr);
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.and_then(|value| value.trim().parse().ok())
        .with_context(|| format!("{}: no {name} in what the runtime printed", program.name))
}

/// A sentence for each program about its curves; `None`: no program can run here.
fn each(say: impl Fn(&Program, &Measurement) -> Result<String>) -> Result<Option<String>> {
    let mut said = Vec::new();
    for program in programs::all()? {
        let text = say(&program, &measured(&program)?)?;
        said.push(format!("{}: {text}", program.name));
    }
    Ok((!said.is_empty()).then(|| said.join("; ")))
}

/// Ratios of next-fit to best-fit at the document's default.
pub fn points() -> Result<Option<String>> {
    let nth = OVERHEADS.iter().position(|overhead| *overhead == DEFAULT).unwrap_or_default();
    let said = each(|program, measurement| {
        let [next, best] = [0, 1].map(|policy: usize| measurement.points[policy][nth]);
        let counted = counted::at_default(program)?
            .map_or(String::new(), |ratio| format!(", instructions {ratio:.3}"));
        Ok(format!(
            "CPU {:.2}{counted}, RSS {:.2}",
            next.seconds / best.seconds,
            next.space_bytes / best.space_bytes
        ))
    })?;
    Ok(said.map(|said| format!("next-fit / best-fit at o={DEFAULT}: {said}")))
}

/// Points of next-fit dominated by a point of best-fit, and the reverse.
pub fn dominates() -> Result<Option<String>> {
    let said = each(|_, measurement| {
        let comparison = &measurement.json["comparisons"][0];
        let of = |field: &str| format!("{} of {}", comparison[field][0], comparison[field][1]);
        Ok(format!("{} ({})", of("baseline_dominated"), of("dominated")))
    })?;
    Ok(said.map(|said| {
        format!(
            "next-fit's points below and left of which best-fit has one (and the reverse): {said}"
        )
    }))
}

/// Ratios of best-fit to next-fit at equal time and at equal space, by `heaplab curve`.
pub fn equal_time() -> Result<Option<String>> {
    let said = each(|_, measurement| {
        let comparison = &measurement.json["comparisons"][0];
        let least = &comparison["least_space"];
        let space = if least.is_null() {
            ratio(&comparison["space_at_equal_time"])
        } else {
            format!(
                "none (the least {} in {} of the time)",
                of(&least["space"]),
                of(&least["time"])
            )
        };
        Ok(format!("space {space}, time {}", ratio(&comparison["time_at_equal_space"])))
    })?;
    Ok(said.map(|said| {
        format!("best-fit / next-fit, space at equal time and time at equal space: {said}")
    }))
}

/// A ratio of `heaplab curve`, with its interval.
pub fn ratio(ratio: &Value) -> String {
    if ratio.is_null() {
        return "none".into();
    }
    let by = if ratio["method"] == "points" { " by points" } else { "" };
    format!("{}{by}", of(&ratio["mean"]))
}

/// A value of `heaplab curve`, with its interval.
fn of(estimate: &Value) -> String {
    match ["value", "low", "high"].map(|field| estimate[field].as_f64()) {
        [Some(value), Some(low), Some(high)] => format!("{value:.2} ({low:.2} to {high:.2})"),
        _ => "none".into(),
    }
}

/// Ratios of best-fit to next-fit at equal o.
pub fn further_along() -> Result<Option<String>> {
    let said = each(|_, measurement| {
        let [next, best] = &measurement.points;
        let ratio = |of: fn(&Measured) -> f64| {
            lab::range(next.iter().zip(best).map(|(next, best)| of(best) / of(next)))
        };
        Ok(format!(
            "RSS {}, cycles {}",
            ratio(|point| point.space_bytes),
            ratio(|point| point.cycles)
        ))
    })?;
    Ok(said.map(|said| format!("best-fit / next-fit at equal o, 20 to 320: {said}")))
}

/// Programs whose live heap grows with their first argument, and the rest of their arguments.
const GROWING: [(&str, usize, &[&str]); 2] =
    [("index", 30_000, &[]), ("strcache", 8_000, &["200000"])];

/// Runs of a growing program, each a twentieth longer than the previous one.
const RUNS: usize = 16;

/// A run of a growing program: its argument, and top heap and anonymous bytes of next-fit and
/// best-fit.
pub type Grown = (usize, [(f64, f64); 2]);

/// Each growing program over its argument; empty without OCaml.
pub fn grown() -> Result<Vec<(&'static str, Vec<Grown>)>> {
    let mut all = Vec::new();
    for (name, least, rest) in GROWING {
        let Some(program) = programs::one(name)? else { continue };
        let values = lab::growing_by_a_twentieth(least, RUNS);
        let range = values.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
        let words = |argument: String| {
            let rest = rest.iter().map(|&word| word.to_owned());
            [program.words[0].clone(), argument].into_iter().chain(rest).collect::<Vec<_>>()
        };
        let compare = POLICIES.map(|policy| format!("OCAMLRUNPARAM={policy}"));
        let options = ["--compare", &compare[0], "--compare", &compare[1], "--space", "anonymous"];
        let json = curve(&format!("{name}-grows"), &options, &words(format!("{{{range}}}")))?;
        let points = [points_of(&json, 0)?, points_of(&json, 1)?];
        let mut runs = Vec::new();
        for (nth, value) in values.into_iter().enumerate() {
            let one = Program { name, words: words(value.to_string()) };
            let mut both = [(0.0, 0.0); 2];
            for (policy, parameter) in POLICIES.iter().enumerate() {
                let top = counter(&one, parameter, "top_heap_words")? as f64 * 8.0;
                both[policy] = (top, points[policy][nth].space_bytes);
            }
            runs.push((value, both));
        }
        all.push((name, runs));
    }
    Ok(all)
}

/// A sentence for each growing program; `None`: none can run here.
fn each_grown(say: impl Fn(&[Grown]) -> String) -> Result<Option<String>> {
    let said: Vec<_> =
        grown()?.iter().map(|(name, runs)| format!("{name}: {}", say(runs))).collect();
    Ok((!said.is_empty()).then(|| said.join("; ")))
}

/// Steps of a twentieth that do not change top_heap_words.
pub fn quantised() -> Result<Option<String>> {
    let said = each_grown(|runs| {
        let [next, best] = [0, 1].map(|policy: usize| {
            lab::hidden(&runs.iter().map(|(_, both)| both[policy].0).collect::<Vec<_>>())
        });
        format!("next-fit {next}, best-fit {best}")
    })?;
    Ok(said.map(|said| format!("steps of 5 % that leave top_heap_words as it is: {said}")))
}

/// Ratio of anonymous bytes to the heap's.
pub fn resident() -> Result<Option<String>> {
    let said = each_grown(|runs| {
        let [next, best] = [0, 1].map(|policy: usize| {
            lab::range(runs.iter().map(|(_, both)| both[policy].1 / both[policy].0))
        });
        let saved = |of: fn(&(f64, f64)) -> f64| {
            let sum = |policy: usize| runs.iter().map(|(_, both)| of(&both[policy])).sum::<f64>();
            sum(1) / sum(0)
        };
        let (top, memory) = (saved(|run| run.0), saved(|run| run.1));
        format!(
            "next-fit {next}, best-fit {best}; best-fit / next-fit: top heap {top:.2}, memory {memory:.2}"
        )
    })?;
    Ok(said.map(|said| format!("anonymous memory / top heap over 16 runs: {said}")))
}

/// Ratios of both policies' three parameters, and the distance of points from the curves.
pub fn model() -> Result<Option<String>> {
    let said = each(|_, measurement| {
        let curves = measurement
            .points
            .each_ref()
            .map(|points| Curve::fit(&points.iter().map(point).collect::<Vec<_>>()));
        let variants = [0, 1].map(|policy: usize| &measurement.json["variants"][policy]["curve"]);
        let off = variants.map(|curve| {
            let share = |of: usize| curve["residuals"][of].as_f64().unwrap_or(f64::NAN);
            (share(0), share(1))
        });
        let drawn: Vec<_> = variants
            .iter()
            .zip(["next-fit", "best-fit"])
            .filter(|(curve, _)| curve["fits"] == true)
            .map(|(_, policy)| policy)
            .collect();
        let drawn = if drawn.is_empty() { "none".into() } else { drawn.join(" and ") };
        Ok(format!("{}; drawn: {drawn}", lab::parameters(curves, off)))
    })?;
    Ok(said.map(|said| format!("best-fit / next-fit: {said}")))
}

fn point(measured: &Measured) -> Point {
    let garbage = Some(measured.garbage_bytes).filter(|garbage| garbage.is_finite());
    Point { time: measured.seconds, space: measured.space_bytes / MIB, garbage }
}
