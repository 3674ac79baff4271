//! The scavenger's worklists. They consist of segments, so the order of objects is last in, first
//! out only within a segment.
//!
//! Source: `Worklist` in V8's worklist.h. A task pushes to one segment and pops from another; a
//! full one is published to a common pool (a stack), an empty pop segment is exchanged with the
//! push segment, or taken from the pool.

use crate::facts::SEGMENT_ENTRIES;

/// Full segments, for any task.
#[derive(Debug)]
pub struct Pool<T>(Vec<Vec<T>>);

impl<T> Default for Pool<T> {
    fn default() -> Pool<T> {
        Pool(Vec::new())
    }
}

/// One task's view of a list.
#[derive(Debug)]
pub struct Worklist<T> {
    push: Vec<T>,
    pop: Vec<T>,
}

impl<T> Default for Worklist<T> {
    fn default() -> Worklist<T> {
        Worklist { push: Vec::new(), pop: Vec::new() }
    }
}

impl<T> Worklist<T> {
    /// Adds an entry.
    pub fn push(&mut self, entry: T, pool: &mut Pool<T>) {
        if self.push.len() == SEGMENT_ENTRIES {
            pool.0.push(std::mem::take(&mut self.push));
        }
        self.push.push(entry);
    }

    /// Takes an entry out.
    pub fn pop(&mut self, pool: &mut Pool<T>) -> Option<T> {
        if self.pop.is_empty() {
            if self.push.is_empty() {
                self.pop = pool.0.pop()?;
            } else {
                std::mem::swap(&mut self.push, &mut self.pop);
            }
        }
        self.pop.pop()
    }

    /// Entries of the push segment.
    pub fn pushed(&self) -> usize {
        self.push.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_that_of_segments() {
        let (mut list, mut pool) = (Worklist::default(), Pool::default());
        for entry in 0..SEGMENT_ENTRIES + 2 {
            list.push(entry, &mut pool);
        }
        assert_eq!(list.pushed(), 2);
        let popped: Vec<_> = std::iter::from_fn(|| list.pop(&mut pool)).collect();
        let own = [SEGMENT_ENTRIES + 1, SEGMENT_ENTRIES];
        assert_eq!(popped[..2], own);
        assert!(popped[2..].iter().copied().eq((0..SEGMENT_ENTRIES).rev()));
    }
}
