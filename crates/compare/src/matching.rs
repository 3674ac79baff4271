//! Which stack of one build is which of the other, and which line of a function is which.
//!
//! Stacks with the same functions match, whatever their addresses and lines. Of the rest, two match
//! if the functions of one are among those of the other in the same order, and both make about as
//! many requests: a function between them was inlined in one build, and its frame is gone. The
//! longer of the two names both. Nothing here depends on which side is before: swapped sides give
//! the same matching.

use hashbrown::{HashMap, HashSet};
use std::cmp::Ordering;

/// Of so many stacks a side, those that ask for most, another path is looked for.
const LEFT_OVER_MAX: usize = 1_000;

/// A stack that only one side has: its functions, the innermost first, and how often it asks.
#[derive(Clone, Debug)]
pub(crate) struct LeftOver<'a> {
    pub(crate) path: &'a [u32],
    pub(crate) requests: u64,
    pub(crate) bytes: u64,
}

/// For stacks that only one side has, the path of the other side that is the same: from the shorter
/// to the longer.
pub(crate) fn inlined(
    before: &[LeftOver<'_>],
    after: &[LeftOver<'_>],
) -> HashMap<Vec<u32>, Vec<u32>> {
    let (before, after) = (largest(before), largest(after));
    let mut pairs: Vec<(&LeftOver<'_>, &LeftOver<'_>)> = Vec::new();
    for one in &before {
        for other in &after {
            let (shorter, longer) =
                if one.path.len() <= other.path.len() { (one, other) } else { (other, one) };
            let is_close = shorter.requests.max(longer.requests)
                <= shorter.requests.min(longer.requests).saturating_mul(2);
            let is_long = shorter.path.len() >= 2 && shorter.path.len() * 2 >= longer.path.len();
            if is_close && is_long && is_among(shorter.path, longer.path) {
                pairs.push((*shorter, *longer));
            }
        }
    }
    // The most similar pairs first. Equally similar ones are in the order of paths, independent of
    // the sides.
    pairs.sort_by(|a, b| {
        likeness(b).cmp(&likeness(a)).then_with(|| (a.0.path, a.1.path).cmp(&(b.0.path, b.1.path)))
    });
    let mut taken: HashSet<&[u32]> = HashSet::new();
    let mut same = HashMap::new();
    for (shorter, longer) in pairs {
        if !taken.contains(shorter.path) && !taken.contains(longer.path) {
            taken.insert(shorter.path);
            taken.insert(longer.path);
            same.insert(shorter.path.to_vec(), longer.path.to_vec());
        }
    }
    same
}

fn largest<'s, 'a>(of: &'s [LeftOver<'a>]) -> Vec<&'s LeftOver<'a>> {
    let mut largest: Vec<&LeftOver<'_>> = of.iter().collect();
    largest.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.path.cmp(b.path)));
    largest.truncate(LEFT_OVER_MAX);
    largest
}

/// How much of the larger number of requests the smaller is, in thousandths; then how many
/// functions both have.
fn likeness((shorter, longer): &(&LeftOver<'_>, &LeftOver<'_>)) -> (u128, usize) {
    let most = u128::from(shorter.requests.max(longer.requests)).max(1);
    let least = u128::from(shorter.requests.min(longer.requests));
    (least * 1000 / most, shorter.path.len())
}

/// Whether all of `shorter` stand in `longer` in the same order.
fn is_among(shorter: &[u32], longer: &[u32]) -> bool {
    let mut rest = longer.iter();
    shorter.iter().all(|name| rest.any(|other| other == name))
}

/// A line before and after; `None`: the other side has it alone.
pub(crate) type Lines = (Option<u32>, Option<u32>);

/// Matches the lines of one function's calls, before and after. If both sides have as many lines,
/// these match in order. Otherwise each line matches the nearest of the other side, unless that is
/// nearer to another. Returns pairs, and unmatched lines of either side.
pub(crate) fn lines(before: &[u32], after: &[u32]) -> Vec<Lines> {
    let (mut before, mut after) = (before.to_vec(), after.to_vec());
    before.sort_unstable();
    after.sort_unstable();
    if before.len() == after.len() {
        return before.into_iter().map(Some).zip(after.into_iter().map(Some)).collect();
    }
    let mut pairs: Vec<(u32, u32)> =
        before.iter().flat_map(|one| after.iter().map(|other| (*one, *other))).collect();
    let near = |a: &(u32, u32), b: &(u32, u32)| -> Ordering {
        let (of_a, of_b) = (a.0.abs_diff(a.1), b.0.abs_diff(b.1));
        of_a.cmp(&of_b).then((a.0.min(a.1), a.0.max(a.1)).cmp(&(b.0.min(b.1), b.0.max(b.1))))
    };
    pairs.sort_by(near);
    let mut lines: Vec<Lines> = Vec::new();
    for (one, other) in pairs {
        let is_taken = |line: &Lines| line.0 == Some(one) || line.1 == Some(other);
        if !lines.iter().any(is_taken) {
            lines.push((Some(one), Some(other)));
        }
    }
    let has = |side: fn(&Lines) -> Option<u32>, line: u32, lines: &[Lines]| {
        lines.iter().any(|pair| side(pair) == Some(line))
    };
    before.retain(|line| !has(|pair| pair.0, *line, &lines));
    after.retain(|line| !has(|pair| pair.1, *line, &lines));
    lines.extend(before.into_iter().map(|line| (Some(line), None)));
    lines.extend(after.into_iter().map(|line| (None, Some(line))));
    lines.sort_unstable_by_key(|(one, other)| (one.or(*other), *other));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(path: &[u32], requests: u64) -> LeftOver<'_> {
        LeftOver { path, requests, bytes: requests }
    }

    #[test]
    fn a_function_that_was_inlined_leaves_its_callers() {
        let before = [left(&[5, 4, 3, 1], 100), left(&[9, 1], 7)];
        let after = [left(&[5, 3, 1], 98), left(&[8, 1], 7)];
        let same = inlined(&before, &after);
        assert_eq!(same.get(&vec![5, 3, 1]), Some(&vec![5, 4, 3, 1]));
        assert_eq!(same.len(), 1, "9 and 8 are two functions");
        assert_eq!(inlined(&after, &before), same);
    }

    #[test]
    fn what_asks_ten_times_as_often_is_not_the_same() {
        assert!(inlined(&[left(&[5, 4, 3, 1], 1000)], &[left(&[5, 3, 1], 98)]).is_empty());
        assert!(inlined(&[left(&[5, 4, 3, 2, 1], 10)], &[left(&[5, 1], 10)]).is_empty());
    }

    #[test]
    fn lines_move_together() {
        assert_eq!(lines(&[10, 20], &[23, 33]), [(Some(10), Some(23)), (Some(20), Some(33))]);
        assert_eq!(lines(&[10, 20], &[21]), [(Some(10), None), (Some(20), Some(21))]);
        assert_eq!(lines(&[], &[21]), [(None, Some(21))]);
    }
}
