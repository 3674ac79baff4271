//! The contents of a JVM's metaspace at a moment, by one pass over the recording.

use crate::chunk_op::{ChunkOp, all_are_known};
use crate::shadow::Shadow;
use crate::{Requests, Statistics};
use heaplab_profile::{At as Place, choose};
use heaplab_trace::bundle::Selection;
use heaplab_trace::tables::Tables;
use heaplab_trace::{Event, EventSource, TraceError};
use serde::Serialize;

/// Points of the timeline.
const POINTS: u64 = 400;

/// A moment of the recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// After the last event.
    End,
    /// When the most was committed, the first time.
    Peak,
    /// After everything up to this time, ns.
    Time(u64),
    /// Before the event of this row.
    Row(u64),
}

impl At {
    /// A moment as a user names it. The peak of a metaspace is when the most was committed.
    pub fn of(tables: &Tables, moment: choose::Chosen) -> At {
        let time = |mark: u32| tables.marks.get(mark as usize).map_or(0, |mark| mark.time_ns);
        match moment {
            choose::Chosen::End => At::End,
            choose::Chosen::Peak => At::Peak,
            choose::Chosen::At(Place::Time(time_ns)) => At::Time(time_ns),
            choose::Chosen::At(Place::Row(row)) => At::Row(row),
            choose::Chosen::At(Place::Mark(mark)) => At::Time(time(mark)),
        }
    }
}

/// The JVMs that a selection means: its process, or every process that was recorded.
pub fn jvms(tables: &Tables, selection: Selection) -> Vec<u32> {
    if let Some(process) = selection.process {
        return vec![process];
    }
    let processes = &tables.processes;
    let is_known =
        |row: &u32| processes.get(*row as usize).is_none_or(|process| process.refused.is_none());
    (0..processes.len().max(1) as u32).filter(is_known).collect()
}

/// One moment of the timeline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Point {
    /// ns since the recording began.
    pub time_ns: u64,
    /// Committed granules.
    pub committed_bytes: u64,
    /// Up to where blocks were given in chunks in use.
    pub used_bytes: u64,
}

/// The contents of a recording's metaspace at a moment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// The moment: ns since the recording began.
    pub time_ns: u64,
    /// Rows of events before it.
    pub row: u64,
    /// The metaspace.
    pub statistics: Statistics,
    /// How large requests were up to the moment.
    pub requests: Requests,
    /// When the most was committed, over the whole recording.
    pub peak: Point,
    /// Committed and used, over the whole recording.
    pub timeline: Vec<Point>,
}

/// Whether a recording is one of a metaspace: recorded, imported from a JVM's log, or a workload
/// without chunks.
pub fn is_metaspace(tables: &Tables) -> bool {
    tables.arenas.iter().any(|arena| arena.kind == "non-class" || arena.kind == "class")
}

/// Whether the recording has the places of its blocks, which a [`report`] needs. An imported
/// `#metaspace-trace` only has the requests ([`crate::asked`]).
pub fn has_chunks(tables: &Tables) -> bool {
    is_metaspace(tables) && !tables.chunks.is_empty()
}

/// Reports on the JVM of row `process` of a recording. One pass reads the events of all processes,
/// because rows are counted over all of them.
///
/// # Errors
/// The events cannot be read.
pub fn report(
    tables: &Tables,
    events: &mut impl EventSource,
    process: u32,
    at: At,
) -> Result<Report, TraceError> {
    let mut pass = Pass::new(tables, process, at);
    events.for_each(|event| {
        pass.event(event);
        Ok(())
    })?;
    Ok(pass.finish())
}

/// Looks at the JVMs of these rows, in one pass as well.
///
/// # Errors
/// The events cannot be read.
pub fn reports(
    tables: &Tables,
    events: &mut impl EventSource,
    processes: &[u32],
    at: At,
) -> Result<Vec<Report>, TraceError> {
    all_are_known(tables)?;
    let mut passes: Vec<Pass> =
        processes.iter().map(|process| Pass::new(tables, *process, at)).collect();
    events.for_each(|event| {
        passes.iter_mut().for_each(|pass| pass.event(event));
        Ok(())
    })?;
    Ok(passes.into_iter().map(Pass::finish).collect())
}

/// One JVM's whole metaspace at a moment, chunk by chunk and block by block.
///
/// # Errors
/// The events cannot be read.
pub fn shadow_at(
    tables: &Tables,
    events: &mut impl EventSource,
    process: u32,
    at: At,
) -> Result<Shadow, TraceError> {
    all_are_known(tables)?;
    let mut pass = Pass { keeps_shadow: true, ..Pass::new(tables, process, at) };
    events.for_each(|event| {
        pass.event(event);
        Ok(())
    })?;
    pass.chunks_until(u64::MAX, u64::MAX);
    Ok(pass.kept.unwrap_or(pass.shadow))
}

/// When the most was committed: the row of events before which that was, and how many rows of
/// chunks had passed.
fn peak(tables: &Tables, process: u32) -> Option<(u64, usize)> {
    let mut shadow = Shadow::new(tables);
    let mut peak = (0, None);
    for (index, chunk) in tables.chunks.iter().enumerate() {
        if chunk.process == process
            && matches!(
                ChunkOp::of(chunk),
                Some(ChunkOp::Granule | ChunkOp::Commit | ChunkOp::Uncommit)
            )
        {
            shadow.chunk(chunk);
            if shadow.committed_bytes() > peak.0 {
                peak = (shadow.committed_bytes(), Some((chunk.row + 1, index + 1)));
            }
        }
    }
    peak.1
}

type Taken = (u64, u64, Statistics, Requests);

struct Pass<'t> {
    tables: &'t Tables,
    process: u32,
    shadow: Shadow,
    requests: Requests,
    chunks: usize,
    row: u64,
    time_ns: u64,
    timeline: Vec<Point>,
    width_ns: u64,
    peak: Point,
    peak_chunks: usize,
    at: At,
    taken: Option<Taken>,
    /// Whether the caller wants the metaspace itself at the moment.
    keeps_shadow: bool,
    kept: Option<Shadow>,
}

impl<'t> Pass<'t> {
    fn new(tables: &'t Tables, process: u32, at: At) -> Pass<'t> {
        let peak = peak(tables, process);
        let end_ns = tables.chunks.last().map_or(0, |chunk| chunk.time_ns);
        Pass {
            tables,
            process,
            shadow: Shadow::new(tables),
            requests: Requests::default(),
            chunks: 0,
            row: 0,
            time_ns: 0,
            timeline: Vec::new(),
            width_ns: end_ns / POINTS + 1,
            peak: Point::default(),
            peak_chunks: peak.map_or(0, |peak| peak.1),
            at: if at == At::Peak { peak.map_or(At::End, |peak| At::Row(peak.0)) } else { at },
            taken: None,
            keeps_shadow: false,
            kept: None,
        }
    }

    fn finish(mut self) -> Report {
        self.chunks_until(u64::MAX, u64::MAX);
        self.point(true);
        let (time_ns, row, statistics, requests) = self.taken.take().unwrap_or_else(|| self.take());
        Report { time_ns, row, statistics, requests, peak: self.peak, timeline: self.timeline }
    }

    fn event(&mut self, event: &Event) {
        self.chunks_until(self.row, event.time_ns);
        let is_past = match self.at {
            At::Time(time_ns) => event.time_ns > time_ns,
            At::Row(row) => self.row >= row,
            At::End | At::Peak => false,
        };
        if is_past && self.taken.is_none() {
            self.note();
        }
        self.time_ns = self.time_ns.max(event.time_ns);
        if event.process != self.process {
            self.row += 1;
            return;
        }
        self.shadow.event(event);
        let class =
            self.tables.arenas.get(event.arena as usize).is_some_and(|arena| arena.kind == "class");
        if self.taken.is_none() {
            self.requests.note(event, class);
        }
        self.row += 1;
        self.point(false);
    }

    /// What became of chunks before the event of this row.
    fn chunks_until(&mut self, row: u64, time_ns: u64) {
        while let Some(chunk) = self.tables.chunks.get(self.chunks).filter(|chunk| chunk.row <= row)
        {
            if matches!(self.at, At::Time(at) if chunk.time_ns > at && time_ns > at)
                && self.taken.is_none()
            {
                self.note();
            }
            self.time_ns = self.time_ns.max(chunk.time_ns);
            if chunk.process == self.process {
                self.shadow.chunk(chunk);
            }
            self.chunks += 1;
            if self.chunks == self.peak_chunks {
                self.peak = self.now();
            }
            self.point(false);
        }
    }

    fn now(&self) -> Point {
        Point {
            time_ns: self.time_ns,
            committed_bytes: self.shadow.committed_bytes(),
            used_bytes: self.shadow.used_bytes,
        }
    }

    /// One point a stretch of time: its last state.
    fn point(&mut self, last: bool) {
        let (now, points) = (self.now(), self.timeline.len());
        match self.timeline.last_mut() {
            Some(point) if point.time_ns / self.width_ns == now.time_ns / self.width_ns => {
                *point = now
            }
            _ if last || points < 2 * POINTS as usize => self.timeline.push(now),
            _ => {}
        }
    }

    /// The moment has come.
    fn note(&mut self) {
        self.taken = Some(self.take());
        self.kept = self.keeps_shadow.then(|| self.shadow.clone());
    }

    fn take(&self) -> Taken {
        let statistics = Statistics::of(&self.shadow, self.tables);
        (self.time_ns, self.row, statistics, self.requests)
    }
}

#[cfg(test)]
mod tests;
