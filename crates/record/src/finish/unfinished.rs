//! Says why a recording could not be finished, and what to do: nothing is lost.

use crate::control::CONTROL_FILE;
use crate::{RecordError, jvm, node};
use heaplab_text::shell::quoted;
use std::error::Error;
use std::io::{self, ErrorKind};
use std::path::Path;

/// A sentence about the spool that is kept; `None`: the spool is damaged or none, which the error
/// itself says, and cannot be finished, now or later.
pub fn what_is_kept(error: &RecordError, spool: &Path, output: &Path) -> Option<String> {
    let is_spool =
        spool.join(CONTROL_FILE).exists() || jvm::is_spool(spool) || node::is_spool(spool);
    if matches!(error, RecordError::NotASpool { .. }) || !is_spool {
        return None;
    }
    let elsewhere = Path::new("/elsewhere").join(output.file_name().unwrap_or_default());
    let (spool, elsewhere, output) = (quoted(spool), quoted(&elsewhere), output.display());
    Some(if is_for_lack_of_room(error) {
        format!(
            "there is no room for {output}. What was recorded is kept in {spool}: free some space and run `heaplab recover {spool}`, or write to another disk with `heaplab recover {spool} -o {elsewhere}`"
        )
    } else {
        format!(
            "{output} could not be written. What was recorded is kept in {spool}: `heaplab recover {spool}` finishes it, with `-o {elsewhere}` to another place"
        )
    })
}

fn is_for_lack_of_room(error: &RecordError) -> bool {
    let full = [ErrorKind::StorageFull, ErrorKind::QuotaExceeded, ErrorKind::FileTooLarge];
    let causes =
        std::iter::successors(Some(error as &(dyn Error + 'static)), |error| (*error).source());
    let mut reasons = causes.filter_map(|cause| cause.downcast_ref::<io::Error>());
    reasons.any(|reason| full.contains(&reason.kind()))
}
