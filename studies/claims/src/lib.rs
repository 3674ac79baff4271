//! The common part of all studies: their claims, measuring them again, and the printed table.
//!
//! A study is a crate under `studies/`. Its `claims.toml` holds one row for each claim of its
//! document: the claimed figure, the figure measured when the study was written, the command, and
//! the reason of a difference. Its `main.rs` measures each claim again and calls [`main`]. `cargo
//! xtask study NAME` builds heaplab and the study, and runs it.

mod command;
pub mod graph;
mod table;

pub use command::{main, run};

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
    /// The document's statement, in short.
    pub says: String,
    /// The figure it gives.
    pub claimed: String,
    /// The figure measured when the study was written; empty: not measurable yet.
    pub measured: String,
    /// The command that measures it again.
    pub command: String,
    /// The result of the comparison.
    pub verdict: Verdict,
    /// The reason of a difference, or the basis of the agreement.
    pub why: String,
    /// Whether the figure is the same every time and everywhere; times and other machines' memory
    /// are not.
    #[serde(default)]
    pub exact: bool,
    /// Exact, but too slow for a test: only the command measures it.
    #[serde(default)]
    pub slow: bool,
}

/// The result of comparing a measurement with its claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The same figure, or the same statement.
    Reproduced,
    /// The direction holds, the size differs.
    Partly,
    /// It does not hold on the measured workloads.
    Differs,
    /// The document asks, and gives no figure.
    NoFigure,
    /// Needs a part of heaplab that does not exist yet, or a system that cannot be run.
    Open,
}

/// A claim and this run's measurement.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// The study's claim.
    #[serde(flatten)]
    pub claim: Claim,
    /// This run's figure; `None`: not measurable yet, or not here.
    pub now: Option<String>,
    /// The reason why measuring failed, if it did.
    pub failed: Option<String>,
}

/// A study: its claims and how to measure them again.
pub struct Study {
    /// Its name in `cargo xtask study NAME`, and of its folder under `studies/`.
    pub name: &'static str,
    /// The document.
    pub title: &'static str,
    /// The text of its `claims.toml`.
    pub claims: &'static str,
    /// Measures the claim of that id; `None`: not measurable yet, or not here.
    pub measure: fn(&str) -> Result<Option<String>>,
    /// Draws the pictures into a folder and returns the files.
    pub draw: Option<Draw>,
}

/// Draws a study's pictures into a folder and returns the files.
pub type Draw = fn(&Path) -> Result<Vec<PathBuf>>;

/// The file or folder at `path` from the top of the source tree.
pub fn in_tree(path: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join(path)
}

/// The heaplab for a study: the one in `HEAPLAB`, as `cargo xtask study` sets it, or the one beside
/// the study's own program.
///
/// # Errors
/// Neither exists.
pub fn heaplab() -> Result<PathBuf> {
    if let Some(named) = std::env::var_os("HEAPLAB") {
        return Ok(named.into());
    }
    let beside = std::env::current_exe()
        .context("cannot find this program's own file")?
        .with_file_name("heaplab");
    anyhow::ensure!(
        beside.is_file(),
        "{}: there is no heaplab; run `cargo xtask study NAME`, which builds one, or name one with HEAPLAB",
        beside.display()
    );
    Ok(beside)
}

/// Replays a workload on `heaps` as `heaplab replay --json` does, in fresh processes, and returns
/// its results.
///
/// # Errors
/// The workload cannot be written, or the replay fails.
pub fn replayed(
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
    let output = Command::new(heaplab()?)
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

impl Study {
    /// The study's claims.
    ///
    /// # Errors
    /// `claims.toml` has another form.
    pub fn claims(&self) -> Result<Vec<Claim>> {
        #[derive(Deserialize)]
        struct File {
            claim: Vec<Claim>,
        }
        let file: File = toml::from_str(self.claims)
            .with_context(|| format!("studies/{}/claims.toml", self.name))?;
        Ok(file.claim)
    }

    /// Measures one claim again. A failure is an outcome too: the other claims are still measured.
    pub fn run(&self, claim: Claim) -> Outcome {
        let (now, failed) = match (self.measure)(&claim.id) {
            Ok(now) => (now, None),
            Err(error) => (None, Some(format!("{error:#}"))),
        };
        Outcome { claim, now, failed }
    }

    /// The check of a study's test: every exact claim that is not slow measures the study's figure,
    /// every open one has a reason, and the table has each.
    ///
    /// # Panics
    /// The check fails.
    pub fn check(&self) {
        let claims = self.claims().expect("claims.toml");
        for claim in &claims {
            let open = claim.verdict == Verdict::Open;
            assert_eq!(claim.command.is_empty(), open, "the command of {}", claim.id);
            assert!(!open || !claim.why.is_empty(), "{} is open and does not say why", claim.id);
        }
        table::check(self, &claims);
        for claim in claims.into_iter().filter(|claim| claim.exact && !claim.slow) {
            let Outcome { claim, now, failed } = self.run(claim);
            assert_eq!(now.as_deref(), Some(&*claim.measured), "{}: {failed:?}", claim.id);
        }
    }
}
