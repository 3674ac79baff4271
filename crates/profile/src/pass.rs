//! The pass itself: every event once, in order.

use crate::live::Live;
use crate::marks::Marks;
use crate::moments::Moments;
use crate::observe::{Instant, NoObserver, Object, Observer};
use crate::ranges::{Ended, RangesBuilder};
use crate::sizes::Sizes;
use crate::stacks::Stacks;
use crate::threads::Threads;
use crate::timeline::TimelineBuilder;
use crate::{Amount, Lifetime, Lifetimes, Moment, Profile, ProfileOptions, TimelineAxis, Totals};
use heaplab_trace::arena_members::ArenaMembers;
use heaplab_trace::{Event, EventSource, Flags, ObjectId, Op, TraceError, tables::Tables};

/// A larger object is an error of the file; sums of smaller ones are checked.
const SIZE_LIMIT: u64 = heaplab_trace::order::OBJECT_BYTES_MAX;

/// Reads all events of `source` once and returns their profile.
///
/// # Errors
/// An error of the source, and events that no program can produce: an object born twice, sizes
/// beyond any address space, a stack missing in `tables`.
pub fn profile<O: Observer>(
    tables: &Tables,
    source: &mut dyn EventSource,
    options: &ProfileOptions,
    observer: &mut O,
) -> Result<Profile, TraceError> {
    let mut batch = Vec::new();
    source.next_batch(&mut batch)?;
    // The first batch shows whether there are time stamps.
    let timed = batch.is_empty() || batch.iter().any(|event| event.time_ns > 0);
    let mut pass = Pass::new(
        tables,
        options,
        if timed { TimelineAxis::Time } else { TimelineAxis::Events },
        observer,
    );
    while !batch.is_empty() {
        for event in &batch {
            pass.event(event)?;
        }
        source.next_batch(&mut batch)?;
    }
    Ok(pass.finish())
}

impl Profile {
    /// The profile of all events of `source`, which nobody else observes.
    ///
    /// # Errors
    /// As for [`profile`].
    pub fn of(
        tables: &Tables,
        source: &mut dyn EventSource,
        options: &ProfileOptions,
    ) -> Result<Profile, TraceError> {
        profile(tables, source, options, &mut NoObserver)
    }
}

struct Pass<'a, O> {
    tables: &'a Tables,
    options: &'a ProfileOptions,
    observer: &'a mut O,
    now: Instant,
    /// Row of the next event.
    next_row: u64,
    live: Live,
    amount: Amount,
    peak: Moment,
    totals: Totals,
    sizes: Sizes,
    stacks: Stacks,
    threads: Threads,
    timeline: TimelineBuilder,
    ranges: RangesBuilder,
    by_time: [Lifetime; 65],
    by_bytes: [Lifetime; 65],
    moments: Moments,
    marks: Marks<'a>,
    /// Before the first event later than this, a moment or a mark must be taken. A value that is
    /// too early costs only a look.
    next_stop_ns: u64,
    is_timed: bool,
    arenas: ArenaMembers,
}

impl<'a, O: Observer> Pass<'a, O> {
    fn new(
        tables: &'a Tables,
        options: &'a ProfileOptions,
        axis: TimelineAxis,
        observer: &'a mut O,
    ) -> Self {
        observer.begins(tables);
        Pass {
            tables,
            options,
            observer,
            now: Instant::default(),
            next_row: 0,
            live: Live::default(),
            amount: Amount::default(),
            peak: Moment { name: "peak".into(), ..Moment::default() },
            totals: Totals::default(),
            sizes: Sizes::new(options.size_limit),
            stacks: Stacks::new(tables.stacks.len()),
            threads: Threads::default(),
            timeline: TimelineBuilder::new(axis, options.timeline_points),
            ranges: RangesBuilder::new(options.range_steps, tables.stacks.len()),
            by_time: [Lifetime::default(); 65],
            by_bytes: [Lifetime::default(); 65],
            next_stop_ns: 0,
            is_timed: axis == TimelineAxis::Time,
            moments: Moments::new(&options.moments),
            marks: Marks::new(tables),
            arenas: ArenaMembers::default(),
        }
    }

    #[inline]
    fn event(&mut self, event: &Event) -> Result<(), TraceError> {
        if event.time_ns > self.next_stop_ns {
            self.stop(event.time_ns);
        }
        self.now.row = self.next_row;
        self.now.time_ns = event.time_ns;
        self.next_row += 1;
        let requested_before = self.now.requested_bytes;
        self.ranges.reach(if self.is_timed { event.time_ns } else { self.now.row });
        if event.counts() {
            match event.op {
                Op::Alloc => self.birth(event)?,
                Op::Free => self.death(event, event.object),
                Op::Realloc => self.resize(event)?,
                Op::UsableSizeRead => self.usable_size_read(event),
                Op::ArenaDeath => {
                    for object in self.arenas.died(event.arena) {
                        if self.live.get_mut(object).is_some() {
                            self.death(event, object);
                        }
                    }
                }
                Op::Mark => self.mark(event),
                Op::ArenaBirth
                | Op::Promote
                | Op::CollectBegin
                | Op::CollectEnd
                | Op::Reference
                | Op::Report => {}
                Op::Collect | Op::CollectYoung | Op::Trim => {}
            }
        } else if event.has(Flags::INHERITED) {
            self.totals.inherited_rows += 1;
        } else if event.op != Op::Report {
            self.totals.failed_requests += 1;
        }
        if self.amount.bytes > self.peak.live.bytes {
            self.peak.live = self.amount;
            self.peak.row = self.now.row;
            self.peak.time_ns = event.time_ns;
            self.now.peak += 1;
        }
        self.timeline.note(
            event.time_ns,
            self.now.row,
            &self.amount,
            self.now.requested_bytes - requested_before,
        );
        if self.now.row == self.moments.next_row {
            self.moments.take_row(&self.now, &self.amount, &self.stacks, &self.sizes);
        }
        Ok(())
    }

    /// Takes the moments and marks before an event at `time_ns`.
    #[cold]
    fn stop(&mut self, time_ns: u64) {
        if time_ns > self.moments.next_time_ns {
            self.moments.take_until(time_ns, &self.now, &self.amount, &self.stacks, &self.sizes);
        }
        if self.is_timed {
            self.marks.pass_until(time_ns, &self.now, &self.amount);
        }
        self.next_stop_ns = self.moments.next_time_ns.min(self.marks.next_time_ns());
    }

    /// The common part of birth and reallocation: `event`'s object is live with its new size from
    /// here on.
    #[inline]
    fn request(&mut self, event: &Event) -> Result<Sized, TraceError> {
        if event.size > SIZE_LIMIT || event.usable > SIZE_LIMIT {
            let bytes = event.size.max(event.usable);
            return Err(self.impossible(format!(
                "an object of {bytes} bytes; no process can hold more than {SIZE_LIMIT}"
            )));
        }
        let bytes = self.amount.bytes.checked_add(event.size);
        let usable = self.amount.usable_bytes.checked_add(event.usable);
        let (Some(bytes), Some(usable_bytes)) = (bytes, usable) else {
            return Err(self.impossible("the live objects hold more than 2^64 bytes".into()));
        };
        self.amount = Amount { objects: self.amount.objects + 1, bytes, usable_bytes };
        if !self.stacks.add(&self.now, event) {
            let rows = self.tables.stacks.len();
            return Err(self.impossible(format!(
                "stack {} is not in the table of {rows} stacks",
                event.stack
            )));
        }
        if !self.threads.request(event) {
            return Err(
                self.impossible(format!("thread {} is beyond any table of threads", event.thread))
            );
        }
        self.totals.requests += 1;
        self.totals.unmeasured_requests += u64::from(event.usable == 0);
        self.totals.usable_bytes = self.totals.usable_bytes.saturating_add(event.usable);
        if event.has(Flags::ZEROED) {
            self.totals.zeroed_bytes = self.totals.zeroed_bytes.saturating_add(event.size);
        }
        self.now.requested_bytes = self.now.requested_bytes.saturating_add(event.size);
        let site = self.ranges.site(event.stack, event.thread);
        self.ranges.begins(self.now.peak, site, event.size, event.usable);
        Ok(Sized {
            size_row: self.sizes.add(self.now.peak, event),
            site,
            sized_at: self.ranges.now(),
        })
    }

    #[inline]
    fn birth(&mut self, event: &Event) -> Result<(), TraceError> {
        let born_clock = self.now.requested_bytes;
        let sized = self.request(event)?;
        self.totals.allocations += 1;
        let object = Object {
            size: event.size,
            usable: event.usable,
            born_ns: event.time_ns,
            born_clock,
            stack: event.stack,
            thread: event.thread,
            reallocations: 0,
            size_row: sized.size_row,
            site: sized.site,
            sized_at: sized.sized_at,
        };
        if !self.live.insert(event.object, object) {
            return Err(self.impossible(format!("object {} is born a second time", event.object)));
        }
        let is_live = |object| self.live.get_mut(object).is_some();
        self.arenas.born(event.arena, event.object, is_live);
        let now = Instant { requested_bytes: born_clock, ..self.now };
        self.observer.born(&now, event, event.object, &object);
        Ok(())
    }

    /// Removes an object from its size and its stack.
    #[inline]
    fn release(&mut self, object: &Object, temporary: bool) {
        self.amount.objects -= 1;
        self.amount.bytes -= object.size;
        self.amount.usable_bytes -= object.usable;
        self.sizes.remove(self.now.peak, object.size_row, object.size, object.usable);
        self.stacks.remove(self.now.peak, object);
        self.ranges.ends(self.now.peak, &ended(object, temporary));
    }

    #[inline]
    fn death(&mut self, event: &Event, id: ObjectId) {
        let Some(object) = self.live.remove(id) else {
            self.totals.unmatched_rows += 1;
            return;
        };
        let temporary = self.threads.death(event.thread, id, object.thread);
        self.release(&object, temporary);
        self.totals.frees += 1;
        self.totals.temporary += u64::from(temporary);
        let life_bytes =
            self.now.requested_bytes.saturating_sub(object.born_clock.saturating_add(object.size));
        self.stacks.lived(object.stack, temporary, life_bytes < self.options.short_lived_bytes);
        let life_ns = event.time_ns.saturating_sub(object.born_ns);
        note_life(&mut self.by_time, life_ns, object.size);
        note_life(&mut self.by_bytes, life_bytes, object.size);
        self.ranges.lived(life_ns, life_bytes, object.size);
        self.observer.died(&self.now, event, id, &object);
    }

    fn resize(&mut self, event: &Event) -> Result<(), TraceError> {
        let Some(before) = self.live.get_mut(event.object).copied() else {
            self.totals.unmatched_rows += 1;
            return Ok(());
        };
        let clock = self.now.requested_bytes;
        self.release(&before, false);
        let sized = self.request(event)?;
        self.totals.reallocations += 1;
        if event.has(Flags::MOVED) {
            let moved = before.size.min(event.size);
            let (copied, remapped) = if before.size < self.options.remapped_from_bytes {
                (moved, 0)
            } else {
                (0, moved)
            };
            self.totals.moved_reallocations += 1;
            self.totals.moved_bytes = self.totals.moved_bytes.saturating_add(copied);
            self.totals.remapped_bytes = self.totals.remapped_bytes.saturating_add(remapped);
            self.stacks.moved(event.stack, copied);
        }
        let after = Object {
            size: event.size,
            usable: event.usable,
            stack: event.stack,
            reallocations: before.reallocations.saturating_add(1),
            size_row: sized.size_row,
            site: sized.site,
            sized_at: sized.sized_at,
            ..before
        };
        if let Some(object) = self.live.get_mut(event.object) {
            *object = after;
        }
        let now = Instant { requested_bytes: clock, ..self.now };
        self.observer.resized(&now, event, event.object, &before, &after);
        Ok(())
    }

    fn usable_size_read(&mut self, event: &Event) {
        self.totals.usable_size_reads += 1;
        match self.live.get_mut(event.object).copied() {
            Some(object) => {
                self.stacks.usable_size_read(object.stack);
                self.observer.usable_size_read(&self.now, event, event.object, &object);
            }
            None => self.totals.unmatched_rows += 1,
        }
    }

    fn mark(&mut self, event: &Event) {
        let mark = u32::try_from(event.object).unwrap_or(u32::MAX);
        self.marks.meet(mark, &self.now, &self.amount);
        self.moments.take_mark(mark, &self.now, &self.amount, &self.stacks, &self.sizes);
    }

    #[cold]
    fn impossible(&self, what: String) -> TraceError {
        TraceError::Order { path: "events".into(), row: self.now.row, what }
    }

    fn finish(mut self) -> Profile {
        for (id, object) in self.live.iter() {
            self.observer.survived(&self.now, id, object);
            self.ranges.survives(&ended(object, false));
        }
        self.observer.ended(&self.now);
        self.totals.events = self.next_row;
        self.totals.requested_bytes = self.now.requested_bytes;
        self.totals.duration_ns = self.now.time_ns;
        self.totals.grouped_requests = self.sizes.grouped_requests;
        let end = Moment {
            name: "end".into(),
            row: self.now.row,
            time_ns: self.now.time_ns,
            live: self.amount,
            ..Moment::default()
        };
        Profile {
            totals: self.totals,
            moments: self.moments.finish(&self.now, &self.amount, &self.stacks, &self.sizes),
            peak: self.peak,
            end,
            timeline: self.timeline.finish(),
            ranges: self.ranges.finish(self.now.peak, |row| self.sizes.request_of(row)),
            sizes: self.sizes.finish(self.now.peak),
            stacks: self.stacks.finish(self.now.peak),
            lifetimes: Lifetimes {
                by_time: filled(&self.by_time),
                by_bytes: filled(&self.by_bytes),
            },
            threads: self.threads.finish(),
            marks: self.marks.finish(self.is_timed, &self.now, &self.amount),
        }
    }
}

/// Where an object's request counts.
#[derive(Clone, Copy, Debug)]
struct Sized {
    size_row: u32,
    site: u32,
    sized_at: u64,
}

fn ended(object: &Object, temporary: bool) -> Ended {
    Ended {
        site: object.site,
        size_row: object.size_row,
        sized_at: object.sized_at,
        bytes: object.size,
        usable_bytes: object.usable,
        temporary,
    }
}

#[inline]
pub(crate) fn note_life(histogram: &mut [Lifetime; 65], life: u64, bytes: u64) {
    let bucket = &mut histogram[(64 - life.leading_zeros()) as usize];
    bucket.objects += 1;
    bucket.bytes = bucket.bytes.saturating_add(bytes);
}

/// The histogram from its first to its last filled bucket.
pub(crate) fn filled(histogram: &[Lifetime; 65]) -> Vec<Lifetime> {
    let used = |bucket: &Lifetime| bucket.objects > 0;
    let Some(first) = histogram.iter().position(used) else { return Vec::new() };
    let last = histogram.iter().rposition(used).unwrap_or(first);
    let from = |index: usize| if index == 0 { 0 } else { 1u64 << (index - 1) };
    (first..=last).map(|index| Lifetime { from: from(index), ..histogram[index] }).collect()
}
