//! Names for what `tp_traverse` shows: it says where an object leads, not what it calls it.
//!
//! Each source of names (attributes, slots, entries, getters) offers pairs of name and target; a
//! pair that is among the targets names one of them, once. What nobody names is numbered. So there
//! are always exactly the references that the traversal showed, whatever the names.

use super::object::Address;
use heaplab_snapshot::generate::EdgeSink;
use heaplab_snapshot::write::{EdgeName, edge_type};
use std::collections::HashMap;

/// Up to so many targets are searched one by one.
const SEARCHED_MAX: usize = 48;

/// The references of one object, being named.
#[derive(Default)]
pub struct References {
    targets: Vec<Address>,
    labels: Vec<Option<(u8, EdgeName)>>,
    unnamed: usize,
    /// Places of targets, sorted by target, where there are many; and how far each target's places
    /// are used up.
    order: Vec<u32>,
    used: HashMap<Address, usize>,
}

impl References {
    pub fn begin(&mut self) {
        self.targets.clear();
        self.labels.clear();
        self.order.clear();
        self.used.clear();
    }

    pub fn push(&mut self, target: Address) {
        self.targets.push(target);
    }

    /// All targets are there; names may be offered.
    pub fn ready(&mut self) {
        self.labels.resize(self.targets.len(), None);
        self.unnamed = self.targets.len();
        if self.targets.len() > SEARCHED_MAX {
            self.order.extend(0..self.targets.len() as u32);
            let targets = &self.targets;
            self.order.sort_by_key(|place| targets[*place as usize]);
        }
    }

    /// Whether there is anything left to name.
    pub fn any_unnamed(&self) -> bool {
        self.unnamed > 0
    }

    /// Targets without a name.
    pub fn unnamed(&self) -> impl Iterator<Item = Address> + '_ {
        self.targets.iter().zip(&self.labels).filter(|(_, label)| label.is_none()).map(|(target, _)| *target)
    }

    /// Names one reference to that target, if there is one without a name.
    pub fn offer(&mut self, target: Address, label: impl FnOnce() -> (u8, EdgeName)) {
        if let Some(place) = self.free_place(target) {
            self.labels[place] = Some(label());
            self.unnamed -= 1;
        }
    }

    fn free_place(&mut self, target: Address) -> Option<usize> {
        if self.unnamed == 0 {
            return None;
        }
        if self.order.is_empty() {
            return (0..self.targets.len()).find(|place| self.targets[*place] == target && self.labels[*place].is_none());
        }
        let (targets, order) = (&self.targets, &self.order);
        let next = self.used.entry(target).or_insert_with(|| order.partition_point(|place| targets[*place as usize] < target));
        let place = *order.get(*next)? as usize;
        if targets[place] != target {
            return None;
        }
        *next += 1;
        Some(place)
    }

    /// Hands all of them on, in the order of the traversal.
    pub fn write(&self, edges: &mut impl EdgeSink) {
        let mut number = 0;
        for (target, label) in self.targets.iter().zip(&self.labels) {
            match label {
                Some((edge_type, name)) => edges.edge(*edge_type, *name, *target),
                None => {
                    edges.edge(edge_type::ELEMENT, EdgeName::Index(number), *target);
                    number += 1;
                }
            }
        }
    }
}
