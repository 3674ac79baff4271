//! Ids that objects keep across snapshots, for embedders whose handles are addresses: 4 to 8 bytes
//! an object in densely filled pages.
//!
//! An address alone is no identity, because a heap reuses addresses. So each has a fingerprint, for
//! which the embedder chooses properties that never change. Of a snapshot these are remembered:
//! which addresses had objects (a bit for each place of 16 bytes in pages of 4 KiB), a fingerprint
//! each, and the ids. Ids are handed out in order. An embedder that describes its objects by
//! address ([`super::Embedder::numbered_by_address`]) gets the ids of a page in order, and the
//! first id implies the rest. If some of a page's objects died, the ids are near each other: 2
//! bytes give the distance from the least. If others lie between them, each id is stored in full.
//!
//! V8 has a hash map from address to id (`HeapObjectsMap`), 24 bytes an entry. V8's collector
//! reports each move to it.

/// Places of 16 bytes in a page.
const PLACES: u64 = 256;
const PLACE_BITS: u32 = 4;
const WORDS: usize = PLACES as usize / 64;

/// The remembered objects of the last snapshot.
#[derive(Debug, Default)]
pub struct ObjectIds {
    before: Remembered,
    now: Remembered,
    /// Objects that follow each other in one page.
    open: Open,
    last_id: u32,
    remember: bool,
}

impl ObjectIds {
    /// The id of an object: its earlier one, or a new one (odd, as V8's, and never 1, the root's).
    /// An object keeps its id if the last snapshot had an object with that fingerprint at that
    /// address, and `may_be_known` allows it.
    pub fn id(&mut self, address: u64, fingerprint: u32, may_be_known: bool) -> u32 {
        let place = Place::of(address);
        let known = if may_be_known { self.before.find(place) } else { None };
        let id = match known {
            Some((id, known)) if known == fingerprint => id,
            _ => {
                // After 2^31 objects ids begin again; nothing lives that long beside so many.
                self.last_id = self.last_id.checked_add(2).unwrap_or(3).max(3) | 1;
                self.last_id
            }
        };
        if self.remember {
            if !self.open.takes(place) {
                self.now.close(&mut self.open);
            }
            self.open.push(place, id);
            self.now.fingerprints.push(fingerprint);
        }
        id
    }

    /// Begins a snapshot; its objects are remembered or not.
    pub fn begin(&mut self, remember: bool) {
        self.remember = remember;
    }

    /// After a snapshot: its objects are the known ones.
    pub fn end(&mut self) {
        self.now.close(&mut self.open);
        self.before = std::mem::take(&mut self.now);
        self.before.runs.sort_unstable_by_key(|run| run.page);
        self.before.shrink();
    }

    /// Forgets the remembered objects. Their ids are never given again.
    pub fn forget(&mut self) {
        self.before = Remembered::default();
    }

    /// Bytes of the remembered objects.
    pub fn memory_bytes(&self) -> usize {
        self.before.memory_bytes() + self.now.memory_bytes()
    }
}

/// Page and place of an address. The low bits, which are mostly 0, become the highest of the page's
/// number, so that every handle has a place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Place {
    page: u64,
    place: usize,
}

impl Place {
    fn of(address: u64) -> Place {
        let turned = address.rotate_right(PLACE_BITS);
        Place { page: turned / PLACES, place: (turned % PLACES) as usize }
    }
}

/// Objects of one page that were described one after the other, by address.
#[derive(Debug, Default)]
struct Open {
    page: u64,
    places: [u64; WORDS],
    last: usize,
    ids: Vec<u32>,
}

impl Open {
    fn takes(&self, place: Place) -> bool {
        self.ids.is_empty() || (place.page == self.page && place.place > self.last)
    }

    fn push(&mut self, place: Place, id: u32) {
        self.page = place.page;
        self.places[place.place / 64] |= 1 << (place.place % 64);
        self.last = place.place;
        self.ids.push(id);
    }
}

/// The same, remembered.
#[derive(Clone, Copy, Debug)]
struct Run {
    page: u64,
    places: [u64; WORDS],
    /// Where its fingerprints begin.
    first: u32,
    ids: Ids,
}

/// The ids of a run.
#[derive(Clone, Copy, Debug)]
enum Ids {
    /// Each is the next after the one before.
    Following(u32),
    /// The least id, and where the (halved) distances from it begin.
    Near(u32, u32),
    /// Where they begin.
    Listed(u32),
}

#[derive(Debug, Default)]
struct Remembered {
    /// By page, once this is the earlier snapshot.
    runs: Vec<Run>,
    fingerprints: Vec<u32>,
    near: Vec<u16>,
    listed: Vec<u32>,
    /// The run that was found last: objects of one page often follow each other.
    recent: usize,
}

impl Remembered {
    /// Stores the open page, whose fingerprints are the last ones.
    fn close(&mut self, open: &mut Open) {
        let Some(least) = open.ids.iter().min().copied() else { return };
        // The generator's limit on objects keeps all three far below 2^32.
        let first = (self.fingerprints.len() - open.ids.len()) as u32;
        let distances = || open.ids.iter().map(|id| (id - least) / 2);
        let ids = if distances().eq(0..open.ids.len() as u32) {
            Ids::Following(least)
        } else if distances().all(|distance| distance <= u32::from(u16::MAX)) {
            let at = self.near.len() as u32;
            self.near.extend(distances().map(|distance| distance as u16));
            Ids::Near(least, at)
        } else {
            let at = self.listed.len() as u32;
            self.listed.extend_from_slice(&open.ids);
            Ids::Listed(at)
        };
        self.runs.push(Run { page: open.page, places: open.places, first, ids });
        open.ids.clear();
        open.places = [0; WORDS];
    }

    /// Id and fingerprint of the object there.
    fn find(&mut self, place: Place) -> Option<(u32, u32)> {
        let (word, bit) = (place.place / 64, 1 << (place.place % 64));
        let has = |run: &&Run| run.page == place.page && run.places[word] & bit != 0;
        if self.runs.get(self.recent).as_ref().is_none_or(|run| !has(run)) {
            let page = self.runs.partition_point(|run| run.page < place.page);
            // One, unless a page was described in pieces.
            let within = self.runs[page..]
                .iter()
                .take_while(|run| run.page == place.page)
                .position(|run| has(&run))?;
            self.recent = page + within;
        }
        let run = &self.runs[self.recent];
        let before: u32 = run.places[..word].iter().map(|places| places.count_ones()).sum();
        let rank = before + (run.places[word] & (bit - 1)).count_ones();
        let id = match run.ids {
            Ids::Following(first) => first + 2 * rank,
            Ids::Near(least, at) => least + 2 * u32::from(self.near[(at + rank) as usize]),
            Ids::Listed(at) => self.listed[(at + rank) as usize],
        };
        Some((id, self.fingerprints[(run.first + rank) as usize]))
    }

    fn shrink(&mut self) {
        self.runs.shrink_to_fit();
        self.fingerprints.shrink_to_fit();
        self.near.shrink_to_fit();
        self.listed.shrink_to_fit();
    }

    fn memory_bytes(&self) -> usize {
        self.runs.len() * size_of::<Run>()
            + self.fingerprints.len() * 4
            + self.near.len() * 2
            + self.listed.len() * 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{HashMap, HashSet};

    fn described(ids: &mut ObjectIds, objects: impl Iterator<Item = u64>) {
        ids.begin(true);
        objects.for_each(|object| _ = ids.id(object, object as u32, true));
        ids.end();
    }

    #[test]
    fn bytes_an_object() {
        let address = |object: u64| 0x7f00_0000_0000 + object * 32;
        let mut ids = ObjectIds::default();
        described(&mut ids, (0..100_000).map(address));
        assert!(ids.memory_bytes() < 100_000 * 9 / 2, "in order: {} bytes", ids.memory_bytes());
        described(&mut ids, (0..100_000).filter(|object| object % 5 > 0).map(address));
        assert!(ids.memory_bytes() < 80_000 * 7, "some died: {} bytes", ids.memory_bytes());
        described(&mut ids, (0..100_000).map(address));
        assert!(
            ids.memory_bytes() < 100_000 * 9,
            "others came between: {} bytes",
            ids.memory_bytes()
        );
    }

    #[test]
    fn ids_begin_again_after_two_to_the_31_objects() {
        let mut ids = ObjectIds { last_id: u32::MAX - 6, ..ObjectIds::default() };
        ids.begin(true);
        let given: Vec<u32> = (0..6).map(|object| ids.id(object * 16, 0, true)).collect();
        assert_eq!(given, [u32::MAX - 4, u32::MAX - 2, u32::MAX, 3, 5, 7]);
        ids.end();
        assert_eq!((0..6).map(|object| ids.id(object * 16, 0, true)).collect::<Vec<u32>>(), given);
    }

    /// An object of a snapshot: address, fingerprint, and whether it may be known.
    fn objects() -> impl Strategy<Value = Vec<(u64, u32, bool)>> {
        let address = prop_oneof![
            6 => (0u64..1500).prop_map(|at| 0x7f12_0000_0000 + at * 16),
            1 => (0u64..300).prop_map(|at| 0x7f12_0000_0000 + at),
            1 => (0u64..40).prop_map(|at| at << 40),
            1 => (0u64..40).prop_map(|at| 1 << 63 | at),
            1 => prop_oneof![Just(0), Just(2), Just(u64::MAX), any::<u64>()],
        ];
        prop::collection::vec((address, 0u32..2, prop::bool::weighted(0.95)), 0..300)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn as_a_map_remembers_them(
            snapshots in prop::collection::vec((objects(), prop::bool::weighted(0.8), any::<bool>(), prop::bool::weighted(0.1)), 1..6),
            gap in prop_oneof![Just(0u32), Just(300_000)],
        ) {
            let mut ids = ObjectIds::default();
            let mut model: HashMap<u64, (u32, u32)> = HashMap::new();
            let mut given = HashSet::new();
            for (mut objects, remember, by_address, forget) in snapshots {
                let mut seen = HashSet::new();
                objects.retain(|object| seen.insert(object.0));
                if by_address {
                    objects.sort_unstable();
                }
                if forget {
                    ids.forget();
                    model.clear();
                }
                ids.begin(remember);
                let mut now = HashMap::new();
                for (address, fingerprint, may_be_known) in objects {
                    let id = ids.id(address, fingerprint, may_be_known);
                    match model.get(&address).filter(|known| may_be_known && known.1 == fingerprint) {
                        Some(known) => prop_assert_eq!(id, known.0),
                        None => prop_assert!(id % 2 == 1 && id > 1 && given.insert(id), "{} is new", id),
                    }
                    if remember {
                        now.insert(address, (id, fingerprint));
                    }
                }
                ids.end();
                ids.last_id += gap;
                model = now;
            }
        }
    }
}
