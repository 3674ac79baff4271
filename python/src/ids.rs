//! Which object is which across snapshots.
//!
//! An address is used again, most readily for objects of the same type (free lists). Objects of the collector's lists are therefore frozen between two snapshots: what is not frozen
//! at the second is young, and its address says nothing ([`Young`]). For what the collector does not know (strings, numbers, tuples of them) a fingerprint of
//! its value stands beside the address: an equal value at the same place may pass for the same object.

use super::object::Address;
use pyo3::prelude::*;
use pyo3::types::PyList;

/// What is remembered of an object.
#[derive(Clone, Copy, Debug)]
struct Known {
    address: Address,
    id: u32,
    fingerprint: u32,
}

/// What is remembered of the objects of the last snapshot, sorted by address.
#[derive(Default)]
pub struct State {
    before: Vec<Known>,
    now: Vec<Known>,
    last_id: u32,
    remember: bool,
}

impl State {
    /// The id of an object: the one it had, or a new one (odd, as V8's).
    pub fn id(&mut self, address: Address, fingerprint: u32, may_be_known: bool) -> u32 {
        let known = self.before.binary_search_by_key(&address, |known| known.address).ok().map(|at| self.before[at]);
        let id = match known {
            Some(known) if may_be_known && known.fingerprint == fingerprint => known.id,
            _ => {
                // 1 is the root's. After 2^31 objects ids begin again; nothing lives that long beside so many.
                self.last_id = self.last_id.checked_add(2).unwrap_or(3).max(3) | 1;
                self.last_id
            }
        };
        if self.remember {
            self.now.push(Known { address, id, fingerprint });
        }
        id
    }

    /// Before a snapshot, whose objects are to be remembered or not.
    pub fn begin(&mut self, remember: bool) {
        self.remember = remember;
    }

    /// After a snapshot: its objects are the known ones.
    pub fn end(&mut self) {
        self.before = std::mem::take(&mut self.now);
        self.before.sort_unstable_by_key(|known| known.address);
        self.before.shrink_to_fit();
    }
}

/// What lives in Python between snapshots.
#[pyclass]
#[derive(Default)]
pub struct Ids {
    state: State,
}

#[pymethods]
impl Ids {
    #[new]
    fn new() -> Ids {
        Ids::default()
    }

    /// Whether what is known of objects is kept. Ids that were given are not given again.
    fn keep(&mut self, keep: bool) {
        if !keep {
            self.state.before = Vec::new();
        }
    }
}

impl Ids {
    pub fn take(&mut self) -> State {
        std::mem::take(&mut self.state)
    }

    pub fn give_back(&mut self, state: State) {
        self.state = state;
    }
}

/// Addresses of objects that were born since the last snapshot.
#[derive(Default)]
pub struct Young(Vec<Address>);

impl Young {
    pub fn of(objects: &Bound<'_, PyList>) -> Young {
        let mut addresses: Vec<Address> = Vec::with_capacity(objects.len());
        super::object::list_items(super::object::address(objects), |_, object| addresses.push(object));
        addresses.sort_unstable();
        Young(addresses)
    }

    pub fn contains(&self, address: Address) -> bool {
        self.0.binary_search(&address).is_ok()
    }
}
