//! The outcome of a recording.

use super::obstacle_text;
use crate::control::Refused;
use crate::diagnose::Obstacle;
use crate::drain::Totals;
use crate::spawn;
use crate::spool::reader::Index;
use crate::unrecorded::Unrecorded;
use std::path::PathBuf;
use std::process::ExitStatus;

/// A recording's spool, complete or cut.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// How the started process ended; `None`: it runs on.
    pub status: Option<ExitStatus>,
    /// Figures of the recording.
    pub totals: Totals,
    /// The started process's number.
    pub pid: u32,
    /// The spool folder.
    pub spool: PathBuf,
    /// Where and why it was cut.
    pub cut: Option<String>,
    /// Descendants that ran without the recorder.
    pub unrecorded: Vec<Unrecorded>,
    /// Processes and threads that could not be recorded.
    pub refused: Option<Refused>,
    /// The obstacle to recording the program or a part of it.
    pub obstacle: Option<Obstacle>,
    /// The program's file.
    pub program: PathBuf,
    /// The spool's index: finishing need not scan.
    pub index: Index,
    /// The spool took no more, and rings hold the remaining records.
    pub left_in_rings: bool,
}

impl Recorded {
    /// The obstacle to recording the program, in the words of [`super::Progress::Obstacle`].
    pub fn obstacle_text(&self) -> Option<String> {
        obstacle_text(&self.program, self.obstacle.as_ref())
    }

    /// Whether everything that ran was recorded: no events then mean no allocations.
    pub fn is_whole(&self) -> bool {
        let all_seen =
            self.obstacle.is_none() && self.refused.is_none() && self.unrecorded.is_empty();
        all_seen && self.cut.is_none() && self.totals.images > 0
    }

    /// Why nothing was recorded; `None` if something was.
    pub fn nothing(&self) -> Option<String> {
        // Records that the spool did not take are still in the rings, and finishing reads them
        // there.
        if self.totals.events > 0 || self.left_in_rings {
            return None;
        }
        let program = self.program.display();
        let others = || {
            self.unrecorded.iter().map(|process| {
                format!(
                    "{} (process {}) {}",
                    process.executable.display(),
                    process.pid,
                    process.reason
                )
            })
        };
        if let (None, Some(refused)) = (&self.obstacle, self.refused) {
            return Some(format!("process {} ({program}) {}", refused.pid, refused.reason()));
        }
        Some(match (&self.obstacle, &self.cut) {
            (Some(obstacle), _) => format!("{program} {obstacle}"),
            (None, _) if !self.unrecorded.is_empty() => others().collect::<Vec<_>>().join("; "),
            (None, Some(cut)) => cut.clone(),
            (None, None) if self.totals.images > 0 => {
                format!("{program} ended before it allocated anything")
            }
            (None, None) => format!(
                "{program} never loaded the recorder: it ended at once, or its dynamic linker ignored LD_PRELOAD"
            ),
        })
    }

    /// The exit status: the target's, as the shell would show it; 1 if it runs on.
    pub fn exit_code(&self) -> u8 {
        self.status.map_or(1, spawn::exit_code)
    }
}
