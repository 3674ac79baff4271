//! Requests a few bytes over a size class.
//!
//! The document's four cases have one form: somebody asked for a round size and added something. A
//! request counts if it exceeds a class of any table, or a power of two, by a little, and so wastes
//! most of the step to the next class. Only such requests are followed by stack and size; all
//! others are in the counts table.
//!
//! A site with varying sizes has some of them just over a class by chance: that is the allocator's
//! slop, not a mistake. So a size counts only if it stands out among the sizes of its site, or if
//! nearly all of them lie just over one power of two. In the second case the author meant a round
//! buffer, and added a part that varies ([`crate::spread`]).
//!
//! Sizes with one cause are one finding ([`Group`]): the same surplus over several powers of two
//! from one calling frame, or varying sizes just over powers of two, or over one class, at one
//! site. Every other size is a finding of its own.

use crate::clownshoe_cost::Judge;
use crate::clownshoe_words::ROUND_BYTES;
use crate::finding::{Detector, Run};
use crate::sites::{Site, Sites, innermost};
use crate::spread::{Spread, Spreads};
use crate::{Found, Options, UsesItsSlop};
use hashbrown::{HashMap, HashSet};
use heaplab_profile::{Amount, Instant, Object, Profile, Tracked};
use heaplab_size_class::Allocator;
use heaplab_trace::{Event, ObjectId, StackId, tables::Tables};
use std::collections::{BTreeMap, BTreeSet};

const MEMO: usize = 64 * 1024;
/// Powers of two with the same surplus that make a header certain.
const FAMILY: usize = 3;
/// Smaller sizes follow from an object's fields; nobody chose a power of two.
pub(crate) const POWER_BYTES: u64 = 64;

/// The sizes of one finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Group {
    /// Several powers of two, at least two of them chosen, with the same surplus, from one calling
    /// frame: that frame adds the surplus, or all of its callers do.
    Frame(Option<u32>, u64),
    /// Several powers of two with the same surplus at one site: one frame may be called from all
    /// over a program (`operator new`).
    Site(Site, u64),
    /// Sizes of one site that vary, nearly all just over a power of two.
    Cluster(Site),
    /// Several sizes just over the same class (or power of two) at one site, each of which stands
    /// out.
    Edge(Site, u64),
    /// One size at any site.
    Size(u64),
}

/// The requests of one stack for one size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    pub(crate) stack: StackId,
    pub(crate) requested: Amount,
    pub(crate) at_peak: Amount,
}

#[derive(Debug, Default)]
struct Pair {
    requested: Amount,
    tracked: Tracked,
}

/// Counts suspicious requests by stack and size.
#[derive(Debug)]
pub(crate) struct Pairs {
    over_max_bytes: u64,
    over_max_part: u64,
    over_max_share: u64,
    limit: usize,
    /// A table that only this user asked for.
    asked: Option<Allocator>,
    /// Per size: 0 not looked at, 1 not suspicious, 2 suspicious.
    memo: Vec<u8>,
    pairs: HashMap<(StackId, u64), Pair>,
    /// All sizes, suspicious or not.
    spreads: Spreads,
    /// Requests whose stack was not distinguished.
    pub(crate) overflowed: u64,
}

impl Pairs {
    pub(crate) fn new(options: &Options) -> Pairs {
        Pairs {
            over_max_bytes: options.over_max_bytes,
            over_max_part: options.over_max_part.max(1),
            over_max_share: options.over_max_share.max(1),
            limit: options.pair_limit,
            asked: options.asked_table(),
            memo: vec![0; MEMO],
            pairs: HashMap::new(),
            spreads: Spreads::default(),
            overflowed: 0,
        }
    }

    /// The tables that count.
    pub(crate) fn tables(&self) -> impl Iterator<Item = Allocator> + use<> {
        Allocator::ALL.into_iter().chain(self.asked)
    }

    /// Bytes by which `size` is a little over the class below on a table.
    pub(crate) fn over(&self, allocator: Allocator, size: u64) -> Option<u64> {
        let class = allocator.class(size);
        let below = class.below?;
        self.little(size - below, below, class.usable - allocator.usable(below, 1))
            .then_some(size - below)
    }

    fn little(&self, over: u64, round: u64, step: u64) -> bool {
        let parts = over.saturating_mul(self.over_max_part) <= step
            && over.saturating_mul(self.over_max_share) <= round;
        over > 0 && over <= self.over_max_bytes && parts
    }

    /// The power of two that a size is a little over, and by how much.
    pub(crate) fn over_power(&self, size: u64) -> Option<(u64, u64)> {
        let power = 1u64 << size.checked_ilog2()?;
        self.little(size - power, power, power).then_some((power, size - power))
    }

    #[inline]
    fn is_suspicious(&mut self, size: u64) -> bool {
        match self.memo.get(size as usize).filter(|_| size < MEMO as u64) {
            Some(0) => {
                let suspicious = self.look(size);
                self.memo[size as usize] = if suspicious { 2 } else { 1 };
                suspicious
            }
            Some(known) => *known == 2,
            None => self.look(size),
        }
    }

    fn look(&self, size: u64) -> bool {
        self.over_power(size).is_some()
            || self.tables().any(|allocator| self.over(allocator, size).is_some())
    }

    #[inline]
    fn add(&mut self, now: &Instant, stack: StackId, size: u64, usable: u64) {
        self.spreads.add(stack, size);
        if !self.is_suspicious(size) {
            return;
        }
        let full = self.pairs.len() >= self.limit;
        let mut key = (stack, size);
        if full && !self.pairs.contains_key(&key) {
            // Without its stack, or, when even the sizes are too many, not at all.
            self.overflowed += 1;
            key = (0, size);
            if self.pairs.len() >= 2 * self.limit && !self.pairs.contains_key(&key) {
                return;
            }
        }
        let pair = self.pairs.entry(key).or_default();
        pair.requested.objects += 1;
        pair.requested.bytes = pair.requested.bytes.saturating_add(size);
        pair.requested.usable_bytes = pair.requested.usable_bytes.saturating_add(usable);
        pair.tracked.add(now.peak, size, usable);
    }

    /// Pairs are never forgotten, and none is added beyond the limit, so an object leaves the pair
    /// that it joined.
    #[inline]
    fn remove(&mut self, now: &Instant, stack: StackId, size: u64, usable: u64) {
        if !self.is_suspicious(size) {
            return;
        }
        let key = if self.pairs.contains_key(&(stack, size)) { (stack, size) } else { (0, size) };
        if let Some(pair) = self.pairs.get_mut(&key) {
            pair.tracked.remove(now.peak, size, usable);
        }
    }

    /// The class or power of two that the size exceeds a little.
    fn edge(&self, size: u64) -> Option<u64> {
        let tables = || self.tables().find_map(|allocator| self.over(allocator, size));
        self.over_power(size).map(|(power, _)| power).or_else(|| tables().map(|over| size - over))
    }

    /// Leaves the sizes that stand out at their sites, and those that cluster over a power of two.
    /// Returns the latter with their sites.
    fn keep_what_stands_out(
        &mut self,
        tables: &Tables,
        sites: &mut Sites<'_>,
        options: &Options,
    ) -> Clustered {
        let spreads = std::mem::take(&mut self.spreads).by(|stack| sites.of(stack));
        let mut times: HashMap<(Site, u64), u64> = HashMap::new();
        for ((stack, size), pair) in &self.pairs {
            *times.entry((sites.of(*stack), *size)).or_default() += pair.requested.objects;
        }
        let unknown = Spread::default();
        let spread = |site: &Site| spreads.get(site).unwrap_or(&unknown);
        let mut clusters: HashSet<(Site, u64)> = HashSet::new();
        times.retain(|(site, size), times| {
            let stands_out =
                self.edge(*size).is_some_and(|edge| spread(site).stands_out(*times, edge, options));
            let chosen = self.over_power(*size).filter(|(power, _)| *power >= ROUND_BYTES);
            let clusters = !stands_out
                && chosen.is_some_and(|(power, over)| spread(site).clusters(power, over))
                && clusters.insert((*site, *size));
            stands_out || clusters
        });
        self.pairs.retain(|(stack, size), _| times.contains_key(&(sites.of(*stack), *size)));
        let mut clustered = Clustered::new();
        for (stack, size) in self.pairs.keys() {
            let site = sites.of(*stack);
            if clusters.contains(&(site, *size)) {
                clustered.insert((*stack, *size), site);
            }
        }
        let families = self.families(tables, sites, &clustered);
        let in_family = |stack: StackId, over: u64| {
            families
                .by_frame
                .get(&(innermost(tables, stack), over))
                .is_some_and(|powers| powers.len() >= FAMILY)
        };
        let mut by_chance = |(stack, size): &(StackId, u64)| {
            let site = sites.of(*stack);
            let known = self.over_power(*size).is_some_and(|(_, over)| in_family(*stack, over))
                || clustered.contains_key(&(*stack, *size));
            !known && spread(&site).is_one_of_many(times.get(&(site, *size)).copied().unwrap_or(0))
        };
        let gone: HashSet<(StackId, u64)> =
            self.pairs.keys().filter(|key| by_chance(key)).copied().collect();
        self.pairs.retain(|key, _| !gone.contains(key));
        clustered
    }

    /// The sizes over each class at each site, without those of clusters and families.
    fn edges(
        &self,
        tables: &Tables,
        sites: &mut Sites<'_>,
        clustered: &Clustered,
        families: &Families,
    ) -> HashMap<(Site, u64), BTreeSet<u64>> {
        let mut edges: HashMap<(Site, u64), BTreeSet<u64>> = HashMap::new();
        for (stack, size) in self.pairs.keys().filter(|pair| !clustered.contains_key(*pair)) {
            let site = sites.of(*stack);
            let family = self.over_power(*size).and_then(|(power, over)| {
                families.of(innermost(tables, *stack), site, power, over)
            });
            // All places with unknown stacks share one site.
            if let Some(edge) = self
                .edge(*size)
                .filter(|edge| *edge >= POWER_BYTES && family.is_none() && *stack != 0)
            {
                edges.entry((site, edge)).or_default().insert(*size);
            }
        }
        edges
    }

    /// The powers of two seen with each surplus, without those of clusters.
    fn families(&self, tables: &Tables, sites: &mut Sites<'_>, clustered: &Clustered) -> Families {
        let mut families = Families::default();
        // Without stacks, several sizes with one surplus are those of all places together.
        for (stack, size) in
            self.pairs.keys().filter(|pair| pair.0 != 0 && !clustered.contains_key(*pair))
        {
            if let Some((power, over)) =
                self.over_power(*size).filter(|(power, _)| *power >= POWER_BYTES)
            {
                families
                    .by_frame
                    .entry((innermost(tables, *stack), over))
                    .or_default()
                    .insert(power);
                families.by_site.entry((sites.of(*stack), over)).or_default().insert(power);
            }
        }
        families
    }
}

impl Detector for Pairs {
    #[inline]
    fn born(&mut self, now: &Instant, event: &Event, _id: ObjectId) {
        self.add(now, event.stack, event.size, event.usable);
    }

    fn resized(
        &mut self,
        now: &Instant,
        _event: &Event,
        _id: ObjectId,
        before: &Object,
        after: &Object,
    ) {
        self.remove(now, before.stack, before.size, before.usable);
        self.add(now, after.stack, after.size, after.usable);
    }

    #[inline]
    fn died(&mut self, now: &Instant, _event: &Event, _id: ObjectId, object: &Object) {
        self.remove(now, object.stack, object.size, object.usable);
    }

    fn finish(mut self, tables: &Tables, run: &Run<'_>, peak: u64) -> Vec<Found> {
        let Run { profile, options } = *run;
        let readers: BTreeSet<StackId> = profile
            .stacks
            .iter()
            .filter(|row| row.usable_size_reads > 0)
            .map(|row| row.stack)
            .collect();
        self.pairs.retain(|(stack, _), _| !readers.contains(stack));
        let mut sites = Sites::new(tables, options.site_frames);
        let clustered = self.keep_what_stands_out(tables, &mut sites, options);
        let families = self.families(tables, &mut sites, &clustered);
        let edges = self.edges(tables, &mut sites, &clustered, &families);
        let mut groups: BTreeMap<Group, BTreeMap<u64, Vec<Share>>> = BTreeMap::new();
        for ((stack, size), pair) in &self.pairs {
            let (frame, site) = (innermost(tables, *stack), sites.of(*stack));
            let cluster = clustered.get(&(*stack, *size)).map(|site| Group::Cluster(*site));
            let family = || {
                self.over_power(*size)
                    .and_then(|(power, over)| families.of(frame, site, power, over))
            };
            let edge = || {
                self.edge(*size)
                    .map(|edge| (site, edge))
                    .filter(|key| edges.get(key).is_some_and(|sizes| sizes.len() >= 2))
            };
            let edge = || edge().map(|(site, edge)| Group::Edge(site, edge));
            let group = cluster.or_else(family).or_else(edge).unwrap_or(Group::Size(*size));
            let share = Share {
                stack: *stack,
                requested: pair.requested,
                at_peak: pair.tracked.at_peak(peak),
            };
            groups.entry(group).or_default().entry(*size).or_default().push(share);
        }
        let judge = Judge { pairs: &self, profile, options };
        groups.into_iter().filter_map(|(group, sizes)| judge.finding(group, &sizes)).collect()
    }
}

/// Powers of two by where they were asked for and with which surplus.
#[derive(Debug, Default)]
struct Families {
    by_frame: HashMap<(Option<u32>, u64), BTreeSet<u64>>,
    by_site: HashMap<(Site, u64), BTreeSet<u64>>,
}

impl Families {
    /// The family of a power of two with a surplus.
    fn of(&self, frame: Option<u32>, site: Site, power: u64, over: u64) -> Option<Group> {
        let by_frame = self
            .by_frame
            .get(&(frame, over))
            .filter(|powers| powers.contains(&power) && powers.range(ROUND_BYTES..).count() >= 2);
        let by_site = || {
            self.by_site
                .get(&(site, over))
                .filter(|powers| powers.contains(&power) && powers.len() >= 2)
        };
        by_frame
            .map(|_| Group::Frame(frame, over))
            .or_else(|| by_site().map(|_| Group::Site(site, over)))
    }
}

/// Stacks and sizes of clusters, with their sites.
type Clustered = HashMap<(StackId, u64), Site>;

/// The sites with slop that may use it.
pub(crate) fn uses_their_slop(profile: &Profile) -> Vec<UsesItsSlop> {
    let mut readers: Vec<UsesItsSlop> = profile
        .stacks
        .iter()
        .filter(|row| row.usable_size_reads > 0)
        .map(|row| UsesItsSlop {
            stack: row.stack,
            usable_size_reads: row.usable_size_reads,
            requested: row.requested,
            at_peak: row.at_peak,
        })
        .collect();
    readers
        .sort_by_key(|site| std::cmp::Reverse((site.requested.slop_bytes(), site.requested.bytes)));
    readers
}
