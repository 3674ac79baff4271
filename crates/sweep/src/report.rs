//! The model of the report: the files of a sweep, combined.
//!
//! Blocks in which a machine's canary left its interval are void: fixed work took much longer or
//! less there, and so did the heaps' work. Heaps are compared inside each of the other blocks, then
//! over nodes ([`heaplab_statistics::mixed`]), corrected for all comparisons of the sweep.

use crate::SweepError;
use crate::node::Node;
use crate::store::{self, About, OneWorkload, TimeFile};
use heaplab_experiment::comparison::{Compared, RESOLUTION_NS, adjust, log_ratios};
use heaplab_experiment::grid::Named;
use heaplab_experiment::plan::CANARY;
use heaplab_experiment::results::{Machine, Measure, Results};
use heaplab_experiment::run::{Block, Measured};
use heaplab_experiment::summary::{CANARY_SPREAD, canary_ns, each_heap};
use heaplab_experiment::verdict;
use heaplab_statistics::median;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

/// The version of the JSON; it changes when a field changes its meaning.
const FORMAT_VERSION: u32 = 1;

/// Everything that a sweep found (docs/sweep.md).
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The version of this JSON.
    pub format_version: u32,
    /// The nodes that ran blocks of times, in the order of name and epoch.
    pub nodes: Vec<NodeBlocks>,
    /// The results of each workload, in the plan's order.
    pub workloads: Vec<WorkloadReport>,
    /// Missing, repeated and void blocks and other doubts, a sentence each.
    pub notes: Vec<String>,
}

/// A node and its blocks of times.
#[derive(Clone, Debug, Serialize)]
pub struct NodeBlocks {
    /// The node.
    #[serde(flatten)]
    pub node: Node,
    /// Blocks that count.
    pub blocks: u32,
    /// Blocks in which the canary left its interval.
    pub void_blocks: u32,
    /// The median of its canaries.
    pub canary_ns: f64,
}

/// One workload.
#[derive(Clone, Debug, Serialize)]
pub struct WorkloadReport {
    /// Its name.
    pub name: String,
    /// Blocks of times that the plan has.
    pub planned_blocks: u32,
    /// Blocks of times that are there.
    pub blocks: u32,
    /// Numbers of the void blocks.
    pub void_blocks: Vec<u32>,
    /// Space is there.
    pub has_space: bool,
    /// As of one replay; comparisons of times are over nodes.
    pub results: Results,
}

/// A block of times: its file, its node, and whether it counts.
pub(crate) struct Found {
    pub(crate) path: PathBuf,
    pub(crate) number: u32,
    pub(crate) node: usize,
    canary_ns: Option<f64>,
    pub(crate) is_void: bool,
}

/// The blocks of all workloads, before any is compared.
pub(crate) struct Blocks {
    pub(crate) nodes: Vec<Node>,
    /// The place of each node's name and epoch in `nodes`.
    places: HashMap<(String, String), usize>,
    pub(crate) of: Vec<Vec<Found>>,
    notes: Vec<String>,
}

impl Report {
    /// Reads the folders of a sweep, each with all or a part of its files. Calls `tell` with the
    /// number of blocks read so far.
    ///
    /// # Errors
    /// A folder holds no sweep, or another one than the first; a file is damaged.
    pub fn read(folders: &[PathBuf], mut tell: impl FnMut(u64)) -> Result<Report, SweepError> {
        let about = about(folders)?;
        let mut blocks = Blocks::find(&about, folders, &mut tell)?;
        let canaries = blocks.void();
        let mut workloads = Vec::new();
        let mut times: Vec<(usize, Compared)> = Vec::new();
        for (one, found) in about.workloads.iter().zip(&blocks.of) {
            let (workload, compared) =
                workload(&about, one, found, blocks.nodes.len(), folders, &mut blocks.notes)?;
            times.extend(compared.into_iter().map(|one| (workloads.len(), one)));
            workloads.push(workload);
        }
        conclude(&mut workloads, &mut times);
        let mut nodes: Vec<NodeBlocks> = blocks
            .nodes
            .iter()
            .zip(canaries)
            .map(|(node, canary)| NodeBlocks {
                node: node.clone(),
                blocks: 0,
                void_blocks: 0,
                canary_ns: canary.unwrap_or_default(),
            })
            .collect();
        for block in blocks.of.iter().flatten() {
            let of = &mut nodes[block.node];
            *(if block.is_void { &mut of.void_blocks } else { &mut of.blocks }) += 1;
        }
        nodes.sort_by(|one, other| one.node.key().cmp(&other.node.key()));
        let mut notes = blocks.notes;
        notes.extend(noted(&about, &nodes, &workloads));
        Ok(Report { format_version: FORMAT_VERSION, nodes, workloads, notes })
    }

    /// As a grid has them.
    pub fn named(&self) -> Vec<Named> {
        let named =
            |one: &WorkloadReport| Named { name: one.name.clone(), results: one.results.clone() };
        self.workloads.iter().map(named).collect()
    }
}

/// The content of all folders: the first one's sweep, with the most repetitions of any.
pub(crate) fn about(folders: &[PathBuf]) -> Result<About, SweepError> {
    let Some((first, others)) = folders.split_first() else {
        return Err(SweepError::NoResults(PathBuf::new()));
    };
    let mut about = About::read(first)?;
    for folder in others {
        let other = About::read(folder)?;
        if let Some(reason) = about.differs(&other) {
            return Err(SweepError::Other { path: folder.clone(), reason });
        }
        about.take_repetitions(&other);
    }
    Ok(about)
}

impl Blocks {
    pub(crate) fn find(
        about: &About,
        folders: &[PathBuf],
        tell: &mut impl FnMut(u64),
    ) -> Result<Blocks, SweepError> {
        let mut blocks =
            Blocks { nodes: Vec::new(), places: HashMap::new(), of: Vec::new(), notes: Vec::new() };
        let mut read = 0;
        for one in &about.workloads {
            let plan = one.plan();
            let mut found: BTreeMap<u32, Found> = BTreeMap::new();
            for folder in folders {
                for number in store::blocks(folder, &one.name)? {
                    let path = store::block_file(folder, &one.name, number);
                    if found.contains_key(&number) {
                        blocks.notes.push(format!(
                            "{} is there twice; the first is counted, {} is not.",
                            path.file_stem().unwrap_or_default().to_string_lossy(),
                            path.display()
                        ));
                        continue;
                    }
                    let TimeFile { node, block } = store::read_time(&path, &plan)?;
                    let node = blocks.place(node);
                    let canary_ns = canary_ns(&block);
                    found.insert(number, Found { path, number, node, canary_ns, is_void: false });
                    read += 1;
                    tell(read);
                }
            }
            blocks.of.push(found.into_values().collect());
        }
        Ok(blocks)
    }

    /// Which node this is.
    fn place(&mut self, node: Node) -> usize {
        let key = (node.name.clone(), node.epoch.clone());
        *self.places.entry(key).or_insert_with(|| {
            self.nodes.push(node);
            self.nodes.len() - 1
        })
    }

    /// Marks void blocks; returns the median canary of each node.
    pub(crate) fn void(&mut self) -> Vec<Option<f64>> {
        let mut canaries: Vec<Vec<f64>> = vec![Vec::new(); self.nodes.len()];
        for block in self.of.iter().flatten() {
            canaries[block.node].extend(block.canary_ns);
        }
        let medians: Vec<Option<f64>> = canaries.iter().map(|own| median(own)).collect();
        for block in self.of.iter_mut().flatten() {
            let distance = block
                .canary_ns
                .zip(medians[block.node])
                .map(|(ns, median)| (ns / median.max(1.0) - 1.0).abs());
            block.is_void = distance.is_none_or(|distance| distance > CANARY_SPREAD);
        }
        medians
    }
}

/// The results of one workload, with comparisons of times before their correction.
fn workload(
    about: &About,
    one: &OneWorkload,
    found: &[Found],
    nodes: usize,
    folders: &[PathBuf],
    notes: &mut Vec<String>,
) -> Result<(WorkloadReport, Vec<Compared>), SweepError> {
    let plan = one.plan();
    let mut by_node: Vec<Vec<Block>> = vec![Vec::new(); nodes];
    let mut machines: Vec<Machine> = Vec::new();
    for block in found.iter().filter(|block| !block.is_void) {
        let TimeFile { node, block: mut times } = store::read_time(&block.path, &plan)?;
        // Canaries of two machines are not to be compared; they have done their work.
        times.cells.retain(|cell| cell.heap != CANARY);
        by_node[block.node].push(times);
        if !machines.contains(&node.machine) {
            machines.push(node.machine);
        }
    }
    let machine = match &machines[..] {
        [only] => only.clone(),
        _ => Machine::default(),
    };
    let mut compared = Vec::new();
    if let Some((baseline, others)) = one.heaps.split_first() {
        for heap in others {
            let logarithms = by_node
                .iter()
                .map(|blocks| log_ratios(&plan, blocks, &heap.name, &baseline.name))
                .filter(|logarithms| !logarithms.is_empty());
            let logarithms = logarithms.collect();
            compared.extend(Compared::of(&heap.name, &baseline.name, logarithms, &one.settings));
        }
    }
    let blocks = by_node.into_iter().flatten().collect();
    let mut results = each_heap(&plan, &Measured { blocks, ..Measured::default() }, machine);
    results.measured_unix_s = 0;
    compared.retain(|pair| {
        let heaps = [&pair.comparison.heap, &pair.comparison.baseline];
        let untold = heaps.into_iter().find(|name| !verdict::is_told(&results, name));
        if let Some(heap) = untold {
            notes.push(format!(
                "{}: {heap} takes less than the driver's own time lets tell ({RESOLUTION_NS} ns an \
                 event): {} has no ratio of times to {}",
                one.name, pair.comparison.heap, pair.comparison.baseline
            ));
        }
        untold.is_none()
    });
    let has_space = about.space && add_space(one, folders, &mut results, notes)?;
    Ok((
        WorkloadReport {
            name: one.name.clone(),
            planned_blocks: if about.time { one.settings.reps } else { 0 },
            blocks: found.len() as u32,
            void_blocks: found.iter().filter(|one| one.is_void).map(|one| one.number).collect(),
            has_space,
            results,
        },
        compared,
    ))
}

/// Adds the space of the first folder that has it; whether there is one.
fn add_space(
    one: &OneWorkload,
    folders: &[PathBuf],
    results: &mut Results,
    notes: &mut Vec<String>,
) -> Result<bool, SweepError> {
    let path = |folder: &PathBuf| folder.join(&one.name).join("space.json");
    let paths: Vec<PathBuf> = folders.iter().map(path).filter(|path| path.exists()).collect();
    let Some(first) = paths.first() else { return Ok(false) };
    let space = store::read_space(first, one)?.results;
    for twice in &paths[1..] {
        if let Some(note) = differs(one, twice, &space)? {
            notes.push(note);
        }
    }
    for (heap, of_space) in results.heaps.iter_mut().zip(space.heaps) {
        heap.space = of_space.space;
        heap.log = of_space.log;
        heap.failures.extend(of_space.failures);
        if heap.version.is_empty() {
            heap.version = of_space.version;
        }
        if !of_space.collections.is_empty() {
            heap.collections = of_space.collections;
        }
    }
    results.comparisons.extend(space.comparisons);
    Ok(true)
}

/// A sentence if the space in another folder's file differs from the first.
fn differs(one: &OneWorkload, path: &Path, first: &Results) -> Result<Option<String>, SweepError> {
    let other = store::read_space(path, one)?.results;
    let peaks = |results: &Results| -> Vec<Option<u64>> {
        let peak = |space: &heaplab_experiment::results::Space| space.peak_resident_bytes;
        results.heaps.iter().map(|heap| heap.space.as_ref().map(peak)).collect()
    };
    Ok((peaks(first) != peaks(&other)).then(|| {
        format!("{}: another machine found other space; the first is shown.", path.display())
    }))
}

/// Corrects all comparisons of times as one family; writes each workload's verdict and cautions.
fn conclude(workloads: &mut [WorkloadReport], times: &mut [(usize, Compared)]) {
    let Some(settings) = workloads.first().map(|one| one.results.settings.clone()) else { return };
    let mut all: Vec<Compared> = times.iter().map(|(_, compared)| compared.clone()).collect();
    adjust(&mut all, &settings, None);
    for ((workload, _), compared) in times.iter().zip(all) {
        workloads[*workload].results.comparisons.push(compared.comparison);
    }
    for one in workloads {
        one.results.verdict = verdict::sentences(&one.results);
        one.results.cautions = verdict::cautions(&one.results);
    }
}

/// Missing and void blocks, in words.
fn noted(about: &About, nodes: &[NodeBlocks], workloads: &[WorkloadReport]) -> Vec<String> {
    let mut notes = Vec::new();
    let missing: u32 =
        workloads.iter().map(|one| one.planned_blocks.saturating_sub(one.blocks)).sum();
    let planned: u32 = workloads.iter().map(|one| one.planned_blocks).sum();
    if missing > 0 {
        notes.push(format!("{missing} of {planned} blocks of times are not there yet."));
    }
    let without: Vec<&str> =
        workloads.iter().filter(|one| !one.has_space).map(|one| &*one.name).collect();
    if about.space && !without.is_empty() {
        notes.push(format!("Space is not there yet of {}.", without.join(", ")));
    }
    let void: u32 = nodes.iter().map(|node| node.void_blocks).sum();
    if void > 0 {
        let there: u32 = workloads.iter().map(|one| one.blocks).sum();
        notes.push(format!(
            "{void} of {there} blocks are void: the canary, which is fixed work, took over {:.0} % more or less than its node's median.",
            CANARY_SPREAD * 100.0
        ));
    }
    if about.time && nodes.len() == 1 {
        notes.push(String::from(
            "All blocks are of one node in one epoch: the intervals say nothing of other machines.",
        ));
    }
    let has_times = |one: &WorkloadReport| {
        one.results.comparisons.iter().any(|one| one.measure == Measure::Time)
    };
    for one in workloads.iter().filter(|one| one.blocks > 0 && !has_times(one)) {
        if one.void_blocks.len() as u32 == one.blocks {
            notes.push(format!("{}: no block of times counts.", one.name));
        }
    }
    notes
}
