//! Details for exports beside the profile: the lifetime of a stack's bytes, the most it ever had,
//! and when it allocated and released them.
//!
//! Time is kept in slices of equal width, few enough to bound the memory: too many entries join
//! slices in pairs. Sums are exact at any width.

use heaplab_profile::{Amount, Instant, Object, Observer};
use heaplab_trace::{Event, ObjectId, StackId};
use std::collections::{BTreeMap, HashMap};

/// Most entries before slices are joined.
const ENTRIES_MAX: usize = 400_000;
/// Most slices of time.
const SLICES_MAX: u64 = 512;

/// Observes [`heaplab_profile::profile`].
#[derive(Clone, Debug)]
pub struct Detail {
    is_timed: bool,
    end: u64,
    /// When an object got its current size, if not at birth or if births are not timed.
    sized_at: HashMap<ObjectId, u64>,
    stacks: BTreeMap<StackId, StackDetail>,
    slice_width: u64,
    /// Bytes by stack, the slice of their allocation, and the slice of their release (`None`: not
    /// yet).
    spans: HashMap<(StackId, u64, u64), Amount>,
    allocated: HashMap<(StackId, u64), Amount>,
}

/// Lifetimes and maximum of one stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct StackDetail {
    /// Sum over released objects of the time from allocation to release.
    released_lifetimes: u128,
    /// Sum of the live objects' allocation times.
    live_since: u128,
    live: Amount,
    /// The most live bytes at once, and the objects at this moment.
    pub(crate) most: Amount,
}

/// Bytes of one stack allocated and released at about the same times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) stack: StackId,
    /// Start of the slice of their allocation.
    pub(crate) from: u64,
    /// Start of the slice of their release; `None`: live at the end.
    pub(crate) until: Option<u64>,
    pub(crate) amount: Amount,
}

impl Detail {
    /// An empty one. `is_timed`: events have time stamps (the recording's `duration_ns` is not 0),
    /// and times are nanoseconds; otherwise times are row numbers.
    pub fn new(is_timed: bool) -> Detail {
        Detail {
            is_timed,
            end: 0,
            sized_at: HashMap::new(),
            stacks: BTreeMap::new(),
            slice_width: if is_timed { 1_000_000 } else { 64 },
            spans: HashMap::new(),
            allocated: HashMap::new(),
        }
    }

    /// Whether times are nanoseconds rather than rows.
    pub fn is_timed(&self) -> bool {
        self.is_timed
    }

    /// The time of the last change.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// The most live bytes of `stack` at once, and the objects then.
    pub(crate) fn most(&self, stack: StackId) -> Amount {
        self.stacks.get(&stack).map_or(Amount::default(), |detail| detail.most)
    }

    /// Sum of the lifetimes of all objects of `stack`; the lifetimes of live ones end now.
    pub(crate) fn lifetimes(&self, stack: StackId) -> u128 {
        let Some(detail) = self.stacks.get(&stack) else { return 0 };
        let live = u128::from(detail.live.objects) * u128::from(self.end);
        detail.released_lifetimes + live.saturating_sub(detail.live_since)
    }

    /// Allocation and release of each stack's bytes, in order of stack and time. All spans together
    /// are the requested bytes; spans without an end are the bytes live at the end.
    pub(crate) fn spans(&self) -> Vec<Span> {
        let mut live = self.allocated.clone();
        let mut spans = Vec::with_capacity(self.spans.len() + live.len());
        for ((stack, from, until), amount) in &self.spans {
            if let Some(left) = live.get_mut(&(*stack, *from)) {
                left.objects -= amount.objects;
                left.bytes = left.bytes.saturating_sub(amount.bytes);
            }
            spans.push(Span {
                stack: *stack,
                from: from * self.slice_width,
                until: Some(until * self.slice_width),
                amount: *amount,
            });
        }
        let live = live.into_iter().filter(|(_, amount)| amount.objects > 0);
        spans.extend(live.map(|((stack, from), amount)| Span {
            stack,
            from: from * self.slice_width,
            until: None,
            amount,
        }));
        spans.sort_by_key(|span| (span.stack, span.from, span.until));
        spans
    }

    fn at(&self, now: &Instant) -> u64 {
        if self.is_timed { now.time_ns } else { now.row }
    }

    fn begin(&mut self, now: &Instant, id: ObjectId, object: &Object) {
        let at = self.at(now);
        self.end = self.end.max(at);
        if !self.is_timed || object.reallocations > 0 {
            self.sized_at.insert(id, at);
        }
        let stack = self.stacks.entry(object.stack).or_default();
        stack.live.objects += 1;
        stack.live.bytes += object.size;
        stack.live_since += u128::from(at);
        if stack.live.bytes > stack.most.bytes
            || (stack.live.bytes == stack.most.bytes && stack.most.objects == 0)
        {
            stack.most = stack.live;
        }
        let allocated = self.allocated.entry((object.stack, at / self.slice_width)).or_default();
        allocated.objects += 1;
        allocated.bytes = allocated.bytes.saturating_add(object.size);
        self.join_slices();
    }

    fn finish(&mut self, now: &Instant, id: ObjectId, object: &Object) {
        let at = self.at(now);
        self.end = self.end.max(at);
        let since = self.sized_at.remove(&id).unwrap_or(object.born_ns);
        let stack = self.stacks.entry(object.stack).or_default();
        stack.live.objects -= 1;
        stack.live.bytes -= object.size;
        stack.live_since -= u128::from(since);
        stack.released_lifetimes += u128::from(at.saturating_sub(since));
        let (from, until) = (since / self.slice_width, at.max(since) / self.slice_width);
        let span = self.spans.entry((object.stack, from, until)).or_default();
        span.objects += 1;
        span.bytes = span.bytes.saturating_add(object.size);
        self.join_slices();
    }

    fn join_slices(&mut self) {
        while self.end / self.slice_width >= SLICES_MAX || self.too_many() {
            self.slice_width *= 2;
            self.allocated = joined(
                self.allocated.drain().map(|((stack, from), amount)| ((stack, from / 2), amount)),
            );
            self.spans = joined(
                self.spans
                    .drain()
                    .map(|((stack, from, until), amount)| ((stack, from / 2, until / 2), amount)),
            );
        }
    }

    /// Whether there are too many entries, and joining slices would help.
    fn too_many(&self) -> bool {
        self.allocated.len() + self.spans.len() > ENTRIES_MAX && self.end / self.slice_width >= 8
    }
}

fn joined<K: std::hash::Hash + Eq>(
    entries: impl Iterator<Item = (K, Amount)>,
) -> HashMap<K, Amount> {
    let mut joined: HashMap<K, Amount> = HashMap::new();
    for (key, amount) in entries {
        crate::stacks::add(joined.entry(key).or_default(), amount);
    }
    joined
}

impl Observer for Detail {
    fn born(&mut self, now: &Instant, _event: &Event, id: ObjectId, object: &Object) {
        self.begin(now, id, object);
    }

    fn resized(
        &mut self,
        now: &Instant,
        _event: &Event,
        id: ObjectId,
        before: &Object,
        after: &Object,
    ) {
        self.finish(now, id, before);
        self.begin(now, id, after);
    }

    fn died(&mut self, now: &Instant, _event: &Event, id: ObjectId, object: &Object) {
        self.finish(now, id, object);
    }
}
