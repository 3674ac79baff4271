//! The streaming contract: events move in batches, so that no pass needs the whole workload in memory and none pays a
//! virtual call an event.

use crate::{Event, TraceError};

/// Gives events in order.
pub trait EventSource {
    /// Replaces the content of `batch` by the next events; an empty batch afterwards means the end.
    fn next_batch(&mut self, batch: &mut Vec<Event>) -> Result<(), TraceError>;

    /// Calls `each` for every event until the end.
    fn for_each(&mut self, mut each: impl FnMut(&Event) -> Result<(), TraceError>) -> Result<(), TraceError>
    where
        Self: Sized,
    {
        let mut batch = Vec::new();
        loop {
            self.next_batch(&mut batch)?;
            if batch.is_empty() {
                return Ok(());
            }
            for event in &batch {
                each(event)?;
            }
        }
    }
}

/// Takes events in order.
pub trait EventSink {
    /// Takes the next event.
    fn push(&mut self, event: &Event) -> Result<(), TraceError>;
}

impl EventSink for Vec<Event> {
    fn push(&mut self, event: &Event) -> Result<(), TraceError> {
        Vec::push(self, *event);
        Ok(())
    }
}

/// Events in memory as a source, for tests and small workloads.
#[derive(Debug)]
pub struct Slice<'a>(pub &'a [Event]);

impl EventSource for Slice<'_> {
    fn next_batch(&mut self, batch: &mut Vec<Event>) -> Result<(), TraceError> {
        let (now, later) = self.0.split_at(self.0.len().min(64 * 1024));
        batch.clear();
        batch.extend_from_slice(now);
        self.0 = later;
        Ok(())
    }
}
