//! Which objects were born between the first two of three snapshots, and whether the files follow
//! each other at all.
//!
//! Of the files only ids and types are needed ([`SnapshotIds`]), so that three take the memory of
//! one.

use crate::session::{Session, SnapshotIds};

/// Why three files say nothing of leaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BornError {
    /// A file has ids that would be new, and ends before the ids of the file before it.
    #[error(
        "it is older than the file before: its ids end at @{newer}, the other's at @{older}, and it has some that the other has not"
    )]
    OutOfOrder {
        /// Which of the files, from 0.
        file: usize,
        /// The last id of the file before.
        older: u32,
        /// Its own.
        newer: u32,
    },
    /// Equal ids are not equal objects.
    #[error(
        "it is not of one session with the file before: of {common} ids that both have {changed} belong to objects of different types"
    )]
    OtherSession {
        /// Which of the files, from 0.
        file: usize,
        /// Ids looked at that both have.
        common: u64,
        /// Those of different types.
        changed: u64,
    },
}

impl BornError {
    /// What somebody does about it who named the files.
    pub fn advice(&self) -> &'static str {
        match self {
            BornError::OutOfOrder { .. } => "name the files in the order in which they were taken",
            BornError::OtherSession { .. } => {
                "take all three with one command (`heaplab snapshot take` with three -o)"
            }
        }
    }

    /// Which of the three files does not follow the one before it, from 0.
    pub fn file(&self) -> usize {
        match self {
            BornError::OutOfOrder { file, .. } | BornError::OtherSession { file, .. } => *file,
        }
    }
}

/// The ids that the second of three snapshots has and the first has not.
#[derive(Clone, Debug, Default)]
pub struct Born {
    ids: Vec<u32>,
}

impl Born {
    /// Checks that three files belong together, and finds the objects born between the first two.
    ///
    /// # Errors
    /// They do not.
    pub fn between(
        base: &SnapshotIds,
        target: &SnapshotIds,
        last: &SnapshotIds,
    ) -> Result<Born, BornError> {
        let ids = new_ids(base, target, 1)?;
        new_ids(target, last, 2)?;
        Ok(Born { ids })
    }

    /// Born objects from another source, such as an allocation timeline.
    pub fn of_ids(mut ids: Vec<u32>) -> Born {
        ids.sort_unstable();
        Born { ids }
    }

    /// Whether the object with this id was born there.
    pub fn contains(&self, id: u32) -> bool {
        self.ids.binary_search(&id).is_ok()
    }

    /// How many were.
    pub fn count(&self) -> usize {
        self.ids.len()
    }
}

/// The ids that only the newer of two has, in their order. `file` is its number.
fn new_ids(older: &SnapshotIds, newer: &SnapshotIds, file: usize) -> Result<Vec<u32>, BornError> {
    let session = Session::of(older, newer);
    if session.is_broken() {
        let Session { common, changed, .. } = session;
        return Err(BornError::OtherSession { file, common, changed });
    }
    if let Some((older, newer)) = session.reversed {
        return Err(BornError::OutOfOrder { file, older, newer });
    }
    let mut before = older.ids().iter().copied().peekable();
    let mut new = Vec::new();
    for id in newer.ids() {
        while before.next_if(|old| old < id).is_some() {}
        if before.peek() != Some(id) {
            new.push(*id);
        }
    }
    Ok(new)
}
