//! Regions: 64 granules that are handed out one by one, and their lines run by run. Granules with
//! free lines are in lists, one list for each length of the longest free run. A granule that lost
//! lines stays in its list until it is found there. A granule that got lines back moves up at once,
//! so that no hole is overlooked.
//!
//! So one survivor does not pin 64 KB: an arena of 2 KB has a run of lines in one page or two, next
//! to runs of others. When all runs of a page are free, the page goes back, whatever its neighbours
//! do. Lines in blocks are Immix's idea (Blackburn and McKinley 2008); there a collector evacuates,
//! here nothing moves, so a line is 64 bytes.

use super::bits::{longest_run, only_run, span, starts_of_runs};
use super::shape::{GRANULE_LINES, REGION_GRANULES};
use heaplab_buddy::ChunkId;

/// No granule.
const NONE: u32 = u32::MAX;

/// A granule of a region.
#[derive(Clone, Copy, Debug)]
pub struct Granule {
    /// One bit a line; all ones in a granule that is free itself.
    pub free_lines: u64,
    /// Neighbours in the list of its longest run.
    prev: u32,
    next: u32,
}

/// 64 granules.
#[derive(Debug)]
pub struct Region {
    /// The buddy chunk of the region.
    pub chunk: ChunkId,
    /// Granules that nobody uses.
    pub free: u64,
    /// Of those, the committed ones.
    pub warm: u64,
    /// Each granule.
    pub granules: [Granule; REGION_GRANULES as usize],
    /// The region's entries in the sets of regions: it has a free granule; it has a free committed
    /// one.
    pub noted: (bool, bool),
    /// The list that each is in: no free run of its is longer, and the longest may be shorter.
    longest: [u8; REGION_GRANULES as usize],
}

impl Region {
    /// All free and uncommitted.
    pub fn new(chunk: ChunkId) -> Box<Region> {
        let granule = Granule { free_lines: u64::MAX, prev: NONE, next: NONE };
        let (granules, longest) =
            ([granule; REGION_GRANULES as usize], [GRANULE_LINES as u8; REGION_GRANULES as usize]);
        Box::new(Region {
            chunk,
            free: u64::MAX,
            warm: 0,
            noted: (false, false),
            granules,
            longest,
        })
    }
}

/// Regions by number, and their granules by number over all regions.
#[derive(Debug, Default)]
pub struct Regions(Vec<Option<Box<Region>>>);

impl Regions {
    /// The region with this number, if it exists.
    pub fn get(&self, region: usize) -> Option<&Region> {
        self.0.get(region)?.as_deref()
    }

    /// The region with this number.
    pub fn region(&mut self, region: usize) -> &mut Region {
        self.0[region].as_deref_mut().expect("a region")
    }

    /// The region of a granule.
    pub fn of(&mut self, granule: u32) -> &mut Region {
        self.region((granule / REGION_GRANULES) as usize)
    }

    fn granule(&mut self, granule: u32) -> &mut Granule {
        &mut self.of(granule).granules[(granule % REGION_GRANULES) as usize]
    }

    /// A granule's free lines.
    pub fn free_lines(&mut self, granule: u32) -> u64 {
        self.granule(granule).free_lines
    }

    /// Adds a region.
    pub fn insert(&mut self, number: usize, region: Box<Region>) {
        if self.0.len() <= number {
            self.0.resize_with(number + 1, || None);
        }
        debug_assert!(self.0[number].is_none());
        self.0[number] = Some(region);
    }

    /// Takes a region away.
    pub fn remove(&mut self, number: usize) -> Box<Region> {
        self.0[number].take().expect("a region")
    }

    /// All regions with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &Region)> {
        self.0.iter().enumerate().filter_map(|(number, region)| Some((number, region.as_deref()?)))
    }

    /// Bytes of the table itself.
    pub fn table_bytes(&self) -> usize {
        self.0.capacity() * size_of::<Option<Box<Region>>>()
            + self.0.iter().flatten().count() * size_of::<Region>()
    }
}

/// Granules with free lines, by the length of their longest free run (1 to 63), or a greater one.
#[derive(Debug)]
pub struct Holes {
    heads: [u32; GRANULE_LINES as usize],
    /// Bit n: there is one with a longest run of n.
    present: u64,
}

impl Default for Holes {
    fn default() -> Holes {
        Holes { heads: [NONE; GRANULE_LINES as usize], present: 0 }
    }
}

/// A free run.
#[derive(Clone, Copy, Debug)]
pub struct Hole {
    /// The granule that it lies in.
    pub granule: u32,
    /// How long, in lines.
    pub run: u32,
    /// One bit for each place in the granule where a run of this length begins.
    pub starts: u64,
}

impl Hole {
    /// All of a granule that is free itself.
    pub fn whole(granule: u32) -> Hole {
        Hole { granule, run: GRANULE_LINES, starts: 1 }
    }

    /// The topmost `lines` of the topmost of the runs: their lowest line. `lines` is not more than
    /// the run's.
    pub fn top(&self, lines: u32) -> u32 {
        63 - self.starts.leading_zeros() + self.run - lines
    }
}

impl Holes {
    /// Of the listed granules, one whose longest free run is the shortest of at least `lines`.
    #[inline]
    pub fn best(&mut self, regions: &mut Regions, lines: u32) -> Option<Hole> {
        if lines >= GRANULE_LINES {
            return None;
        }
        loop {
            let fitting = self.present & (u64::MAX << lines);
            if fitting == 0 {
                return None;
            }
            let run = fitting.trailing_zeros();
            let granule = self.heads[run as usize];
            let free_lines = regions.free_lines(granule);
            let longest = match only_run(free_lines) {
                Some((first, length)) if length == run => {
                    return Some(Hole { granule, run, starts: 1 << first });
                }
                Some((_, length)) => length,
                None => match starts_of_runs(free_lines, run) {
                    0 => longest_run(free_lines),
                    starts => return Some(Hole { granule, run, starts }),
                },
            };
            self.move_to(regions, granule, longest);
        }
    }

    /// Lines of a granule in use are taken. The granule stays in its list until somebody looks for
    /// it there: a chunk that is lengthened again and again would move it from list to list, each
    /// time past neighbours that are out of the cache.
    #[inline]
    pub fn take(&mut self, regions: &mut Regions, granule: u32, lines: u64) {
        let (region, index) = (regions.of(granule), (granule % REGION_GRANULES) as usize);
        let free_lines = &mut region.granules[index].free_lines;
        debug_assert!(
            *free_lines & lines == lines,
            "lines {lines:#x} of granule {granule} are not free"
        );
        *free_lines &= !lines;
        if u32::from(region.longest[index]) == GRANULE_LINES {
            let longest = longest_run(*free_lines);
            self.move_to(regions, granule, longest);
        }
    }

    /// Lines of a granule in use are free again. Returns whether the whole granule is free.
    #[inline]
    pub fn give(&mut self, regions: &mut Regions, granule: u32, line: u32, count: u32) -> bool {
        let (region, index) = (regions.of(granule), (granule % REGION_GRANULES) as usize);
        let free_lines = &mut region.granules[index].free_lines;
        debug_assert!(
            *free_lines & span(line, count) == 0,
            "{count} lines from {line} of granule {granule} are free already"
        );
        *free_lines |= span(line, count);
        let above = (!*free_lines >> line).trailing_zeros().min(GRANULE_LINES - line);
        let run = free_below(*free_lines, line) + above;
        if run > u32::from(region.longest[index]) {
            self.move_to(regions, granule, run);
        }
        run == GRANULE_LINES
    }

    /// Puts a granule into the list of `length`.
    fn move_to(&mut self, regions: &mut Regions, granule: u32, length: u32) {
        let (region, index) = (regions.of(granule), (granule % REGION_GRANULES) as usize);
        let before = u32::from(std::mem::replace(&mut region.longest[index], length as u8));
        if before != length {
            self.unlink(regions, granule, before);
            self.link(regions, granule, length);
        }
    }

    fn link(&mut self, regions: &mut Regions, granule: u32, length: u32) {
        if length == 0 || length == GRANULE_LINES {
            return;
        }
        let next = std::mem::replace(&mut self.heads[length as usize], granule);
        let entry = regions.granule(granule);
        (entry.prev, entry.next) = (NONE, next);
        if next != NONE {
            regions.granule(next).prev = granule;
        }
        self.present |= 1 << length;
    }

    fn unlink(&mut self, regions: &mut Regions, granule: u32, length: u32) {
        if length == 0 || length == GRANULE_LINES {
            return;
        }
        let Granule { prev, next, .. } = *regions.granule(granule);
        if prev == NONE {
            self.heads[length as usize] = next;
            if next == NONE {
                self.present &= !(1 << length);
            }
        } else {
            regions.granule(prev).next = next;
        }
        if next != NONE {
            regions.granule(next).prev = prev;
        }
    }

    /// How many granules each list holds, for checks: (length, granules).
    pub fn walk(&self, regions: &mut Regions) -> Vec<(u32, u32)> {
        let mut found = Vec::new();
        for length in 1..GRANULE_LINES {
            let mut at = self.heads[length as usize];
            while at != NONE {
                found.push((length, at));
                at = regions.granule(at).next;
            }
        }
        found
    }
}

/// How many lines directly below `line` are free.
pub fn free_below(free_lines: u64, line: u32) -> u32 {
    if line == 0 { 0 } else { (free_lines << (64 - line)).leading_ones().min(line) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_taken_from_the_top_of_a_run() {
        assert_eq!(Hole::whole(7).top(1), 63);
        let hole = Hole { granule: 7, run: 3, starts: starts_of_runs(0b0111_0011, 3) };
        assert_eq!((hole.top(2), hole.top(3)), (5, 4));
        assert_eq!(free_below(0b0111_0011, 7), 3);
        assert_eq!(free_below(0b0111_0011, 5), 1);
        assert_eq!(free_below(0b0111_0011, 4), 0);
        assert_eq!(
            (free_below(u64::MAX, 63), free_below(u64::MAX, 0), free_below(0, 63)),
            (63, 0, 0)
        );
    }
}
