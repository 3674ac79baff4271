//! `validate`: how far a file is good, and which of its lists are whole.
//!
//! A program that dies while it writes its snapshot leaves half of one. What is in it may still be worth having: nodes with their sizes are readable
//! without edges, and a graph without names is a graph. So a damaged file is not only refused: each list is read on its own, and the first byte that is not what the format has is
//! named. What a reader would not notice and DevTools trips over is found too: lists out of order or missing, duplicate ids, counts that
//! do not add up, ids and sizes beyond 32 bits.

use crate::rows::{Damage, Located, Rows};
use crate::write::{Counts, Section};

/// What became of one list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListState {
    /// The list.
    pub section: Section,
    /// Its first byte.
    pub offset: u64,
    /// Whole rows that can be read.
    pub rows: u64,
    /// What the header says, where it does.
    pub declared: Option<u64>,
    /// Whether all of it can be read and is what the header says.
    pub whole: bool,
}

/// What is odd and yet readable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Oddity {
    /// A list that some readers ask for is not there.
    Missing(Section),
    /// Ids that more than one node has: how many nodes too many, and one such id.
    DuplicateIds(u64, u64),
    /// An id or a size that DevTools, which has 32 bits for it, reads as another number.
    Beyond32Bits(&'static str, u64),
    /// Bytes that are not ASCII: V8 escapes them, and the chunks of a debugging protocol may tear them.
    NotAscii(u64),
}

impl std::fmt::Display for Oddity {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Oddity::Missing(section) => write!(out, "no list `{}`: some readers ask for it", section.key()),
            Oddity::DuplicateIds(count, id) => write!(out, "{count} nodes with the id of another, such as {id}: a diff would mix them up"),
            Oddity::Beyond32Bits(what, value) => write!(out, "{what} {value}: DevTools has 32 bits for it"),
            Oddity::NotAscii(offset) => write!(out, "byte {offset} is not ASCII: V8 escapes such characters"),
        }
    }
}

/// How good a file is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Bytes of the file.
    pub file_bytes: u64,
    /// Bytes up to the first damage; all of them where there is none.
    pub good_bytes: u64,
    /// The first damage.
    pub damage: Option<Damage>,
    /// What the header says; none if it is no header.
    pub counts: Option<Counts>,
    /// The lists that begin in the file.
    pub lists: Vec<ListState>,
    /// What is odd.
    pub oddities: Vec<Oddity>,
}

impl Report {
    /// Whether readers will take it.
    pub fn is_good(&self) -> bool {
        self.damage.is_none()
    }
}

/// Rows between two calls of a progress function.
const PROGRESS_ROWS: u64 = 1 << 18;

/// Reads all of a file. `progress` hears bytes done, of so many.
pub fn validate(bytes: &[u8], progress: &mut dyn FnMut(u64, u64)) -> Report {
    let Located { rows, cut, damage } = Rows::locate(bytes);
    let mut report = Report {
        file_bytes: bytes.len() as u64,
        good_bytes: bytes.len() as u64,
        damage,
        counts: rows.as_ref().map(|rows| rows.counts),
        lists: Vec::new(),
        oddities: Vec::new(),
    };
    let Some(mut rows) = rows else {
        report.good_bytes = report.damage.as_ref().map_or(0, |damage| damage.offset);
        return report;
    };
    if let Some((section, start)) = cut {
        rows.accept_cut(section, start);
    }
    // Without the strings no name can be held against them.
    if !rows.has(Section::Strings) || cut.is_some_and(|(section, _)| section == Section::Strings) {
        rows.trust_names();
    }
    for section in Section::ALL {
        if let Some(range) = rows.range(section) {
            let state = list(&rows, section, range.start as u64, &mut report, progress);
            report.lists.push(state);
        } else if report.damage.is_none() && (rows.layout.scopes || !section.is_of_scopes()) {
            report.oddities.push(Oddity::Missing(section));
        }
    }
    if report.damage.is_none() && rows.counts.trace_functions > 0 && !rows.has(Section::TraceFunctionInfos) {
        report.damage = Some(rows.damage_at(Section::Strings, "trace_function_infos, of which the header counts some"));
    }
    if report.damage.is_none() {
        report.damage = scopes_apart(&rows, &report.lists);
    }
    if let Some(damage) = &report.damage {
        report.good_bytes = damage.offset;
    }
    if let Some(at) = bytes[..report.good_bytes as usize].iter().position(|byte| *byte >= 128) {
        report.oddities.push(Oddity::NotAscii(at as u64));
    }
    report
}

/// Scopes that say of more or fewer rows than the lists of their variables have.
fn scopes_apart(rows: &Rows<'_>, lists: &[ListState]) -> Option<Damage> {
    let (mut scopes, mut announced) = (rows.scopes(), [0u64; 2]);
    while let Ok(Some(scope)) = scopes.read() {
        announced = [announced[0].saturating_add(scope.context_vars), announced[1].saturating_add(scope.uses)];
    }
    let rows_of = |section| lists.iter().find(|list| list.section == section).map_or(0, |list| list.rows);
    let there = [Section::ScopeContextVars, Section::ScopeUses].map(rows_of);
    let section = if rows.has(Section::Scopes) { Section::Scopes } else { Section::Strings };
    (announced != there).then(|| rows.damage_at(section, "scopes with as many variables as scope_context_vars and scope_uses have"))
}

/// Reads one list to its end or its damage.
fn list(rows: &Rows<'_>, section: Section, offset: u64, report: &mut Report, progress: &mut dyn FnMut(u64, u64)) -> ListState {
    let mut read = 0;
    let total = report.file_bytes;
    let mut tick = |at: usize| {
        read += 1;
        if read % PROGRESS_ROWS == 0 {
            progress(at as u64, total);
        }
    };
    let result = match section {
        Section::Nodes => nodes(rows, report, &mut tick),
        Section::Edges => each(rows.edges(), |rows| Ok(rows.read()?.map(|_| rows.offset())), &mut tick),
        Section::Strings => each(rows.strings(), |rows| Ok(rows.read()?.is_some().then(|| rows.offset())), &mut tick),
        Section::TraceTree => trace_tree(rows, &mut tick),
        Section::TraceFunctionInfos => each(rows.trace_functions(), |rows| Ok(rows.read()?.map(|_| rows.offset())), &mut tick),
        Section::Samples => each(rows.samples(), |rows| Ok(rows.read()?.map(|_| rows.offset())), &mut tick),
        Section::Locations => each(rows.locations(), |rows| Ok(rows.read()?.map(|_| rows.offset())), &mut tick),
        Section::Scopes => each(rows.scopes(), |rows| Ok(rows.read()?.map(|_| rows.offset())), &mut tick),
        Section::ScopeContextVars => each(rows.scope_variables(), |rows| Ok(rows.read()?.map(|_| rows.offset())), &mut tick),
        Section::ScopeUses => each(rows.scope_uses(), |rows| Ok(rows.read()?.map(|_| rows.offset())), &mut tick),
    };
    let counts = rows.counts;
    let declared = match section {
        Section::Nodes => Some(counts.nodes),
        Section::Edges => Some(counts.edges),
        Section::TraceFunctionInfos => Some(counts.trace_functions),
        _ => None,
    };
    let result = result.and_then(|()| match declared {
        Some(declared) if declared != read => Err(rows.damage_at(section, "as many rows as the header says")),
        _ => Ok(()),
    });
    let whole = result.is_ok();
    if let Err(damage) = result
        && report.damage.as_ref().is_none_or(|first| damage.offset < first.offset)
    {
        report.damage = Some(damage);
    }
    ListState { section, offset, rows: read, declared, whole }
}

fn nodes(rows: &Rows<'_>, report: &mut Report, tick: &mut dyn FnMut(usize)) -> Result<(), Damage> {
    let mut ids = Vec::new();
    let mut beyond = [None; 2];
    let mut nodes = rows.nodes();
    let result = loop {
        match nodes.read() {
            Ok(Some(node)) => {
                ids.push(node.id as u32);
                for (slot, value) in beyond.iter_mut().zip([node.id, node.self_size]) {
                    if value > u64::from(u32::MAX) {
                        slot.get_or_insert(value);
                    }
                }
                tick(nodes.offset());
            }
            Ok(None) => break Ok(()),
            Err(damage) => break Err(damage),
        }
    };
    for (value, what) in beyond.into_iter().zip(["an id of", "a size of"]) {
        report.oddities.extend(value.map(|value| Oddity::Beyond32Bits(what, value)));
    }
    ids.sort_unstable();
    let copies: Vec<u32> = ids.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]).collect();
    if let Some(first) = copies.first() {
        report.oddities.push(Oddity::DuplicateIds(copies.len() as u64, u64::from(*first)));
    }
    result
}

/// Reads all of a list's rows; `read` gives where it has come to, or none at the end.
fn each<R>(mut rows: R, read: impl Fn(&mut R) -> Result<Option<usize>, Damage>, tick: &mut dyn FnMut(usize)) -> Result<(), Damage> {
    while let Some(at) = read(&mut rows)? {
        tick(at);
    }
    Ok(())
}

fn trace_tree(rows: &Rows<'_>, tick: &mut dyn FnMut(usize)) -> Result<(), Damage> {
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
    use crate::names::Hash;
    use crate::write::{EdgeName, Layout, Node, Writer, edge_type, node_type};

    fn file() -> Vec<u8> {
        let counts = Counts { nodes: 2, edges: 1, trace_functions: 0 };
        let mut writer = Writer::new(Vec::new(), Layout::node_24(), counts, Hash::Mixed).unwrap();
        let name = writer.string("name").unwrap();
        writer.node(&Node { edge_count: 1, ..Node::new(node_type::SYNTHETIC, name, 1, 0) }).unwrap();
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
                assert!(report.lists[0].whole && report.lists[0].rows == 2, "cut at {length}: {report:?}");
            }
            if before("\"trace_function_infos\":") {
                assert!(report.lists[1].whole, "cut at {length}: {report:?}");
            }
        }
        let cut = text.find(",3,0,3").unwrap() + 3;
        let report = of(&bytes[..cut]);
        assert_eq!((report.lists.len(), report.lists[0].rows, report.lists[0].whole), (1, 1, false), "{report:?}");
        assert_eq!(report.good_bytes, cut as u64);
    }

    #[test]
    fn what_readers_trip_over_is_told() {
        let text = String::from_utf8(file()).unwrap();
        let change = |from: &str, to: &str| {
            assert!(text.contains(from), "{from}");
            of(text.replace(from, to).as_bytes())
        };
        let report = change(",3,0,3,8,", ",3,0,1,5000000000,");
        assert_eq!(report.oddities, [Oddity::Beyond32Bits("a size of", 5_000_000_000), Oddity::DuplicateIds(1, 1)]);
        assert!(report.is_good());
        assert_eq!(change("\"samples\":[],\n", "").oddities, [Oddity::Missing(Section::Samples)]);
        assert!(matches!(change("\"name\"]", "\"é\"]").oddities[..], [Oddity::NotAscii(_)]));
        assert!(!change("\"edge_count\":1,", "\"edge_count\":2,").is_good());
        assert!(!change(",3,0,3,8,", ",3,1,3,8,").is_good());
        assert!(!of(b"").is_good() && !of(b"{}").is_good() && !of(b"<html>").is_good());
        assert!(!change("]}", "]} ,").is_good());
    }
}
