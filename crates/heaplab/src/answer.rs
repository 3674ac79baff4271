//! An answer for a machine or for a person.

use anyhow::Result;
use heaplab_terminal::whole_file;
use serde::Serialize;
use std::path::Path;

/// Prints JSON on a line where a machine asks, or else text.
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

/// The same, with JSON that a person can read, too.
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

/// Writes a page to a file and says so, or to standard output (`-`).
pub fn write_page(path: &Path, page: &str) -> Result<()> {
    whole_file::write_bytes(path, false, page.as_bytes())?;
    if path != Path::new("-") {
        eprintln!("{} written", path.display());
    }
    Ok(())
}
