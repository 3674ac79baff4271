//! Counts of the real programs: valgrind's instructions for time; the runtime's peak of the heap,
//! cycles and words for space and garbage. A count is the same in every run, so a busy machine does
//! not matter and there are no intervals.
//!
//! Instructions leave out what a cache miss costs. Counts are kept under `target/`, so that claims
//! and pictures share them.

use crate::programs::{self, Program};
use crate::{DEFAULT, OVERHEADS, lab};
use anyhow::{Context, Result};
use heaplab_curve::compare::{Fitted, fit_exact, space_at_equal_time, time_at_equal_space};
use heaplab_curve::fit::Point;
use heaplab_curve::results::CurveResult;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::process::{Command, Stdio};

/// The counts of one run.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Counted {
    pub instructions: u64,
    pub top_heap_words: u64,
    pub cycles: u64,
    pub major_words: u64,
}

impl Counted {
    fn point(&self) -> Point {
        let garbage = (self.cycles > 0).then(|| self.major_words as f64 * 8.0 / self.cycles as f64);
        Point { time: self.instructions as f64, space: self.top_heap_words as f64 * 8.0, garbage }
    }
}

/// Counts of next-fit and best-fit, one for each value of `o`.
pub type Counts = [Vec<Counted>; 2];

/// The counts of one program; `None`: there is no valgrind.
pub fn counts(program: &Program) -> Result<Option<Counts>> {
    let folder = programs::folder()?.join("counts");
    let kept = folder.join(format!("{}.json", program.name));
    if let Ok(text) = std::fs::read(&kept) {
        return serde_json::from_slice(&text).with_context(|| kept.display().to_string());
    }
    let mut counts = Counts::default();
    for (policy, counts) in ["a=0", "a=2"].into_iter().zip(&mut counts) {
        for overhead in OVERHEADS {
            let Some(count) = count(program, &format!("{policy},o={overhead}"))? else {
                return Ok(None);
            };
            counts.push(count);
        }
    }
    keep(&folder, &kept, &counts)?;
    Ok(Some(counts))
}

fn keep(folder: &Path, kept: &Path, counts: &Counts) -> Result<()> {
    std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    std::fs::write(kept, serde_json::to_vec(counts)?).with_context(|| kept.display().to_string())
}

fn count(program: &Program, parameters: &str) -> Result<Option<Counted>> {
    let mut command = Command::new("valgrind");
    command.args(["--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]);
    command.args(&program.words).current_dir(programs::folder()?);
    command.env("OCAMLRUNPARAM", format!("{parameters},v=0x400")).stdout(Stdio::null());
    let Ok(output) = command.output() else { return Ok(None) };
    let text = String::from_utf8_lossy(&output.stderr);
    let number = |name: &str| -> Result<u64> {
        let line = text.lines().find_map(|line| line.split_once(name)).map(|(_, count)| count);
        let whole = line.and_then(|count| count.trim().split('.').next());
        let number = whole.and_then(|count| count.replace(',', "").parse().ok());
        number.with_context(|| format!("{}: no {name} in what valgrind printed", program.name))
    };
    Ok(Some(Counted {
        instructions: number("refs:")?,
        top_heap_words: number("top_heap_words:")?,
        cycles: number("major_collections:")?,
        major_words: number("major_words:")?,
    }))
}

/// A sentence for each program about its counts; `None`: there is no OCaml 4, or no valgrind.
fn each(say: impl Fn(&Counts) -> String) -> Result<Option<String>> {
    let mut said = Vec::new();
    for program in programs::all()? {
        let Some(counts) = counts(&program)? else { return Ok(None) };
        said.push(format!("{}: {}", program.name, say(&counts)));
    }
    Ok((!said.is_empty()).then(|| said.join("; ")))
}

/// Instructions of next-fit over those of best-fit at the document's default.
pub fn at_default(program: &Program) -> Result<Option<f64>> {
    let nth = OVERHEADS.iter().position(|overhead| *overhead == DEFAULT).unwrap_or_default();
    Ok(counts(program)?
        .map(|counts| counts[0][nth].instructions as f64 / counts[1][nth].instructions as f64))
}

/// Points of next-fit dominated by a point of best-fit, and the reverse.
pub fn dominates() -> Result<Option<String>> {
    let dominated = |points: &[Counted], by: &[Counted]| {
        let is_beaten = |point: &&Counted| {
            by.iter().any(|one| {
                (one.instructions, one.top_heap_words) != (point.instructions, point.top_heap_words)
                    && one.instructions <= point.instructions
                    && one.top_heap_words <= point.top_heap_words
            })
        };
        format!("{} of {}", points.iter().filter(is_beaten).count(), points.len())
    };
    let said =
        each(|[next, best]| format!("{} ({})", dominated(next, best), dominated(best, next)))?;
    Ok(said.map(|said| {
        format!("next-fit's points of which best-fit has one with no more instructions and words (and the reverse): {said}")
    }))
}

/// The fits of both policies.
pub fn fits(counts: &Counts) -> [(Fitted, CurveResult); 2] {
    counts.each_ref().map(|counts| fit_exact(counts.iter().map(Counted::point).collect()))
}

/// Ratios of best-fit to next-fit at equal instructions, and at an equal heap.
pub fn equal_time() -> Result<Option<String>> {
    let said = each(|counts| {
        let [(next, _), (best, _)] = fits(counts);
        format!(
            "space {}, instructions {}",
            lab::ratio(space_at_equal_time(&next, &best)),
            lab::ratio(time_at_equal_space(&next, &best))
        )
    })?;
    Ok(said.map(|said| {
        format!("best-fit / next-fit, space at equal instructions and instructions at equal space: {said}")
    }))
}

/// Ratios of both policies' three parameters, and the distance of points from the curves.
pub fn model() -> Result<Option<String>> {
    let said = each(|counts| {
        let [(next, next_result), (best, best_result)] = fits(counts);
        let drawn = [("next-fit", next_result.fits), ("best-fit", best_result.fits)];
        let drawn: Vec<_> =
            drawn.iter().filter(|(_, fits)| *fits).map(|(policy, _)| *policy).collect();
        let drawn = if drawn.is_empty() { "none".into() } else { drawn.join(" and ") };
        let off = [next_result, best_result].map(|result| result.residuals);
        let parameters = lab::parameters([next.curve.whole, best.curve.whole], off);
        format!("{parameters}; drawn: {drawn}")
    })?;
    Ok(said.map(|said| format!("best-fit / next-fit: {said}")))
}
