//! The work of each thread.

use crate::ThreadRow;
use heaplab_trace::{Event, ObjectId};

/// More threads than any recording has; a larger number is an error of the file.
const LIMIT: usize = 1 << 22;

/// One row a thread, and the object of its last request.
#[derive(Debug, Default)]
pub(crate) struct Threads {
    rows: Vec<(ThreadRow, Option<ObjectId>)>,
}

impl Threads {
    #[inline]
    fn row(&mut self, thread: u32) -> Option<&mut (ThreadRow, Option<ObjectId>)> {
        let index = thread as usize;
        if index >= self.rows.len() {
            if index >= LIMIT {
                return None;
            }
            self.rows.resize(index + 1, Default::default());
        }
        Some(&mut self.rows[index])
    }

    /// Counts a request; false for an impossible thread.
    #[inline]
    pub(crate) fn request(&mut self, event: &Event) -> bool {
        let Some((row, last)) = self.row(event.thread) else { return false };
        row.requested.objects += 1;
        row.requested.bytes = row.requested.bytes.saturating_add(event.size);
        row.requested.usable_bytes = row.requested.usable_bytes.saturating_add(event.usable);
        *last = Some(event.object);
        true
    }

    /// Counts a death; true if the thread has requested nothing since it requested this object.
    #[inline]
    pub(crate) fn death(&mut self, thread: u32, id: ObjectId, born_by: u32) -> bool {
        let Some((row, last)) = self.row(thread) else { return false };
        row.frees += 1;
        row.cross_thread_frees += u64::from(thread != born_by);
        last.take_if(|last| *last == id).is_some()
    }

    pub(crate) fn finish(self) -> Vec<ThreadRow> {
        let numbered = self
            .rows
            .into_iter()
            .enumerate()
            .map(|(thread, (row, _))| ThreadRow { thread: thread as u32, ..row });
        numbered.filter(|row| row.requested.objects > 0 || row.frees > 0).collect()
    }
}
