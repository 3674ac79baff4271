//! Requests and live objects by stack.

use crate::observe::{Instant, Object};
use crate::{Amount, MomentStack, StackRow, Tracked};
use heaplab_trace::{Event, Flags, Op, StackId};

const NONE: u32 = u32::MAX;

/// One row for each stack with a request. Stack ids are rows of a table in memory, so a row is
/// found by index.
#[derive(Debug)]
pub(crate) struct Stacks {
    index: Vec<u32>,
    rows: Vec<(StackRow, Tracked)>,
}

impl Stacks {
    pub(crate) fn new(stacks: usize) -> Stacks {
        Stacks { index: vec![NONE; stacks.max(1)], rows: Vec::new() }
    }

    #[inline]
    fn row(&mut self, stack: StackId) -> Option<&mut (StackRow, Tracked)> {
        let row = *self.index.get(stack as usize)?;
        if row == NONE { None } else { self.rows.get_mut(row as usize) }
    }

    /// Counts a request; false if the table lacks the stack.
    #[inline]
    pub(crate) fn add(&mut self, now: &Instant, event: &Event) -> bool {
        let Some(index) = self.index.get_mut(event.stack as usize) else { return false };
        if *index == NONE {
            *index = self.rows.len() as u32;
            self.rows
                .push((StackRow { stack: event.stack, ..StackRow::default() }, Tracked::default()));
        }
        let (row, tracked) = &mut self.rows[*index as usize];
        row.requested.objects += 1;
        row.requested.bytes = row.requested.bytes.saturating_add(event.size);
        row.requested.usable_bytes = row.requested.usable_bytes.saturating_add(event.usable);
        if event.op == Op::Realloc {
            row.reallocations += 1
        } else {
            row.allocations += 1
        }
        if event.has(Flags::ZEROED) {
            row.zeroed_bytes = row.zeroed_bytes.saturating_add(event.size);
        }
        row.largest_request_bytes = row.largest_request_bytes.max(event.size);
        tracked.add(now.peak, event.size, event.usable);
        true
    }

    #[inline]
    pub(crate) fn remove(&mut self, peak: u64, object: &Object) {
        if let Some((row, tracked)) = self.row(object.stack) {
            row.released.objects += 1;
            row.released.bytes = row.released.bytes.saturating_add(object.size);
            row.released.usable_bytes = row.released.usable_bytes.saturating_add(object.usable);
            tracked.remove(peak, object.size, object.usable);
        }
    }

    #[inline]
    pub(crate) fn lived(&mut self, stack: StackId, temporary: bool, short: bool) {
        if let Some((row, _)) = self.row(stack) {
            row.temporary += u64::from(temporary);
            row.short_lived += u64::from(short);
        }
    }

    pub(crate) fn moved(&mut self, stack: StackId, copied: u64) {
        if let Some((row, _)) = self.row(stack) {
            row.moved_reallocations += 1;
            row.moved_bytes = row.moved_bytes.saturating_add(copied);
        }
    }

    pub(crate) fn usable_size_read(&mut self, stack: StackId) {
        if let Some((row, _)) = self.row(stack) {
            row.usable_size_reads += 1;
        }
    }

    /// The live objects and requests now, by stack.
    pub(crate) fn moment(&self) -> Vec<MomentStack> {
        let mut stacks: Vec<MomentStack> = self
            .rows
            .iter()
            .map(|(row, tracked)| MomentStack {
                stack: row.stack,
                live: tracked.live,
                requested: row.requested,
            })
            .collect();
        stacks.sort_by_key(|row| row.stack);
        stacks
    }

    pub(crate) fn finish(self, peak: u64) -> Vec<StackRow> {
        let finished = |(row, tracked): (StackRow, Tracked)| {
            let at_end: Amount = tracked.live;
            StackRow { at_peak: tracked.at_peak(peak), at_end, ..row }
        };
        let mut rows: Vec<StackRow> = self.rows.into_iter().map(finished).collect();
        rows.sort_by_key(|row| row.stack);
        rows
    }
}
