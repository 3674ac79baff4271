//! The streaming contract: events move in batches; no pass needs the whole workload in memory, and
//! none pays a virtual call an event.

use crate::{Event, TraceError};

/// Gives events in order.
pub trait EventSource {
    /// Replaces the content of `batch` by the next events; an empty batch means the end.
    fn next_batch(&mut self, batch: &mut Vec<Event>) -> Result<(), TraceError>;

    /// Calls `each` for every event until the end.
    fn for_each(
        &mut self,
        mut each: impl FnMut(&Event) -> Result<(), TraceError>,
    ) -> Result<(), TraceError>
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

/// The first `rows` events of another source: a workload up to a moment.
#[derive(Debug)]
pub struct First<S> {
    /// The source of the events.
    pub source: S,
    /// Events still to come.
    pub rows: u64,
}

impl<S: EventSource> EventSource for First<S> {
    fn next_batch(&mut self, batch: &mut Vec<Event>) -> Result<(), TraceError> {
        if self.rows == 0 {
            batch.clear();
            return Ok(());
        }
        self.source.next_batch(batch)?;
        batch.truncate(usize::try_from(self.rows).unwrap_or(usize::MAX));
        self.rows -= batch.len() as u64;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_events_are_as_many_as_asked_for() {
        let events: Vec<Event> =
            (0..100_000).map(|object| Event { object, ..Event::default() }).collect();
        for rows in [0, 1, 65_536, 65_537, 100_000, u64::MAX] {
            let mut seen = 0;
            let mut first = First { source: Slice(&events), rows };
            first
                .for_each(|event| {
                    assert_eq!(event.object, seen);
                    seen += 1;
                    Ok(())
                })
                .unwrap();
            assert_eq!(seen, rows.min(100_000));
        }
    }
}
