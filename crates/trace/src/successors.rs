//! Blocks that take the place of smaller ones: buffers that a program grows by hand (allocate more,
//! copy, free the old one), as `std::vector` does. The one place that tells them, for every pass
//! over events.
//!
//! No event marks such a step, so the requests of its thread do: a block is born, and among the
//! thread's next [`OWN_REQUESTS`] requests, before another birth by the same stack, an older block
//! of the same stack is freed. This free decides. If the freed block is smaller, the born one is
//! its successor, and so buffers of one stack are told apart however they grow in turn. The copy
//! takes time in which other threads go on; [`ROWS`] bounds how much of it is waited for.
//!
//! Queues leave the same events: a block is put in, and the oldest is taken out. So do batches: a
//! few blocks are made, and freed in the same order. Two things tell them from buffers
//! ([`Successors::grows`]):
//!
//! - Their sizes fall as often as they rise, and a buffer's do not fall. A stack's buffers grow
//!   only if four in five of its decisions were for a larger block.
//! - Where their sizes only rise, each birth *overtakes*: the stack made larger blocks since the
//!   freed one, and the birth is larger than all of them. Of buffers that grow in turn only the
//!   largest overtakes, and small blocks between two steps of a buffer are none to overtake. A
//!   stack with more than four overtaking births in five has no buffers.
//!
//! Two things are buffers by all that a recording has: a queue of one whose messages only become
//! longer, and pairs of a small block and a larger one. And many small steps of buffers that take
//! turns to be the largest are a queue.
//!
//! Memory: a window for each thread that was just at work, and some sizes for each stack with a
//! decision. Time: a look at a few stacks for each request.

use crate::{NO_STACK, ObjectId, StackId};
use hashbrown::HashMap;
use std::collections::VecDeque;

/// The free of the smaller block is among so many next requests of the thread.
pub const OWN_REQUESTS: usize = 16;

/// ... and within so many rows of all threads: what they do in some time slices of a processor.
pub const ROWS: u64 = 1 << 16;

/// Decisions for a larger block for each other one, at least.
const RISES_FOR_A_FALL: u64 = 4;

/// So many other decisions may come first: a stack that was never a buffer's costs no more of them.
const FALLS_AT_FIRST: u64 = 16;

/// So many decisions may overtake: two buffers that double in turn may overtake each time, but not
/// so often.
const OVERTAKES_AT_FIRST: u64 = 64;

/// Sizes that are kept for a stack.
const SIZES_KEPT: usize = 16;

/// The fewest windows that are looked through for those of threads at rest.
const SWEPT_MIN: usize = 4096;

/// A live block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Block {
    /// The object.
    pub object: ObjectId,
    /// Its bytes.
    pub size: u64,
    /// The stack that sized it last.
    pub stack: StackId,
}

/// A block that takes the place of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Successor {
    /// The block.
    pub object: ObjectId,
    /// Its bytes.
    pub size: u64,
    /// Whether the smaller one was freed by the thread's next request.
    pub at_once: bool,
}

/// Tells successors, request by request.
#[derive(Clone, Debug, Default)]
pub struct Successors {
    windows: HashMap<u32, Box<Window>>,
    /// Windows left by the last look through them.
    swept: usize,
    decisions: HashMap<StackId, Decisions>,
}

#[derive(Clone, Debug, Default)]
struct Decisions {
    rises: u64,
    falls: u64,
    /// Rises that overtook.
    overtakes: u64,
    /// Decided births larger than all later ones, or as large; the oldest is left out where they
    /// are too many.
    larger: VecDeque<(ObjectId, u64)>,
}

/// The last requests of a thread; a request that is no birth has no stack.
#[derive(Clone, Debug, Default)]
struct Window {
    requests: usize,
    last_row: u64,
    stacks: [StackId; OWN_REQUESTS],
    births: [Birth; OWN_REQUESTS],
}

#[derive(Clone, Copy, Debug, Default)]
struct Birth {
    object: ObjectId,
    size: u64,
    row: u64,
    /// Whether a free decided about it.
    decided: bool,
}

impl Window {
    fn take(&mut self, row: u64, Block { object, size, stack }: Block) {
        let at = self.requests % OWN_REQUESTS;
        (self.stacks[at], self.births[at]) = (stack, Birth { object, size, row, decided: false });
        self.requests = self.requests.wrapping_add(1);
        self.last_row = row;
    }

    /// The stack's youngest birth, and how many requests ago it was.
    fn youngest(&self, stack: StackId) -> Option<(usize, usize)> {
        if stack == NO_STACK {
            return None;
        }
        (1..=OWN_REQUESTS)
            .map(|ago| (self.requests.wrapping_sub(ago) % OWN_REQUESTS, ago))
            .find(|(at, _)| self.stacks[*at] == stack)
    }

    /// The largest of the stack's births after `after` and before `before`.
    fn largest_between(&self, stack: StackId, after: ObjectId, before: ObjectId) -> Option<u64> {
        let births = self.stacks.iter().zip(&self.births).filter(|(of, _)| **of == stack);
        let between = births.filter(|(_, birth)| birth.object > after && birth.object < before);
        between.map(|(_, birth)| birth.size).max()
    }
}

impl Successors {
    /// `block` is born at row `row`, asked for by `thread`.
    pub fn born(&mut self, row: u64, thread: u32, block: Block) {
        self.window(row, thread).take(row, block);
    }

    /// `block`, as it was before, is resized at row `row` by `thread`.
    pub fn resized(&mut self, row: u64, thread: u32, block: Block) {
        let window = self.window(row, thread);
        if let Some((at, _)) = window.youngest(block.stack)
            && window.births[at].object == block.object
        {
            window.births[at].decided = true;
        }
        window.take(row, Block::default());
    }

    /// `block` is freed at row `row` by `thread`: the block that took its place, if one did.
    ///
    /// ```
    /// use heaplab_trace::successors::{Block, Successors};
    ///
    /// let mut successors = Successors::default();
    /// let block = |object, size| Block { object, size, stack: 1 };
    /// (0..2).for_each(|row| successors.born(row, 0, block(row, 10)));
    /// successors.born(2, 0, block(2, 20));
    /// assert_eq!(successors.died(3, 0, block(0, 10)).unwrap().object, 2);
    /// successors.born(4, 0, block(3, 20));
    /// assert_eq!(successors.died(5, 0, block(1, 10)).unwrap().object, 3);
    /// assert!(successors.grows(1));
    /// ```
    pub fn died(&mut self, row: u64, thread: u32, block: Block) -> Option<Successor> {
        let window = self.window(row, thread);
        let found = window
            .youngest(block.stack)
            .map(|(at, ago)| (at, ago, window.births[at]))
            .filter(|(_, _, birth)| !birth.decided);
        let mut between = None;
        if let Some((at, _, birth)) = found
            && birth.object >= block.object
        {
            window.births[at].decided = true;
            between = window.largest_between(block.stack, block.object, birth.object);
        }
        window.take(row, Block::default());
        let (_, ago, birth) = found.filter(|(_, _, birth)| {
            birth.object > block.object && row.saturating_sub(birth.row) <= ROWS
        })?;
        let decisions = self.decisions.entry(block.stack).or_default();
        let overtakes = decisions.overtakes(block, birth, between);
        if block.size == 0 || birth.size <= block.size {
            decisions.falls += 1;
            return None;
        }
        decisions.rises += 1;
        decisions.overtakes += u64::from(overtakes);
        let successor = Successor { object: birth.object, size: birth.size, at_once: ago == 1 };
        decisions.may_grow(FALLS_AT_FIRST).then_some(successor)
    }

    /// Whether blocks of the stack are buffers that grow, by all that was seen.
    pub fn grows(&self, stack: StackId) -> bool {
        self.decisions.get(&stack).is_some_and(|decisions| decisions.may_grow(0))
    }

    fn window(&mut self, row: u64, thread: u32) -> &mut Window {
        if self.windows.len() >= 2 * self.swept.max(SWEPT_MIN) {
            self.windows.retain(|_, window| row.saturating_sub(window.last_row) <= ROWS);
            self.swept = self.windows.len();
        }
        self.windows.entry(thread).or_default()
    }
}

impl Decisions {
    fn may_grow(&self, falls_at_first: u64) -> bool {
        let falls = self.falls.saturating_sub(falls_at_first);
        let in_place = self.rises - self.overtakes;
        let overtakes = self.overtakes.saturating_sub(OVERTAKES_AT_FIRST);
        falls.saturating_mul(RISES_FOR_A_FALL) <= self.rises
            && overtakes <= in_place.saturating_mul(RISES_FOR_A_FALL)
    }

    /// Whether the largest block made since `freed` is larger than that, and `birth` larger still.
    /// `between`: the largest of those that its thread's window has.
    fn overtakes(&mut self, freed: Block, birth: Birth, between: Option<u64>) -> bool {
        // The first of them is the largest.
        let since = self.larger.iter().find(|(object, _)| *object > freed.object);
        let largest = since.map(|(_, size)| *size).max(between);
        while self.larger.back().is_some_and(|(_, size)| *size < birth.size) {
            self.larger.pop_back();
        }
        if self.larger.len() == SIZES_KEPT {
            self.larger.pop_front();
        }
        self.larger.push_back((birth.object, birth.size));
        largest.is_some_and(|largest| freed.size < largest && largest < birth.size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers below a bound.
    fn random(mut state: u64) -> impl FnMut(u64) -> u64 {
        move |below| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        }
    }

    /// A program of one stack, row by row.
    #[derive(Default)]
    struct Program {
        successors: Successors,
        sizes: Vec<u64>,
        row: u64,
    }

    impl Program {
        fn block(&mut self, object: ObjectId) -> Block {
            self.row += 1;
            Block { object, size: self.sizes[object as usize], stack: 7 }
        }

        fn born(&mut self, size: u64, thread: u32) -> ObjectId {
            self.sizes.push(size);
            let block = self.block(self.sizes.len() as u64 - 1);
            self.successors.born(self.row, thread, block);
            block.object
        }

        fn freed(&mut self, object: ObjectId, thread: u32) -> Option<ObjectId> {
            let block = self.block(object);
            self.successors.died(self.row, thread, block).map(|found| found.object)
        }
    }

    #[test]
    fn buffers_that_grow_in_turn_are_told_apart() {
        let mut program = Program::default();
        let mut random = random(1);
        let mut buffers: Vec<(ObjectId, u32)> =
            (0..100).map(|thread| (program.born(8, thread % 3), thread % 3)).collect();
        for _ in 0..10_000 {
            let nth = random(100) as usize;
            let (old, thread) = buffers[nth];
            // Some begin anew.
            let size = program.sizes[old as usize] * 3 / 2;
            if size > 1 << 20 {
                assert_eq!(program.freed(old, thread), None);
                buffers[nth].0 = program.born(8, thread);
                continue;
            }
            let new = program.born(size, thread);
            assert_eq!(program.freed(old, thread), Some(new));
            buffers[nth].0 = new;
        }
        assert!(program.successors.grows(7));
    }

    #[test]
    fn other_threads_go_on_during_a_copy() {
        let mut program = Program::default();
        let [old, other] = [program.born(10, 0), program.born(10, 1)];
        let [new, others] = [program.born(20, 0), program.born(30, 1)];
        for _ in 0..1000 {
            let object = program.born(5, 2);
            program.freed(object, 2);
        }
        assert_eq!(program.freed(old, 0), Some(new));
        assert_eq!(program.freed(other, 1), Some(others));
        // Not for ever.
        program.born(40, 0);
        program.row += ROWS;
        assert_eq!(program.freed(new, 0), None);
    }

    /// Whether the stack of a queue is said to grow.
    fn queue_grows(length: usize, mut size: impl FnMut(u64) -> u64) -> bool {
        let (mut program, mut queue) = (Program::default(), VecDeque::new());
        for item in 0..5000 {
            queue.push_back(program.born(size(item), 0));
            if queue.len() > length {
                program.freed(queue.pop_front().unwrap(), 0);
            }
        }
        program.successors.grows(7)
    }

    #[test]
    fn a_queue_does_not_grow() {
        let mut random = random(2);
        for length in [1, 2, 5, 20, 300] {
            assert!(!queue_grows(length, |_| 100), "{length}");
            assert!(!queue_grows(length, |_| 1 + random(1000)), "{length}");
            // Two sizes in turn, and a wave.
            assert!(!queue_grows(length, |item| 100 + 50 * (item % 2)), "{length}");
            assert!(!queue_grows(length, |item| 100 + (item % 100).abs_diff(50)), "{length}");
        }
    }

    #[test]
    fn a_queue_of_ever_longer_messages_does_not_grow() {
        for length in [2, 3, 5, 20, 300] {
            assert!(!queue_grows(length, |item| 100 + item), "{length}");
            // The lengths begin anew now and then.
            assert!(length > 100 || !queue_grows(length, |item| 100 + item % 1000), "{length}");
        }
        // With one message no event tells it from a buffer.
        assert!(queue_grows(1, |item| 100 + item));
    }

    #[test]
    fn a_buffer_among_small_blocks_of_its_stack_grows() {
        let mut program = Program::default();
        let mut buffer = program.born(1000, 0);
        for step in 1..1000 {
            let small = program.born(30 + step % 9, 0);
            let grown = program.born(1000 + step, 0);
            program.freed(buffer, 0);
            program.freed(small, 0);
            buffer = grown;
        }
        assert!(program.successors.grows(7));
    }

    #[test]
    fn a_batch_freed_in_order_does_not_grow() {
        for length in 3..8 {
            let mut program = Program::default();
            let mut steps = 0;
            for _ in 0..1000 {
                let batch: Vec<ObjectId> =
                    (0..length).map(|nth| program.born(32 + 16 * nth, 0)).collect();
                steps += batch.iter().filter_map(|object| program.freed(*object, 0)).count();
            }
            assert!(!program.successors.grows(7), "{length}");
            assert_eq!(steps as u64, OVERTAKES_AT_FIRST, "{length}");
        }
    }

    #[test]
    fn buffers_that_grow_in_step_grow() {
        for buffers in 2..30 {
            for (apart, factor, more) in [(3, 2, 0), (0, 1, 8), (100, 1, 8)] {
                let mut program = Program::default();
                let mut all: Vec<ObjectId> =
                    (0..buffers).map(|nth| program.born(8 + apart * nth, 0)).collect();
                for step in 0..500 {
                    for buffer in &mut all {
                        let grown = program.sizes[*buffer as usize] * factor + more;
                        let size = if step % 20 == 19 && factor > 1 { 8 } else { grown };
                        let new = program.born(size, 0);
                        program.freed(*buffer, 0);
                        *buffer = new;
                    }
                }
                assert!(program.successors.grows(7), "{buffers}, {apart} apart, {factor}-fold");
            }
        }
    }

    #[test]
    fn what_is_resized_or_without_a_stack_takes_no_place() {
        let mut program = Program::default();
        let [old, new] = [program.born(10, 0), program.born(20, 0)];
        let block = program.block(new);
        program.successors.resized(program.row, 0, block);
        assert_eq!(program.freed(old, 0), None);
        let mut successors = Successors::default();
        let block = |object, size| Block { object, size, stack: NO_STACK };
        (0..2).for_each(|object| successors.born(object, 0, block(object, 1 + object)));
        assert_eq!(successors.died(2, 0, block(0, 1)), None);
    }

    #[test]
    fn threads_at_rest_take_no_memory() {
        let mut program = Program::default();
        for thread in 0..50_000 {
            program.row += ROWS / 4096;
            program.born(8, thread);
            assert!(program.successors.windows.len() <= 2 * SWEPT_MIN);
        }
    }
}
