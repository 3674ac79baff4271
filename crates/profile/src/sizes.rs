//! Requests by size.
//!
//! Sizes to 64 KiB find their row by index, larger ones by hash. Beyond the limit of distinct
//! sizes, a new size shares a row with sizes at most 0.4 % apart (256 rows to a doubling): memory
//! is bounded and sums stay exact.

use crate::live::IntegerMap;
use crate::{Amount, MomentSize, SizeRow, Tracked};
use heaplab_trace::Event;

const DIRECT: usize = 64 * 1024;
const NONE: u32 = u32::MAX;

#[derive(Debug)]
struct Row {
    request: u64,
    grouped: bool,
    requested: Amount,
    usable_min: u64,
    usable_max: u64,
    align_log2_max: u8,
    tracked: Tracked,
}

#[derive(Debug)]
pub(crate) struct Sizes {
    rows: Vec<Row>,
    direct: Vec<u32>,
    large: IntegerMap<u64, u32>,
    groups: IntegerMap<u64, u32>,
    limit: usize,
    pub(crate) grouped_requests: u64,
}

impl Sizes {
    pub(crate) fn new(limit: usize) -> Sizes {
        Sizes {
            rows: Vec::new(),
            direct: vec![NONE; DIRECT],
            large: IntegerMap::default(),
            groups: IntegerMap::default(),
            limit,
            grouped_requests: 0,
        }
    }

    /// The row of a size.
    #[inline]
    fn row_of(&mut self, size: u64) -> u32 {
        if size < DIRECT as u64 {
            let row = self.direct[size as usize];
            if row != NONE { row } else { self.new_row(size) }
        } else {
            match self.large.get(&size) {
                Some(row) => *row,
                None => self.new_row(size),
            }
        }
    }

    #[cold]
    fn new_row(&mut self, size: u64) -> u32 {
        let row = self.rows.len() as u32;
        let grouped = self.rows.len() - self.groups.len() >= self.limit;
        if grouped {
            self.grouped_requests += 1;
            // The leading nine bits: 256 groups to a doubling.
            let group = (u64::from(size.max(1).ilog2()) << 8)
                | ((size << size.leading_zeros().min(63)) >> 55 & 0xFF);
            if let Some(row) = self.groups.get(&group) {
                self.rows[*row as usize].request = self.rows[*row as usize].request.max(size);
                return *row;
            }
            self.groups.insert(group, row);
        } else if size < DIRECT as u64 {
            self.direct[size as usize] = row;
        } else {
            self.large.insert(size, row);
        }
        self.rows.push(Row {
            request: size,
            grouped,
            requested: Amount::default(),
            usable_min: 0,
            usable_max: 0,
            align_log2_max: 0,
            tracked: Tracked::default(),
        });
        row
    }

    /// Counts a request and adds its object to the live ones; returns the row.
    #[inline]
    pub(crate) fn add(&mut self, peak: u64, event: &Event) -> u32 {
        let index = self.row_of(event.size);
        let row = &mut self.rows[index as usize];
        row.requested.objects += 1;
        row.requested.bytes = row.requested.bytes.saturating_add(event.size);
        row.requested.usable_bytes = row.requested.usable_bytes.saturating_add(event.usable);
        if event.usable != 0 {
            row.usable_min =
                if row.usable_min == 0 { event.usable } else { row.usable_min.min(event.usable) };
            row.usable_max = row.usable_max.max(event.usable);
        }
        row.align_log2_max = row.align_log2_max.max(event.align_log2);
        row.tracked.add(peak, event.size, event.usable);
        index
    }

    /// The size of row `index`.
    pub(crate) fn request_of(&self, index: u32) -> u64 {
        self.rows.get(index as usize).map_or(0, |row| row.request)
    }

    /// Removes an object of row `index` from the live ones.
    #[inline]
    pub(crate) fn remove(&mut self, peak: u64, index: u32, size: u64, usable: u64) {
        self.rows[index as usize].tracked.remove(peak, size, usable);
    }

    /// The live objects now, by size.
    pub(crate) fn moment(&self) -> Vec<MomentSize> {
        let live = self.rows.iter().filter(|row| row.tracked.live.objects > 0);
        let mut sizes: Vec<_> =
            live.map(|row| MomentSize { request: row.request, live: row.tracked.live }).collect();
        sizes.sort_by_key(|size| size.request);
        sizes
    }

    pub(crate) fn finish(self, peak: u64) -> Vec<SizeRow> {
        let mut rows: Vec<SizeRow> = self
            .rows
            .into_iter()
            .map(|row| SizeRow {
                request: row.request,
                grouped: row.grouped,
                requested: row.requested,
                usable_min_bytes: row.usable_min,
                usable_max_bytes: row.usable_max,
                align_log2_max: row.align_log2_max,
                at_peak: row.tracked.at_peak(peak),
                at_end: row.tracked.live,
            })
            .collect();
        rows.sort_by(|a, b| {
            b.requested.objects.cmp(&a.requested.objects).then(a.request.cmp(&b.request))
        });
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_sizes_share_rows_and_sums_stay_exact() {
        let mut sizes = Sizes::new(100);
        let mut bytes = 0;
        for size in 1..=200_000u64 {
            let event = Event { size, usable: size + 8, ..Event::default() };
            let row = sizes.add(0, &event);
            if size % 2 == 0 {
                sizes.remove(0, row, size, size + 8);
            } else {
                bytes += size;
            }
        }
        assert_eq!(sizes.grouped_requests, 200_000 - 100);
        let rows = sizes.finish(0);
        assert!(rows.len() < 100 + 256 * 18, "{} rows", rows.len());
        assert_eq!(rows.iter().map(|row| row.at_end.bytes).sum::<u64>(), bytes);
        assert_eq!(rows.iter().map(|row| row.requested.objects).sum::<u64>(), 200_000);
        let widest = rows.iter().filter(|row| row.request > 1000 && row.grouped);
        assert!(widest.clone().count() > 0);
        for row in widest {
            let mean = row.requested.bytes / row.requested.objects;
            assert!(row.request - mean <= row.request / 256 + 1, "{row:?}");
        }
    }
}
