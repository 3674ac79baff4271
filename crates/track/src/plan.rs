//! Which commits are measured, and in which order.
//!
//! The ends come first, then the middles between measured commits. So an interrupted measurement
//! covers the whole range, only more coarsely. And a machine that drifts over hours (a filling disk
//! cache, a new kernel) makes no slope along the history, because neighbours are measured at quite
//! different times.

/// Numbers below `count` in the order of measuring: first, last, middle, quarters, ...
///
/// ```
/// assert_eq!(heaplab_track::plan::coarse_to_fine(5), [0, 4, 2, 1, 3]);
/// ```
pub fn coarse_to_fine(count: usize) -> Vec<usize> {
    let mut order = Vec::with_capacity(count);
    if count == 0 {
        return order;
    }
    order.push(0);
    if count > 1 {
        order.push(count - 1);
    }
    let mut spans = std::collections::VecDeque::from([(0, count - 1)]);
    while let Some((from, to)) = spans.pop_front() {
        if to - from > 1 {
            let middle = usize::midpoint(from, to);
            order.push(middle);
            spans.extend([(from, middle), (middle, to)]);
        }
    }
    order
}

/// At most `most` of `count` numbers, spread evenly, both ends among them.
pub fn spread(count: usize, most: usize) -> Vec<usize> {
    if most >= count {
        return (0..count).collect();
    }
    if most < 2 {
        return (count.saturating_sub(1)..count).collect();
    }
    (0..most).map(|at| at * (count - 1) / (most - 1)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_commit_has_its_turn_and_the_ends_come_first() {
        for count in 0..200 {
            let mut order = coarse_to_fine(count);
            assert_eq!(order.len(), count);
            assert!(count < 2 || order[..2] == [0, count - 1]);
            order.sort_unstable();
            assert!(order.into_iter().eq(0..count));
        }
    }

    #[test]
    fn a_spread_has_both_ends_and_no_number_twice() {
        for count in 1..60 {
            for most in 2..60 {
                let taken = spread(count, most);
                assert_eq!(taken.len(), most.min(count));
                assert!(taken.windows(2).all(|pair| pair[0] < pair[1]), "{count} {most}");
                assert_eq!((taken[0], taken[taken.len() - 1]), (0, count - 1));
            }
        }
        assert_eq!(spread(5, 1), [4]);
    }
}
