//! Finds objects by a text in their names. Source: `HeapSnapshot.search`: the shown name contains
//! the text, objects without a size are left out, and if case does not count, letters compare as in
//! JavaScript's regular expressions without the `u` flag.
//!
//! Most names are strings of the file, so the file's list is looked through once. Names of plain
//! objects are made of their properties, once for objects that have the same ones.

use super::Analysis;
use crate::columns::Bits;
use crate::graph::Node;
use crate::meta::{EdgeType, NodeType};
use crate::strings::{StringId, to_text};
use std::borrow::Cow;

/// Letters from the most to the least frequent in English; others are rarer in names.
const FREQUENT: &[u8] = b"etaoinsrhldcumfpgwybvkxjqz";

impl Analysis<'_, '_> {
    /// The objects whose name ([`Analysis::name`]) contains `text`, in the order of the file.
    pub fn search(&self, text: &str, is_case_sensitive: bool) -> Vec<Node> {
        let graph = &self.snapshot.graph;
        let wanted = Wanted::of(text, is_case_sensitive);
        let strings = self.strings_with(&wanted);
        let mut plain_objects = PlainObjects::default();
        let mut matches = |node: Node| match graph.node_type(node) {
            NodeType::ConcatenatedString => wanted.is_in(&self.name_bytes(node)),
            NodeType::Object if self.has_plain_objects_name(node) => {
                plain_objects.of(self, node, |name| wanted.is_in(name))
            }
            _ => strings.get(self.name_id(node)),
        };
        graph.nodes().filter(|node| self.self_size(*node) != 0 && matches(*node)).collect()
    }

    /// The names, of the file and added ones, in which the text is.
    fn strings_with(&self, wanted: &Wanted) -> Bits {
        let mut found = Bits::new(self.names.len());
        let in_file = self.names.file_len() as StringId;
        match wanted {
            Wanted::Ascii(text, rarest) => {
                self.snapshot.strings.each_containing(text, *rarest, |id| found.set(id));
            }
            _ => (0..in_file)
                .filter(|id| wanted.is_in(&self.names.bytes(*id)))
                .for_each(|id| found.set(id)),
        }
        (in_file..self.names.len() as StringId)
            .filter(|id| wanted.is_in(&self.names.bytes(*id)))
            .for_each(|id| found.set(id));
        found
    }
}

/// Cached answers about names of plain objects. A name consists of properties, and objects with the
/// same properties lie near each other in a heap, so an answer serves the next of them.
struct PlainObjects {
    kept: Vec<(Vec<StringId>, bool)>,
    properties: Vec<StringId>,
}

/// Lists of properties with a cached answer.
const LISTS_KEPT: usize = 256;

impl Default for PlainObjects {
    fn default() -> Self {
        PlainObjects { kept: vec![(Vec::new(), false); LISTS_KEPT], properties: Vec::new() }
    }
}

impl PlainObjects {
    fn of(&mut self, analysis: &Analysis, node: Node, is_in: impl Fn(&[u8]) -> bool) -> bool {
        let graph = &analysis.snapshot.graph;
        let properties = graph
            .edges(node)
            .filter(|edge| graph.edge_type(*edge) == EdgeType::Property)
            .map(|edge| graph.edge_name(edge));
        self.properties.clear();
        self.properties.extend(properties);
        let sum = self.properties.iter().fold(0_u32, |sum, name| sum.rotate_left(5) ^ name);
        let slot = (sum.wrapping_mul(0x9e37_79b1) >> 24) as usize;
        let (list, answer) = &mut self.kept[slot % LISTS_KEPT];
        if *list != self.properties || list.is_empty() {
            *answer = is_in(&analysis.name_bytes(node));
            list.clone_from(&self.properties);
        }
        *answer
    }
}

/// A text that names may contain.
enum Wanted {
    /// Byte for byte.
    Exact(Box<memchr::memmem::Finder<'static>>),
    /// ASCII, in lower case, and the place of its rarest letter.
    Ascii(Vec<u8>, usize),
    /// In [`canonical`] letters, one of which is not ASCII.
    Canonical(String),
}

impl Wanted {
    fn of(text: &str, is_case_sensitive: bool) -> Wanted {
        if is_case_sensitive || text.is_empty() {
            return Wanted::Exact(Box::new(memchr::memmem::Finder::new(text).into_owned()));
        }
        if !text.is_ascii() {
            return Wanted::Canonical(text.chars().map(canonical).collect());
        }
        let text = text.to_ascii_lowercase().into_bytes();
        let rank = |letter: &u8| FREQUENT.iter().position(|each| each == letter);
        let rarest = (0..text.len())
            .max_by_key(|at| rank(&text[*at]).unwrap_or(FREQUENT.len()))
            .unwrap_or(0);
        Wanted::Ascii(text, rarest)
    }

    /// Whether a name in WTF-8 contains the text.
    fn is_in(&self, name: &[u8]) -> bool {
        match self {
            Wanted::Exact(finder) => finder.find(name).is_some(),
            Wanted::Ascii(text, rarest) => find_ignoring_case(name, text, *rarest).is_some(),
            // No letter of ASCII is the same as one that is not.
            Wanted::Canonical(_) if name.is_ascii() => false,
            Wanted::Canonical(text) => {
                let name: String = to_text(Cow::Borrowed(name)).chars().map(canonical).collect();
                name.contains(text)
            }
        }
    }
}

/// Where `text`, which is ASCII in lower case, begins in `name`; its letter at `rarest` is looked
/// for.
pub(crate) fn find_ignoring_case(name: &[u8], text: &[u8], rarest: usize) -> Option<usize> {
    let (letter, behind) = (text[rarest], text.len() - rarest);
    let begins = |at: usize| {
        let from = at.checked_sub(rarest)?;
        name.get(from..at + behind)?.eq_ignore_ascii_case(text).then_some(from)
    };
    // For what is no letter both are the same.
    memchr::memchr2_iter(letter, letter.to_ascii_uppercase(), name).find_map(begins)
}

/// The letter for which a letter stands where case does not count (`Canonicalize` of ECMA-262
/// without the `u` flag): its upper case, if that is one letter of 16 bits and does not become
/// ASCII.
fn canonical(letter: char) -> char {
    let mut upper = letter.to_uppercase();
    match (upper.next(), upper.next()) {
        (Some(one), None)
            if u32::from(letter) <= 0xffff && (letter.is_ascii() || !one.is_ascii()) =>
        {
            one
        }
        _ => letter,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_counts_only_if_asked() {
        let is_in =
            |text: &str, case: bool, name: &str| Wanted::of(text, case).is_in(name.as_bytes());
        assert!(is_in("Map", true, "WeakMap") && !is_in("map", true, "WeakMap"));
        assert!(is_in("mAP", false, "WeakMap") && is_in("weakmap", false, "WeakMap"));
        assert!(!is_in("maps", false, "WeakMap") && !is_in("xWeakMap", false, "WeakMap"));
        assert!(is_in("@1", false, "a@12") && is_in("", false, "") && is_in("", true, "a"));
        assert!(is_in("ÄR", false, "Bär") && !is_in("ÄR", true, "Bär"));
        assert!(is_in("ß", false, "groß") && !is_in("SS", false, "groß"));
    }

    #[test]
    fn letters_that_become_ascii_stay() {
        // The Kelvin sign and the long s.
        assert_eq!((canonical('\u{212a}'), canonical('\u{17f}')), ('\u{212a}', '\u{17f}'));
        assert_eq!((canonical('k'), canonical('µ')), ('K', '\u{39c}'));
        // Deseret has cases, but no 16 bits.
        assert_eq!(canonical('\u{10428}'), '\u{10428}');
    }
}
