//! The recording's marks: the live bytes at each.
//!
//! A mark is an event of one process (or of none), so a pass over another process does not meet it.
//! The mark's time holds for all processes, so the pass takes the mark at the first later event:
//! nothing happened in between.

use crate::observe::Instant;
use crate::{Amount, MarkRow};
use heaplab_trace::tables::Tables;
use std::collections::HashSet;

/// The marks met so far.
#[derive(Debug)]
pub(crate) struct Marks<'a> {
    tables: &'a Tables,
    /// Met as events.
    met: Vec<MarkRow>,
    /// Passed by time; marks met as well count as met.
    passed: Vec<MarkRow>,
    /// Rows of the table in order of time; those from `next` on have not passed.
    order: Vec<u32>,
    next: usize,
}

impl<'a> Marks<'a> {
    pub(crate) fn new(tables: &'a Tables) -> Marks<'a> {
        let mut order: Vec<u32> = (0..tables.marks.len() as u32).collect();
        order.sort_by_key(|row| tables.marks[*row as usize].time_ns);
        Marks { tables, met: Vec::new(), passed: Vec::new(), order, next: 0 }
    }

    /// Time of the next mark: taken before the first later event. `u64::MAX`: none is left.
    pub(crate) fn next_time_ns(&self) -> u64 {
        self.order.get(self.next).map_or(u64::MAX, |row| self.tables.marks[*row as usize].time_ns)
    }

    /// Takes the marks before the next event at `time_ns`.
    pub(crate) fn pass_until(&mut self, time_ns: u64, now: &Instant, live: &Amount) {
        while self.next_time_ns() < time_ns {
            let mark = self.order[self.next];
            let row = &self.tables.marks[mark as usize];
            self.passed.push(MarkRow {
                mark,
                name: row.name.clone(),
                row: now.row,
                time_ns: row.time_ns,
                live: *live,
            });
            self.next += 1;
        }
    }

    /// Takes the mark at its own event.
    pub(crate) fn meet(&mut self, mark: u32, now: &Instant, live: &Amount) {
        let name = self
            .tables
            .marks
            .get(mark as usize)
            .map_or_else(|| format!("mark {mark}"), |mark| mark.name.clone());
        self.met.push(MarkRow { mark, name, row: now.row, time_ns: now.time_ns, live: *live });
    }

    /// All marks, in order of time. Marks after the last event are at the end; without times only
    /// marks met are known.
    pub(crate) fn finish(mut self, is_timed: bool, now: &Instant, live: &Amount) -> Vec<MarkRow> {
        if is_timed {
            self.pass_until(u64::MAX, now, live);
            let met: HashSet<u32> = self.met.iter().map(|row| row.mark).collect();
            self.met.extend(self.passed.into_iter().filter(|row| !met.contains(&row.mark)));
            self.met.sort_by_key(|row| (row.time_ns, row.row, row.mark));
        }
        self.met
    }
}
