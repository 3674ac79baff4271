//! Published experiments, rerun. A study is a folder under `studies/` whose `claims.toml` holds one
//! row a claim of its document: what was claimed, what was measured when the study was written,
//! with which command, and why the two differ; and a file here that measures again. The claims
//! travel in the binary, so that an installed heaplab can rerun them.

mod elastic_metaspace;
mod firefox_memory;
mod heap_snapshots;

use anyhow::{Context, Result};
use heaplab_experiment::results::Results;
use heaplab_trace::bundle::{BundleWriter, Meta};
use heaplab_trace::tables::Tables;
use heaplab_trace::{Event, EventSink};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::process::Command;

/// One testable sentence of a document.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// "ff.string-concat".
    pub id: String,
    /// What the document says, in short.
    pub says: String,
    /// The figure it gives.
    pub claimed: String,
    /// What was measured when the study was written; empty where nothing can be measured yet.
    pub measured: String,
    /// The command that measures it again.
    pub command: String,
    /// How the two compare.
    pub verdict: Verdict,
    /// Why they differ, or what the agreement rests on.
    pub why: String,
    /// The same every time and everywhere; a figure of time or of another machine's memory is not.
    #[serde(default)]
    pub exact: bool,
}

/// How a measurement compares with its claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The same figure, or the same statement.
    Reproduced,
    /// The direction holds, the size differs.
    Partly,
    /// It does not hold on what was measured.
    Differs,
    /// Needs a part of heaplab that does not exist yet, or a system that cannot be run.
    Open,
}

/// A claim with what this run measured.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// The claim as the study holds it.
    #[serde(flatten)]
    pub claim: Claim,
    /// What this run measured; `None`: not measurable yet, or not here.
    pub now: Option<String>,
    /// Why measuring failed, where it did.
    pub failed: Option<String>,
}

/// A study: its claims and how to measure them again.
pub struct Study {
    /// As in `heaplab study NAME`.
    pub name: &'static str,
    /// The document.
    pub title: &'static str,
    claims: &'static str,
    measure: fn(&str) -> Result<Option<String>>,
    draw: Option<Draw>,
}

/// Draws a study's pictures into a folder and returns the files.
type Draw = fn(&Path) -> Result<Vec<PathBuf>>;

/// Replays a workload on `heaps` as `heaplab replay --json` does, in fresh processes, and gives its
/// results.
fn replayed(
    tables: &Tables,
    events: &[Event],
    heaps: &[&str],
    options: &[&str],
) -> Result<Results> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("workload.heaplab");
    let mut writer = BundleWriter::create(&path)?;
    for event in events {
        writer.push(event)?;
    }
    writer.finish(
        tables,
        Meta { program: "a workload made for a study".into(), ..Meta::default() },
    )?;
    let heaplab = std::env::current_exe().context("cannot find this program's own file")?;
    let output = Command::new(heaplab)
        .arg("replay")
        .arg(&path)
        .args(["--json", "--on", &heaps.join(",")])
        .args(options)
        .output()?;
    anyhow::ensure!(
        output.status.success(),
        "heaplab replay failed: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).context("reading what heaplab replay printed")
}

/// Every study there is.
pub const STUDIES: &[Study] = &[
    Study {
        name: "firefox-memory",
        title: "Firefox: slop, clownshoes and buffer growth (Nethercote, 2011-2014)",
        claims: include_str!("../../../../studies/firefox-memory/claims.toml"),
        measure: firefox_memory::measure,
        draw: None,
    },
    Study {
        name: "elastic-metaspace",
        title: "HotSpot: what metaspace keeps after class unloading, old and elastic (Stüfe, 2020)",
        claims: include_str!("../../../../studies/elastic-metaspace/claims.toml"),
        measure: elastic_metaspace::measure,
        draw: Some(elastic_metaspace::draw),
    },
    Study {
        name: "heap-snapshots",
        title: "V8: heap snapshots made a hundred times faster (Dapena Paz, 2023), and DevTools' answers",
        claims: include_str!("../../../../studies/heap-snapshots/claims.toml"),
        measure: heap_snapshots::measure,
        draw: None,
    },
];

impl Study {
    /// The claims as the study holds them.
    pub fn claims(&self) -> Result<Vec<Claim>> {
        #[derive(Deserialize)]
        struct File {
            claim: Vec<Claim>,
        }
        let file: File = toml::from_str(self.claims)
            .with_context(|| format!("studies/{}/claims.toml", self.name))?;
        Ok(file.claim)
    }

    /// Draws the study's pictures into `folder`; `None` where it has none.
    pub fn draw(&self, folder: &Path) -> Result<Option<Vec<PathBuf>>> {
        self.draw.map(|draw| draw(folder)).transpose()
    }

    /// Measures one claim again. A failure is an outcome too: the other claims have theirs all the
    /// same.
    pub fn run(&self, claim: Claim) -> Outcome {
        let (now, failed) = match (self.measure)(&claim.id) {
            Ok(now) => (now, None),
            Err(error) => (None, Some(format!("{error:#}"))),
        };
        Outcome { claim, now, failed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_claims_measure_what_their_studies_say() {
        for study in STUDIES {
            for claim in study.claims().unwrap() {
                if claim.exact {
                    let outcome = study.run(claim);
                    assert_eq!(
                        outcome.now.as_deref(),
                        Some(outcome.claim.measured.as_str()),
                        "{}",
                        outcome.claim.id
                    );
                } else if claim.verdict == Verdict::Open {
                    assert!(!claim.why.is_empty(), "{} is open and does not say why", claim.id);
                }
            }
        }
    }
}
