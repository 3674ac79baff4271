//! An answer for a machine or for a person.

use anyhow::{Result, bail};
use heaplab_terminal::whole_file;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Prints one line of JSON for `--json`, or else text.
pub fn print<J: Serialize>(
    is_json: bool,
    json: impl FnOnce() -> J,
    text: impl FnOnce() -> String,
) -> Result<()> {
    if is_json {
        println!("{}", serde_json::to_string(&json())?)?;
    } else {
        print!("{}", text())?;
    }
    Ok(())
}

/// The same, with indented JSON.
pub fn print_pretty<J: Serialize>(
    is_json: bool,
    json: &J,
    text: impl FnOnce() -> String,
) -> Result<()> {
    if is_json {
        println!("{}", serde_json::to_string_pretty(json)?)?;
    } else {
        print!("{}", text())?;
    }
    Ok(())
}

/// Where an answer goes as an HTML file.
#[derive(Debug, clap::Args)]
pub struct HtmlFile {
    /// Write one HTML page to this file (`-`: standard output) instead of printing; an earlier page
    /// is replaced
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Replace the file of --html even if it is no page of heaplab
    #[arg(long, requires = "html")]
    force: bool,
}

impl HtmlFile {
    /// Refuses, before any work, to replace a file that is no page of heaplab.
    pub fn check(&self) -> Result<()> {
        let is_of_others = |file: &&PathBuf| whole_file::holds_other_than(file, b"nonce-heaplab");
        if let Some(file) = self.html.as_ref().filter(|file| !self.force && is_of_others(file)) {
            bail!(
                "{}: exists already and is no page of heaplab: choose another name, or replace it with --force",
                file.display()
            );
        }
        Ok(())
    }

    /// Whether `--html` was given.
    pub fn is_asked_for(&self) -> bool {
        self.html.is_some()
    }

    /// Writes the file of `--html`, and says so unless it is standard output. Returns whether
    /// `--html` was given.
    pub fn write(&self, page: impl FnOnce() -> String) -> Result<bool> {
        let Some(file) = &self.html else { return Ok(false) };
        whole_file::write_bytes(file, false, page().as_bytes())?;
        if file != Path::new("-") {
            eprintln!("{} written", file.display());
        }
        Ok(true)
    }
}

/// A file's name without its folders, as it stands in an answer that leaves this machine.
pub fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}
