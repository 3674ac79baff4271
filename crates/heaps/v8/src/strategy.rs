//! Free-list strategies as plain data: categories, and the order in which a request looks at them.
//!
//! Source: the document "Reducing heap fragmentation in V8", and `FreeListLegacy`,
//! `FreeListFastAlloc`, `FreeListMany`, `FreeListManyCached`, `FreeListManyCachedFastPath` and
//! `FreeListManyCachedOrigin` in V8's spaces.h and spaces.cc. V8 has a class for each; here one
//! interpreter ([`crate::free_list`]) reads a list of steps. ManyCached's cache changes which empty
//! categories are skipped, never which node is found. So it is no part of a strategy.

use crate::facts::WORD_BYTES;
use crate::segregated::Segregation;
use heaplab_heap::Origin;

/// A category, relative to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// The category of a free block as large as the request.
    Own,
    /// The first category, from `floor` on, whose smallest block exceeds the request by
    /// `room_bytes`; else the last.
    Room {
        /// Lowest category to consider.
        floor: usize,
        /// Bytes that must be left over.
        room_bytes: usize,
    },
    /// This one.
    Category(usize),
    /// The last one.
    Last,
}

/// The condition of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Always.
    Always,
    /// For requests up to this many bytes.
    UpTo(usize),
    /// If this category is not the last.
    Below(Bound),
    /// If the request's own category is this one.
    OwnIs(usize),
}

/// The way of looking at a category.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// Only the first node of the category's first page.
    Top,
    /// Every node, until one is large enough.
    All,
}

/// One step of a search: the categories `from..=to` in this order; with `down`, from the higher
/// `from` to the lower `to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Whether the step is taken.
    pub when: When,
    /// First category.
    pub from: Bound,
    /// Category at which the step ends.
    pub to: Bound,
    /// Whether the step includes `to`.
    pub inclusive: bool,
    /// Goes downwards: `from` is the higher bound.
    pub down: bool,
    /// The way of looking at each category.
    pub look: Look,
}

/// The part of a freed block that a later request is sure to find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guarantee {
    /// The smallest block of its category; the whole block in the last category.
    CategoryMinimum,
    /// The largest block of the category below; the whole block in the last category if
    /// `last_whole`.
    CategoryBelow {
        /// The last category is searched node by node.
        last_whole: bool,
    },
}

/// The page that a compaction space takes from the main space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Steal {
    /// The first page of the largest category with a page, down to the request's own category.
    LargestFirst,
    /// The first page of the next category with a page above the request's own; else the first of
    /// the own category, where the request may not fit.
    NextAbove,
}

/// The order in which a category's pages serve requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PageOrder {
    /// The page whose category was linked last comes first. Pages are swept when an allocation
    /// needs memory.
    #[default]
    LinkedLast,
    /// A full collection ends with sweeping all pages. Pages with the most objects come first, so
    /// that the emptiest can become empty (`MapSpace::SortFreeList`).
    FullestFirst,
    /// The same with the fewest objects first: the comparison for fullest first.
    EmptiestFirst,
}

/// The condition for a strategy's other search. Each full collection decides anew, for the time
/// until the next one. The document's conclusion proposes different free lists by context, switched
/// while running, and its second idea for the future is: lots of allocations: bump; few: precise.
/// It gives no figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// The collection leaves more than this percentage of the limit committed.
    Pressure(usize),
    /// Since the previous collection old space took less than this percentage of its live bytes.
    FewAllocations(usize),
}

/// Another search for everybody while a condition holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Switch {
    /// The condition.
    pub when: Condition,
    /// The search then.
    pub steps: Vec<Step>,
}

/// A free-list strategy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Strategy {
    /// Its name on the command line.
    pub name: String,
    /// A line of explanation.
    pub summary: &'static str,
    /// Smallest block of each category, rising. Blocks below the first are not kept.
    pub minimums: Vec<usize>,
    /// Search of the program's compiled code.
    pub generated: Vec<Step>,
    /// Search of the runtime.
    pub runtime: Vec<Step>,
    /// Search of the collector.
    pub collector: Vec<Step>,
    /// The promise of a sweep.
    pub guarantee: Guarantee,
    /// Page stealing.
    pub steal: Steal,
    /// Order of pages.
    pub order: PageOrder,
    /// Another search at times.
    pub switch: Option<Switch>,
    /// Spans of size classes instead of pages with free lists.
    pub segregated: Option<Segregation>,
    /// Category by number of words; made by [`Strategy::prepare`].
    pub by_words: Vec<u16>,
}

impl Strategy {
    /// Categories.
    pub fn categories(&self) -> usize {
        self.minimums.len()
    }

    /// The smallest block kept; smaller ones are waste.
    pub fn minimum_block(&self) -> usize {
        self.minimums[0]
    }

    /// The category of a free block or a request of `bytes` bytes.
    #[inline]
    pub fn category(&self, bytes: usize) -> usize {
        match self.by_words.get(bytes / WORD_BYTES) {
            Some(category) => usize::from(*category),
            // Beyond the last boundary, or not prepared.
            None => self.minimums.partition_point(|minimum| *minimum <= bytes).saturating_sub(1),
        }
    }

    /// Makes the lookup table of [`Strategy::category`]. Boundaries must not change afterwards.
    pub fn prepare(&mut self) {
        self.by_words.clear();
        let words = self.minimums.last().map_or(0, |last| last / WORD_BYTES + 1);
        let category = |words| self.category(words * WORD_BYTES) as u16;
        self.by_words = (0..words).map(category).collect();
    }

    /// The name of a free block of `bytes` bytes: `(free, 256 to 511 bytes)`, or `(waste)` if it is
    /// too small for any category.
    pub fn free_name(&self, free: &str, waste: &str, bytes: usize) -> String {
        let category = self.category(bytes);
        match (self.minimums[category], self.minimums.get(category + 1)) {
            _ if bytes < self.minimum_block() => format!("({waste})"),
            (from, Some(next)) => format!("({free}, {from} to {} bytes)", next - 1),
            (from, None) => format!("({free}, {from} bytes and more)"),
        }
    }

    /// The steps of a request, `switched` or not.
    pub fn steps(&self, origin: Origin, switched: bool) -> &[Step] {
        match (&self.switch, origin) {
            (Some(switch), _) if switched => &switch.steps,
            (_, Origin::Generated) => &self.generated,
            (_, Origin::Runtime) => &self.runtime,
            (_, Origin::Collector) => &self.collector,
        }
    }

    /// Whether a request of `bytes` bytes takes `step`.
    #[inline]
    pub fn is_taken(&self, step: &Step, bytes: usize) -> bool {
        match step.when {
            When::Always => true,
            When::UpTo(most) => bytes <= most,
            When::Below(bound) => self.resolve(bound, bytes) + 1 < self.categories(),
            When::OwnIs(category) => self.category(bytes) == category,
        }
    }

    /// The way in which a request of `bytes` bytes looks at `category` during `steps`; `None`: it
    /// does not.
    pub fn looked_at(&self, steps: &[Step], category: usize, bytes: usize) -> Option<Look> {
        let looks = steps.iter().filter(|step| self.is_taken(step, bytes)).filter_map(|step| {
            let (from, to) = (self.resolve(step.from, bytes), self.resolve(step.to, bytes));
            let within = match (step.down, step.inclusive) {
                (false, true) => (from..=to).contains(&category),
                (false, false) => (from..to).contains(&category),
                (true, true) => (to..=from).contains(&category),
                (true, false) => (to + 1..=from).contains(&category),
            };
            within.then_some(step.look)
        });
        looks.max_by_key(|look| *look == Look::All)
    }

    /// The category of `bound` for a request.
    #[inline]
    pub fn resolve(&self, bound: Bound, bytes: usize) -> usize {
        let last = self.categories() - 1;
        match bound {
            Bound::Own => self.category(bytes),
            Bound::Category(category) => category.min(last),
            Bound::Last => last,
            Bound::Room { floor, room_bytes } => {
                (floor..last).find(|&at| bytes + room_bytes <= self.minimums[at]).unwrap_or(last)
            }
        }
    }

    /// The bytes that a request is sure to find after a block of `freed_bytes` bytes was freed.
    pub fn guaranteed(&self, freed_bytes: usize) -> usize {
        if freed_bytes < self.minimums[0] {
            return 0;
        }
        let category = self.category(freed_bytes);
        let last = category + 1 == self.categories();
        match self.guarantee {
            Guarantee::CategoryMinimum if last => freed_bytes,
            Guarantee::CategoryMinimum => self.minimums[category],
            Guarantee::CategoryBelow { last_whole: true } if last => freed_bytes,
            Guarantee::CategoryBelow { .. } if category == 0 => 0,
            Guarantee::CategoryBelow { .. } => self.minimums[category] - WORD_BYTES,
        }
    }
}

pub(crate) const fn step(when: When, from: Bound, to: Bound, inclusive: bool, look: Look) -> Step {
    Step { when, from, to, inclusive, down: false, look }
}

const LAST: Step = step(When::Always, Bound::Last, Bound::Last, true, Look::All);
const PRECISE: [Step; 2] = [step(When::Always, Bound::Own, Bound::Last, false, Look::Top), LAST];

/// Legacy's ascent: first categories that surely have room, then every node of the last one, then
/// one look at small categories.
const LEGACY_ROOM: Bound = Bound::Room { floor: 2, room_bytes: 8 };
const LEGACY: [Step; 4] = [
    step(When::Always, LEGACY_ROOM, Bound::Last, false, Look::Top),
    LAST,
    step(When::OwnIs(0), Bound::Category(1), Bound::Category(1), true, Look::Top),
    step(When::Below(LEGACY_ROOM), Bound::Own, Bound::Own, true, Look::Top),
];

/// The fast path leaves 1,920 bytes over; 18 is the category of 2 KB, 15 that of 256 bytes.
const FAST_ROOM: Bound = Bound::Room { floor: 18, room_bytes: 1920 };
const FAST_PATH: [Step; 4] = [
    step(When::Always, FAST_ROOM, Bound::Last, true, Look::Top),
    step(When::UpTo(128), Bound::Category(15), Bound::Category(18), false, Look::Top),
    LAST,
    step(When::Always, Bound::Own, FAST_ROOM, false, Look::Top),
];

/// The 24 categories that V8 ships.
fn many_minimums() -> Vec<usize> {
    std::iter::once(24)
        .chain((2..=16).map(|at| at * 16))
        .chain((9..=16).map(|at| 1 << at))
        .collect()
}

/// The strategies that V8 ships, in the order of `--gc-freelist-strategy`.
pub fn released() -> Vec<Strategy> {
    let many = |name: &str, summary, mutator: &[Step], collector: &[Step]| Strategy {
        name: name.into(),
        summary,
        minimums: many_minimums(),
        generated: mutator.to_vec(),
        runtime: mutator.to_vec(),
        collector: collector.to_vec(),
        guarantee: Guarantee::CategoryMinimum,
        steal: Steal::NextAbove,
        order: PageOrder::LinkedLast,
        switch: None,
        segregated: None,
        by_words: Vec::new(),
    };
    let down = vec![Step {
        when: When::Always,
        from: Bound::Last,
        to: Bound::Own,
        inclusive: true,
        down: true,
        look: Look::Top,
    }];
    let legacy = Strategy {
        name: "legacy".into(),
        summary: "V8's 6 categories of 2019: a category that surely has room first",
        minimums: vec![24, 88, 256, 2048, 16384, 65536],
        generated: LEGACY.to_vec(),
        runtime: LEGACY.to_vec(),
        collector: LEGACY.to_vec(),
        guarantee: Guarantee::CategoryBelow { last_whole: true },
        steal: Steal::LargestFirst,
        order: PageOrder::LinkedLast,
        switch: None,
        segregated: None,
        by_words: Vec::new(),
    };
    let fast_alloc = Strategy {
        name: "fast-alloc".into(),
        summary: "3 categories from 2 KB, the largest first; smaller blocks are waste",
        minimums: vec![2040, 16384, 65536],
        generated: down.clone(),
        runtime: down.clone(),
        collector: down,
        guarantee: Guarantee::CategoryBelow { last_whole: false },
        ..legacy.clone()
    };
    vec![
        legacy,
        fast_alloc,
        many("many", "24 categories, the request's own first", &PRECISE, &PRECISE),
        many(
            "many-cached",
            "as many, with a table of the next category that is not empty",
            &PRECISE,
            &PRECISE,
        ),
        many(
            "many-fast-path",
            "24 categories, those with 1,920 bytes to spare first",
            &FAST_PATH,
            &FAST_PATH,
        ),
        many(
            "many-origin",
            "many-fast-path for the program, many for the collector: V8's default",
            &FAST_PATH,
            &PRECISE,
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::PAGE_BYTES;

    #[test]
    fn boundaries_are_those_of_v8() {
        let [legacy, fast_alloc, many, ..] = &released()[..] else { panic!("six strategies") };
        let at = |strategy: &Strategy, sizes: &[usize]| {
            sizes.iter().map(|&size| strategy.category(size)).collect::<Vec<_>>()
        };
        assert_eq!(
            at(legacy, &[24, 80, 88, 248, 256, 2040, 2048, 16376, 16384, 65528, 65536]),
            [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5]
        );
        assert_eq!(at(fast_alloc, &[24, 16376, 16384, 65528, 65536]), [0, 0, 1, 1, 2]);
        assert_eq!(
            at(many, &[24, 31, 32, 47, 48, 255, 256, 511, 512, 65535, 65536]),
            [0, 0, 1, 1, 2, 14, 15, 15, 16, 22, 23]
        );
        assert_eq!(many.categories(), 24);
        for mut strategy in released() {
            let sizes = || (0..2 * PAGE_BYTES).step_by(WORD_BYTES);
            let found: Vec<usize> = sizes().map(|bytes| strategy.category(bytes)).collect();
            strategy.prepare();
            assert!(sizes().map(|bytes| strategy.category(bytes)).eq(found), "{}", strategy.name);
        }
    }

    #[test]
    fn requests_begin_where_v8_begins() {
        let all = released();
        let begin = |strategy: usize, bound, sizes: &[usize]| {
            sizes.iter().map(|&size| all[strategy].resolve(bound, size)).collect::<Vec<_>>()
        };
        assert_eq!(
            begin(0, LEGACY_ROOM, &[24, 248, 256, 2040, 2048, 16376, 16384]),
            [2, 2, 3, 3, 4, 4, 5]
        );
        assert_eq!(
            begin(4, FAST_ROOM, &[24, 128, 136, 2176, 2184, 65536]),
            [18, 18, 19, 19, 20, 23]
        );
    }

    #[test]
    fn promises_of_a_sweep_are_those_of_v8() {
        let all = released();
        let promised = |strategy: usize, sizes: &[usize]| {
            sizes.iter().map(|&size| all[strategy].guaranteed(size)).collect::<Vec<_>>()
        };
        assert_eq!(promised(0, &[8, 80, 88, 2040, 65528, 70000]), [0, 0, 80, 248, 16376, 70000]);
        assert_eq!(promised(1, &[2040, 16376, 16384, 70000]), [0, 0, 16376, 65528]);
        assert_eq!(promised(2, &[16, 24, 40, 300, 70000]), [0, 24, 32, 256, 70000]);
    }
}
