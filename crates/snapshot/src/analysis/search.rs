//! Objects by a text in their names. Source: `HeapSnapshot.search`: the name as it is shown
//! contains the text, objects without a size are left out, and where case does not count, letters
//! are compared as JavaScript's regular expressions without the `u` flag compare them.
//!
//! Most names are strings of the file, so each string is looked at once. Names that are made of
//! other things (plain objects, concatenated strings) are made only where the text may be in them.

use super::Analysis;
use super::shapes::shown_property;
use crate::columns::Bits;
use crate::graph::{Edge, Node};
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
        let mut strings = Bits::new(self.names.len());
        (0..self.names.len() as StringId)
            .filter(|id| wanted.is_in(&self.names.bytes(*id)))
            .for_each(|id| strings.set(id));
        // A word cannot lie over two properties.
        let is_word = text.chars().all(|letter| letter.is_alphanumeric() || letter == '_');
        let properties = is_word.then(|| self.properties_with(&wanted));
        let matches = |node: Node| match graph.node_type(node) {
            NodeType::ConcatenatedString => wanted.is_in(&self.name_bytes(node)),
            NodeType::Object if self.has_plain_objects_name(node) => {
                let has_one = |names: &Bits| {
                    self.properties(node).any(|edge| names.get(graph.edge_name(edge)))
                };
                properties.as_ref().is_none_or(has_one) && wanted.is_in(&self.name_bytes(node))
            }
            _ => strings.get(self.name_id(node)),
        };
        graph.nodes().filter(|node| self.self_size(*node) != 0 && matches(*node)).collect()
    }

    /// The names of plain objects' properties that contain the text as they are shown.
    fn properties_with(&self, wanted: &Wanted) -> Bits {
        let graph = &self.snapshot.graph;
        let mut names = Bits::new(self.names.len());
        let plain = graph.nodes().filter(|node| self.has_plain_objects_name(*node));
        plain
            .flat_map(|node| self.properties(node))
            .for_each(|edge| names.set(graph.edge_name(edge)));
        for id in 0..self.names.len() as StringId {
            if names.get(id) && !wanted.is_in(&shown_property(&self.names.bytes(id))) {
                names.clear(id);
            }
        }
        names
    }

    fn properties(&self, node: Node) -> impl Iterator<Item = Edge> {
        let graph = &self.snapshot.graph;
        graph.edges(node).filter(|edge| graph.edge_type(*edge) == EdgeType::Property)
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
            Wanted::Ascii(text, rarest) => {
                let (letter, behind) = (text[*rarest], text.len() - rarest);
                let found = |at: usize| {
                    let name = at.checked_sub(*rarest).and_then(|from| name.get(from..at + behind));
                    name.is_some_and(|name| name.eq_ignore_ascii_case(text))
                };
                if letter.is_ascii_alphabetic() {
                    memchr::memchr2_iter(letter, letter.to_ascii_uppercase(), name).any(found)
                } else {
                    memchr::memchr_iter(letter, name).any(found)
                }
            }
            // No letter of ASCII is the same as one that is not.
            Wanted::Canonical(_) if name.is_ascii() => false,
            Wanted::Canonical(text) => {
                let name: String = to_text(Cow::Borrowed(name)).chars().map(canonical).collect();
                name.contains(text)
            }
        }
    }
}

/// The letter for which a letter stands where case does not count (`Canonicalize` of ECMA-262 without the
/// `u` flag): its upper case, if that is one letter of 16 bits and does not become ASCII.
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
