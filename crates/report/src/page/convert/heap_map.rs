//! A heap's walk as strips, one a page.
//!
//! A page of 256 KiB may have ten thousand parts, a person's screen some hundred columns: a cell
//! stands for a stretch of the page and shows what most of its bytes are. Sums are of all parts,
//! drawn or not.

use super::words;
use crate::page::{limits, model};
use crate::{HeapAt, HeapMoment};
use heaplab_heap::{Part, Role};
use std::collections::HashMap;

/// Letters of kinds of vacant bytes in a strip; more kinds share the last.
const LETTERS: &[u8] = b"0123456789abcdefghijkmnopqrstuvxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
const LIVE: u8 = b'l';
/// Of vacant bytes that no allocation will find.
const WASTE: u8 = b'w';

/// The pages of each heap; several heaps share the page's room.
pub(super) fn pages(sources: &[HeapAt], left_out: &mut Vec<String>) -> Vec<model::HeapPages> {
    let most = limits::PAGES_OF_MOMENTS / sources.len().max(1);
    sources.iter().map(|source| pages_of(source, most, left_out)).collect()
}

fn pages_of(source: &HeapAt, most: usize, left_out: &mut Vec<String>) -> model::HeapPages {
    let mut most_hidden = 0;
    let mut drawn = 0;
    let mut moments = Vec::new();
    // The last moment is the one that is shown first.
    for moment in source.moments().rev() {
        let (map, hidden) = heap_map(moment);
        drawn += map.spaces.iter().map(|space| space.pages.len()).sum::<usize>();
        if !moments.is_empty() && drawn > most {
            break;
        }
        most_hidden = most_hidden.max(hidden);
        moments.push(map);
    }
    moments.reverse();
    if most_hidden > 0 {
        left_out.push(format!(
            "{} of {} in the picture of its pages",
            words::plural(most_hidden, "page"),
            source.heap
        ));
    }
    let all = source.moments().len();
    if moments.len() < all {
        left_out.push(format!(
            "{} of {all} moments of the pages of {}",
            all - moments.len(),
            source.heap
        ));
    }
    model::HeapPages {
        heap: source.heap.clone(),
        collections: (!source.collections.is_empty())
            .then(|| super::replay::collections(&source.collections)),
        moments,
    }
}

/// A moment, and how many of its pages are not drawn.
fn heap_map(source: &HeapMoment) -> (model::HeapMap, u64) {
    let kinds = Kinds::of(&source.parts);
    let mut spaces: Vec<model::MappedSpace> = Vec::new();
    let mut parts = source.parts.iter().peekable();
    while let Some(part) = parts.next() {
        match part.role {
            Role::Chunk => {
                let inside = std::iter::from_fn(|| parts.next_if(|inner| inner.depth > part.depth));
                let inside: Vec<&Part> = inside.collect();
                let space = match spaces.last_mut() {
                    Some(space) => space,
                    None => {
                        spaces
                            .push(model::MappedSpace { name: "heap".into(), ..Default::default() });
                        spaces.last_mut().expect("one was pushed")
                    }
                };
                push_page(space, part, &inside, &kinds);
            }
            Role::Group | Role::Arena(_) if part.depth == 0 => {
                spaces.push(model::MappedSpace {
                    name: part.name.clone().into_owned(),
                    ..Default::default()
                });
            }
            _ => {}
        }
    }
    spaces.retain(|space| !space.pages.is_empty());
    let hidden: u64 = spaces.iter().map(|space| space.more_pages).sum();
    let mut words = source.losses.clone();
    words.extend(sentences(&spaces, &kinds.rows));
    let map = model::HeapMap {
        moment: source.name.clone(),
        births: source.births,
        words,
        free: kinds.rows,
        spaces,
        cells: limits::STRIP_CELLS,
    };
    (map, hidden)
}

/// Kinds of vacant bytes, those with most bytes first.
struct Kinds {
    rows: Vec<model::FreeKind>,
    index: HashMap<String, usize>,
}

impl Kinds {
    fn of(parts: &[Part]) -> Kinds {
        let mut by_name: HashMap<&str, model::FreeKind> = HashMap::new();
        for part in parts.iter().filter(|part| part.role == Role::Vacant) {
            let row = by_name.entry(&part.name).or_insert_with(|| model::FreeKind {
                name: part.name.to_string(),
                ..Default::default()
            });
            row.pieces += 1;
            row.bytes += part.own_bytes();
            row.largest_bytes = row.largest_bytes.max(part.own_bytes());
        }
        let mut rows: Vec<model::FreeKind> = by_name.into_values().collect();
        rows.sort_by(|a, b| b.bytes.cmp(&a.bytes).then(a.name.cmp(&b.name)));
        let index = rows.iter().enumerate().map(|(index, row)| (row.name.clone(), index)).collect();
        Kinds { rows, index }
    }

    fn letter(&self, kind: usize) -> u8 {
        if is_lost(&self.rows[kind].name) { WASTE } else { LETTERS[kind.min(LETTERS.len() - 1)] }
    }
}

/// Whether bytes of this name serve no allocation: headers, and the waste of heaps.
fn is_lost(name: &str) -> bool {
    name.contains("waste")
        || name.contains("header")
        || name.contains("remnant")
        || name.contains("fragment")
}

fn push_page(space: &mut model::MappedSpace, page: &Part, inside: &[&Part], kinds: &Kinds) {
    let live: u64 =
        inside.iter().filter(|part| part.role == Role::Blocks).map(|part| part.own_bytes()).sum();
    let mut vacant: Vec<(usize, u64)> = Vec::new();
    for part in inside.iter().filter(|part| part.role == Role::Vacant) {
        let kind = kinds.index.get(part.name.as_ref()).copied().unwrap_or(0);
        match vacant.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, bytes)) => *bytes += part.own_bytes(),
            None => vacant.push((kind, part.own_bytes())),
        }
    }
    vacant.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    space.live_bytes += live;
    space.vacant_bytes += vacant.iter().map(|(_, bytes)| bytes).sum::<u64>();
    if space.pages.len() >= limits::MAPPED_PAGES {
        space.more_pages += 1;
        return;
    }
    let (name, bytes) = (page.name.clone().into_owned(), page.addresses.len() as u64);
    space.pages.push(model::MappedPage {
        name,
        bytes,
        live_bytes: live,
        vacant,
        strip: strip(page, inside, kinds),
    });
}

/// The kind of most bytes of each cell.
fn strip(page: &Part, inside: &[&Part], kinds: &Kinds) -> String {
    let (start, bytes) = (page.addresses.start, page.addresses.len().max(1));
    let cells = limits::STRIP_CELLS;
    let edge = |cell: usize| (cell as u128 * bytes as u128 / cells as u128) as usize;
    let mut most: Vec<(u64, u8)> = vec![(0, b' '); cells];
    let mut sums: Vec<HashMap<u8, u64>> = vec![HashMap::new(); cells];
    for part in inside {
        let letter = match part.role {
            Role::Blocks => LIVE,
            Role::Vacant => {
                kinds.index.get(part.name.as_ref()).map_or(WASTE, |kind| kinds.letter(*kind))
            }
            _ => continue,
        };
        let (from, to) = (
            part.addresses.start.saturating_sub(start),
            part.addresses.end.saturating_sub(start).min(bytes),
        );
        let mut cell = (from as u128 * cells as u128 / bytes as u128) as usize;
        while cell < cells && edge(cell) < to {
            let overlap = to.min(edge(cell + 1)).saturating_sub(from.max(edge(cell))) as u64;
            let sum = sums[cell].entry(letter).or_default();
            *sum += overlap;
            if *sum > most[cell].0 {
                most[cell] = (*sum, letter);
            }
            cell += 1;
        }
    }
    most.iter().map(|(_, letter)| char::from(*letter)).collect()
}

/// Free bytes and their pieces, by kind.
fn sentences(spaces: &[model::MappedSpace], kinds: &[model::FreeKind]) -> Vec<String> {
    let live: u64 = spaces.iter().map(|space| space.live_bytes).sum();
    let vacant: u64 = kinds.iter().map(|kind| kind.bytes).sum();
    let mut out =
        vec![format!("{} are in blocks, {} in none.", words::bytes(live), words::bytes(vacant))];
    // A kind under a hundredth of the vacant bytes explains nothing.
    for kind in kinds.iter().filter(|kind| kind.bytes * 100 > vacant && kind.pieces > 1).take(4) {
        let mean = kind.bytes / kind.pieces.max(1);
        out.push(format!(
            "{} lie in {} {}, {} each on average, {} the largest.",
            words::bytes(kind.bytes),
            words::plural(kind.pieces, "piece"),
            kind.name,
            words::bytes(mean),
            words::bytes(kind.largest_bytes),
        ));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(depth: u8, at: usize, holes: &[(usize, usize)]) -> Vec<Part> {
        let mut parts = vec![
            Part::new(depth, Role::Chunk, "page", at..at + 0x10000),
            Part::new(depth + 1, Role::Vacant, "(header)", at..at + 0x100),
        ];
        let mut from = at + 0x100;
        for (offset, bytes) in holes {
            parts.push(Part::new(depth + 1, Role::Blocks, "blocks", from..at + offset));
            parts.push(Part::new(
                depth + 1,
                Role::Vacant,
                "(free 256..511)",
                at + offset..at + offset + bytes,
            ));
            from = at + offset + bytes;
        }
        parts.push(Part::new(depth + 1, Role::Blocks, "blocks", from..at + 0x10000));
        parts
    }

    #[test]
    fn a_strip_shows_what_most_of_each_stretch_is_and_sums_are_whole() {
        let mut parts = vec![Part::group(0, Role::Group, "old space")];
        parts.extend(page(1, 0x10000, &[(0x8000, 0x4000), (0xf000, 0x10)]));
        let losses = vec![String::from("lost")];
        let (map, _) = heap_map(&HeapMoment { parts, losses, ..HeapMoment::default() });
        let space = &map.spaces[0];
        assert_eq!(
            (space.name.as_str(), space.live_bytes + space.vacant_bytes),
            ("old space", 0x10000)
        );
        let strip = &space.pages[0].strip;
        assert_eq!(strip.len(), limits::STRIP_CELLS);
        let quarter = limits::STRIP_CELLS / 4;
        assert_eq!(strip.matches('0').count(), quarter, "{strip}");
        assert_eq!(&strip[2 * quarter..3 * quarter], "0".repeat(quarter));
        assert_eq!(
            map.free[0],
            model::FreeKind {
                name: "(free 256..511)".into(),
                pieces: 2,
                bytes: 0x4010,
                largest_bytes: 0x4000
            }
        );
        assert!(
            map.words[0] == "lost"
                && map.words[2]
                    .starts_with("16.0 KiB lie in 2 pieces (free 256..511), 8.01 KiB each"),
            "{:?}",
            map.words
        );
    }

    #[test]
    fn pages_beyond_the_limit_are_counted() {
        let parts: Vec<Part> =
            (1..=limits::MAPPED_PAGES + 5).flat_map(|nth| page(0, nth << 16, &[])).collect();
        let mut left_out = Vec::new();
        let moment = HeapMoment { parts, ..HeapMoment::default() };
        let earlier = vec![moment.clone(); limits::PAGES_OF_MOMENTS / limits::MAPPED_PAGES + 1];
        let source =
            HeapAt { heap: "h".into(), collections: Vec::new(), earlier, peak: None, last: moment };
        let pages = pages(std::slice::from_ref(&source), &mut left_out).remove(0);
        let space = &pages.moments[0].spaces[0];
        assert_eq!((space.pages.len(), space.more_pages), (limits::MAPPED_PAGES, 5));
        assert_eq!(pages.moments.len(), source.moments().len() - 2);
        assert_eq!(
            left_out,
            ["5 pages of h in the picture of its pages", "2 of 17 moments of the pages of h"]
        );
        let of_two = super::pages(&[source.clone(), source], &mut left_out);
        assert!(of_two.iter().all(|heap| heap.moments.len() == 7), "they share the room");
    }
}
