//! Live bytes over time in a bounded number of points.
//!
//! The length of a recording is unknown while it streams. Points begin as narrow as possible; when
//! there would be too many, neighbours are merged and the width doubles. The minimum and maximum of
//! a point survive every merge, so a peak of one event is still visible in an hour.

use crate::{Amount, Timeline, TimelineAxis, TimelinePoint};

#[derive(Debug)]
pub(crate) struct TimelineBuilder {
    axis: TimelineAxis,
    width: u64,
    limit: usize,
    points: Vec<TimelinePoint>,
    /// End of the last point.
    until: u64,
}

impl TimelineBuilder {
    pub(crate) fn new(axis: TimelineAxis, limit: usize) -> TimelineBuilder {
        TimelineBuilder { axis, width: 1, limit: limit.max(2), points: Vec::new(), until: 0 }
    }

    /// Notes `live` after an event at `time_ns` and `row` that requested `requested` bytes.
    #[inline]
    pub(crate) fn note(&mut self, time_ns: u64, row: u64, live: &Amount, requested: u64) {
        let at = if self.axis == TimelineAxis::Time { time_ns } else { row };
        if at >= self.until {
            self.open(at, live);
        }
        // An event stamped earlier than its predecessor belongs to the last point: the row order
        // decides.
        let Some(point) = self.points.last_mut() else { return };
        point.min_bytes = point.min_bytes.min(live.bytes);
        point.max_bytes = point.max_bytes.max(live.bytes);
        point.live = *live;
        point.requested_bytes = point.requested_bytes.saturating_add(requested);
    }

    #[cold]
    fn open(&mut self, at: u64, live: &Amount) {
        loop {
            let begins = at - at % self.width;
            if self.points.last().is_some_and(|last| last.at == begins) {
                break;
            }
            if self.points.len() < self.limit {
                self.points.push(TimelinePoint {
                    at: begins,
                    min_bytes: live.bytes,
                    max_bytes: live.bytes,
                    live: *live,
                    requested_bytes: 0,
                });
                break;
            }
            self.halve();
        }
        self.until = (at - at % self.width).saturating_add(self.width);
    }

    fn halve(&mut self) {
        self.width = self.width.saturating_mul(2);
        let mut merged: Vec<TimelinePoint> = Vec::with_capacity(self.points.len());
        for point in self.points.drain(..) {
            let at = point.at - point.at % self.width;
            match merged.last_mut() {
                Some(last) if last.at == at => {
                    last.min_bytes = last.min_bytes.min(point.min_bytes);
                    last.max_bytes = last.max_bytes.max(point.max_bytes);
                    last.live = point.live;
                    last.requested_bytes =
                        last.requested_bytes.saturating_add(point.requested_bytes);
                }
                _ => merged.push(TimelinePoint { at, ..point }),
            }
        }
        self.points = merged;
    }

    pub(crate) fn finish(self) -> Timeline {
        Timeline { axis: self.axis, width: self.width, points: self.points }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn live(bytes: u64) -> Amount {
        Amount { objects: 1, bytes, usable_bytes: bytes }
    }

    #[test]
    fn a_peak_of_one_event_survives() {
        let mut timeline = TimelineBuilder::new(TimelineAxis::Time, 16);
        for row in 0..100_000u64 {
            timeline.note(row * 1000, row, &live(if row == 77_777 { 1_000_000 } else { 10 }), 1);
        }
        let timeline = timeline.finish();
        assert!(timeline.points.len() <= 16 && timeline.points.len() >= 8);
        assert_eq!(timeline.points.iter().map(|point| point.max_bytes).max(), Some(1_000_000));
        assert_eq!(timeline.points.iter().map(|point| point.requested_bytes).sum::<u64>(), 100_000);
    }

    proptest! {
        #[test]
        fn points_are_in_order_and_bounded(steps in prop::collection::vec((0..1u64 << 40, 0..1000u64), 1..300)) {
            let mut timeline = TimelineBuilder::new(TimelineAxis::Time, 10);
            let mut time = 0u64;
            for (row, (step, bytes)) in steps.iter().enumerate() {
                time += step;
                timeline.note(time, row as u64, &live(*bytes), *bytes);
            }
            let timeline = timeline.finish();
            prop_assert!(timeline.points.len() <= 10);
            prop_assert!(timeline.points.windows(2).all(|pair| pair[0].at + timeline.width <= pair[1].at));
            prop_assert!(timeline.points.iter().all(|point| point.min_bytes <= point.live.bytes && point.live.bytes <= point.max_bytes));
            prop_assert_eq!(timeline.points.iter().map(|point| point.max_bytes).max(), steps.iter().map(|step| step.1).max());
        }
    }
}
