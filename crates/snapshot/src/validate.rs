//! `validate`: how far a file is good, and which of its lists are whole.
//!
//! A program that dies while it writes its snapshot leaves half of one. That half may still be
//! useful: nodes with their sizes are readable without edges, and a graph without names is a graph.
//! So each list of a damaged file is read on its own, and the first bad byte is named. The reader
//! ([`crate::Snapshot::read`]) decides whether a file is damaged: both accept the same files and
//! name the same byte (tests/damage.rs). Content that readers accept but may trip over is reported
//! as an oddity.

use crate::reader::read_in_order;
use crate::rows::{Located, Rows};
use crate::write::{Counts, Section};
use crate::{ReadError, ReadOptions};
use std::ops::Range;

/// What became of one list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListState {
    /// The list.
    pub section: Section,
    /// Its first byte.
    pub offset: u64,
    /// Behind its last byte.
    pub end: u64,
    /// Whole rows that can be read.
    pub rows: u64,
    /// The offset behind the last of these rows.
    pub good_to: u64,
    /// The rows that the header declares, if it declares any.
    pub declared: Option<u64>,
    /// Whether the whole list is readable and matches the header.
    pub whole: bool,
}

/// An odd but readable property of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Oddity {
    /// A list that some readers ask for is not there.
    Missing(Section),
    /// Ids that several nodes share: how many nodes too many, and one such id.
    DuplicateIds(u64, u64),
    /// A size of more than 32 bits, which DevTools reads as another number.
    Beyond32Bits(u64),
    /// Bytes that are not ASCII: V8 escapes them, and the chunks of a debugging protocol may tear
    /// them.
    NotAscii(u64),
    /// The offset of the first byte that is not UTF-8, JSON's encoding.
    NotUtf8(u64),
}

impl std::fmt::Display for Oddity {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Oddity::Missing(section) => {
                write!(out, "no list `{}`: some readers ask for it", section.key())
            }
            Oddity::DuplicateIds(count, id) => write!(
                out,
                "{count} nodes with the id of another, such as {id}: a diff would mix them up"
            ),
            Oddity::Beyond32Bits(size) => {
                write!(out, "a size of {size}: DevTools has 32 bits for it")
            }
            Oddity::NotUtf8(offset) => write!(
                out,
                "byte {offset} is not UTF-8, as JSON has to be (a character was torn apart, or the text is in another encoding): it is read as U+FFFD, \
                 the sign for what is no character, as browsers do, and written so by what writes the file anew"
            ),
            Oddity::NotAscii(offset) => {
                write!(out, "byte {offset} is not ASCII: V8 escapes such characters")
            }
        }
    }
}

/// How good a file is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Bytes of the file.
    pub file_bytes: u64,
    /// Bytes up to the first damage; in a cut list, up to the end of its last whole row; in a good
    /// file, all bytes.
    pub good_bytes: u64,
    /// The first damage.
    pub damage: Option<ReadError>,
    /// The header's counts; `None` if the header is unreadable.
    pub counts: Option<Counts>,
    /// The lists that begin in the file.
    pub lists: Vec<ListState>,
    /// The oddities.
    pub oddities: Vec<Oddity>,
}

impl Report {
    /// Whether readers will take it.
    pub fn is_good(&self) -> bool {
        self.damage.is_none()
    }

    /// Whether the only damage is that the file ends too early.
    pub fn is_cut(&self) -> bool {
        self.file_bytes > 0
            && self.damage.as_ref().is_some_and(|damage| damage.offset == self.file_bytes)
    }

    /// The list in which the file is cut; `None` if the file is not cut, or is cut between lists.
    pub fn cut_in(&self) -> Option<&ListState> {
        self.lists.last().filter(|list| self.is_cut() && !list.whole)
    }

    /// Takes the earlier damage for the first.
    fn add(&mut self, damage: ReadError) {
        if self.damage.as_ref().is_none_or(|first| damage.offset < first.offset) {
            self.damage = Some(damage);
        }
    }
}

/// Rows between two calls of a progress function.
const PROGRESS_ROWS: u64 = 1 << 18;

/// Reads all of a file, its lists one by one and then as the reader does. `progress` hears bytes
/// done, of so many. Memory is that of a graph.
pub fn validate(bytes: &[u8], progress: &mut dyn FnMut(u64, u64)) -> Report {
    let located = Rows::locate(bytes);
    let mut report = streamed(bytes, located, progress);
    if let Err(error) = read_in_order(bytes, &ReadOptions::default()) {
        report.add(error);
    }
    if let Some(damage) = &report.damage {
        report.good_bytes = damage.offset;
        let wrong = damage.offset;
        for list in report.lists.iter_mut().filter(|list| (list.offset..list.end).contains(&wrong))
        {
            list.whole = false;
        }
    }
    if let Some(cut) = report.cut_in() {
        report.good_bytes = cut.good_to;
    }
    if let Some(at) = bytes[..report.good_bytes as usize].iter().position(|byte| *byte >= 128) {
        report.oddities.push(Oddity::NotAscii(at as u64));
        // What ends within a character is for the string that does not end to say.
        if let Err(error) = std::str::from_utf8(&bytes[at..report.good_bytes as usize])
            && error.error_len().is_some()
        {
            report.oddities.push(Oddity::NotUtf8((at + error.valid_up_to()) as u64));
        }
    }
    report
}

/// The error of a file with impossible counts: if the file is cut, its end or an earlier error;
/// `None` if the counts themselves are wrong.
#[cold]
pub(crate) fn damage_but_of_counts(bytes: &[u8]) -> Option<ReadError> {
    let located = Rows::locate(bytes);
    located.damage.is_some().then(|| streamed(bytes, located, &mut |_, _| ()).damage)?
}

/// The first damage of a file that the reader refuses.
#[cold]
pub(crate) fn first_damage(bytes: &[u8], refused: ReadError) -> ReadError {
    let mut report = streamed(bytes, Rows::locate(bytes), &mut |_, _| ());
    report.add(refused.clone());
    report.damage.unwrap_or(refused)
}

/// Each list on its own.
fn streamed(bytes: &[u8], located: Located<'_>, progress: &mut dyn FnMut(u64, u64)) -> Report {
    let Located { rows, cut, damage, lie } = located;
    let mut report = Report {
        file_bytes: bytes.len() as u64,
        good_bytes: bytes.len() as u64,
        damage: damage.or(lie),
        counts: rows.as_ref().map(|rows| rows.counts),
        lists: Vec::new(),
        oddities: Vec::new(),
    };
    let Some(mut rows) = rows else { return report };
    if let Some((section, start)) = cut {
        rows.accept_cut(section, start);
    }
    // Without the end of the file, or with another than it should have, no name can be held against
    // the strings.
    if report.damage.is_some() {
        rows.trust_names();
    }
    for section in Section::ALL {
        if let Some(range) = rows.range(section) {
            let state = list(&rows, section, range, &mut report, progress);
            report.lists.push(state);
        } else if report.damage.is_none() && (rows.layout.scopes || !section.is_of_scopes()) {
            report.oddities.push(Oddity::Missing(section));
        }
    }
    if report.damage.is_none()
        && let Some(damage) = rows.scopes_belong_together()
    {
        report.add(damage);
    }
    report
}

/// Reads one list to its end or its damage.
fn list(
    rows: &Rows<'_>,
    section: Section,
    range: Range<usize>,
    report: &mut Report,
    progress: &mut dyn FnMut(u64, u64),
) -> ListState {
    let (mut read, mut good_to) = (0, range.start as u64);
    let total = report.file_bytes;
    let mut tick = |at: usize| {
        read += 1;
        good_to = at as u64;
        if read % PROGRESS_ROWS == 0 {
            progress(good_to, total);
        }
    };
    let result = match section {
        Section::Nodes => nodes(rows, report, &mut tick),
        Section::Edges => {
            each(rows.edges(), |rows| Ok(rows.read()?.map(|_| rows.offset())), &mut tick)
        }
        Section::Strings => each(
            rows.strings(),
            |rows| Ok(rows.read()?.is_some().then(|| rows.offset())),
            &mut tick,
        ),
        Section::TraceTree => trace_tree(rows, &mut tick),
        Section::TraceFunctionInfos => {
            each(rows.trace_functions(), |rows| Ok(rows.read()?.map(|_| rows.offset())), &mut tick)
        }
        Section::Samples => {
            each(rows.samples(), |rows| Ok(rows.read()?.map(|_| rows.offset())), &mut tick)
        }
        Section::Locations => {
            each(rows.locations(), |rows| Ok(rows.read()?.map(|_| rows.offset())), &mut tick)
        }
        Section::Scopes => {
            each(rows.scopes(), |rows| Ok(rows.read()?.map(|_| rows.offset())), &mut tick)
        }
        Section::ScopeContextVars => {
            each(rows.scope_variables(), |rows| Ok(rows.read()?.map(|_| rows.offset())), &mut tick)
        }
        Section::ScopeUses => {
            each(rows.scope_uses(), |rows| Ok(rows.read()?.map(|_| rows.offset())), &mut tick)
        }
    };
    let counts = rows.counts;
    let declared = match section {
        Section::Nodes => Some(counts.nodes),
        Section::Edges => Some(counts.edges),
        Section::TraceFunctionInfos => Some(counts.trace_functions),
        _ => None,
    };
    let whole = result.is_ok();
    if whole {
        good_to = range.end as u64;
    }
    if let Err(damage) = result {
        report.add(damage);
    }
    ListState {
        section,
        offset: range.start as u64,
        end: range.end as u64,
        rows: read,
        good_to,
        declared,
        whole,
    }
}

fn nodes(
    rows: &Rows<'_>,
    report: &mut Report,
    tick: &mut dyn FnMut(usize),
) -> Result<(), ReadError> {
    let mut ids = Vec::new();
    let mut beyond = None;
    let mut nodes = rows.nodes();
    let result = loop {
        match nodes.read() {
            Ok(Some(node)) => {
                ids.push(node.id as u32);
                if node.self_size > u64::from(u32::MAX) {
                    beyond.get_or_insert(node.self_size);
                }
                tick(nodes.offset());
            }
            Ok(None) => break Ok(()),
            Err(damage) => break Err(damage),
        }
    };
    report.oddities.extend(beyond.map(Oddity::Beyond32Bits));
    ids.sort_unstable();
    let copies: Vec<u32> =
        ids.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]).collect();
    if let Some(first) = copies.first() {
        report.oddities.push(Oddity::DuplicateIds(copies.len() as u64, u64::from(*first)));
    }
    result
}

/// Reads all rows of a list; `read` returns the new position, or `None` at the end.
fn each<R>(
    mut rows: R,
    read: impl Fn(&mut R) -> Result<Option<usize>, ReadError>,
    tick: &mut dyn FnMut(usize),
) -> Result<(), ReadError> {
    while let Some(at) = read(&mut rows)? {
        tick(at);
    }
    Ok(())
}

fn trace_tree(rows: &Rows<'_>, tick: &mut dyn FnMut(usize)) -> Result<(), ReadError> {
    let mut steps = rows.trace_tree();
    while let Some(step) = steps.read()? {
        if matches!(step, crate::rows::TraceStep::Open(_)) {
            tick(steps.offset());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Snapshot;
    use crate::names::Hash;
    use crate::write::{EdgeName, Layout, Node, Writer, edge_type, node_type};

    fn file() -> Vec<u8> {
        let counts = Counts { nodes: 2, edges: 1, trace_functions: 0 };
        let mut writer = Writer::new(Vec::new(), Layout::node_24(), counts, Hash::Mixed).unwrap();
        let name = writer.string("name").unwrap();
        writer
            .node(&Node { edge_count: 1, ..Node::new(node_type::SYNTHETIC, name, 1, 0) })
            .unwrap();
        writer.node(&Node::new(node_type::OBJECT, name, 3, 8)).unwrap();
        writer.edge(0, edge_type::ELEMENT, EdgeName::Index(0), 1).unwrap();
        writer.finish().unwrap().0
    }

    fn of(bytes: &[u8]) -> Report {
        validate(bytes, &mut |_, _| ())
    }

    #[test]
    fn a_good_file_is_good_to_its_end() {
        let bytes = file();
        let report = of(&bytes);
        assert!(report.is_good() && report.oddities.is_empty(), "{report:?}");
        assert_eq!((report.good_bytes, report.lists.len()), (bytes.len() as u64, 7));
        assert!(report.lists.iter().all(|list| list.whole));
    }

    #[test]
    fn wherever_it_is_cut_what_came_before_is_told() {
        let bytes = file();
        let text = std::str::from_utf8(&bytes).unwrap();
        for length in 0..bytes.len() {
            let report = of(&bytes[..length]);
            assert!(!report.is_good() && report.good_bytes <= length as u64, "{report:?}");
            let before = |key: &str| length > text.find(key).unwrap();
            if before("\"edges\":") {
                assert!(
                    report.lists[0].whole && report.lists[0].rows == 2,
                    "cut at {length}: {report:?}"
                );
            }
            if before("\"trace_function_infos\":") {
                assert!(report.lists[1].whole, "cut at {length}: {report:?}");
            }
        }
        let cut = text.find(",3,0,3").unwrap() + 3;
        let report = of(&bytes[..cut]);
        assert_eq!(
            (report.lists.len(), report.lists[0].rows, report.lists[0].whole),
            (1, 1, false),
            "{report:?}"
        );
        // The half of a node is not good.
        assert_eq!(
            (report.good_bytes, report.damage.map(|damage| damage.offset)),
            (text.find(",3,0,3").unwrap() as u64, Some(cut as u64))
        );
    }

    #[test]
    fn what_is_no_utf_8_is_told_with_its_byte() {
        let name = |bytes: &[u8]| {
            let (mut text, from) = (file(), b"\"name\"");
            // The last one is the string, those before it are of the header.
            let at = text.windows(from.len()).rposition(|window| window == from).unwrap();
            text.splice(at + 1..at + from.len() - 1, bytes.iter().copied());
            (of(&text), at as u64 + 1)
        };
        let (report, at) = name("Gr\u{f6}\u{df}e".as_bytes());
        assert_eq!((report.is_good(), report.oddities), (true, vec![Oddity::NotAscii(at + 2)]));
        // A character torn in the middle, and one in Latin-1.
        for (bytes, wrong) in [(&b"Gr\xc3\xb6\xc3"[..], 4), (b"Gr\xf6", 2)] {
            let (report, at) = name(bytes);
            assert_eq!(
                (report.is_good(), report.oddities.last().cloned()),
                (true, Some(Oddity::NotUtf8(at + wrong))),
                "{bytes:?}"
            );
        }
        assert!(Oddity::NotUtf8(7).to_string().starts_with("byte 7 is not UTF-8"));
    }

    #[test]
    fn what_readers_trip_over_is_told() {
        let text = String::from_utf8(file()).unwrap();
        let change = |from: &str, to: &str| {
            assert!(text.contains(from), "{from}");
            of(text.replace(from, to).as_bytes())
        };
        let report = change(",3,0,3,8,", ",3,0,3,5000000000,");
        assert_eq!(
            (report.is_good(), report.oddities),
            (true, vec![Oddity::Beyond32Bits(5_000_000_000)])
        );
        let report = change(",3,0,3,8,", ",3,0,1,8,");
        assert_eq!((report.is_good(), report.oddities), (false, vec![Oddity::DuplicateIds(1, 1)]));
        assert_eq!(change("\"samples\":[],\n", "").oddities, [Oddity::Missing(Section::Samples)]);
        assert!(matches!(change("\"name\"]", "\"é\"]").oddities[..], [Oddity::NotAscii(_)]));
        assert!(!change("\"edge_count\":1,", "\"edge_count\":2,").is_good());
        assert!(!change(",3,0,3,8,", ",3,1,3,8,").is_good());
        assert!(!of(b"").is_good() && !of(b"{}").is_good() && !of(b"<html>").is_good());
        assert!(!change("]}", "]} ,").is_good());
    }

    /// Every list in one file, its fields in another order than V8's.
    const EVERY_LIST: &[u8] = include_bytes!("../../../fuzz/seeds/snapshot_rewrite/scopes");

    /// Both ways into a file refuse the same and point at the same byte.
    fn both_say_the_same(bytes: &[u8]) {
        let lists = streamed(bytes, Rows::locate(bytes), &mut |_, _| ()).damage;
        let reader = Snapshot::read(bytes).err();
        // Only the reader remembers ids.
        if reader.as_ref().is_some_and(|error| error.expected.contains("no other node")) {
            return;
        }
        let offset = |error: &Option<ReadError>| error.as_ref().map(|error| error.offset);
        assert_eq!(
            offset(&lists),
            offset(&reader),
            "{lists:?}\n{reader:?}\n{}",
            String::from_utf8_lossy(bytes)
        );
    }

    #[test]
    fn both_ways_into_a_file_say_the_same_of_every_byte() {
        assert!(of(EVERY_LIST).is_good(), "{:?}", of(EVERY_LIST));
        let columns = of_every_column();
        for good in [EVERY_LIST, &columns] {
            let mut bytes = good.to_vec();
            for at in 0..bytes.len() {
                both_say_the_same(&good[..at]);
                for other in *b"09,-]\"\\{ " {
                    let was = std::mem::replace(&mut bytes[at], other);
                    both_say_the_same(&bytes);
                    bytes[at] = was;
                }
                let mut gone = good.to_vec();
                gone.remove(at);
                both_say_the_same(&gone);
            }
        }
    }

    /// With the columns of Node 20, and who allocated.
    fn of_every_column() -> Vec<u8> {
        let counts = Counts { nodes: 2, edges: 1, trace_functions: 1 };
        let mut writer = Writer::new(Vec::new(), Layout::node_20(), counts, Hash::Mixed).unwrap();
        let name = writer.string("name").unwrap();
        writer
            .node(&Node { edge_count: 1, ..Node::new(node_type::SYNTHETIC, name, 1, 0) })
            .unwrap();
        writer
            .node(&Node {
                trace_node_id: 2,
                detachedness: 1,
                ..Node::new(node_type::OBJECT, name, 3, 8)
            })
            .unwrap();
        writer.edge(0, edge_type::PROPERTY, EdgeName::Text(name), 1).unwrap();
        writer.trace_function_info(1, name, name, [2, 3, 4]).unwrap();
        writer.open_trace_node([1, 0, 5, 6]).unwrap();
        writer.open_trace_node([2, 0, 7, 8]).unwrap();
        writer.close_trace_node().unwrap();
        writer.close_trace_node().unwrap();
        writer.sample(5, 3).unwrap();
        writer.location(1, 2, 3, 4).unwrap();
        writer.finish().unwrap().0
    }
}
