//! Map space: hidden classes, which V8 calls maps, on pages of their own.
//!
//! Source: `MapSpace` and `FreeListMap` in V8's spaces.cc, `EnsureSweepingCompleted` in its
//! mark-compact.cc. All maps have one size, so one category has all blocks, and a request looks at
//! its first one. No collection moves a map. Pages are swept as those of old space, but the last
//! one first instead of the emptiest. When sweeping is complete, the pages with the most maps come
//! first, so that the emptiest can become empty.
//!
//! V8 completes sweeping if its sweeper threads are done when a space needs memory, or if the limit
//! allows no new page. A V8 without these threads begins the next collection first, which empties
//! all lists.

use crate::page::{Owner, Pages};
use crate::sort;
use crate::space::{OldGeneration, Space};
use crate::strategy::{Bound, Guarantee, Look, PageOrder, Steal, Strategy, When, step};
use crate::sweeper::Sweeper;
use heaplab_heap::{Origin, SpaceState};

/// Map space with its pages.
#[derive(Debug)]
pub struct MapSpace {
    /// Pages, free list and linear area.
    pub space: Space,
    /// Pages that wait to be swept.
    pub sweeper: Sweeper,
    /// One category, and an order of pages.
    pub strategy: Strategy,
    /// Pages with the runtime's own maps.
    pub base_pages: usize,
    /// Bytes of the runtime's own maps.
    base_bytes: usize,
    /// Sweeper threads are done when map space needs memory.
    swept_whole: bool,
}

/// `FreeListMap`: one category for blocks of a map or more.
fn strategy(map_bytes: usize, order: PageOrder) -> Strategy {
    let only = Bound::Category(0);
    let steps = vec![step(When::Always, only, only, true, Look::Top)];
    let mut strategy = Strategy {
        name: "map".into(),
        summary: "one category",
        minimums: vec![map_bytes],
        generated: steps.clone(),
        runtime: steps.clone(),
        collector: steps,
        guarantee: Guarantee::CategoryMinimum,
        steal: Steal::NextAbove,
        order,
        switch: None,
        segregated: None,
        by_words: Vec::new(),
    };
    strategy.prepare();
    strategy
}

impl MapSpace {
    /// Without a page.
    pub fn new(map_bytes: usize, order: PageOrder, swept_whole: bool) -> MapSpace {
        let strategy = strategy(map_bytes, order);
        MapSpace {
            space: Space::new(strategy.categories()),
            sweeper: Sweeper::default(),
            strategy,
            base_pages: 0,
            base_bytes: 0,
            swept_whole,
        }
    }

    /// Bytes of one map.
    pub fn map_bytes(&self) -> usize {
        self.strategy.minimum_block()
    }

    /// Adds pages full of the runtime's own maps, which wait to be swept: live bytes and number.
    pub fn add_base_pages(&mut self, pages: &mut Pages, base: &[(u32, usize)]) {
        let each =
            base.iter().flat_map(|&(live_bytes, count)| std::iter::repeat_n(live_bytes, count));
        for live_bytes in each {
            let Some(page) = pages.take_base(live_bytes, self.strategy.categories()) else {
                return;
            };
            pages[page].owner = Owner::Map;
            pages.push_back(&mut self.space.list, page);
            self.space.size += live_bytes as usize;
            self.base_pages += 1;
            self.base_bytes += live_bytes as usize;
            self.sweeper.add(pages, page);
        }
        self.sweeper.start_unsorted();
    }

    /// The workload's pages, in list order.
    pub fn own_pages(&self, pages: &Pages) -> Vec<u32> {
        let mut own = pages.of(&self.space.list);
        own.retain(|&page| pages[page].base_bytes == 0);
        own
    }

    /// Bytes in the workload's maps.
    pub fn used_bytes(&self) -> usize {
        self.space.used_bytes() - self.base_bytes
    }

    /// The workload's pages.
    pub fn page_count(&self) -> usize {
        self.space.list.length - self.base_pages
    }

    /// Map space now, without the runtime's own maps.
    pub fn state(&self, pages: &Pages) -> SpaceState {
        let waste = |&page: &u32| u64::from(pages[page].wasted_bytes);
        SpaceState {
            used_bytes: self.used_bytes() as u64,
            available_bytes: self.space.free.available() as u64,
            committed_bytes: (self.page_count() * crate::facts::PAGE_BYTES) as u64,
            waste_bytes: Some(self.own_pages(pages).iter().map(waste).sum()),
        }
    }

    /// Before marking: empties the free list.
    pub fn begin_collection(&mut self, pages: &mut Pages) {
        self.space.free_linear_area(pages, &self.strategy);
        self.space.free.reset(pages);
    }

    /// After marking. V8 sorts pages to sweep for the sake of moves, and maps do not move.
    pub fn start_sweeping(&mut self, pages: &mut Pages) {
        self.space.queue_for_sweeping(pages, &mut self.sweeper, |_, _| ());
        self.sweeper.start_unsorted();
    }

    /// Sweeps all waiting pages, and puts the pages into their order.
    pub fn complete_sweeping(&mut self, pages: &mut Pages) {
        if !self.sweeper.in_progress {
            return;
        }
        self.sweeper.sweep_some(pages, &self.strategy, 0, usize::MAX);
        self.adopt(pages);
        self.sweeper.in_progress = false;
        self.order_pages(pages);
    }

    /// `SortFreeList`. The page linked last comes first.
    fn order_pages(&mut self, pages: &mut Pages) {
        if self.strategy.order == PageOrder::LinkedLast {
            return;
        }
        let list = pages.of(&self.space.list).into_iter();
        let mut sorted: Vec<(u32, u32)> =
            list.map(|page| (pages[page].allocated_bytes, page)).collect();
        sort::sort(&mut sorted, |a, b| a.0 < b.0);
        if self.strategy.order == PageOrder::EmptiestFirst {
            sorted.reverse();
        }
        for &(_, page) in &sorted {
            self.space.free.unlink_page(pages, page);
        }
        for (_, page) in sorted {
            self.space.free.link_page(pages, page);
        }
    }

    fn adopt(&mut self, pages: &mut Pages) {
        while let Some(page) = self.sweeper.swept.pop() {
            self.space.refine(pages, page);
            self.space.free.link_page(pages, page);
        }
    }

    fn take_node(&mut self, pages: &mut Pages) -> bool {
        self.space.free_linear_area(pages, &self.strategy);
        let steps = self.strategy.steps(Origin::Runtime, false);
        self.space.take_node(pages, &self.strategy, self.map_bytes(), steps).is_some()
    }
}

impl OldGeneration {
    /// Allocates a map; `None`: the space's rules find no memory.
    pub fn allocate_map(&mut self) -> Option<usize> {
        let bytes = self.maps.map_bytes();
        if self.maps.space.limit - self.maps.space.top < bytes && !self.refill_maps() {
            return None;
        }
        let address = self.maps.space.top;
        self.maps.space.top += bytes;
        Some(address)
    }

    /// The order of [`OldGeneration::refill`], for the main space alone.
    #[cold]
    fn refill_maps(&mut self) -> bool {
        if self.maps.take_node(&mut self.pages) {
            return true;
        }
        if self.maps.sweeper.in_progress {
            if self.maps.swept_whole {
                self.complete_sweeping();
            }
            self.maps.adopt(&mut self.pages);
            if self.maps.take_node(&mut self.pages) {
                return true;
            }
            let MapSpace { sweeper, strategy, .. } = &mut self.maps;
            let (bytes, most) = (strategy.minimum_block(), self.version.sweep_pages_max);
            sweeper.sweep_some(&mut self.pages, strategy, bytes, most);
            self.maps.adopt(&mut self.pages);
            if self.maps.take_node(&mut self.pages) {
                return true;
            }
        }
        if self.has_room_for(self.pages.area_bytes()) {
            let MapSpace { space, strategy, .. } = &mut self.maps;
            if !space.expand(&mut self.pages, strategy, Owner::Map) {
                return false;
            }
        } else {
            self.complete_sweeping();
        }
        self.maps.take_node(&mut self.pages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::PAGE_BYTES;
    use crate::object;
    use crate::{Spec, V8Heap};
    use heaplab_heap::witness::{Objects, Witness};
    use heaplab_heap::{Ask, Birth, Collected, Heap, Place, Role, World};

    /// Maps of 80 bytes on a page.
    const PAGE_MAPS: u32 = 3_273;
    const SLOTS: u32 = 3 * PAGE_MAPS;

    fn bear(heap: &mut V8Heap, world: &mut Witness, slot: u32, size: usize) -> usize {
        let place = Place::HiddenClass;
        let birth = Birth { slot, size, align: 1, origin: Origin::Generated, place };
        let born = heap.allocate(birth, world).unwrap();
        let before = world.object(slot).map(|object| object.address);
        world.born(slot, born, heap.body_bytes(&birth));
        heap.stored(slot, before, Some(born));
        born.as_ptr() as usize
    }

    /// Three pages of maps; nine tenths of the first one's are dead, a tenth of the second one's,
    /// half of the third one's.
    fn three_pages(text: &str) -> (V8Heap, Witness, [usize; 3]) {
        let mut heap = V8Heap::new(Spec::parse(text).unwrap()).unwrap();
        let mut world = Witness::new(SLOTS);
        let born = [0, 1, 2].map(|page| {
            let slots = page * PAGE_MAPS..(page + 1) * PAGE_MAPS;
            let places: Vec<usize> =
                slots.map(|slot| bear(&mut heap, &mut world, slot, 64) / PAGE_BYTES).collect();
            assert!(places.iter().all(|page| *page == places[0]), "a page of maps");
            places[0]
        });
        for slot in 0..SLOTS {
            if slot % 10 < [9, 1, 5][(slot / PAGE_MAPS) as usize] {
                world.died(slot);
            }
        }
        heap.collect(Ask::Full, &mut world).unwrap();
        world.settle();
        heap.check_deep().unwrap();
        (heap, world, born)
    }

    fn maps(heap: &V8Heap) -> SpaceState {
        heap.collections()
            .last()
            .unwrap()
            .spaces
            .iter()
            .find(|one| one.name == "map")
            .unwrap()
            .after
    }

    #[test]
    fn the_order_decides_which_page_serves_first() {
        let expected = [
            ("sweeping=whole", 1),
            ("sweeping=whole,maps=emptiest-first", 0),
            ("sweeping=whole,maps=linked-last", 2),
            ("sweeping=lazy", 2),
            ("sweeping=whole,shape=plain", 1),
            ("sweeping=whole,shape=recorded,compact=always", 1),
        ];
        for (text, page) in expected {
            let (mut heap, mut world, pages) = three_pages(text);
            let born = bear(&mut heap, &mut world, 0, 64) / PAGE_BYTES;
            assert_eq!(pages.iter().position(|one| *one == born), Some(page), "{text}");
            heap.check_deep().unwrap();
        }
    }

    #[test]
    fn empty_pages_go_but_one() {
        let (mut heap, mut world, _) = three_pages("many");
        let live = 80 * (0..SLOTS).filter(|&slot| world.object(slot).is_some()).count() as u64;
        let state = maps(&heap);
        assert_eq!((state.used_bytes, state.committed_bytes), (live, 3 * PAGE_BYTES as u64));
        (0..SLOTS).for_each(|slot| world.died(slot));
        heap.collect(Ask::Full, &mut world).unwrap();
        assert_eq!((maps(&heap).used_bytes, maps(&heap).committed_bytes), (0, PAGE_BYTES as u64));
        heap.parts.old.complete_sweeping();
        let whole = heap.spec().version.area_bytes as u64;
        let state = heap.parts.old.maps.state(&heap.parts.old.pages);
        assert_eq!((state.available_bytes, state.waste_bytes), (whole, Some(0)));
    }

    #[test]
    fn a_map_has_one_size_and_keeps_what_fits() {
        for (text, size, body) in [
            ("version=7.8", 1, 1),
            ("version=7.9", 100_000, 64),
            ("version=8.4", 300, 56),
            ("shape=plain", 300, 72),
            ("shape=recorded", 80, 72),
            ("shape=recorded,version=8.1", 72, 64),
        ] {
            let mut heap = V8Heap::new(Spec::parse(text).unwrap()).unwrap();
            let place = Place::HiddenClass;
            let birth = Birth { slot: 0, size, align: 1, origin: Origin::Generated, place };
            assert_eq!(heap.body_bytes(&birth), body, "{text}");
            let mut world = Witness::new(1);
            bear(&mut heap, &mut world, 0, size);
            heap.collect(Ask::Full, &mut world).unwrap();
            let bytes = heap.spec().version.map_bytes as u64;
            assert_eq!(maps(&heap).used_bytes, bytes, "{text}");
            let aligned = Birth { align: 64, ..birth };
            assert_eq!(
                heap.body_bytes(&Birth { size: 640, ..aligned }),
                if text.contains("recorded") { 632 } else { 640 }
            );
        }
    }

    #[test]
    fn the_walk_shows_maps_and_damage_is_found() {
        let (mut heap, _, pages) = three_pages("sweeping=whole");
        heap.parts.old.complete_sweeping();
        let parts = heap.walk().unwrap();
        let begin = parts.iter().position(|part| part.name == "map space").unwrap();
        let end = parts.iter().position(|part| part.name == "new space").unwrap();
        let bytes = |role| -> u64 {
            let of = parts[begin..end].iter().filter(|part| part.role == role);
            of.map(heaplab_heap::Part::own_bytes).sum()
        };
        assert_eq!(bytes(Role::Blocks), maps(&heap).used_bytes);
        let free = |text| parts[begin..end].iter().any(|part| part.name.starts_with(text));
        assert!(free("(free, 80 bytes and more)") && free("(waste)"));
        let old = &mut heap.parts.old;
        let page = old.pages.number(pages[0] * PAGE_BYTES);
        let node = old.pages.start(page) + old.pages[page].categories[0].top as usize;
        // SAFETY: a category's first node is a free block.
        let bytes = unsafe { object::bytes(node) };
        let other = object::Header::vacant(object::Kind::Filler, bytes);
        // SAFETY: as above.
        unsafe { object::set_header(node, other) };
        let error = heap.check_deep().unwrap_err().to_string();
        assert!(error.contains("of map space"), "{error}");
    }

    #[test]
    fn at_the_limit_everything_is_swept_before_it_is_refused() {
        let mut heap = V8Heap::new(Spec::parse("limit=1m,semi_space=512k").unwrap()).unwrap();
        let mut world = Witness::new(20_000);
        let place = Place::HiddenClass;
        let mut born = 0;
        for slot in 0..20_000 {
            let birth = Birth { slot, size: 64, align: 1, origin: Origin::Generated, place };
            let Ok(address) = heap.allocate(birth, &mut world) else { break };
            world.born(slot, address, 64);
            heap.stored(slot, None, Some(address));
            born += 1;
        }
        assert!((2 * PAGE_MAPS..4 * PAGE_MAPS).contains(&born), "{born} maps in a MB");
        let kinds = heap.collections().iter().map(|one| one.kind.as_ref());
        assert!(kinds.rev().take(2).all(|kind| kind != "scavenge"));
        heap.check_deep().unwrap();
    }
}
