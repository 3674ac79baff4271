//! Generator and Writer on a graph in memory.
//!
//! The graph has the proportions of the JSON-heavy snapshot of the facts (6.0 M nodes, 20 M edges,
//! 457 MB): half of the nodes are strings of their own; references go by 4,000 property names and
//! by index; half of the targets are near, half anywhere. The generator knows objects by addresses
//! like those of a heap with pages: pages of 256 KB in no order, objects of 16 to 112 bytes one
//! behind the other, and an unused end of each page. Regular addresses might flatter a table that
//! is keyed by address. As in a runtime with interned names the embedder remembers the numbers of
//! property and class names; contents of strings are looked up each time.

use crate::bounds::Bounds;
use crate::measure::status_bytes;
use anyhow::Result;
use heaplab_snapshot::generate::{
    Description, EdgeSink, Embedder, GeneratorOptions, NameSink, generate,
};
use heaplab_snapshot::names::StringId;
use heaplab_snapshot::write::{EdgeName, edge_type, node_type};
use std::io::Write;

const BASE: u64 = 0x2a00_0000_0000;
const PROPERTIES: u32 = 4000;
const CLASSES: usize = 500;

/// Bytes between pages.
const PAGE_BYTES: u64 = 256 << 10;
/// Objects on a page.
const PAGE_OBJECTS: usize = 4000;
/// Pages are shuffled among this many: multiplication by an odd factor permutes the numbers below a
/// power of two.
const PAGES: u64 = 1 << 20;
const SHUFFLE: u64 = 0x9_e375;

struct Graph {
    /// Start of each object of a page, in words of 8 bytes; and the reverse.
    offsets: Vec<u16>,
    objects: Vec<u16>,
    first: Vec<u32>,
    targets: Vec<u32>,
    properties: Vec<Option<StringId>>,
    classes: Vec<Option<StringId>>,
    contents: Vec<String>,
}

impl Graph {
    fn new(nodes: u64) -> Graph {
        let edges = nodes * 20 / 6;
        let mut random = 0x2545_F491_4F6C_DD1Du64;
        let mut next = move || {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random
        };
        let mut first = vec![0; nodes as usize + 1];
        let mut targets = Vec::with_capacity(edges as usize);
        for node in 0..nodes {
            // Every node is reached: each leads to the next, strings (odd ones) to nothing else.
            let until = (node + 1) * edges / nodes;
            targets.push(((node + 1) % nodes) as u32);
            while (targets.len() as u64) < until {
                let near = next() % 2 == 0;
                targets
                    .push(if near { (node + next() % 64) % nodes } else { next() % nodes } as u32);
            }
            first[node as usize + 1] = targets.len() as u32;
        }
        // A third of the strings are distinct.
        let contents =
            (0..(nodes / 6).max(1)).map(|number| format!("content of a string {number}")).collect();
        let (mut offsets, mut objects, mut at) =
            (Vec::with_capacity(PAGE_OBJECTS), vec![0; (PAGE_BYTES / 8) as usize], 0);
        for object in 0..PAGE_OBJECTS {
            offsets.push(at);
            objects[usize::from(at)] = object as u16;
            // Words of the object: most are small.
            at += [2, 2, 3, 3, 4, 4, 5, 6, 8, 14][(next() % 10) as usize];
        }
        Graph {
            offsets,
            objects,
            first,
            targets,
            properties: vec![None; PROPERTIES as usize],
            classes: vec![None; CLASSES],
            contents,
        }
    }

    fn index(&self, object: u64) -> usize {
        let at = object - BASE;
        let page = (at / PAGE_BYTES).wrapping_mul(UNSHUFFLE) % PAGES;
        page as usize * PAGE_OBJECTS + usize::from(self.objects[(at % PAGE_BYTES / 8) as usize])
    }

    fn address(&self, index: u32) -> u64 {
        let (page, object) = (index as usize / PAGE_OBJECTS, index as usize % PAGE_OBJECTS);
        BASE + (page as u64).wrapping_mul(SHUFFLE) % PAGES * PAGE_BYTES
            + u64::from(self.offsets[object]) * 8
    }
}

/// Undoes the shuffle: the factor's inverse (Newton's iteration; each step doubles the number of
/// right bits).
const UNSHUFFLE: u64 = {
    let (mut inverse, mut step) = (SHUFFLE, 0);
    while step < 5 {
        inverse = inverse.wrapping_mul(2_u64.wrapping_sub(SHUFFLE.wrapping_mul(inverse)));
        step += 1;
    }
    inverse
};

impl Embedder for Graph {
    fn root(&mut self) -> u64 {
        BASE
    }

    fn object_count_hint(&self) -> usize {
        self.first.len() - 1
    }

    fn objects(&mut self, add: &mut dyn FnMut(u64)) {
        (0..self.first.len() as u32 - 1).for_each(|index| add(self.address(index)));
    }

    fn names_all_objects(&self) -> bool {
        true
    }

    fn targets(&mut self, object: u64, visit: &mut impl FnMut(u64)) {
        let index = self.index(object);
        let edges = self.first[index] as usize..self.first[index + 1] as usize;
        self.targets[edges].iter().for_each(|target| visit(self.address(*target)));
    }

    fn describe(&mut self, object: u64, names: &mut impl NameSink) -> Description {
        let index = self.index(object);
        let (node_type, name) = if index % 2 == 1 {
            (node_type::STRING, names.intern(self.contents[index % self.contents.len()].as_bytes()))
        } else {
            let class = index % CLASSES;
            let name = *self.classes[class]
                .get_or_insert_with(|| names.intern(format!("Class{class}").as_bytes()));
            (node_type::OBJECT, name)
        };
        Description {
            node_type,
            name,
            id: index as u64 * 2 + 1,
            self_size: 16 + index as u64 % 64 * 8,
            trace_node_id: 0,
            detachedness: 0,
        }
    }

    fn references(&mut self, object: u64, edges: &mut impl EdgeSink) {
        let index = self.index(object);
        for edge in self.first[index]..self.first[index + 1] {
            let target = self.address(self.targets[edge as usize]);
            if edge % 4 == 0 {
                edges.element(u64::from(edge - self.first[index]), target);
                continue;
            }
            let property = (edge.wrapping_mul(0x9E37_79B1) >> 16) % PROPERTIES;
            let known = &mut self.properties[property as usize];
            let name = *known
                .get_or_insert_with(|| edges.intern(format!("property{property}").as_bytes()));
            edges.edge(edge_type::PROPERTY, EdgeName::Text(name), target);
        }
    }
}

/// Counts bytes, so that the disk is not measured.
struct Counting(u64);

impl Write for Counting {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

pub fn run(nodes: u64, bounds: &mut Bounds) -> Result<()> {
    let mut graph = Graph::new(nodes);
    let before = status_bytes("/proc/self/status", "VmRSS:")?;
    let start_ns = crate::measure::cpu_ns()?;
    let (_, profile) = generate(&mut graph, Counting(0), GeneratorOptions::default())?;
    let cpu_s = (crate::measure::cpu_ns()? - start_ns) as f64 / 1e9;
    let peak = status_bytes("/proc/self/status", "VmHWM:")?;
    println!(
        "Generator and Writer, {} nodes, {} edges, {} bytes",
        profile.nodes, profile.edges, profile.file_bytes
    );
    println!("{profile}");
    let scale = nodes as f64 / 6e6;
    // By CPU time, so that other programs do not count.
    bounds.at_most("Generator and Writer, both phases, CPU time", cpu_s, "s", 3.0 * scale);
    let besides = peak
        .saturating_sub(before)
        .saturating_sub((profile.identity_bytes + profile.strings_bytes) as u64);
    bounds.at_most(
        "memory besides graph, strings and identity map",
        besides as f64 / 1e6,
        "MB",
        150.0 * scale,
    );
    bounds.at_most(
        "identity map, an object",
        profile.identity_bytes as f64 / profile.nodes as f64,
        "B",
        20.0,
    );
    Ok(())
}
