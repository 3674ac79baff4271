//! Parses V8's messages on standard output. The driver switches them on before the workload begins:
//! a line a collection (`--trace-gc-nvp`), the spaces after it (`--trace-gc-verbose`, KB), the
//! pages considered for evacuation (`--trace-fragmentation-verbose`), free blocks by page and
//! category (`--trace-gc-freelists-verbose`). Every line begins with `[PID:ISOLATE]`.

use heaplab_heap::{FreeBlocks, FreeLists, SpaceState};

/// Most bytes of standard output that are read.
pub const BYTES_MAX: usize = 1 << 30;

/// A collection as V8 traces it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traced {
    /// V8's short name: `s` scavenge, `ms` mark-sweep (and compact), `mmc` minor mark-compact.
    pub kind: String,
    /// Wall time of the pause.
    pub pause_ns: u64,
    /// Bytes allocated in the heap since the collection before.
    pub allocated_bytes: u64,
    /// Old space after the collection, to the KB.
    pub old: SpaceState,
    /// New space after the collection, to the KB.
    pub new: SpaceState,
    /// Free bytes of old, code and map space before: on lists, or too small for them.
    pub holes_bytes: u64,
    /// Free blocks of old space, if requested.
    pub free_lists: Option<FreeLists>,
    /// Percentage of a page that must be free for its evacuation, if V8 considered pages.
    pub threshold_percent: Option<u32>,
}

/// Everything that V8 printed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traces {
    /// Collections, in order.
    pub collections: Vec<Traced>,
}

/// A parse error: line number from 1, what was expected, what was found.
pub type Wrong = (usize, &'static str, String);

/// Parses V8's messages; skips all other lines.
///
/// # Errors
/// A line that begins like one of the messages and continues differently.
pub fn parse(text: &str) -> Result<Traces, Wrong> {
    let mut traces = Traces::default();
    let (mut threshold, mut lists, mut swept) = (None, None::<FreeLists>, false);
    for (index, line) in text.lines().enumerate() {
        let wrong = |expected| (index + 1, expected, line.chars().take(100).collect::<String>());
        let Some((_, said)) = line.split_once("] ").filter(|_| line.starts_with('[')) else {
            continue;
        };
        if let Some(moment) = said.strip_prefix("FreeLists statistics ") {
            // A scavenge may end sweeping too. A full collection's lists come after its first line.
            if moment == "before collection:" {
                lists = Some(FreeLists::default());
            }
            swept = moment == "after sweeping completed:";
        } else if let Some(page) = said.strip_prefix("Page ") {
            let page =
                categories(page).ok_or_else(|| wrong("free blocks of a page by category"))?;
            if let Some(lists) = &mut lists {
                add(if swept { &mut lists.swept } else { &mut lists.before }, &page);
            }
        } else if let Some(rest) = said.strip_prefix("compaction-selection-page: space=old_space ")
        {
            let percent = number(rest, "fragmentation_limit_percent=")
                .ok_or_else(|| wrong("a limit of fragmentation"))?;
            threshold = Some(percent as u32);
        } else if said.contains(" ms: pause=") {
            let mut collection = collection(said).ok_or_else(|| wrong("a collection's numbers"))?;
            collection.threshold_percent = threshold.take();
            if collection.kind != "s" {
                collection.free_lists = lists.take().map(|mut lists| {
                    // V8 prints nothing about sweeping that ended earlier.
                    if lists.swept.is_empty() {
                        lists.swept.clone_from(&lists.before);
                    }
                    lists
                });
            }
            traces.collections.push(collection);
        } else if let Some(last) = traces.collections.last_mut() {
            let space = if said.starts_with("Old space,") {
                &mut last.old
            } else if said.starts_with("New space,") {
                &mut last.new
            } else {
                continue;
            };
            *space =
                state(said).ok_or_else(|| wrong("used, available and committed KB of a space"))?;
        }
    }
    Ok(traces)
}

fn add(sums: &mut Vec<FreeBlocks>, page: &[FreeBlocks]) {
    sums.resize(sums.len().max(page.len()), FreeBlocks::default());
    for (sum, more) in sums.iter_mut().zip(page) {
        sum.blocks = sum.blocks.saturating_add(more.blocks);
        sum.bytes = sum.bytes.saturating_add(more.bytes);
    }
}

/// Parses `0[0:   24 ||    576 ], [1: 20 || 664 ]`, which begins with the page's number.
fn categories(text: &str) -> Option<Vec<FreeBlocks>> {
    let digits = text.trim_start().find('[').map(|at| &text.trim_start()[at..])?;
    let pieces = digits.split("],").map(str::trim).filter(|piece| !piece.is_empty());
    pieces
        .map(|piece| {
            let piece = piece.strip_prefix('[')?.trim_end_matches(']');
            let (_, counts) = piece.split_once(':')?;
            let (blocks, bytes) = counts.split_once("||")?;
            Some(FreeBlocks {
                blocks: blocks.trim().parse().ok()?,
                bytes: bytes.trim().parse().ok()?,
            })
        })
        .collect()
}

fn collection(text: &str) -> Option<Traced> {
    let milliseconds: f64 =
        word(text, "pause=")?.parse().ok().filter(|ms| (0.0..1e9).contains(ms))?;
    Some(Traced {
        kind: word(text, "gc=")?.into(),
        pause_ns: (milliseconds * 1e6).round() as u64,
        allocated_bytes: number(text, "allocated=")?,
        holes_bytes: number(text, "holes_size_before=")?,
        ..Traced::default()
    })
}

/// The word behind `name`, where `name` begins a word.
fn word<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.split_ascii_whitespace().find_map(|word| word.strip_prefix(name))
}

fn number(text: &str, name: &str) -> Option<u64> {
    word(text, name)?.parse().ok()
}

/// Parses `Old space,  used:   1405 KB, available:  0 KB, committed:  1420 KB`.
fn state(text: &str) -> Option<SpaceState> {
    let bytes = |name: &str| -> Option<u64> {
        let rest = text.split_once(name)?.1.trim_start();
        rest.split_once(" KB")?.0.parse::<u64>().ok()?.checked_mul(1024)
    };
    Some(SpaceState {
        used_bytes: bytes("used:")?,
        available_bytes: bytes("available:")?,
        committed_bytes: bytes("committed:")?,
        waste_bytes: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Lines of Node 13.14.0, shortened.
    const SAID: &str = "\
[31995:0x11bd0010] FreeLists statistics before collection:
[31995:0x11bd0010] Freelists statistics per Page: [category: length || total free bytes]
[31995:0x11bd0010] Page    0[0:    6 ||    144 ], [1:    0 ||      0 ], [2:    2 ||    96 ]
[31995:0x11bd0010] Page    1[0:    1 ||     24 ], [1:    1 ||     32 ], [2:    0 ||      0 ]
[31995:0x11bd0010] 5 pages. Free space: 0.0 MB (waste: 0.00). Usage: 1.1/1.1 (MB) -> 99.55%.
[31995:0x11bd0010] compaction-selection-page: space=old_space free_bytes_page=3 fragmentation_limit_kb=140 fragmentation_limit_percent=54 sum_compaction_kb=252 compaction_limit_kb=4096
[31995:0x11bd0010]      195 ms: [HeapController] Limit: old size: 2032 KB, new limit: 14316 KB (1.3)
[31995:0x11bd0010]      195 ms: pause=1.3 mutator=0.1 gc=ms reduce_memory=0 allocated=2268784 holes_size_before=500 promoted=1306864 semi_space_copied=1971264
[31995:0x11bd0010] New space,              used:      3 KB, available:   4091 KB, committed:   8192 KB
[31995:0x11bd0010] New large object space, used:      9 KB, available:   4091 KB, committed:      0 KB
[31995:0x11bd0010] Old space,              used:   1405 KB, available:     11 KB, committed:   1420 KB
";

    #[test]
    fn what_v8_prints_is_read() {
        let traces = parse(SAID).unwrap();
        let kb = |used: u64, available: u64, committed: u64| SpaceState {
            used_bytes: used << 10,
            available_bytes: available << 10,
            committed_bytes: committed << 10,
            waste_bytes: None,
        };
        let free = [(7, 168), (1, 32), (2, 96)].map(|(blocks, bytes)| FreeBlocks { blocks, bytes });
        let free = free.to_vec();
        let expected = Traced {
            kind: "ms".into(),
            pause_ns: 1_300_000,
            allocated_bytes: 2_268_784,
            old: kb(1405, 11, 1420),
            new: kb(3, 4091, 8192),
            holes_bytes: 500,
            free_lists: Some(FreeLists {
                before: free.clone(),
                swept: free,
                ..FreeLists::default()
            }),
            threshold_percent: Some(54),
        };
        assert_eq!(traces.collections, [expected]);
    }

    #[test]
    fn a_line_that_goes_on_otherwise_is_named() {
        let wrong = |from: &str, to: &str| parse(&SAID.replace(from, to)).unwrap_err();
        assert_eq!(wrong("6 ||    144", "6 /    144").0, 3);
        let (line, expected, found) = wrong("allocated=2268784", "allocated=many");
        assert_eq!((line, expected, found.len()), (8, "a collection's numbers", 100));
        assert_eq!(wrong("used:   1405 KB", "used:   1405 MB").0, 11);
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(at in 0usize..1200, with in ".{0,20}") {
            let at = (0..=at.min(SAID.len())).rev().find(|at| SAID.is_char_boundary(*at)).unwrap_or(0);
            let _ = parse(&format!("{}{with}{}", &SAID[..at], &SAID[at..]));
        }
    }
}
