//! The study of Firefox's hunt for wasted memory: slop, clownshoes, and buffers that grow in too
//! small steps.
//!
//! Source: Nicholas Nethercote's posts of 2011 to 2014 (studies/firefox-memory/README.md lists
//! them). [`tables`] has the claims that a table of size classes answers, [`workloads`] those that
//! need a workload on a heap, [`what_if`] the savings of changes, predicted and real, and
//! [`browser`] those that need a Firefox.

mod browser;
mod firefox;
mod tables;
mod what_if;
mod workloads;

use anyhow::Result;
use heaplab_study::Study;
use std::process::ExitCode;

const STUDY: Study = Study {
    name: "firefox-memory",
    title: "Firefox: slop, clownshoes and buffer growth (Nethercote, 2011-2014)",
    claims: include_str!("../claims.toml"),
    measure,
    draw: None,
};

fn main() -> ExitCode {
    heaplab_study::main(&STUDY)
}

/// Measures one claim; `None`: there is no Firefox.
fn measure(id: &str) -> Result<Option<String>> {
    Ok(match id {
        "ff.classes" => Some(tables::classes()),
        "ff.clownshoe.1025" => Some(tables::clownshoe_1025()),
        "ff.string-concat" => Some(tables::string_concat()),
        "ff.necko-slop" => Some(tables::necko_slop()),
        "ff.plarena" => Some(tables::arena_with_header()),
        "ff.counts" => Some(workloads::counts()?),
        "ff.just-enough" => Some(workloads::just_enough()?),
        "ff.sqlite" => Some(workloads::sqlite()?),
        "ff.growth-fragmentation" => Some(workloads::growth_fragmentation()?),
        "ff.necko-placebo" => Some(workloads::recycling()?),
        "ff.what-if.sqlite" => Some(what_if::sqlite()?),
        "ff.what-if.gawk" => Some(what_if::gawk()?),
        "ff.what-if.zstd" => Some(what_if::zstd()?),
        "ff.what-if.just-enough" => Some(what_if::doubling()?),
        "ff.what-if.necko" => Some(what_if::necko()?),
        "ff.what-if.plarena" => Some(what_if::plarena()?),
        "ff.dark-matter" => browser::dark_matter()?,
        "ff.empty-chunks" => browser::empty_chunks()?,
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn exact_claims_measure_what_the_study_says() {
        super::STUDY.check();
    }
}
