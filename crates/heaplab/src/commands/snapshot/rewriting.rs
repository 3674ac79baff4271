//! What the commands that write a snapshot anew share.

use anyhow::{Result, ensure};
use heaplab_snapshot::write::Written;
use serde_json::{Value, json};
use std::path::Path;

/// Refuses JSON on standard output where the file goes there, and a file that would take the place
/// of the one that is read.
pub fn may_write(json: bool, input: &Path, output: &Path) -> Result<()> {
    ensure!(
        !json || output != Path::new("-"),
        "--json and -o - both write to standard output: name a file"
    );
    let is_input = output
        .canonicalize()
        .is_ok_and(|output| input.canonicalize().is_ok_and(|input| input == output));
    ensure!(
        !is_input,
        "{}: is the file that is read, and would be gone; name another with -o",
        output.display()
    );
    Ok(())
}

/// What a command that wrote a file tells machines, where they asked.
pub fn rewritten(
    json: bool,
    format: &str,
    output: &Path,
    written: &Written,
    told: Value,
) -> Result<()> {
    if !json {
        return Ok(());
    }
    let mut answer = json!({
        "format": format, "version": 1, "file": output.to_string_lossy(), "bytes": written.bytes, "written_strings": written.strings,
    });
    if let (Value::Object(answer), Value::Object(told)) = (&mut answer, told) {
        answer.extend(told);
    }
    println!("{}", serde_json::to_string(&answer)?)
}
