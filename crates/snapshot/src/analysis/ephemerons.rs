//! References from a WeakMap's table and from a key to the key's value. Both have the same name, "N
//! / part of key (...) -> value (...) pair in WeakMap (table @id)", because neither retains
//! anything alone. Dominators use the key's reference; distances use the second one met.
//!
//! Such names are rare: search the strings for their ending first, and look at edges only if one is
//! found.

use crate::columns::Bits;
use crate::graph::Edge;
use crate::meta::EdgeType;
use crate::snapshot::Snapshot;
use hashbrown::HashMap;

const MIDDLE: &[u8] = b" pair in WeakMap (table @";
const PREFIX: &[u8] = b" / part of key (";

/// The references of WeakMaps in a snapshot.
#[derive(Debug, Default)]
pub(crate) struct Ephemerons {
    /// Which edges they are; empty when there are none.
    edges: Bits,
    /// Which of these references come from a table.
    from_table: Bits,
    /// For each edge, the number of its pair: equal for both halves.
    pairs: HashMap<Edge, u32>,
}

impl Ephemerons {
    pub fn of(snapshot: &Snapshot) -> Ephemerons {
        let named = names(snapshot);
        let mut ephemerons = Ephemerons::default();
        if named.is_empty() {
            return ephemerons;
        }
        let graph = &snapshot.graph;
        let mut marked = Bits::new(snapshot.strings.len());
        named.keys().for_each(|name| marked.set(*name));
        ephemerons.edges = Bits::new(graph.edge_count());
        ephemerons.from_table = Bits::new(graph.edge_count());
        for edge in 0..graph.edge_count() as Edge {
            if graph.edge_type(edge) == EdgeType::Internal && marked.get(graph.edge_name(edge)) {
                let (pair, table) = named[&graph.edge_name(edge)];
                ephemerons.edges.set(edge);
                ephemerons.pairs.insert(edge, pair);
                if u64::from(graph.id(graph.source(edge))) == table {
                    ephemerons.from_table.set(edge);
                }
            }
        }
        ephemerons
    }

    /// Whether the snapshot has none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// Whether the edge is the table's half of a pair.
    #[inline]
    pub fn is_tables(&self, edge: Edge) -> bool {
        !self.is_empty() && self.from_table.get(edge)
    }

    /// The pair that the edge is a half of.
    #[inline]
    pub fn pair(&self, edge: Edge) -> Option<u32> {
        if self.is_empty() || !self.edges.get(edge) { None } else { self.pairs.get(&edge).copied() }
    }
}

/// The strings that name such references, with the pair's number and the table's id.
fn names(snapshot: &Snapshot) -> HashMap<u32, (u32, u64)> {
    let mut names = HashMap::new();
    let mut pairs: HashMap<Vec<u8>, u32> = HashMap::new();
    let strings = &snapshot.strings;
    for id in strings.containing(MIDDLE) {
        let bytes = strings.bytes(id);
        if let Some((pair, table)) = parse(&bytes) {
            let number = pairs.len() as u32;
            let pair = *pairs.entry(pair.to_vec()).or_insert(number);
            names.insert(id, (pair, table));
        }
    }
    names
}

/// What both halves of a pair have in common, and the table's id. The grammar is that of DevTools'
/// regular expression.
fn parse(name: &[u8]) -> Option<(&[u8], u64)> {
    let digits =
        name.iter().position(|byte| !byte.is_ascii_digit()).filter(|digits| *digits > 0)?;
    let pair = &name[digits..];
    let (rest, table) = ends_in_number(pair.strip_prefix(PREFIX)?.strip_suffix(b")")?)?;
    let rest = rest.strip_suffix(MIDDLE)?.strip_suffix(b")")?;
    let (both, _) = ends_in_number(rest)?;
    let both = both.strip_suffix(b" @")?;
    if has_line_end(both) {
        return None;
    }
    // Somewhere between: " @", digits, ") -> value (".
    let between = b") -> value (";
    let mut at = 0;
    while let Some(step) = memchr::memmem::find(&both[at..], between) {
        if ends_in_number(&both[..at + step]).is_some_and(|(key, _)| key.ends_with(b" @")) {
            return Some((pair, table));
        }
        at += step + 1;
    }
    None
}

/// Splits a decimal number off the end.
fn ends_in_number(bytes: &[u8]) -> Option<(&[u8], u64)> {
    let digits = bytes.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let (rest, number) = bytes.split_at(bytes.len() - digits);
    if digits == 0 {
        return None;
    }
    let value = number.iter().fold(0u64, |value, digit| {
        value.saturating_mul(10).saturating_add(u64::from(digit - b'0'))
    });
    Some((rest, value))
}

/// Whether a line ends within: what `.` of a regular expression does not match.
fn has_line_end(bytes: &[u8]) -> bool {
    memchr::memchr2(b'\n', b'\r', bytes).is_some()
        || memchr::memmem::find(bytes, "\u{2028}".as_bytes()).is_some()
        || memchr::memmem::find(bytes, "\u{2029}".as_bytes()).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_pairs_are_told_from_others() {
        let name = b"12 / part of key (Object @7) -> value (Array @9) pair in WeakMap (table @77)";
        assert_eq!(parse(name), Some((&name[2..], 77)));
        let tricky = b"1 / part of key (a) -> value ( @3) -> value (b @1) -> value ( @9) pair in WeakMap (table @5)";
        assert_eq!(parse(tricky).map(|found| found.1), Some(5));
        for other in [
            "/ part of key (Object @7) -> value (Array @9) pair in WeakMap (table @77)",
            "1 / part of key (Object @7) -> value (Array @9) pair in WeakMap",
            "1 / part of key (Object) -> value (Array @9) pair in WeakMap (table @77)",
            "1 / part of key (Object @7) -> value (Array @) pair in WeakMap (table @77)",
            "1 / part of key (Obj\nect @7) -> value (Array @9) pair in WeakMap (table @77)",
            "1 / part of key (Object @7) -> value (Array @9) pair in WeakMap (table @77) ",
        ] {
            assert_eq!(parse(other.as_bytes()), None, "{other}");
        }
    }
}
