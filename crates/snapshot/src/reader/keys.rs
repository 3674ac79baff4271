//! The keys of a snapshot, and their order, which is part of the format.

use super::Cursor;
use crate::ReadError;
use crate::write::Section;

/// The keys in their order: the header, then the lists.
pub(super) const KEYS: [&str; Section::ALL.len() + 1] = {
    let mut keys = ["snapshot"; Section::ALL.len() + 1];
    let mut section = 0;
    while section < Section::ALL.len() {
        keys[section + 1] = Section::ALL[section].key();
        section += 1;
    }
    keys
};

/// Places of keys that others are held against.
const NODES: usize = Section::Nodes as usize + 1;
const EDGES: usize = Section::Edges as usize + 1;
const FUNCTIONS: usize = Section::TraceFunctionInfos as usize + 1;

/// A key that is known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key {
    /// Its place in the order.
    pub(crate) place: usize,
    /// Where it stands in the file.
    at: usize,
}

impl Key {
    /// The next key and its colon; a key that is not known is passed with its value. The first must
    /// be the header's.
    pub(crate) fn read(cursor: &mut Cursor<'_>, first: bool) -> Result<Option<Key>, ReadError> {
        cursor.peek();
        let at = cursor.at;
        let key = cursor.string("a key in quotes")?;
        cursor.expect(b':', "a colon")?;
        let place = KEYS.iter().position(|known| known.as_bytes() == key);
        if first && place != Some(0) {
            return Err(ReadError::at(
                cursor.bytes,
                at,
                "the key `snapshot`, the first of a heap snapshot",
            ));
        }
        if place.is_none() {
            cursor.skip()?;
        }
        Ok(place.map(|place| Key { place, at }))
    }

    /// The list of this key; `None` for the header.
    pub(crate) fn section(&self) -> Option<Section> {
        self.place.checked_sub(1).map(|place| Section::ALL[place])
    }

    /// The lists that every snapshot has must be there when it ends, at `end`.
    pub(crate) fn needed(
        end: usize,
        has: impl Fn(Section) -> bool,
        trace_functions: u64,
    ) -> Result<(), ReadError> {
        let functions = (trace_functions > 0).then_some(Section::TraceFunctionInfos);
        let mut needed =
            [Section::Nodes, Section::Edges].into_iter().chain(functions).chain([Section::Strings]);
        needed.find(|section| !has(*section)).map_or(Ok(()), |section| {
            Err(ReadError::saying(
                end,
                format!("the key `{}`", section.key()),
                "the end of the snapshot",
            ))
        })
    }
}

/// Checks that keys come once and in order. `functions`: the header counts functions, so their list
/// must follow.
pub(crate) fn check_order(
    bytes: &[u8],
    key: &Key,
    last: Option<usize>,
    functions: bool,
) -> Result<(), ReadError> {
    let Key { place, at } = *key;
    let Some(last) = last else { return Ok(()) };
    if place <= last {
        let expected = format!(
            "a key that comes behind `{}` (`{}` must stand before it, once)",
            KEYS[last], KEYS[place]
        );
        return Err(ReadError::at(bytes, at, expected));
    }
    for needed in [NODES, EDGES, FUNCTIONS] {
        if last < needed && place > needed && (needed != FUNCTIONS || functions) {
            return Err(ReadError::at(bytes, at, format!("the key `{}`", KEYS[needed])));
        }
    }
    Ok(())
}
