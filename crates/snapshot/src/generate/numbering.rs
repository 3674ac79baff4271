//! Which object is which node, in one of two ways: in the order in which objects were met
//! ([`IdentityMap`]), or by address ([`AddressMap`]), which takes a twentieth of the memory where
//! the embedder does not mind the order ([`super::Embedder::numbered_by_address`]).

use super::identity::IdentityMap;
use super::pages::{AddressMap, Objects as AddressObjects};

/// Objects, walked and then numbered.
#[derive(Debug)]
pub(super) enum Numbering {
    /// Objects in the order of the walk, and how many were walked.
    Met(IdentityMap, usize),
    /// Ordinals are known after [`Numbering::number`].
    ByAddress(AddressMap),
}

impl Numbering {
    /// The root's ordinal is 0.
    pub(super) fn new(root: u64, by_address: bool, hint: usize) -> Numbering {
        if by_address {
            return Numbering::ByAddress(AddressMap::new(root));
        }
        let mut map = IdentityMap::with_capacity(hint);
        map.add(root);
        Numbering::Met(map, 0)
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Numbering::Met(map, _) => map.len(),
            Numbering::ByAddress(map) => map.len(),
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        match self {
            Numbering::Met(map, _) => map.memory_bytes(),
            Numbering::ByAddress(map) => map.memory_bytes(),
        }
    }

    /// Whether an object was added.
    pub(super) fn contains(&self, object: u64) -> bool {
        match self {
            Numbering::Met(map, _) => map.find(object).is_some(),
            Numbering::ByAddress(map) => map.contains(object),
        }
    }

    /// Adds an object if it is new; false if there are too many objects.
    pub(super) fn add(&mut self, object: u64) -> bool {
        match self {
            Numbering::Met(map, _) => map.add(object).is_some(),
            Numbering::ByAddress(map) => map.add(object),
        }
    }

    /// Adds the new ones of these objects; `found` has room for as many. False if there are too
    /// many objects.
    pub(super) fn add_all(&mut self, objects: &[u64], found: &mut [u32]) -> bool {
        match self {
            Numbering::Met(map, _) => {
                map.find_all(objects, found);
                objects
                    .iter()
                    .zip(found)
                    .filter(|(_, found)| **found == u32::MAX)
                    .all(|(object, _)| map.add(*object).is_some())
            }
            Numbering::ByAddress(map) => objects.iter().all(|object| map.add(*object)),
        }
    }

    /// The next object that was not walked yet; it counts as walked now.
    pub(super) fn next_to_walk(&mut self) -> Option<u64> {
        match self {
            Numbering::Met(map, walked) if *walked < map.len() => {
                *walked += 1;
                Some(map.object(*walked - 1))
            }
            Numbering::Met(..) => None,
            Numbering::ByAddress(map) => map.next_to_walk(),
        }
    }

    /// After the walk: every object has its ordinal.
    pub(super) fn number(&mut self) {
        if let Numbering::ByAddress(map) = self {
            map.number();
        }
    }

    /// The object with this ordinal.
    pub(super) fn object(&self, ordinal: usize) -> u64 {
        match self {
            Numbering::Met(map, _) => map.object(ordinal),
            Numbering::ByAddress(map) => map.object(ordinal),
        }
    }

    /// All objects in the order of their ordinals.
    pub(super) fn objects(&self) -> Objects<'_> {
        match self {
            Numbering::Met(map, _) => Objects::Met(map.objects()),
            Numbering::ByAddress(map) => Objects::ByAddress(map.objects()),
        }
    }

    /// The ordinals of objects, `u32::MAX` for those that are unknown; `found` is as long as
    /// `objects`.
    pub(super) fn find_all(&self, objects: &[u64], found: &mut [u32]) {
        match self {
            Numbering::Met(map, _) => map.find_all(objects, found),
            Numbering::ByAddress(map) => map.find_all(objects, found),
        }
    }
}

/// Objects by ordinal.
pub(super) enum Objects<'a> {
    Met(std::iter::Copied<std::slice::Iter<'a, u64>>),
    ByAddress(AddressObjects<'a>),
}

impl Iterator for Objects<'_> {
    type Item = u64;

    #[inline]
    fn next(&mut self) -> Option<u64> {
        match self {
            Objects::Met(objects) => objects.next(),
            Objects::ByAddress(objects) => objects.next(),
        }
    }
}
