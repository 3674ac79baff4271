//! The Firefox Profiler's processed profile.
//!
//! One process with two threads and a graph:
//! - "allocations": the profiler's native allocations. Bytes of one stack that were allocated and
//!   released in the same slices of time are one entry, with an "address" that pairs the two: the
//!   profiler's views of allocated, released and retained memory work for any selected range.
//! - "in use at ...": one sample a stack, weighted with its bytes.
//! - live bytes over time.
//!
//! Frames are labels: names without addresses, because nothing is left for the profiler to
//! symbolicate. Traces without times get one event a microsecond.

use crate::{
    Export, ExportError,
    stacks::{labels, weighted},
};
use fxprof_processed_profile::{
    CategoryHandle, CpuDelta, Frame, FrameFlags, FrameInfo, Profile, ReferenceTimestamp,
    SamplingInterval, StackHandle, ThreadHandle, Timestamp, WeightType,
};
use heaplab_profile::TimelineAxis;
use heaplab_trace::StackId;
use std::{collections::HashMap, io::Write};

/// Weights are 32-bit numbers; larger ones are split over at most this many samples.
const SPLIT_MAX: u64 = 1 << 16;

/// Writes the profile.
pub fn write(export: &Export<'_>, out: &mut impl Write) -> Result<(), ExportError> {
    let began =
        ReferenceTimestamp::from_millis_since_unix_epoch(export.about.began_unix_s as f64 * 1000.0);
    let mut profile = Profile::new(&export.about.program, began, SamplingInterval::from_millis(1));
    profile.set_symbolicated(true);
    let start = Timestamp::from_nanos_since_reference(0);
    let process = profile.add_process(&export.about.program, export.about.pid, start);
    let end = timestamp(export, export.detail.end().max(export.profile.totals.duration_ns));
    profile.set_process_end_time(process, end);

    let allocations = profile.add_thread(process, export.about.pid, start, true);
    profile.set_thread_name(allocations, "allocations");
    let in_use = profile.add_thread(process, export.about.pid, start, false);
    profile.set_thread_name(in_use, &format!("in use at {}", export.moment_name()));
    for thread in [allocations, in_use] {
        profile.set_thread_end_time(thread, end);
        profile.add_initial_visible_thread(thread);
    }
    profile.add_initial_selected_thread(in_use);

    add_allocations(export, &mut profile, allocations)?;
    add_in_use(export, &mut profile, in_use)?;
    add_live_bytes(export, &mut profile, process);
    Ok(serde_json::to_writer(out, &profile)?)
}

fn add_allocations(
    export: &Export<'_>,
    profile: &mut Profile,
    thread: ThreadHandle,
) -> Result<(), ExportError> {
    let mut stacks = Stacks::new(thread);
    let mut entries = Vec::new();
    for (number, span) in export.detail.spans().iter().enumerate() {
        let bytes = i64::try_from(span.amount.bytes)
            .map_err(|_| too_large(span.amount.bytes, i64::MAX as u64))?;
        // Addresses only pair allocation and release; 0 would mean no address.
        let address = 16 * (number as u64 + 1);
        let stack = stacks.handle(export, profile, span.stack);
        entries.push((span.from, address, bytes, stack));
        entries.extend(span.until.map(|until| (until, address, -bytes, stack)));
    }
    // In order of time; within a slice an allocation comes before its release.
    entries.sort_by_key(|(at, address, bytes, _)| (*at, *address, *bytes < 0));
    for (at, address, bytes, stack) in entries {
        profile.add_allocation_sample(thread, timestamp(export, at), stack, address, bytes);
    }
    Ok(())
}

fn add_in_use(
    export: &Export<'_>,
    profile: &mut Profile,
    thread: ThreadHandle,
) -> Result<(), ExportError> {
    profile.set_thread_samples_weight_type(thread, WeightType::Bytes);
    let mut stacks = Stacks::new(thread);
    let at = timestamp(export, export.moment_at());
    for row in weighted(export)? {
        let mut left = row.in_use.bytes;
        if left / i32::MAX as u64 >= SPLIT_MAX {
            return Err(too_large(left, SPLIT_MAX * i32::MAX as u64));
        }
        let stack = stacks.handle(export, profile, row.stack);
        while left > 0 {
            let weight = left.min(i32::MAX as u64);
            profile.add_sample(thread, at, stack, CpuDelta::ZERO, weight as i32);
            left -= weight;
        }
    }
    Ok(())
}

fn add_live_bytes(
    export: &Export<'_>,
    profile: &mut Profile,
    process: fxprof_processed_profile::ProcessHandle,
) {
    let timeline = &export.profile.timeline;
    if export.detail.is_timed() != (timeline.axis == TimelineAxis::Time) {
        return;
    }
    let counter = profile.add_counter(
        process,
        "malloc",
        "Memory",
        "Live bytes as the program asked for them",
    );
    profile.add_counter_sample(counter, timestamp(export, 0), 0.0, 0);
    let mut before = 0i128;
    for point in &timeline.points {
        // Two values a point, so that a peak between two ends of points is visible.
        let ends = [
            (point.at, point.max_bytes),
            (point.at.saturating_add(timeline.width), point.live.bytes),
        ];
        for (at, bytes) in ends {
            let delta = i128::from(bytes) - before;
            before = i128::from(bytes);
            profile.add_counter_sample(counter, timestamp(export, at), delta as f64, 1);
        }
    }
}

/// Stacks of one thread by their row.
struct Stacks {
    thread: ThreadHandle,
    known: HashMap<StackId, Option<StackHandle>>,
}

impl Stacks {
    fn new(thread: ThreadHandle) -> Stacks {
        Stacks { thread, known: HashMap::new() }
    }

    fn handle(
        &mut self,
        export: &Export<'_>,
        profile: &mut Profile,
        stack: StackId,
    ) -> Option<StackHandle> {
        if let Some(handle) = self.known.get(&stack) {
            return *handle;
        }
        let labels = labels(export.tables, stack);
        let frames: Vec<FrameInfo> =
            labels.iter().rev().map(|label| frame(profile, label)).collect();
        let handle = profile.intern_stack_frames(self.thread, frames.into_iter());
        self.known.insert(stack, handle);
        handle
    }
}

fn frame(profile: &mut Profile, label: &str) -> FrameInfo {
    FrameInfo {
        frame: Frame::Label(profile.intern_string(label)),
        category_pair: CategoryHandle::OTHER.into(),
        flags: FrameFlags::empty(),
    }
}

fn timestamp(export: &Export<'_>, at: u64) -> Timestamp {
    Timestamp::from_nanos_since_reference(if export.detail.is_timed() {
        at
    } else {
        at.saturating_mul(1000)
    })
}

fn too_large(value: u64, limit: u64) -> ExportError {
    ExportError::TooLarge {
        format: "the Firefox Profiler",
        what: "the bytes of one stack",
        value,
        limit,
    }
}
