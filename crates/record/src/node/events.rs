//! Chunks of all heaps as events, in the order of the collections that end them.
//!
//! The order of births within a heap is V8's. Between two heaps only the times of collections are
//! known, so their events come chunk after chunk. Births are spread evenly in time between the
//! collections before and after them. Deaths come directly before the collection that noticed them,
//! so a replayed collection finds the same dead as the recorded one.

use super::Counts;
use super::chunks::{Chunk, Heap};
use super::places::Places;
use crate::error::RecordError;
use hashbrown::HashMap;
use heaplab_trace::tables::{Mark, NamedMoment, Tables};
use heaplab_trace::{Event, EventSink, Family, Op, TraceError};
use std::collections::VecDeque;

/// A heap with chunks to come.
struct Source {
    heap: Heap,
    /// Row of `processes` and of `threads`.
    row: u32,
    /// Live objects by sample number.
    objects: HashMap<u64, u64>,
    next: Option<Chunk>,
}

impl Source {
    /// Time of the next chunk's end.
    fn time_ns(&self) -> Option<u64> {
        let chunk = self.next.as_ref()?;
        let end = self.heap.end.as_ref().map(|(time_ns, _)| *time_ns);
        Some(chunk.collection_ns.or(end).unwrap_or(self.heap.before_ns).max(self.heap.before_ns))
    }
}

/// Writes events.
pub struct Writer<'a, S> {
    sink: &'a mut S,
    origin_ns: u64,
    moments: VecDeque<NamedMoment>,
    time_ns: u64,
    sizes: HashMap<u64, u64>,
    live_bytes: u64,
    /// Counts so far.
    pub counts: Counts,
}

impl<'a, S: EventSink> Writer<'a, S> {
    /// A writer for a recording that began at `origin_ns`; `moments` in order of time.
    pub fn new(sink: &'a mut S, origin_ns: u64, moments: Vec<NamedMoment>) -> Writer<'a, S> {
        Writer {
            sink,
            origin_ns,
            moments: moments.into(),
            time_ns: 0,
            sizes: HashMap::new(),
            live_bytes: 0,
            counts: Counts::default(),
        }
    }

    /// Writes the events of `heaps`; their indices are their rows of `processes` and `threads`.
    /// Returns the heaps, read to their ends.
    pub fn write(
        &mut self,
        heaps: Vec<Heap>,
        tables: &mut Tables,
    ) -> Result<Vec<Heap>, RecordError> {
        let mut places = Places::default();
        let mut sources: Vec<Source> = heaps
            .into_iter()
            .zip(0..)
            .map(|(heap, row)| Source { heap, row, objects: HashMap::new(), next: None })
            .collect();
        sources.iter_mut().for_each(|source| source.next = source.heap.next(&mut places, tables));
        while let Some(source) = sources
            .iter_mut()
            .filter(|source| source.next.is_some())
            .min_by_key(|source| source.time_ns())
        {
            let end_ns = source.time_ns().unwrap_or(0);
            let chunk = source.next.take().unwrap_or_default();
            self.chunk(source, &chunk, end_ns, tables)?;
            source.heap.before_ns = end_ns;
            source.next = source.heap.next(&mut places, tables);
        }
        self.pass_moments(u64::MAX, tables)?;
        Ok(sources.into_iter().map(|source| source.heap).collect())
    }

    fn chunk(
        &mut self,
        source: &mut Source,
        chunk: &Chunk,
        end_ns: u64,
        tables: &mut Tables,
    ) -> Result<(), TraceError> {
        let (begin_ns, count) = (source.heap.before_ns, chunk.births.len() as u64);
        let event = Event { process: source.row, thread: source.row, ..Event::default() };
        let mut interval_bytes = 0u64;
        for (place, birth) in (1..).zip(&chunk.births) {
            let behind_ns = (u128::from(end_ns - begin_ns) * place / u128::from(count + 1)) as u64;
            self.pass_moments((begin_ns + behind_ns).saturating_sub(self.origin_ns), tables)?;
            let object = self.counts.objects;
            self.counts.objects += 1;
            source.objects.insert(birth.number, object);
            interval_bytes += birth.bytes;
            self.born(object, birth.bytes);
            let (size, stack, family) = (birth.bytes, birth.stack, Family::Managed);
            self.push(Event { op: Op::Alloc, family, object, size, usable: size, stack, ..event })?;
        }
        self.counts.interval_bytes_max = self.counts.interval_bytes_max.max(interval_bytes);
        self.pass_moments(end_ns.saturating_sub(self.origin_ns), tables)?;
        if chunk.collection_ns.is_none() {
            return Ok(());
        }
        let collection = u32::try_from(self.counts.collections).unwrap_or(u32::MAX);
        for number in &chunk.deaths {
            let Some(object) = source.objects.remove(number) else {
                source
                    .heap
                    .spoilt(&format!("sample {number} dies and does not live"), Chunk::default());
                break;
            };
            self.died(object);
            self.push(Event {
                op: Op::Free,
                family: Family::Managed,
                object,
                collection,
                ..event
            })?;
        }
        self.counts.collections += 1;
        self.push(Event { op: Op::Collect, collection, ..event })
    }

    fn born(&mut self, object: u64, bytes: u64) {
        self.sizes.insert(object, bytes);
        self.counts.object_bytes = self.counts.object_bytes.saturating_add(bytes);
        self.live_bytes = self.live_bytes.saturating_add(bytes);
        self.counts.peak_bytes = self.counts.peak_bytes.max(self.live_bytes);
    }

    fn died(&mut self, object: u64) {
        self.counts.deaths += 1;
        self.live_bytes -= self.sizes.remove(&object).unwrap_or(0).min(self.live_bytes);
    }

    /// Moves to `time_ns`: earlier named moments become marks. Time never goes back, whatever two
    /// heaps' clocks say.
    fn pass_moments(&mut self, time_ns: u64, tables: &mut Tables) -> Result<(), TraceError> {
        while self.moments.front().is_some_and(|moment| moment.time_ns < time_ns) {
            let Some(moment) = self.moments.pop_front() else { break };
            self.time_ns = self.time_ns.max(moment.time_ns);
            let process = moment
                .pid
                .and_then(|pid| tables.processes.iter().position(|process| process.pid == pid))
                .map(|row| row as u32);
            tables.marks.push(Mark { name: moment.name, time_ns: self.time_ns, process });
            let (object, row) = (tables.marks.len() as u64 - 1, process.unwrap_or(0));
            self.push(Event {
                op: Op::Mark,
                object,
                process: row,
                thread: row,
                ..Event::default()
            })?;
        }
        if time_ns != u64::MAX {
            self.time_ns = self.time_ns.max(time_ns);
        }
        Ok(())
    }

    fn push(&mut self, event: Event) -> Result<(), TraceError> {
        self.counts.events += 1;
        self.sink.push(&Event { time_ns: self.time_ns, ..event })
    }
}
