//! Writes a heap of your own, the lists of a small interpreter, as a snapshot that DevTools opens.
//! `cargo run --package heaplab-snapshot --example embedder > lists.heapsnapshot`

use heaplab_snapshot::generate::{
    Description, EdgeSink, Embedder, GeneratorOptions, NameSink, generate,
};
use heaplab_snapshot::write::{edge_type, node_type};

/// A cell of a list: a name and references to other cells.
struct Cell {
    name: &'static str,
    refers_to: Vec<usize>,
}

struct Interpreter(Vec<Cell>);

impl Embedder for Interpreter {
    fn root(&mut self) -> u64 {
        0
    }
    fn targets(&mut self, cell: u64, visit: &mut impl FnMut(u64)) {
        self.0[cell as usize].refers_to.iter().for_each(|target| visit(*target as u64));
    }
    fn describe(&mut self, cell: u64, names: &mut impl NameSink) -> Description {
        Description {
            node_type: if cell == 0 { node_type::SYNTHETIC } else { node_type::OBJECT },
            name: names.intern(self.0[cell as usize].name.as_bytes()),
            id: 2 * cell + 1,
            self_size: 16,
            trace_node_id: 0,
            detachedness: 0,
        }
    }
    fn references(&mut self, cell: u64, edges: &mut impl EdgeSink) {
        for target in self.0[cell as usize].refers_to.clone() {
            let name = self.0[target].name.as_bytes();
            edges.named(edge_type::PROPERTY, name, target as u64);
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let cell = |name, refers_to: &[usize]| Cell { name, refers_to: refers_to.to_vec() };
    let cells = vec![
        cell("(globals)", &[1, 2]),
        cell("cache", &[3, 4]),
        cell("main", &[3]),
        cell("session", &[]),
        cell("page", &[1]),
    ];
    let out = std::io::stdout().lock();
    let (_, profile) = generate(&mut Interpreter(cells), out, GeneratorOptions::default())?;
    eprintln!("{} bytes", profile.file_bytes);
    Ok(())
}
