//! Names of WeakMap pairs, "N / part of key (X @id) -> value (Y @id) pair in WeakMap (table @id)",
//! and the nodes that X and Y name.
//!
//! X and Y are V8's names for two nodes: a class, or the content of a string or symbol. The name
//! alone does not tell which, but the nodes do. So nodes that such names mention are remembered by
//! id as they pass. Pairs are few, and only their nodes are kept.

use super::super::ladder::is_weak_map_pair;
use super::Role;
use crate::names::{StringId, StringsStorage};
use std::collections::HashMap;

/// X or Y, and the id behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Side<'a> {
    pub(super) name: &'a [u8],
    id: u64,
}

/// A pair's name in its parts: what stands around X and Y are fixed words and ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pair<'a> {
    pub(super) number: &'a [u8],
    pub(super) key: Side<'a>,
    pub(super) between: &'a [u8],
    pub(super) value: Side<'a>,
    pub(super) end: &'a [u8],
}

impl Pair<'_> {
    /// None where the name is anything else, or can be read in two ways.
    pub(super) fn of(name: &[u8]) -> Option<Pair<'_>> {
        const KEY: &[u8] = b" / part of key (";
        const VALUE: &[u8] = b" -> value (";
        let (table_at, _) = id_at_end(name)?;
        let (value_end, value_id) =
            id_at_end(name[..table_at].strip_suffix(b" pair in WeakMap (table")?)?;
        let digits = name.iter().take_while(|byte| byte.is_ascii_digit()).count();
        std::str::from_utf8(&name[..digits]).ok()?.parse::<u32>().ok()?;
        let key = digits + name[digits..value_end].strip_prefix(KEY).map(|_| KEY.len())?;
        let mut values = memchr::memmem::find_iter(&name[key..value_end], VALUE);
        let (key_close, None) = (key + values.next()?, values.next()) else { return None };
        let (key_length, key_id) = id_at_end(&name[key..key_close])?;
        let (key_end, value) = (key + key_length, key_close + VALUE.len());
        Some(Pair {
            number: &name[..key],
            key: Side { name: &name[key..key_end], id: key_id },
            between: &name[key_end..value],
            value: Side { name: &name[value..value_end], id: value_id },
            end: &name[value_end..],
        })
    }
}

/// Where " @id)" begins at the end of a text, and the id.
fn id_at_end(text: &[u8]) -> Option<(usize, u64)> {
    let inner = text.strip_suffix(b")")?;
    let digits = inner.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let at = inner.len() - digits;
    let id = std::str::from_utf8(&inner[at..]).ok()?.parse::<u32>().ok()?;
    Some((inner[..at].strip_suffix(b" @")?.len(), u64::from(id)))
}

/// The facts about a node.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Known {
    /// The node has not passed yet.
    Awaited,
    Named(Role, StringId),
    /// Several nodes have the id, so the pair is ambiguous.
    Several,
}

/// The nodes that names of pairs speak of, by id.
pub(super) struct Paired(HashMap<u64, Known>);

impl Paired {
    /// Those of all names in a file.
    pub(super) fn of(strings: &StringsStorage) -> Paired {
        let all = (0..strings.len()).map(|number| strings.bytes_of(StringId(number as u32)));
        let pairs = all.filter(|text| is_weak_map_pair(text)).filter_map(Pair::of);
        Paired(
            pairs
                .flat_map(|pair| [pair.key.id, pair.value.id])
                .map(|id| (id, Known::Awaited))
                .collect(),
        )
    }

    /// A node passes. Its name is a number of the file's.
    #[inline]
    pub(super) fn meet(&mut self, id: u64, role: Role, name: StringId) {
        if self.0.is_empty() {
            return;
        }
        if let Some(known) = self.0.get_mut(&id) {
            *known =
                if *known == Known::Awaited { Known::Named(role, name) } else { Known::Several };
        }
    }

    /// The use of a side's name, if the node with that id has the name. `text` gives the texts of
    /// the file's numbers.
    pub(super) fn role<'a>(
        &self,
        side: &Side<'_>,
        text: impl Fn(StringId) -> &'a [u8],
    ) -> Option<Role> {
        match self.0.get(&side.id)? {
            Known::Named(role, name) if text(*name) == side.name => Some(*role),
            _ => None,
        }
    }
}
