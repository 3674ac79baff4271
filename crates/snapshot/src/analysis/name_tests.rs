//! A test of names, whose result is kept for each source of names.
//!
//! Many nodes share a name, so that a test of all nodes runs once a string of the file, not once a
//! node.

use super::Analysis;
use super::name_sources::{Source, Sources};
use crate::graph::Node;
use hashbrown::HashMap;
use std::borrow::Cow;

/// The results so far.
pub(crate) struct NameTests<'n, 's, 'a> {
    sources: Sources<'n, 's, 'a>,
    by_number: Vec<Option<bool>>,
    by_source: HashMap<Source, bool>,
}

impl<'n, 's, 'a> NameTests<'n, 's, 'a> {
    /// No result yet.
    pub fn new(analysis: &'n Analysis<'s, 'a>) -> Self {
        let sources = Sources::new(analysis);
        NameTests { by_number: vec![None; sources.len()], sources, by_source: HashMap::new() }
    }

    /// The result for the node's name ([`Analysis::name_bytes`]). `test` is called where the name's
    /// source is met for the first time, and must give the same result for the same name.
    #[inline]
    pub fn holds(&mut self, node: Node, test: impl FnOnce(Cow<[u8]>) -> bool) -> bool {
        let source = self.sources.of_node(node);
        let sources = &self.sources;
        let result = || test(sources.name(source));
        match source {
            Source::String(id) | Source::Number(id) => match self.by_number.get_mut(id as usize) {
                Some(known) => *known.get_or_insert_with(result),
                None => result(),
            },
            other => *self.by_source.entry(other).or_insert_with(result),
        }
    }
}
