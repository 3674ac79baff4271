//! How the time of a snapshot grows on the real Nodes, and why: the document's successive snapshots
//! and its half an hour. `programs/growth.mjs` runs the Nodes and prints each row.

use super::nodes::{folder, node};
use anyhow::{Context, Result, ensure};
use std::process::Command;

/// The script's exit code if a Node or callgrind is missing.
const NOT_INSTALLED: i32 = 3;

/// A row of the script; `None`: not all of its programs are installed.
pub fn row(name: &str) -> Result<Option<String>> {
    let Some(study) = folder() else { return Ok(None) };
    let Some(node) = node(&study, 24) else { return Ok(None) };
    let output = Command::new(node)
        .current_dir(&study)
        .args(["programs/growth.mjs", name])
        .output()
        .context("starting Node 24")?;
    if output.status.code() == Some(NOT_INSTALLED) {
        return Ok(None);
    }
    ensure!(
        output.status.success(),
        "programs/growth.mjs {name}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(Some(String::from_utf8(output.stdout).context("its answer")?.trim_end().into()))
}
