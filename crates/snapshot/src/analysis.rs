//! The answers: classes, retained sizes, distances, dominators, names, as Chrome DevTools gives
//! them.
//!
//! Source: the worker of chrome-devtools-frontend 1.0.1705227 (`HeapSnapshot.ts`), read for its
//! rules. Every rule has a file here that explains it. DevTools' answer is the default even where
//! it is lossy; then [`Options`] or a field names the loss.

mod allocation;
mod answers;
mod attachment;
mod by_name;
mod classes;
mod concatenated;
mod dominators;
mod duplicates;
mod ephemerons;
mod essential;
mod filters;
mod name_sources;
mod name_tests;
mod names;
mod owners;
mod reach;
mod retained;
mod retaining;
mod same_names;
mod search;
mod shapes;
mod statistics;
mod view;

pub use allocation::{AllocationSite, SampleSize};
pub(crate) use answers::Answers;
pub use classes::Class;
pub use duplicates::DuplicateStrings;
pub use filters::{Filter, NativeContexts, NodeSet};
pub(crate) use name_sources::Numbered;
pub(crate) use name_tests::NameTests;
pub use reach::{BASE_SYSTEM_DISTANCE, NO_DISTANCE};
pub use retaining::{Path, PathLimits, Retaining, RetainingForest};
pub use same_names::SameNames;
pub(crate) use search::find_ignoring_case;
pub use shapes::Interface;
pub use statistics::Statistics;

use crate::columns::{Bits, Column, Pool};
use crate::graph::{Node, Retainers};
use crate::meta::NodeType;
use crate::phase::{OnPhase, ended};
use crate::scripts::Scripts;
use crate::snapshot::Snapshot;
use attachment::Attachment;
use classes::{Classification, Counting};
use concatenated::Concatenated;
pub(crate) use dominators::Tree;
use ephemerons::Ephemerons;
pub(crate) use essential::Essential;
use hashbrown::HashMap;
use names::{Known, Names};
pub(crate) use retained::Retained;
use retained::{Subtrees, class_retained};
use std::sync::OnceLock;

/// The version of the rules in this folder. Increase it with every changed answer (a class, a size,
/// a distance), so that older indices are rebuilt; `tests/rules_version.rs` checks that.
pub const RULES_VERSION: u32 = 3;

/// How to analyse.
#[derive(Clone, Debug)]
pub struct Options {
    /// Threads to use: 1, or 2 to compute dominators beside everything else.
    pub threads: usize,
    /// Whether objects of 4 GiB and more keep their size. DevTools keeps 32 bits.
    pub exact_sizes: bool,
    /// Interfaces of another snapshot to group plain objects by, for a comparison; `None` infers
    /// them.
    pub interfaces: Option<Vec<Interface>>,
    /// Called at the end of each phase.
    pub on_phase: Option<OnPhase>,
}

impl Default for Options {
    fn default() -> Self {
        Options { threads: 1, exact_sizes: false, interfaces: None, on_phase: None }
    }
}

/// Everything that DevTools computes when it opens a snapshot.
#[derive(Debug)]
pub struct Analysis<'s, 'a> {
    snapshot: &'s Snapshot<'a>,
    names: Names<'s, 'a>,
    attachment: Attachment<'a>,
    sizes: Sizes<'a>,
    /// As the bits of an `i32`.
    distances: Column<'a, u32>,
    tree: Tree<'a>,
    retained: Retained<'a>,
    classes: Classification<'a>,
    concatenated: OnceLock<Concatenated>,
    backward: OnceLock<Retainers>,
    subtrees: OnceLock<Subtrees>,
    numbered: OnceLock<Numbered>,
    scripts: OnceLock<Scripts>,
    duplicates: OnceLock<Vec<DuplicateStrings>>,
}

/// Own sizes after owned internals went to their owners.
#[derive(Debug, Default)]
struct Sizes<'a> {
    low: Column<'a, u32>,
    /// Sizes of 2^32 and more, if exact ones are wanted.
    large: HashMap<Node, u64>,
}

impl Sizes<'_> {
    #[inline]
    fn get(&self, node: Node) -> u64 {
        if !self.large.is_empty()
            && let Some(size) = self.large.get(&node)
        {
            return *size;
        }
        u64::from(self.low[node as usize])
    }

    fn set(&mut self, node: Node, size: u64, exact: bool) {
        self.low.to_mut()[node as usize] = size as u32;
        self.large.remove(&node);
        if exact && size >> 32 != 0 {
            self.large.insert(node, size);
        }
    }
}

/// Does both, each on a thread of its own where there may be two.
fn both<A: Send, B>(
    threads: usize,
    pool: &mut Pool,
    first: impl FnOnce(&mut Pool) -> A + Send,
    second: impl FnOnce(&mut Pool) -> B,
) -> (A, B) {
    if threads < 2 {
        return (first(pool), second(pool));
    }
    std::thread::scope(|scope| {
        let beside = scope.spawn(|| {
            let mut pool = Pool::default();
            (first(&mut pool), pool)
        });
        let second = second(pool);
        let (first, other) = beside.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        pool.merge(other);
        (first, second)
    })
}

impl<'s, 'a> Analysis<'s, 'a> {
    /// Analyses a snapshot.
    pub fn of(snapshot: &'s Snapshot<'a>, options: &Options) -> Analysis<'s, 'a> {
        let graph = &snapshot.graph;
        let mut names = Names::new(&snapshot.strings);
        let attachment = Attachment::of(graph, &mut names);
        let ephemerons = Ephemerons::of(snapshot);
        let on_phase = options.on_phase;
        ended(on_phase, "names");
        let page = reach::page_objects(graph, &names);
        ended(on_phase, "page objects");
        let tree = |pool: &mut Pool| {
            dominators::dominators(
                &Essential { graph, page: &page, ephemerons: &ephemerons },
                pool,
                on_phase,
            )
        };
        let rest = |pool: &mut Pool| {
            let names = &mut names;
            let sizes = sizes(snapshot, names, &attachment, options.exact_sizes, pool);
            ended(on_phase, "own sizes");
            let distances = reach::distances(graph, names, &ephemerons, pool);
            ended(on_phase, "distances");
            let classes = grouped(
                snapshot,
                names,
                &attachment,
                &sizes,
                &distances,
                options.interfaces.as_deref(),
                pool,
            );
            ended(on_phase, "classes");
            (sizes, distances, classes)
        };
        let mut pool = Pool::default();
        let (tree, (sizes, distances, mut classes)) = both(options.threads, &mut pool, tree, rest);
        let mut room = pool.take_for_a_while(2 * tree.vertex.len());
        let (counts, order) = room.split_at_mut(tree.vertex.len());
        let retained = Retained::of(&tree, &sizes, counts, &mut pool);
        ended(on_phase, "retained sizes");
        class_retained(
            &tree,
            &retained,
            counts,
            order,
            (|node| sizes.get(node), &classes.class_of),
            &mut classes.classes,
        );
        ended(on_phase, "classes' retained sizes");
        Analysis {
            snapshot,
            names,
            attachment,
            sizes,
            distances: distances.into(),
            tree,
            retained,
            classes,
            concatenated: OnceLock::new(),
            backward: OnceLock::new(),
            subtrees: OnceLock::new(),
            numbered: OnceLock::new(),
            duplicates: OnceLock::new(),
            scripts: OnceLock::new(),
        }
    }

    /// The snapshot that was analysed.
    pub fn snapshot(&self) -> &'s Snapshot<'a> {
        self.snapshot
    }

    /// The retainers of each node; built on first use and kept.
    pub fn backward(&self) -> &Retainers {
        self.backward.get_or_init(|| Retainers::of(&self.snapshot.graph))
    }

    /// Computes now what questions about all objects share: the retainers, the order of subtrees,
    /// and which names are the same: 4 bytes an edge, 12 an object, 8 a name.
    pub fn prepare_questions(&self) {
        self.backward();
        self.subtrees();
        self.numbered.get_or_init(|| Numbered::of(self));
    }

    fn subtrees(&self) -> &Subtrees {
        self.subtrees.get_or_init(|| Subtrees::of(&self.tree))
    }

    /// Numbers for names, if [`Analysis::prepare_questions`] has made them.
    pub(crate) fn numbered(&self) -> Option<&Numbered> {
        self.numbered.get()
    }

    /// The names of scripts that places refer to; built on first use and kept.
    pub fn scripts(&self) -> &Scripts {
        self.scripts.get_or_init(|| Scripts::of(self.snapshot))
    }

    /// The classes, in the order of their first node. Those that are `shadowed` or have no node
    /// with a size DevTools does not show.
    pub fn classes(&self) -> &[Class] {
        &self.classes.classes
    }

    /// The classes that DevTools shows.
    pub fn shown_classes(&self) -> impl Iterator<Item = (u32, &Class)> {
        (0u32..).zip(&self.classes.classes).filter(|(_, class)| class.count > 0 && !class.shadowed)
    }

    /// The index of the node's class in [`Analysis::classes`].
    #[inline]
    pub fn class_of(&self, node: Node) -> u32 {
        self.classes.class_of[node as usize]
    }

    /// The interfaces that plain objects were grouped by.
    pub fn interfaces(&self) -> &[Interface] {
        &self.classes.interfaces
    }

    /// The classes of the snapshot if another snapshot's interfaces grouped its plain objects, for
    /// a comparison.
    pub(crate) fn regrouped(&self, interfaces: &[Interface]) -> (Vec<u32>, Vec<Class>) {
        let mut names = self.names.fork();
        let pool = &mut Pool::default();
        let classes = grouped(
            self.snapshot,
            &mut names,
            &self.attachment,
            &self.sizes,
            &self.distances,
            Some(interfaces),
            pool,
        );
        (classes.class_of.into_owned(), classes.classes)
    }

    /// The node's own bytes, with the internals that it alone owns.
    #[inline]
    pub fn self_size(&self, node: Node) -> u64 {
        self.sizes.get(node)
    }

    /// Bytes that the node's death would free.
    #[inline]
    pub fn retained_size(&self, node: Node) -> u64 {
        self.retained.get(self.tree.number[node as usize])
    }

    /// How far from a root: 1 is a user root, from [`BASE_SYSTEM_DISTANCE`] on only internals lead
    /// there, [`NO_DISTANCE`] nothing does.
    pub fn distance(&self, node: Node) -> i32 {
        self.distances[node as usize] as i32
    }

    /// The node that must go for this one to go; the root's is itself, as in DevTools.
    pub fn dominator(&self, node: Node) -> Node {
        let number = self.tree.number[node as usize];
        match self.tree.dominator[number as usize] {
            0 => node,
            above => self.tree.vertex[above as usize],
        }
    }

    /// All nodes with their dominators, a dominator before its children; the root has none.
    pub(crate) fn root_first(&self) -> impl Iterator<Item = (Node, Option<Node>)> {
        let above = |above: &u32| (*above != 0).then(|| self.tree.vertex[*above as usize]);
        self.tree.vertex.iter().copied().zip(self.tree.dominator.iter().map(above)).skip(1)
    }

    /// Lets `with` ask which references keep their target. That takes a walk over the page.
    pub(crate) fn with_essential<T>(&self, with: impl FnOnce(&Essential) -> T) -> T {
        let graph = &self.snapshot.graph;
        let ephemerons = Ephemerons::of(self.snapshot);
        let page = reach::page_objects(graph, &self.names);
        with(&Essential { graph, page: &page, ephemerons: &ephemerons })
    }

    /// 0 unknown, 1 attached, 2 detached.
    pub fn detachedness(&self, node: Node) -> u8 {
        self.attachment.state(node)
    }

    /// All bytes, as DevTools' total.
    pub fn total_bytes(&self) -> u64 {
        self.retained_size(self.snapshot.graph.root())
            .saturating_add(self.snapshot.header.extra_native_bytes.unwrap_or(0))
    }
}

/// Own sizes, owned internals moved.
fn sizes(
    snapshot: &Snapshot,
    names: &Names,
    attachment: &Attachment,
    exact: bool,
    pool: &mut Pool,
) -> Sizes<'static> {
    let graph = &snapshot.graph;
    let mut sizes = Sizes { low: pool.take(graph.node_count()).into(), large: HashMap::new() };
    sizes.low.to_mut().copy_from_slice(&graph.self_sizes);
    if exact {
        sizes.large.extend(graph.large_sizes.iter().copied());
    }
    // Without user roots, the heap was taken with its internals exposed, so they are shown as they
    // are.
    if !graph.edges(graph.root()).any(|edge| reach::is_user_root(graph, names, graph.target(edge)))
    {
        return sizes;
    }
    let mut owned = Bits::new(graph.node_count());
    for node in graph.nodes() {
        let of_kind = match graph.node_type(node) {
            NodeType::Hidden | NodeType::Array => true,
            NodeType::Native => {
                names.known(graph.node_name(node)) == Known::ExternalStringData
                    && !attachment.renamed.contains_key(&node)
            }
            _ => false,
        };
        if of_kind {
            owned.set(node);
        }
    }
    let owners = owners::owners(graph, &owned, pool);
    for (node, owner) in (0..).zip(&owners) {
        let Some(owner) = owner.checked_sub(1) else { continue };
        if graph.node_type(owner) != NodeType::Synthetic && owner != graph.root() {
            let moved = sizes.get(node);
            sizes.set(node, 0, exact);
            sizes.set(owner, sizes.get(owner).saturating_add(moved), exact);
        }
    }
    pool.give(owners);
    sizes
}

/// Classes with counts, sizes and distances.
fn grouped<'a>(
    snapshot: &Snapshot<'a>,
    names: &mut Names<'_, 'a>,
    attachment: &Attachment,
    sizes: &Sizes,
    distances: &[u32],
    interfaces: Option<&[Interface]>,
    pool: &mut Pool,
) -> Classification<'static> {
    let mut classes = classes::classify(snapshot, names, &attachment.renamed, interfaces, pool);
    let mut counting = Counting::new(std::mem::take(&mut classes.classes));
    for node in snapshot.graph.nodes() {
        let size = sizes.get(node);
        if size != 0 {
            counting.count(&classes.class_of, node, size, distances[node as usize] as i32);
        }
    }
    counting.mark_shadowed();
    classes.classes = counting.classes;
    classes
}
