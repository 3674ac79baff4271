//! The study of OCaml's best-fit allocator: curves of space against time instead of points.
//!
//! Source: S. Dolan, "Memory allocator showdown" (Jane Street, 2020). The real runtime runs
//! [`programs`] through `heaplab curve` ([`real`]). heaplab's OCaml heap runs workloads of the same
//! kind, with counts instead of times ([`lab`]), so these rows are tests. [`counted`] counts the
//! real programs' instructions. [`other`] applies the method to Go, a JVM and Node. [`pictures`]
//! draws the document's pictures.

mod counted;
mod lab;
mod other;
mod pictures;
mod programs;
mod real;

use anyhow::Result;
use heaplab_study::Study;
use std::process::ExitCode;

const STUDY: Study = Study {
    name: "ocaml-best-fit",
    title: "OCaml: next-fit and best-fit, curve against curve (Dolan, 2020)",
    claims: include_str!("../claims.toml"),
    measure,
    draw: Some(pictures::draw),
};

/// Values of `o`: the document's range, with its default.
const OVERHEADS: [usize; 9] = [20, 28, 40, 57, 80, 113, 160, 226, 320];
/// The document's default.
const DEFAULT: usize = 80;

fn main() -> ExitCode {
    heaplab_study::main(&STUDY)
}

/// Measures one claim; `None`: a program that it needs is not installed.
fn measure(id: &str) -> Result<Option<String>> {
    match id {
        "ocaml.point" => real::points(),
        "ocaml.dominates" => real::dominates(),
        "ocaml.dominates-by-counts" => counted::dominates(),
        "ocaml.equal-time" => real::equal_time(),
        "ocaml.equal-time-by-counts" => counted::equal_time(),
        "ocaml.further-along" => real::further_along(),
        "ocaml.quantised" => real::quantised(),
        "ocaml.rss" => real::resident(),
        "ocaml.model" => real::model(),
        "ocaml.model-by-counts" => counted::model(),
        "lab.dominates" => lab::dominates().map(Some),
        "lab.equal-time" => lab::equal_time().map(Some),
        "lab.further-along" => lab::further_along().map(Some),
        "lab.quantised" => lab::quantised().map(Some),
        "lab.rss" => lab::resident().map(Some),
        "lab.model" => lab::model().map(Some),
        "lab.real" => lab::as_the_real_one(),
        "carries-over.go" => other::go(),
        "carries-over.jvm" => other::jvm(),
        "carries-over.node" => other::node(),
        _ => anyhow::bail!("nothing measures {id}"),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn exact_claims_measure_what_the_study_says() {
        super::STUDY.check();
    }
}
