//! A heap's knowledge of its own structure: part by part, down to the places of its blocks.
//!
//! A [`Footprint`] says how many bytes are where; [`Heap::walk`](crate::Heap::walk) says where they
//! are, for drawing a heap and for writing it as a heap snapshot. A foreign malloc keeps its
//! structure to itself.
//!
//! The parts are a list in the order of a walk, each with its depth, instead of a visitor or a
//! tree. A heap calls nothing while it inspects itself (it may hold locks, and the caller may
//! allocate from the heap itself), and a list costs no allocation a part. Blocks are not parts: the
//! driver of a heap knows them, their sizes and their purpose, and a bump-pointer heap does not.
//!
//! A part belongs to its owner, not to its place: a chunk in use is part of its arena, because it
//! goes when the arena goes. Its address tells its place: [`Role::Reserved`] parts have the
//! addresses that others lie in.

use crate::{CheckError, Footprint, Region};
use std::borrow::Cow;
use std::ops::Range;

/// The role of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Addresses reserved at once, or managed together. It has no committed bytes of its own.
    Reserved,
    /// Parts that belong together, without addresses.
    Group,
    /// An arena; holds its region of the workload, if it has one.
    Arena(Option<Region>),
    /// A chunk of an arena.
    Chunk,
    /// Blocks, with nothing else known between them. Committed.
    Blocks,
    /// Committed, without blocks: a header, a free chunk, the rest of a chunk.
    Vacant,
}

impl Role {
    /// Its name for machines.
    pub fn name(self) -> &'static str {
        match self {
            Role::Reserved => "reserved",
            Role::Group => "group",
            Role::Arena(_) => "arena",
            Role::Chunk => "chunk",
            Role::Blocks => "blocks",
            Role::Vacant => "vacant",
        }
    }
}

/// A part of a heap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// 0 for the heap's own parts. A part of depth n + 1 belongs to the last part of depth n before
    /// it.
    pub depth: u8,
    /// Its role.
    pub role: Role,
    /// Its name in the heap's design; kinds of vacant parts in brackets: `(free blocks)`.
    pub name: Cow<'static, str>,
    /// Its addresses. All of [`Role::Blocks`] and [`Role::Vacant`] are committed and disjoint.
    /// Empty for a part without addresses.
    pub addresses: Range<usize>,
}

impl Part {
    /// A part.
    pub fn new(
        depth: u8,
        role: Role,
        name: impl Into<Cow<'static, str>>,
        addresses: Range<usize>,
    ) -> Part {
        Part { depth, role, name: name.into(), addresses }
    }

    /// A part without addresses.
    pub fn group(depth: u8, role: Role, name: impl Into<Cow<'static, str>>) -> Part {
        Part::new(depth, role, name, 0..0)
    }

    /// Committed bytes of this part and no other.
    pub fn own_bytes(&self) -> u64 {
        match self.role {
            Role::Blocks | Role::Vacant => self.addresses.len() as u64,
            Role::Reserved | Role::Group | Role::Arena(_) | Role::Chunk => 0,
        }
    }
}

/// Pushes the content of a handed-out range: blocks, and between them the vacant `holes` that begin
/// in it (by address), under this name.
pub fn push_blocks(
    parts: &mut Vec<Part>,
    depth: u8,
    range: Range<usize>,
    holes: &[Range<usize>],
    name: &'static str,
) {
    let mut at = range.start;
    let first = holes.partition_point(|hole| hole.start < range.start);
    for hole in holes[first..].iter().take_while(|hole| hole.start < range.end) {
        if at < hole.start {
            parts.push(Part::new(depth, Role::Blocks, "blocks", at..hole.start));
        }
        parts.push(Part::new(depth, Role::Vacant, name, hole.clone()));
        at = hole.end;
    }
    if at < range.end {
        parts.push(Part::new(depth, Role::Blocks, "blocks", at..range.end));
    }
}

/// A name with a size: `chunk of 4 KB`, `node of 8 MB`, `chunk of 704 bytes`.
pub fn sized(what: &str, bytes: usize) -> String {
    let units = [("GB", 1_usize << 30), ("MB", 1 << 20), ("KB", 1 << 10)];
    match units.into_iter().find(|(_, unit)| bytes > 0 && bytes.is_multiple_of(*unit)) {
        Some((name, unit)) => format!("{what} of {} {name}", bytes / unit),
        None => format!("{what} of {bytes} bytes"),
    }
}

/// Checks the invariants of every list of parts: depths, places within places, no byte twice, as
/// many bytes as are committed, and each of the `blocks` (address and size) within a blocks part.
///
/// # Errors
/// The first broken one.
pub fn check(
    parts: &[Part],
    footprint: &Footprint,
    blocks: impl IntoIterator<Item = (usize, usize)>,
) -> Result<(), CheckError> {
    let broken =
        |place: String, expected: String, found: String| Err(CheckError { place, expected, found });
    let mut around: Vec<&Part> = Vec::new();
    for (nth, part) in parts.iter().enumerate() {
        let place = || format!("part {nth}, {}", part.name);
        if usize::from(part.depth) > around.len() {
            return broken(
                place(),
                format!("a depth of at most {}", around.len()),
                part.depth.to_string(),
            );
        }
        around.truncate(part.depth.into());
        let outside = |one: &&&Part| {
            matches!(one.role, Role::Chunk | Role::Reserved)
                && !contains(&one.addresses, &part.addresses)
        };
        if let Some(outer) = around.iter().find(outside) {
            return broken(
                place(),
                format!("addresses within {:x?}", outer.addresses),
                format!("{:x?}", part.addresses),
            );
        }
        around.push(part);
    }
    let mut own: Vec<&Part> = parts.iter().filter(|part| part.own_bytes() > 0).collect();
    own.sort_unstable_by_key(|part| part.addresses.start);
    if let Some(&[before, after]) =
        own.windows(2).find(|pair| pair[0].addresses.end > pair[1].addresses.start)
    {
        return broken(
            format!("{} at {:#x}", after.name, after.addresses.start),
            format!("apart from {before:x?}"),
            format!("{after:x?}"),
        );
    }
    let sum: u64 = own.iter().map(|part| part.own_bytes()).sum();
    if footprint.committed_bytes != Some(sum) {
        return broken(
            "bytes of all parts".into(),
            format!("{:?} committed bytes", footprint.committed_bytes),
            sum.to_string(),
        );
    }
    for (address, size) in blocks {
        let at = own.partition_point(|part| part.addresses.start <= address);
        let here = at.checked_sub(1).map(|at| own[at]);
        if !here
            .is_some_and(|part| part.role == Role::Blocks && address + size <= part.addresses.end)
        {
            return broken(
                format!("the block of {size} bytes at {address:#x}"),
                "within a part with blocks".into(),
                format!("{here:x?}"),
            );
        }
    }
    Ok(())
}

fn contains(outer: &Range<usize>, inner: &Range<usize>) -> bool {
    inner.is_empty() || outer.start <= inner.start && inner.end <= outer.end
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sound() -> Vec<Part> {
        vec![
            Part::new(0, Role::Reserved, "node", 0x1000..0x9000),
            Part::new(1, Role::Vacant, "(free chunks)", 0x3000..0x4000),
            Part::group(0, Role::Arena(Some(Region(1))), "arena"),
            Part::new(1, Role::Chunk, "chunk", 0x1000..0x3000),
            Part::new(2, Role::Vacant, "(header)", 0x1000..0x1040),
            Part::new(2, Role::Blocks, "blocks", 0x1040..0x1100),
        ]
    }

    fn found(
        change: impl FnOnce(&mut Vec<Part>),
        committed: u64,
        blocks: &[(usize, usize)],
    ) -> String {
        let mut parts = sound();
        change(&mut parts);
        let footprint = Footprint { committed_bytes: Some(committed), ..Footprint::default() };
        check(&parts, &footprint, blocks.iter().copied())
            .map_or_else(|error| error.to_string(), |()| "sound".into())
    }

    #[test]
    fn blocks_lie_around_holes() {
        let mut parts = Vec::new();
        push_blocks(
            &mut parts,
            3,
            0x100..0x200,
            &[0x80..0x90, 0x100..0x110, 0x180..0x1a0, 0x200..0x210],
            "(free blocks)",
        );
        let found: Vec<_> =
            parts.iter().map(|part| (part.role == Role::Blocks, part.addresses.clone())).collect();
        assert_eq!(
            found,
            [
                (false, 0x100..0x110),
                (true, 0x110..0x180),
                (false, 0x180..0x1a0),
                (true, 0x1a0..0x200)
            ]
        );
        let names =
            [0, 704, 4096, 5000, 1536 << 10, 3 << 30].map(|bytes| sized("chunk", bytes)).join(", ");
        assert_eq!(
            names,
            "chunk of 0 bytes, chunk of 704 bytes, chunk of 4 KB, chunk of 5000 bytes, chunk of 1536 KB, chunk of 3 GB"
        );
    }

    #[test]
    fn what_does_not_hold_is_found() {
        assert_eq!(found(|_| (), 0x1100, &[(0x1040, 0x20), (0x10f8, 8)]), "sound");
        assert!(found(|_| (), 0x1000, &[]).starts_with("bytes of all parts: expected Some(4096)"));
        assert!(
            found(|_| (), 0x1100, &[(0x10f8, 9)]).starts_with("the block of 9 bytes at 0x10f8")
        );
        assert!(
            found(|_| (), 0x1100, &[(0x1000, 8)]).starts_with("the block of 8 bytes at 0x1000")
        );
        assert!(found(|_| (), 0x1100, &[(0x10, 8)]).starts_with("the block of 8 bytes at 0x10"));
        assert!(
            found(|parts| parts[5].addresses = 0x1030..0x1100, 0x1110, &[])
                .starts_with("blocks at 0x1030: expected apart from")
        );
        assert!(
            found(|parts| parts[5].addresses = 0x3000..0x3100, 0x1140, &[])
                .starts_with("part 5, blocks: expected addresses within")
        );
        assert!(
            found(|parts| parts[5].depth = 4, 0x1100, &[])
                .starts_with("part 5, blocks: expected a depth of at most 3")
        );
    }
}
