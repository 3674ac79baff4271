//! Builds the tables that events refer to: processes, threads, modules, frames, stacks, marks.
//!
//! Stacks are taken over when the first event names them, so that what the recorder's tree holds beyond that (nodes that were
//! made for an event that was lost) costs nothing. Rows belong to a process: its modules lie where no other's do.

use crate::clock::Clock;
use crate::discover;
use crate::image::{self, Image, Node};
use heaplab_recorder::layout;
use heaplab_trace::tables::{Arena, Began, Frame, Mark, Module, Process, StackNode, Tables, Thread};
use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// A process image on its way into the tables.
#[derive(Debug)]
pub struct ImageTables {
    image: Image,
    /// Its row of `processes`.
    pub row: u32,
    first_module: u32,
    nodes: Vec<Node>,
    nodes_loaded: bool,
    /// Row of `stacks` by node; 0: not taken over yet.
    stack_rows: Vec<u32>,
    frame_rows: HashMap<(Option<u32>, u64), u32>,
}

/// Tables under construction.
#[derive(Debug)]
pub struct TableBuilder {
    /// What there is so far.
    pub tables: Tables,
    clock: Clock,
    rows: HashMap<(u32, u32), u32>,
    /// Records that named a stack that is not there.
    pub unknown_stacks: u64,
}

/// A path or argument as text: what is no UTF-8 becomes `%` and two digits, and so does `%` itself then.
pub fn text_of(bytes: &[u8]) -> String {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return text.to_owned();
    }
    let mut text = String::new();
    for chunk in bytes.utf8_chunks() {
        text.push_str(&chunk.valid().replace('%', "%25"));
        for byte in chunk.invalid() {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    text
}

impl TableBuilder {
    /// Empty tables: row 0 of stacks and arenas.
    pub fn new(clock: Clock) -> TableBuilder {
        let tables = Tables {
            stacks: vec![StackNode::default()],
            arenas: vec![Arena { kind: String::from("malloc"), ..Arena::default() }],
            ..Tables::default()
        };
        TableBuilder { tables, clock, rows: HashMap::new(), unknown_stacks: 0 }
    }

    /// The row of the image `key`.
    pub fn row_of(&self, key: (u32, u32)) -> Option<u32> {
        self.rows.get(&key).copied()
    }

    /// Adds a process image with its modules.
    pub fn add_image(&mut self, image: Image, is_first: bool) -> ImageTables {
        let parent = match image.began {
            layout::BEGAN_FORK => image.parent.and_then(|key| self.row_of(key)),
            layout::BEGAN_EXEC => image.seq.checked_sub(1).and_then(|seq| self.row_of((image.pid, seq))),
            // It was spawned: by whatever image of its parent is the latest.
            _ => self.tables.processes.iter().rposition(|process| process.pid == image.ppid).map(|row| row as u32),
        };
        let began = match (image.began, is_first) {
            (layout::BEGAN_FORK, _) => Began::Fork,
            (layout::BEGAN_STARTED, true) => Began::Started,
            _ => Began::Exec,
        };
        let row = self.tables.processes.len() as u32;
        self.tables.processes.push(Process {
            pid: image.pid,
            parent,
            executable: text_of(&image.executable),
            arguments: image.arguments.iter().map(|argument| text_of(argument)).collect(),
            began,
            began_ns: self.clock.ns(image.begin_counter),
            ..Process::default()
        });
        self.rows.insert((image.pid, image.seq), row);
        let first_module = self.tables.modules.len() as u32;
        self.tables.modules.extend(image.modules.iter().map(|module| Module {
            path: text_of(&module.path),
            build_id: module.build_id.iter().map(|byte| format!("{byte:02x}")).collect(),
            process: row,
            bias: module.bias,
            size: module.end.saturating_sub(module.start),
            loaded_ns: self.clock.ns(module.loaded),
            unloaded_ns: module.unloaded.map(|counter| self.clock.ns(counter)),
        }));
        let (nodes, stack_rows, frame_rows) = (Vec::new(), Vec::new(), HashMap::new());
        ImageTables { image, row, first_module, nodes, nodes_loaded: false, stack_rows, frame_rows }
    }

    /// Adds a thread.
    pub fn add_thread(&mut self, process: u32, tid: u32, name: [u64; 2]) -> u32 {
        let row = self.tables.threads.len() as u32;
        let name = thread_name(name);
        self.tables.threads.push(Thread { process, tid, name });
        row
    }

    /// The thread is called so now.
    pub fn name_thread(&mut self, row: u32, name: [u64; 2]) {
        if let Some(thread) = self.tables.threads.get_mut(row as usize) {
            thread.name = thread_name(name);
        }
    }

    /// Adds a mark.
    pub fn add_mark(&mut self, name: String, counter: u64, process: Option<u32>) -> u32 {
        let row = self.tables.marks.len() as u32;
        self.tables.marks.push(Mark { name, time_ns: self.clock.ns(counter), process });
        row
    }

    /// The row of `stacks` for the image's node `node`.
    #[inline]
    pub fn stack(&mut self, image: &mut ImageTables, node: u32, folder: &Path) -> u32 {
        match image.stack_rows.get(node as usize) {
            Some(row) if *row != 0 || node == 0 => *row,
            _ if node == 0 => 0,
            _ => self.take_stack(image, node, folder),
        }
    }

    #[cold]
    fn take_stack(&mut self, image: &mut ImageTables, node: u32, folder: &Path) -> u32 {
        if !image.nodes_loaded {
            image.nodes_loaded = true;
            image.nodes = load_nodes(folder, &image.image);
            image.stack_rows = vec![0; image.nodes.len()];
        }
        if image.nodes.get(node as usize).is_none_or(|node| node.ip == 0) {
            self.unknown_stacks += 1;
            return 0;
        }
        let mut path = Vec::new();
        let mut at = node;
        while at != 0 && image.stack_rows[at as usize] == 0 {
            path.push(at);
            at = image.nodes[at as usize].parent;
        }
        for node in path.into_iter().rev() {
            let Node { ip, parent } = image.nodes[node as usize];
            // A caller that was never filled in leaves its callees as outermost frames.
            let parent = image.stack_rows[parent as usize];
            if ip == 0 {
                continue;
            }
            let frame = self.frame(image, node, ip);
            image.stack_rows[node as usize] = self.tables.stacks.len() as u32;
            self.tables.stacks.push(StackNode { parent, frame });
        }
        image.stack_rows[node as usize]
    }

    fn frame(&mut self, image: &mut ImageTables, node: u32, ip: u64) -> u32 {
        let place = image.image.module_of(node, ip);
        let module = place.map(|place| image.first_module + place as u32);
        let address = place.map_or(ip, |place| ip.wrapping_sub(image.image.modules[place].bias));
        *image.frame_rows.entry((module, address)).or_insert_with(|| {
            self.tables.frames.push(Frame { module, address, ..Frame::default() });
            self.tables.frames.len() as u32 - 1
        })
    }
}

fn thread_name(words: [u64; 2]) -> String {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).take_while(|byte| *byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The image's nodes; none where there is no such file.
fn load_nodes(folder: &Path, image: &Image) -> Vec<Node> {
    let mut bytes = Vec::new();
    if let Ok(file) = File::open(discover::nodes_path(folder, (image.pid, image.seq))) {
        let wanted = u64::from(image.node_count) * size_of::<layout::Node>() as u64;
        let _ = file.take(wanted).read_to_end(&mut bytes);
    }
    image::parse_nodes(&bytes, image.node_count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Moment;

    #[test]
    fn text_that_is_no_utf8_is_told_apart() {
        assert_eq!(text_of("/tmp/100%".as_bytes()), "/tmp/100%");
        assert_eq!(text_of(b"/tmp/\xff%"), "/tmp/%FF%25");
    }

    #[test]
    fn stacks_share_callers_and_frames_lie_in_modules() {
        let folder = tempfile::tempdir().unwrap();
        let nodes: Vec<u8> = [(0_u64, 0_u32), (0x1100, 0), (0x1200, 1), (0x9999, 1), (0x1200, 2)]
            .iter()
            .flat_map(|(ip, parent)| [&ip.to_le_bytes()[..], &parent.to_le_bytes(), &[0; 4]].concat())
            .collect();
        std::fs::write(discover::nodes_path(folder.path(), (7, 0)), nodes).unwrap();
        let clock = Clock::between(Moment { counter: 0, monotonic_ns: 0 }, Moment { counter: 10, monotonic_ns: 10 }).unwrap();
        let mut builder = TableBuilder::new(clock);
        let module = image::ImageModule { bias: 0x1000, start: 0x1000, end: 0x2000, ..Default::default() };
        let image = Image { pid: 7, node_count: 5, modules: vec![module], ..Image::default() };
        let mut image = builder.add_image(image, true);
        assert_eq!(builder.stack(&mut image, 0, folder.path()), 0);
        let deep = builder.stack(&mut image, 4, folder.path());
        let jit = builder.stack(&mut image, 3, folder.path());
        assert_eq!(builder.stack(&mut image, 4, folder.path()), deep);
        assert_eq!(builder.stack(&mut image, 99, folder.path()), 0);
        assert_eq!(builder.unknown_stacks, 1);
        let addresses = |stack| builder.tables.frames_of(stack).map(|row| builder.tables.frames[row as usize].address).collect::<Vec<_>>();
        assert_eq!(addresses(deep), [0x200, 0x200, 0x100]);
        assert_eq!(addresses(jit), [0x9999, 0x100]);
        assert_eq!(builder.tables.frames.len(), 3, "the same place is one frame");
    }
}
