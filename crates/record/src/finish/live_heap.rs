//! The live blocks of one process, in layers shared between parent and child: a fork costs little.
//!
//! At a fork all live blocks freeze into a layer that both processes hold. Each goes on in a map of
//! its own above the layers, with a set of addresses released from them. Otherwise a shell that
//! forks for each command would copy its whole heap each time. Once the child is gone, the parent's
//! next fork folds its newest layer back together.

use super::address_map::{AddressMap, Live};
use std::sync::Arc;

/// Most layers of its own before a process folds them into one.
const OWN_LAYERS_MAX: usize = 8;

#[derive(Clone, Debug, Default)]
struct Layer {
    map: AddressMap,
    /// Addresses of deeper layers released before this layer froze.
    released: AddressMap,
}

/// The blocks of one process by address.
#[derive(Debug, Default)]
pub struct LiveHeap {
    top: AddressMap,
    /// Addresses released from the layers below.
    released: AddressMap,
    /// Oldest first.
    layers: Vec<Arc<Layer>>,
    /// The first `inherited` layers hold copies of an ancestor's objects.
    inherited: usize,
}

/// The object found at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// The object.
    pub live: Live,
    /// It is the copy of an ancestor's object.
    pub inherited: bool,
}

const MARKER: Live = Live { object: 0, size: 0 };

impl LiveHeap {
    /// The object at `address`.
    #[inline]
    pub fn get(&self, address: u64) -> Option<Found> {
        match self.top.get(address) {
            Some(live) => Some(Found { live, inherited: false }),
            None if self.layers.is_empty() => None,
            None => self.get_below(address),
        }
    }

    #[cold]
    fn get_below(&self, address: u64) -> Option<Found> {
        if self.released.get(address).is_some() {
            return None;
        }
        for (index, layer) in self.layers.iter().enumerate().rev() {
            if let Some(live) = layer.map.get(address) {
                return Some(Found { live, inherited: index < self.inherited });
            }
            if layer.released.get(address).is_some() {
                return None;
            }
        }
        None
    }

    /// Calls `visit` with the address and the requested bytes of every live block.
    pub fn each(&self, mut visit: impl FnMut(u64, u64)) {
        self.top.iter().for_each(|(address, live)| visit(address, live.size));
        for (index, layer) in self.layers.iter().enumerate() {
            let above = &self.layers[index + 1..];
            for (address, live) in layer.map.iter() {
                let has = |map: &AddressMap| map.get(address).is_some();
                let is_gone = has(&self.top)
                    || has(&self.released)
                    || above.iter().any(|layer| has(&layer.map) || has(&layer.released));
                if !is_gone {
                    visit(address, live.size);
                }
            }
        }
    }

    /// Puts a new object of this process at `address`, which must be free (see [`LiveHeap::get`]).
    #[inline]
    pub fn insert(&mut self, address: u64, live: Live) {
        self.top.insert(address, live);
    }

    /// Puts a new object of this process at `address` if free; returns whether it was.
    #[inline]
    pub fn insert_if_free(&mut self, address: u64, live: Live) -> bool {
        if !self.layers.is_empty() && self.get(address).is_some() {
            return false;
        }
        match self.top.insert(address, live) {
            None => true,
            Some(before) => {
                self.top.insert(address, before);
                false
            }
        }
    }

    /// Removes and returns the object at `address`.
    #[inline]
    pub fn remove(&mut self, address: u64) -> Option<Found> {
        match self.top.remove(address) {
            Some(live) => Some(Found { live, inherited: false }),
            None if self.layers.is_empty() => None,
            None => {
                let found = self.get_below(address)?;
                self.released.insert(address, MARKER);
                Some(found)
            }
        }
    }

    /// Removes and returns the object at `address` if the process allocated it since its last fork;
    /// otherwise changes nothing.
    #[inline]
    pub fn remove_own(&mut self, address: u64) -> Option<Live> {
        self.top.remove(address)
    }

    /// The heap of a child forked now: a copy of everything, all inherited.
    pub fn fork(&mut self) -> LiveHeap {
        self.freeze();
        LiveHeap {
            layers: self.layers.clone(),
            inherited: self.layers.len(),
            ..LiveHeap::default()
        }
    }

    fn freeze(&mut self) {
        if self.top.is_empty() && self.released.is_empty() {
            return;
        }
        let newest = Layer {
            map: std::mem::take(&mut self.top),
            released: std::mem::take(&mut self.released),
        };
        let folded = match self.layers.pop_if_own(self.inherited) {
            Some(below) => match Arc::try_unwrap(below) {
                Ok(below) => fold(below, newest),
                Err(shared) => {
                    self.layers.push(shared);
                    newest
                }
            },
            None => newest,
        };
        self.layers.push(Arc::new(folded));
        if self.layers.len() - self.inherited > OWN_LAYERS_MAX {
            let all = self
                .layers
                .drain(self.inherited..)
                .map(|layer| Layer::clone(&layer))
                .reduce(fold)
                .unwrap_or_default();
            self.layers.push(Arc::new(all));
        }
    }
}

/// Which block an address lies in: the blocks that were live when the first was asked for.
#[derive(Clone, Debug, Default)]
pub struct Around(Option<Vec<(u64, u64)>>);

impl Around {
    /// Where the block that holds `address` begins; blocks younger than the first question are not
    /// found.
    pub fn start(&mut self, heap: &LiveHeap, address: u64) -> Option<u64> {
        let blocks = self.0.get_or_insert_with(|| {
            let mut blocks = Vec::new();
            heap.each(|start, bytes| blocks.push((start, bytes)));
            blocks.sort_unstable();
            blocks
        });
        let after = blocks.partition_point(|(start, _)| *start <= address);
        let (start, bytes) = *blocks.get(after.checked_sub(1)?)?;
        (address - start < bytes).then_some(start)
    }
}

/// `upper` on top of `lower` as one layer.
fn fold(mut lower: Layer, upper: Layer) -> Layer {
    for (address, _) in upper.released.iter() {
        lower.map.remove(address);
        lower.released.insert(address, MARKER);
    }
    for (address, live) in upper.map.iter() {
        lower.map.insert(address, live);
    }
    lower
}

trait PopIfOwn {
    fn pop_if_own(&mut self, inherited: usize) -> Option<Arc<Layer>>;
}

impl PopIfOwn for Vec<Arc<Layer>> {
    fn pop_if_own(&mut self, inherited: usize) -> Option<Arc<Layer>> {
        if self.len() > inherited { self.pop() } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    #[derive(Clone, Debug)]
    enum Operation {
        Allocate(usize, u64),
        Free(usize, u64),
        Fork(usize),
        End(usize),
    }

    fn operation() -> impl Strategy<Value = Operation> {
        prop_oneof![
            4 => (0_usize..6, 1_u64..30).prop_map(|(process, address)| Operation::Allocate(process, address * 16)),
            4 => (0_usize..6, 1_u64..30).prop_map(|(process, address)| Operation::Free(process, address * 16)),
            1 => (0_usize..6).prop_map(Operation::Fork),
            1 => (0_usize..6).prop_map(Operation::End),
        ]
    }

    type Model = HashMap<u64, Found>;

    proptest! {
        #[test]
        fn forks_behave_as_copies(operations in prop::collection::vec(operation(), 0..300)) {
            let mut processes: Vec<(LiveHeap, Model)> = vec![Default::default()];
            let mut object = 0;
            for operation in operations {
                match operation {
                    Operation::Allocate(process, address) => {
                        let count = processes.len();
                        let (heap, model) = &mut processes[process % count];
                        prop_assert_eq!(heap.get(address), model.get(&address).copied());
                        let live = Live { object, size: 1 };
                        prop_assert_eq!(heap.insert_if_free(address, live), !model.contains_key(&address));
                        model.entry(address).or_insert_with(|| {
                            object += 1;
                            Found { live, inherited: false }
                        });
                    }
                    Operation::Free(process, address) => {
                        let count = processes.len();
                        let (heap, model) = &mut processes[process % count];
                        prop_assert_eq!(heap.remove(address), model.remove(&address));
                        prop_assert_eq!(heap.get(address), None);
                    }
                    Operation::Fork(process) if processes.len() < 6 => {
                        let count = processes.len();
                        let (heap, model) = &mut processes[process % count];
                        let child = heap.fork();
                        let copy = model.iter().map(|(address, found)| (*address, Found { inherited: true, ..*found })).collect();
                        processes.push((child, copy));
                    }
                    Operation::End(process) if processes.len() > 1 => {
                        let count = processes.len();
                        processes.swap_remove(process % count);
                    }
                    _ => {}
                }
            }
            for (heap, model) in &processes {
                for address in (1..30).map(|n| n * 16) {
                    prop_assert_eq!(heap.get(address), model.get(&address).copied());
                }
                let mut each = Vec::new();
                heap.each(|address, _| each.push(address));
                each.sort_unstable();
                let mut expected: Vec<u64> = model.keys().copied().collect();
                expected.sort_unstable();
                prop_assert_eq!(each, expected);
            }
        }
    }
}
