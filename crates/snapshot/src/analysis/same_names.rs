//! Which nodes have the same name: a number for each name.
//!
//! No name is stored. Each name is compared where its source lies; nodes with the same source
//! (`Source`) need no comparison.

use super::Analysis;
use super::name_sources::{Source, Sources};
use crate::graph::Node;
use hashbrown::{HashMap, HashTable};
use std::borrow::Cow;
use xxhash_rust::xxh3::xxh3_64;

/// Numbers for the names of nodes that were asked for, from 0 on.
pub struct SameNames<'n, 's, 'a> {
    sources: Sources<'n, 's, 'a>,
    table: HashTable<u32>,
    /// What makes each name, and the name's hash.
    names: Vec<(Source, u64)>,
    /// One more than the number of the name of each string, or of each name where all are
    /// numbered; 0: not asked for yet.
    by_number: Vec<u32>,
    by_source: HashMap<Source, u32>,
}

impl<'n, 's, 'a> SameNames<'n, 's, 'a> {
    /// None yet.
    pub fn new(analysis: &'n Analysis<'s, 'a>) -> Self {
        SameNames {
            sources: Sources::new(analysis),
            table: HashTable::new(),
            names: Vec::new(),
            by_number: Vec::new(),
            by_source: HashMap::new(),
        }
    }

    /// The number of the node's name, as [`Analysis::name_bytes`] gives it.
    pub fn number(&mut self, node: Node) -> u32 {
        self.number_and_source(node).0
    }

    pub(super) fn number_and_source(&mut self, node: Node) -> (u32, Source) {
        let source = self.sources.of_node(node);
        (self.number_of_source(source), source)
    }

    fn number_of_source(&mut self, source: Source) -> u32 {
        if let Source::String(id) | Source::Number(id) = source {
            let place = id as usize;
            if self.by_number.len() <= place {
                self.by_number.resize(self.sources.len().max(place + 1), 0);
            }
            if self.by_number[place] == 0 {
                self.by_number[place] = 1 + self.number_of_name(source);
            }
            return self.by_number[place] - 1;
        }
        if let Some(known) = self.by_source.get(&source) {
            return *known;
        }
        let number = self.number_of_name(source);
        self.by_source.insert(source, number);
        number
    }

    /// The names so far, by their numbers, in WTF-8.
    pub(super) fn names(&self) -> impl Iterator<Item = Cow<'n, [u8]>> {
        self.names.iter().map(|(source, _)| self.sources.name(*source))
    }

    fn number_of_name(&mut self, source: Source) -> u32 {
        let SameNames { sources, table, names, .. } = self;
        let number = names.len() as u32;
        // No other source has this name.
        if let Source::Number(_) = source {
            names.push((source, 0));
            return number;
        }
        let name = sources.name(source);
        let hash = xxh3_64(&name);
        let same = |number: &u32| {
            let (first, known) = names[*number as usize];
            known == hash && sources.name(first) == name
        };
        if let Some(number) = table.find(hash, same) {
            return *number;
        }
        names.push((source, hash));
        table.insert_unique(hash, number, |number| names[*number as usize].1);
        number
    }
}
