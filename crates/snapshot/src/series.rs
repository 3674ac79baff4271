//! Snapshots of one program over time, read from the newest to the oldest, with one in memory at a
//! time. The newest one's interfaces group the plain objects of all. Of the others only counts are
//! kept.

use crate::analysis::{Analysis, Interface};
use crate::diff::{Growth, Point, growing};
use crate::growth::Candidates;
use crate::session::{Session, SnapshotIds};

/// A series during reading.
#[derive(Default)]
pub struct Series {
    interfaces: Option<Vec<Interface>>,
    points: Vec<Point>,
    totals: Vec<u64>,
    candidates: Candidates,
    newer: Option<SnapshotIds>,
    is_broken: bool,
}

/// Results of a series.
#[derive(Debug)]
pub struct Ended {
    /// All bytes of each snapshot, the oldest first.
    pub totals: Vec<u64>,
    /// The classes that grow each time.
    pub growing: Vec<Growth>,
    /// The objects that may retain more each time; of one session only.
    pub candidates: Candidates,
    /// Whether equal ids mean equal objects in all snapshots.
    pub one_session: bool,
}

impl Series {
    /// Looks at the next snapshot, which is older than the one before; with what the ids of the
    /// two tell.
    pub fn older(&mut self, analysis: &Analysis) -> Option<Session> {
        let interfaces = self.interfaces.get_or_insert_with(|| analysis.interfaces().to_vec());
        self.points.push(Point::of(analysis, interfaces));
        self.totals.push(analysis.total_bytes());
        self.candidates.older(analysis);
        let moment = SnapshotIds::of(analysis.snapshot());
        let session = self.newer.take().map(|newer| Session::of(&moment, &newer));
        self.is_broken |= session.is_some_and(|session| session.is_broken());
        self.newer = Some(moment);
        session
    }

    /// The results, once all snapshots were added.
    pub fn end(mut self) -> Ended {
        self.points.reverse();
        self.totals.reverse();
        Ended {
            totals: self.totals,
            growing: growing(&self.points),
            candidates: self.candidates,
            one_session: !self.is_broken,
        }
    }
}
