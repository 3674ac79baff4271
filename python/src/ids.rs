//! Which object is which across snapshots.
//!
//! An address is used again, most readily for objects of the same type (free lists). Objects of the
//! collector's lists are therefore frozen between two snapshots: what is not frozen at the second
//! is young, and its address says nothing ([`Young`]). For what the collector does not know
//! (strings, numbers, tuples of them) a fingerprint of its value stands beside the address
//! ([`ObjectIds`]): an equal value at the same place may pass for the same object.

use super::object::Address;
use heaplab_snapshot::generate::ObjectIds;
use pyo3::prelude::*;
use pyo3::types::PyList;

/// What lives in Python between snapshots.
#[pyclass]
#[derive(Default)]
pub struct Ids {
    state: ObjectIds,
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
            self.state.forget();
        }
    }
}

impl Ids {
    pub fn take(&mut self) -> ObjectIds {
        std::mem::take(&mut self.state)
    }

    pub fn give_back(&mut self, state: ObjectIds) {
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
