//! Requests that ask for other sizes.
//!
//! The part that a clownshoe's header pushes out of its block needs another place, so a fixed
//! request may owe further blocks. The finding's estimate assumes the same.

use crate::Sizes;
use hashbrown::HashMap;

/// What becomes of requests of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeRow {
    /// Bytes asked for now.
    pub from: u64,
    /// Bytes asked for then.
    pub to: u64,
    /// A second block that lives as long, bytes; 0: none.
    pub beside: u64,
    /// The bytes cut off fill further blocks of `to` bytes.
    pub displaces: bool,
}

impl SizeRow {
    /// `4368 bytes ask for 4096`, `4368 bytes ask for 4096 and 272`.
    pub(crate) fn words(&self) -> String {
        let beside = if self.beside > 0 { format!(" and {}", self.beside) } else { String::new() };
        format!("{} bytes ask for {}{beside}", self.from, self.to)
    }
}

/// A changed request: bytes of the block, and of a further block with the same life (0: none).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) bytes: u64,
    pub(crate) beside: u64,
}

/// The rows of one rule, with the owed bytes.
#[derive(Debug)]
pub(crate) struct Resizer {
    less: u64,
    rows: HashMap<u64, (SizeRow, u64)>,
}

impl Resizer {
    pub(crate) fn new(sizes: &Sizes) -> Resizer {
        match sizes {
            Sizes::Less(less) => Resizer { less: *less, rows: HashMap::new() },
            Sizes::Table(rows) => {
                Resizer { less: 0, rows: rows.iter().map(|row| (row.from, (*row, 0))).collect() }
            }
        }
    }

    /// The change of a request of `size` bytes; `None`: it stays.
    pub(crate) fn asks(&mut self, size: u64) -> Option<Asked> {
        if self.less > 0 {
            return (size > self.less).then(|| Asked { bytes: size - self.less, beside: 0 });
        }
        let (row, owed) = self.rows.get_mut(&size)?;
        let mut beside = row.beside;
        if row.displaces && row.to < row.from {
            let over = row.from - row.to;
            *owed += over;
            // A further block loses as many of its own bytes.
            let payload = row.to.saturating_sub(over).max(1);
            if *owed >= payload {
                *owed -= payload.min(*owed);
                beside = row.to;
            }
        }
        Some(Asked { bytes: row.to, beside })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_displaced_needs_as_many_blocks_as_the_finding_estimates() {
        let row = SizeRow { from: 4368, to: 4096, beside: 0, displaces: true };
        let mut resizer = Resizer::new(&Sizes::Table(vec![row]));
        assert_eq!(resizer.asks(4096), None);
        let further = (0..10_000).filter(|_| resizer.asks(4368).unwrap().beside > 0).count();
        // 272 bytes of each into blocks that hold 3,824: 711.3.
        assert_eq!(further, 711);
    }

    #[test]
    fn a_header_goes_and_small_requests_stay() {
        let mut resizer = Resizer::new(&Sizes::Less(8));
        assert_eq!(resizer.asks(4104), Some(Asked { bytes: 4096, beside: 0 }));
        assert_eq!(resizer.asks(8), None);
    }
}
