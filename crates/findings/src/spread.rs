//! How the sizes that a stack asks for are spread.
//!
//! The neighbouring sizes tell whether a request just over a class is a mistake. A buffer of 1,024
//! bytes with a header of 8 is always asked for with 1,032. The strings of a program have 120 to
//! 139 bytes, and some of them lie over 128 by chance. But if nearly all sizes of a site lie in the
//! few bytes over a large power of two, that is no chance. Firefox's arenas asked for 2,087 and
//! 4,135 because the author meant a round size. Whether the added part varies does not matter to
//! the allocator. So all sizes of a stack are counted: each by itself while they are few, else in
//! 64 parts of a power of two. A part never lies across a power of two or a class's edge of at
//! least a 64th of one.

use crate::Options;
use heaplab_trace::StackId;
use std::collections::BTreeMap;

/// A stack with more sizes has them counted in parts.
const EXACT: usize = 64;
/// Sizes beside one that do not make a site's sizes vary: it asks for two or three, each for a
/// reason.
const FEW_BESIDE: usize = 2;
/// Sizes that vary just over a power of two exceed it by at most this part (one over it) of it,
const CLUSTER_SHARE: u64 = 32;
/// ... and are all but one in so many of the requests between its half and its double.
const CLUSTER_BUT: u64 = 10;
/// From so many sizes on, one that is to be special must be asked for more often than most.
const MANY: usize = 8;
const MORE_OFTEN: u64 = 4;

/// Counts requests by stack and size.
#[derive(Debug, Default)]
pub(crate) struct Spreads {
    /// By stack; stack ids are rows of a table in memory.
    index: Vec<u32>,
    spreads: Vec<(StackId, Counted)>,
}

#[derive(Debug, Default)]
struct Counted {
    /// In order of size; in parts, the largest size of each.
    sizes: Vec<(u64, u64)>,
    last: usize,
    in_parts: bool,
}

impl Counted {
    #[inline]
    fn add(&mut self, size: u64) {
        let size = if self.in_parts { part(size) } else { size };
        match self.sizes.get_mut(self.last) {
            Some(known) if known.0 == size => known.1 += 1,
            _ => self.find(size),
        }
    }

    fn find(&mut self, size: u64) {
        match self.sizes.binary_search_by_key(&size, |known| known.0) {
            Ok(at) => {
                self.sizes[at].1 += 1;
                self.last = at;
            }
            Err(_) if !self.in_parts && self.sizes.len() == EXACT => {
                self.in_parts = true;
                let mut parts: BTreeMap<u64, u64> = BTreeMap::new();
                self.sizes
                    .iter()
                    .for_each(|(size, times)| *parts.entry(part(*size)).or_default() += times);
                self.sizes = parts.into_iter().collect();
                self.find(part(size));
            }
            Err(at) => {
                self.sizes.insert(at, (size, 1));
                self.last = at;
            }
        }
    }
}

/// The largest size of the part that a size lies in.
fn part(size: u64) -> u64 {
    let below = size.saturating_sub(1);
    if below < 64 {
        return size;
    }
    let shift = below.ilog2() - 6;
    ((below >> shift) + 1).checked_shl(shift).filter(|largest| *largest >= size).unwrap_or(u64::MAX)
}

impl Spreads {
    #[inline]
    pub(crate) fn add(&mut self, stack: StackId, size: u64) {
        let place = stack as usize;
        if place >= self.index.len() {
            self.index.resize((place + 1).next_power_of_two(), u32::MAX);
        }
        if self.index[place] == u32::MAX {
            self.index[place] = self.spreads.len() as u32;
            self.spreads.push((stack, Counted::default()));
        }
        self.spreads[self.index[place] as usize].1.add(size);
    }

    /// The sums by what `of` makes of a stack.
    pub(crate) fn by<K: Ord>(self, mut of: impl FnMut(StackId) -> K) -> BTreeMap<K, Spread> {
        let mut sums: BTreeMap<K, Spread> = BTreeMap::new();
        for (stack, counted) in self.spreads {
            let sum = sums.entry(of(stack)).or_default();
            counted
                .sizes
                .into_iter()
                .for_each(|(size, times)| *sum.sizes.entry(size).or_default() += times);
        }
        sums.values_mut().for_each(|sum| sum.usual = sum.median());
        sums
    }
}

/// The sizes of a site.
#[derive(Debug, Default)]
pub(crate) struct Spread {
    sizes: BTreeMap<u64, u64>,
    /// How often a size is asked for, the median of all.
    usual: u64,
}

impl Spread {
    /// Whether a size requested `times` times, a little over `edge`, stands by itself: it has more
    /// requests than all other sizes around the edge together, or hardly any other size is there.
    pub(crate) fn stands_out(&self, times: u64, edge: u64, options: &Options) -> bool {
        let width = options.over_max_bytes.min(edge / options.over_max_share.max(1)).max(1);
        let around =
            self.sizes.range(edge.saturating_sub(width) + 1..=edge.saturating_add(2 * width));
        let (sizes, all) = around.fold((0, 0), |(sizes, all), (_, times)| (sizes + 1, all + times));
        sizes <= 1 + FEW_BESIDE || times > all - times.min(all)
    }

    /// Whether a size `over` bytes over `power` is in a cluster: the site's sizes vary, but nearly
    /// all thereabouts lie just over that power of two. That is no chance: the author meant a
    /// buffer of `power` bytes and added something.
    pub(crate) fn clusters(&self, power: u64, over: u64) -> bool {
        let most = power / CLUSTER_SHARE;
        let requests =
            |from: u64, to: u64| self.sizes.range(from..=to).map(|(_, times)| times).sum::<u64>();
        let (all, just_over) =
            (requests(power / 2 + 1, power.saturating_mul(2)), requests(power + 1, power + most));
        over <= most && just_over > 0 && (all - just_over).saturating_mul(CLUSTER_BUT) <= all
    }

    /// Whether a size that was asked for `times` times is one of the many that a site asks for now
    /// and then.
    pub(crate) fn is_one_of_many(&self, times: u64) -> bool {
        self.sizes.len() > MANY && times < MORE_OFTEN * self.usual
    }

    fn median(&self) -> u64 {
        let mut often: Vec<u64> = self.sizes.values().copied().collect();
        let middle = often.len() / 2;
        if often.is_empty() { 0 } else { *often.select_nth_unstable(middle).1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(sizes: impl IntoIterator<Item = u64>) -> Spread {
        let mut spreads = Spreads::default();
        sizes.into_iter().for_each(|size| spreads.add(1, size));
        spreads.by(|stack| stack).remove(&1).unwrap_or_default()
    }

    #[test]
    fn parts_end_at_powers_of_two() {
        assert_eq!(
            [1, 64, 65, 128, 129, 1024, 1025, 1032, 1041].map(part),
            [1, 64, 65, 128, 130, 1024, 1040, 1040, 1056]
        );
        assert_eq!([u64::MAX, u64::MAX - 5, (1 << 63) + 1].map(part)[..2], [u64::MAX; 2]);
        assert!((1..5000).all(|size| part(size) >= size && part(part(size)) == part(size)));
    }

    #[test]
    fn a_fixed_size_stands_out_and_one_of_a_range_does_not() {
        let options = Options::default();
        assert!(spread([1032; 50]).stands_out(50, 1024, &options));
        assert!(
            spread([1032, 1032, 1040, 1000]).stands_out(2, 1024, &options),
            "two or three sizes are fixed"
        );
        let strings = spread((0..4000).map(|turn| 120 + turn % 20));
        assert!(!strings.stands_out(200, 128, &options), "one of 20");
        // in parts, and asked for in between
        let both = spread((0..4000).flat_map(|turn| [1 + turn % 3000, 1032]));
        assert!(both.stands_out(4001, 1024, &options));
        assert!(!both.stands_out(2, 2048, &options));
        assert!(spread([]).stands_out(3, 64, &options), "nothing is known of the others");
    }

    #[test]
    fn sizes_just_over_a_power_of_two_cluster() {
        let cluster = |turn: u64| 4097 + turn % 14;
        assert!(spread((0..500).map(cluster)).clusters(4096, 5));
        assert!(
            spread((0..500).map(|turn| if turn % 20 == 0 { 3000 } else { cluster(turn) }))
                .clusters(4096, 5)
        );
        assert!(
            !spread((0..500).map(|turn| if turn % 4 == 0 { 3000 } else { cluster(turn) }))
                .clusters(4096, 5),
            "a quarter is not over"
        );
        assert!(
            !spread((0..500).map(|turn| 4097 + 7 * (turn % 60))).clusters(4096, 5),
            "420 bytes are no few"
        );
        assert!(
            !spread((0..500).map(cluster)).clusters(4096, 129) && !spread([]).clusters(4096, 5)
        );
        // in parts
        assert!(
            spread((0..5000).flat_map(|turn| [1 + turn % 900, cluster(turn)])).clusters(4096, 5)
        );
    }

    #[test]
    fn what_is_asked_for_once_is_one_of_many() {
        let files = spread((0..40).map(|turn| 1000 + turn * 7919));
        assert!(files.is_one_of_many(1));
        assert!(files.is_one_of_many(3));
        assert!(!files.is_one_of_many(4));
        assert!(!spread([1 << 10, 1 << 12]).is_one_of_many(1));
    }
}
