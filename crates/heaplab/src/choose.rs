//! The recording that a command is asked for.

use anyhow::{Result, bail};
use heaplab_trace::bundle::Bundle;
use std::path::Path;

/// The recording at `path`.
///
/// # Errors
/// It is not there (the message says what to do where its recording was not finished), or it is no
/// bundle.
pub fn open(path: &Path) -> Result<Bundle> {
    // Only what is known not to be there is missing: a folder that may not be looked into is
    // another matter, which opening says.
    if !matches!(path.try_exists(), Ok(false)) {
        return Ok(Bundle::open(path)?);
    }
    let spool = heaplab_record::mark::spool_of(path);
    let shown = path.display();
    if !spool.exists() {
        bail!("{shown}: there is no such recording (No such file or directory)");
    }
    if heaplab_record::control::is_running(&spool) {
        bail!("{shown} is still being recorded: it is there when its program has ended");
    }
    bail!(
        "{shown}: its recording was not finished; `heaplab recover {}` makes {shown} of what is there",
        spool.display()
    );
}
