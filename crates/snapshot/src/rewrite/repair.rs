//! `repair`: a file that opens, from one that was cut or is damaged on its way.
//!
//! A program that dies while it writes its snapshot leaves nodes first, then references, and names
//! last. So the file is a graph, or a part of one. Each list is read up to its first damage. A node
//! announces as many references as the file has. A missing name becomes its number, so equal names
//! stay equal. Ids and sizes are the original ones. Values that depend on references (retained
//! sizes, distances) are those of the received part.

use super::small_lists::{Places, copy_scopes, copy_traces};
use super::{Progress, RewriteError, Ticker};
use crate::ReadError;
use crate::names::{Hash, StringId, StringsStorage};
use crate::rows::{EdgeRow, Located, Rows};
use crate::write::{Counts, EdgeName, Node, Section, Writer, Written};
use hashbrown::HashMap;
use std::io::Write;

/// The result of a repair. Pairs: kept, and declared by the header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repaired {
    /// Nodes.
    pub nodes: (u64, u64),
    /// References.
    pub edges: (u64, u64),
    /// Strings that came.
    pub strings: u64,
    /// Names that did not come and are called by their numbers.
    pub lost_names: u64,
    /// Lists beside these that were left out or end early.
    pub lost_lists: Vec<Section>,
    /// The first damage; none where the file is good.
    pub damage: Option<ReadError>,
    /// The file.
    pub written: Written,
}

/// Writes the readable part.
///
/// # Errors
/// The header is damaged, or the new file cannot be written.
pub fn repair<W: Write>(
    bytes: &[u8],
    sink: W,
    progress: Progress<'_>,
) -> Result<(W, Repaired), RewriteError> {
    let Located { rows, cut, damage, lie } = Rows::locate(bytes);
    let mut damage = damage.or(lie);
    let Some(mut rows) = rows else {
        return Err(damage.unwrap_or_else(|| ReadError::at(bytes, 0, "a snapshot")).into());
    };
    if let Some((section, start)) = cut {
        rows.accept_cut(section, start);
    }
    let mut names = Names::read(&rows);
    rows.trust_names();
    let kept = Kept::of(&rows);
    if kept.nodes == 0 {
        let nothing = || ReadError::at(bytes, bytes.len(), "a root, the first node");
        return Err(damage.or(kept.damage).unwrap_or_else(nothing).into());
    }
    let declared = rows.counts;
    let lists = Lists::of(&rows, &mut damage);
    let mut layout = rows.layout.clone();
    layout.scopes &= lists.scopes;
    let counts = Counts {
        nodes: kept.nodes,
        edges: kept.edges,
        trace_functions: if lists.traces { declared.trace_functions } else { 0 },
    };
    let strings = std::mem::replace(&mut names.strings, StringsStorage::new(Hash::Mixed));
    let mut writer = Writer::with_strings(sink, layout, counts, strings)?;
    let mut ticker = Ticker::new(progress, counts.nodes + counts.edges);
    let mut nodes = rows.nodes();
    for place in 0..kept.nodes as usize {
        let Some(node) = nodes.read()? else { break };
        let trace_node_id = if lists.traces { node.trace_node_id } else { 0 };
        let edge_count = kept.edge_counts.get(place).copied().unwrap_or(0).into();
        let name = names.of(writer.strings(), node.name)?;
        writer.node(&Node { name, edge_count, trace_node_id, ..node })?;
        ticker.tick();
    }
    let mut edges = rows.edges();
    for _ in 0..kept.edges {
        let Some(EdgeRow { from, edge_type, name, to }) = edges.read()? else { break };
        let name = match name {
            EdgeName::Text(name) => EdgeName::Text(names.of(writer.strings(), name)?),
            index => index,
        };
        writer.edge(from, edge_type, name, to)?;
        ticker.tick();
    }
    write_lists(&rows, &lists, kept.nodes, &mut names, &mut writer)?;
    let (sink, written) = writer.finish()?;
    let repaired = Repaired {
        nodes: (kept.nodes, declared.nodes),
        edges: (kept.edges, declared.edges),
        strings: names.of_file.len() as u64,
        lost_names: names.lost.len() as u64,
        lost_lists: lists.lost,
        damage: damage.or(kept.damage),
        written,
    };
    Ok((sink, repaired))
}

/// Whether a damaged file has a first node, so that [`repair`] makes a file of it.
pub fn is_repairable(bytes: &[u8]) -> bool {
    let Located { rows, cut, .. } = Rows::locate(bytes);
    rows.is_some_and(|mut rows| {
        if let Some((section, start)) = cut {
            rows.accept_cut(section, start);
        }
        rows.trust_names();
        matches!(rows.nodes().read(), Ok(Some(_)))
    })
}

/// Writes the readable part of the lists behind nodes and edges, as far as it is about the first
/// `nodes`.
fn write_lists<W: Write>(
    rows: &Rows<'_>,
    lists: &Lists,
    nodes: u64,
    names: &mut Names,
    writer: &mut Writer<W>,
) -> Result<(), RewriteError> {
    if lists.traces {
        copy_traces(rows, writer, |strings, name, _| names.of(strings, name))?;
    }
    let mut samples = rows.samples();
    while let Ok(Some([timestamp_us, last_id])) = samples.read() {
        writer.sample(timestamp_us, last_id)?;
    }
    let mut locations = rows.locations();
    while let Ok(Some(location)) = locations.read() {
        if location.node < nodes && location.script < nodes {
            let script = (location.script_id, location.script);
            writer.location_in(location.node, script, location.line, location.column)?;
        }
    }
    if writer.layout().scopes {
        let places = Places { copies: 1, of: |node, _| (node < nodes).then_some(node) };
        copy_scopes(rows, writer, |strings, name, _| names.of(strings, name), places)?;
    }
    Ok(())
}

/// The nodes and edges that can be read.
struct Kept {
    nodes: u64,
    edges: u64,
    edge_counts: Vec<u32>,
    damage: Option<ReadError>,
}

impl Kept {
    fn of(rows: &Rows<'_>) -> Kept {
        let mut kept = Kept { nodes: 0, edges: 0, edge_counts: Vec::new(), damage: None };
        let mut nodes = rows.nodes();
        loop {
            match nodes.read() {
                Ok(Some(_)) => kept.nodes += 1,
                Ok(None) => break,
                Err(damage) => {
                    kept.damage = Some(damage);
                    break;
                }
            }
        }
        // Nodes announce how many references each has. Without all nodes, nobody knows whose
        // references these are.
        if kept.nodes < rows.counts.nodes || !rows.has(Section::Edges) {
            return kept;
        }
        kept.edge_counts = vec![0; kept.nodes as usize];
        let mut edges = rows.edges();
        loop {
            match edges.read() {
                Ok(Some(edge)) => {
                    kept.edge_counts[edge.from as usize] += 1;
                    kept.edges += 1;
                }
                Ok(None) => return kept,
                Err(damage) => {
                    kept.damage.get_or_insert(damage);
                    return kept;
                }
            }
        }
    }
}

/// The lists beside nodes, edges and strings: those that only say something whole are left out
/// where they are not.
#[derive(Default)]
struct Lists {
    traces: bool,
    scopes: bool,
    lost: Vec<Section>,
}

impl Lists {
    /// Reads the small lists through and notes which are whole.
    fn of(rows: &Rows<'_>, damage: &mut Option<ReadError>) -> Lists {
        let mut lists = Lists::default();
        // A list that is not there was never written, or would stand behind the last one that is.
        let last = Section::ALL.into_iter().rposition(|section| rows.has(section));
        let mut whole = |section: Section, result: Result<(), ReadError>| {
            let behind = last.is_none_or(|last| section as usize > last);
            match result {
                Ok(()) => !behind || damage.is_none(),
                Err(error) => {
                    damage.get_or_insert(error);
                    false
                }
            }
        };
        let mut checks = Vec::new();
        for section in Section::ALL {
            checks.push((section, whole(section, read_through(rows, section))));
        }
        let is_whole =
            |wanted: Section| checks.iter().any(|(section, whole)| *section == wanted && *whole);
        lists.traces = is_whole(Section::TraceFunctionInfos) && is_whole(Section::TraceTree);
        lists.scopes = [Section::Scopes, Section::ScopeContextVars, Section::ScopeUses]
            .into_iter()
            .all(is_whole)
            && rows.scopes_belong_together().is_none();
        let of_graph = [Section::Nodes, Section::Edges, Section::Strings];
        let lost = checks.into_iter().filter(|(section, whole)| {
            !whole && !of_graph.contains(section) && (rows.layout.scopes || !section.is_of_scopes())
        });
        lists.lost = lost.map(|(section, _)| section).collect();
        lists
    }
}

/// Reads all rows of a small list.
fn read_through(rows: &Rows<'_>, section: Section) -> Result<(), ReadError> {
    match section {
        Section::Nodes | Section::Edges | Section::Strings => {}
        Section::TraceFunctionInfos => {
            let mut list = rows.trace_functions();
            while list.read()?.is_some() {}
        }
        Section::TraceTree => {
            let mut list = rows.trace_tree();
            while list.read()?.is_some() {}
        }
        Section::Samples => {
            let mut list = rows.samples();
            while list.read()?.is_some() {}
        }
        Section::Locations => {
            let mut list = rows.locations();
            while list.read()?.is_some() {}
        }
        Section::Scopes => {
            let mut list = rows.scopes();
            while list.read()?.is_some() {}
        }
        Section::ScopeContextVars => {
            let mut list = rows.scope_variables();
            while list.read()?.is_some() {}
        }
        Section::ScopeUses => {
            let mut list = rows.scope_uses();
            while list.read()?.is_some() {}
        }
    }
    Ok(())
}

/// The names that came, and those that did not.
struct Names {
    strings: StringsStorage,
    of_file: Vec<StringId>,
    lost: HashMap<u32, StringId>,
}

impl Names {
    fn read(rows: &Rows<'_>) -> Names {
        let mut names = Names {
            strings: StringsStorage::new(Hash::Mixed),
            of_file: Vec::new(),
            lost: HashMap::new(),
        };
        let mut strings = rows.strings();
        while let Ok(Some(text)) = strings.read() {
            match names.strings.intern_bytes(text) {
                Ok(id) => names.of_file.push(id),
                Err(_) => break,
            }
        }
        names
    }

    /// The new number of a name; a missing name gets a name that says so.
    fn of(
        &mut self,
        strings: &mut StringsStorage,
        name: StringId,
    ) -> Result<StringId, RewriteError> {
        if let Some(known) = self.of_file.get(name.0 as usize) {
            return Ok(*known);
        }
        if let Some(known) = self.lost.get(&name.0) {
            return Ok(*known);
        }
        let id = strings.intern_bytes(format!("(lost name {})", name.0).as_bytes())?;
        self.lost.insert(name.0, id);
        Ok(id)
    }
}
