//! Builds the tables that events refer to: processes, threads, modules, frames, stacks, marks.
//!
//! A ring redefines forgotten nodes; this code merges equal ones, so `stacks` holds each once (and
//! no deeper than requested, see [`super::cut_stacks`]). Rows belong to a process: each process has
//! its own module addresses.

use super::cut_stacks::CutStacks;
use super::perf_map::Generated;
use super::stack_map::StackMap;
use crate::clock::Clock;
use crate::image::Image;
use crate::preload;
use crate::python::{Code, Python};
use hashbrown::HashMap;
use heaplab_preload::layout;
use heaplab_trace::tables::{
    Arena, Began, Frame, Mark, Module, Process, StackNode, Tables, Thread,
};

/// A process image being entered into the tables.
#[derive(Debug)]
pub struct ImageTables {
    image: Image,
    /// Its row of `processes`.
    pub row: u32,
    first_module: u32,
    whole_stacks: StackMap,
    frames_by_ip: HashMap<u64, KnownFrame>,
    frame_rows: HashMap<(Option<u32>, u64), u32>,
}

/// The meaning of a return address while its module is loaded.
#[derive(Clone, Copy, Debug)]
struct KnownFrame {
    row: u32,
    /// Index in the image's modules; `NO_MODULE`: no module ever lies there.
    module: u32,
}
const NO_MODULE: u32 = u32::MAX;
/// Marks a function of the recorder in place of a row of `frames`.
const OWN_FRAME: u32 = u32::MAX;

/// Whether a module's file is the recorder.
fn is_recorder(path: &[u8]) -> bool {
    path.rsplit(|byte| *byte == b'/')
        .next()
        .is_some_and(|name| name.starts_with(preload::NAME_PREFIX.as_bytes()))
}

/// Tables under construction.
#[derive(Debug)]
pub struct TableBuilder {
    /// The rows so far.
    pub tables: Tables,
    clock: Clock,
    rows: HashMap<(u32, u32), u32>,
    stacks: CutStacks,
    python_rows: HashMap<Frame, u32>,
    /// Records with an undefined stack.
    pub unknown_stacks: u64,
    /// Return addresses outside of all modules.
    pub generated: Vec<Generated>,
}

/// A path or argument as text: bytes that are no UTF-8 become `%` and two digits, and then `%`
/// itself does too.
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
    /// Empty tables: row 0 of stacks and arenas. Stacks get at most `depth` frames.
    pub fn new(clock: Clock, depth: u32) -> TableBuilder {
        let tables = Tables {
            stacks: vec![StackNode::default()],
            arenas: vec![Arena { kind: String::from("malloc"), ..Arena::default() }],
            ..Tables::default()
        };
        TableBuilder {
            tables,
            clock,
            rows: HashMap::new(),
            stacks: CutStacks::new(depth),
            python_rows: HashMap::new(),
            unknown_stacks: 0,
            generated: Vec::new(),
        }
    }

    /// The row of the image `key`.
    pub fn row_of(&self, key: (u32, u32)) -> Option<u32> {
        self.rows.get(&key).copied()
    }

    /// Adds a process image with its modules.
    pub fn add_image(&mut self, image: Image, is_first: bool) -> ImageTables {
        let parent = match image.began {
            layout::BEGAN_FORK => image.parent.and_then(|key| self.row_of(key)),
            layout::BEGAN_EXEC => {
                image.seq.checked_sub(1).and_then(|seq| self.row_of((image.pid, seq)))
            }
            // It was spawned by the latest image of its parent.
            _ => self
                .tables
                .processes
                .iter()
                .rposition(|process| process.pid == image.ppid)
                .map(|row| row as u32),
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
        let (whole_stacks, frames_by_ip, frame_rows) =
            (StackMap::default(), HashMap::new(), HashMap::new());
        ImageTables { image, row, first_module, whole_stacks, frames_by_ip, frame_rows }
    }

    /// Adds a thread.
    pub fn add_thread(&mut self, process: u32, tid: u32, name: [u64; 2]) -> u32 {
        let row = self.tables.threads.len() as u32;
        let name = thread_name(name);
        self.tables.threads.push(Thread { process, tid, name });
        row
    }

    /// Renames the thread.
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

    /// The number of the whole stack of return address `ip` called from the whole stack `parent`,
    /// as a ring of the image defined it at `stamp`.
    #[inline]
    pub fn define(&mut self, image: &mut ImageTables, parent: u32, ip: u64, stamp: u64) -> u32 {
        let frame = match image.frames_by_ip.get(&ip) {
            Some(known)
                if known.module == NO_MODULE
                    || image.image.modules[known.module as usize].was_there(stamp) =>
            {
                known.row
            }
            _ => self.frame(image, ip, stamp),
        };
        // The recorder's own functions lie between a handler and the interrupted code, and between
        // the program and functions of libc that allocate; the program did not write them. An own
        // function without a caller stays, so that the event has a stack.
        if frame == OWN_FRAME && parent != 0 {
            return parent;
        }
        let frame = if frame == OWN_FRAME { self.place_of(image, ip, stamp).0 } else { frame };
        self.stacks.define(&mut image.whole_stacks, StackNode { parent, frame })
    }

    /// The row of `stacks` for the whole stack `number`.
    #[inline]
    pub fn stack_row(&mut self, number: u32) -> u32 {
        self.stacks.row_of(number, &mut self.tables.stacks)
    }

    /// The row of `frames` of `ip` at `stamp`, cached; [`OWN_FRAME`] in the recorder.
    #[cold]
    fn frame(&mut self, image: &mut ImageTables, ip: u64, stamp: u64) -> u32 {
        if let Some((number, line)) = Python::place(ip) {
            let row = self.python_frame(image, number, line);
            image.frames_by_ip.insert(ip, KnownFrame { row, module: NO_MODULE });
            return row;
        }
        let own = image
            .image
            .module_of(stamp, ip)
            .filter(|place| is_recorder(&image.image.modules[*place].path));
        if let Some(place) = own {
            image.frames_by_ip.insert(ip, KnownFrame { row: OWN_FRAME, module: place as u32 });
            return OWN_FRAME;
        }
        let (row, place) = self.place_of(image, ip, stamp);
        let ever = image.image.modules.iter().any(|module| module.start <= ip && ip < module.end);
        match place {
            Some(place) => image.frames_by_ip.insert(ip, KnownFrame { row, module: place as u32 }),
            None if !ever => image.frames_by_ip.insert(ip, KnownFrame { row, module: NO_MODULE }),
            None => None, // one was there, or will be
        };
        row
    }

    /// The row of `frames` of a line of Python code. It has neither module nor address.
    fn python_frame(&mut self, image: &ImageTables, number: u32, line: u32) -> u32 {
        let code = image.image.python.codes.get(&number);
        let of =
            |text: fn(&Code) -> &String| code.map(text).filter(|text| !text.is_empty()).cloned();
        let frame = Frame {
            function: Some(
                of(|code| &code.name).unwrap_or_else(|| String::from("(unknown Python code)")),
            ),
            file: of(|code| &code.file),
            line,
            ..Frame::default()
        };
        *self.python_rows.entry(frame).or_insert_with_key(|frame| {
            self.tables.frames.push(frame.clone());
            self.tables.frames.len() as u32 - 1
        })
    }

    /// The row of `frames` of `ip` at `stamp`, made if missing, and the index of its module.
    fn place_of(&mut self, image: &mut ImageTables, ip: u64, stamp: u64) -> (u32, Option<usize>) {
        let place = image.image.module_of(stamp, ip);
        let module = place.map(|place| image.first_module + place as u32);
        let address = place.map_or(ip, |place| ip.wrapping_sub(image.image.modules[place].bias));
        let row = *image.frame_rows.entry((module, address)).or_insert_with(|| {
            let row = self.tables.frames.len() as u32;
            self.tables.frames.push(Frame { module, address, ..Frame::default() });
            if module.is_none() {
                self.generated.push(Generated { pid: image.image.pid, ip, row });
            }
            row
        });
        (row, place)
    }
}

fn thread_name(words: [u64; 2]) -> String {
    let bytes: Vec<u8> =
        words.iter().flat_map(|word| word.to_le_bytes()).take_while(|byte| *byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ClockReading;
    use crate::image::ImageModule;

    #[test]
    fn text_that_is_no_utf8_is_told_apart() {
        assert_eq!(text_of("/tmp/100%".as_bytes()), "/tmp/100%");
        assert_eq!(text_of(b"/tmp/\xff%"), "/tmp/%FF%25");
    }

    #[test]
    fn the_recorders_own_frames_are_left_out_of_the_stacks_they_lie_in() {
        let clock = Clock::between(
            ClockReading { counter: 0, monotonic_ns: 0 },
            ClockReading { counter: 10, monotonic_ns: 10 },
        )
        .unwrap();
        let mut builder = TableBuilder::new(clock, 16);
        let module = |start, path: &[u8]| ImageModule {
            start,
            end: start + 0x1000,
            path: path.to_vec(),
            ..Default::default()
        };
        let modules = vec![
            module(0x1000, b"/bin/program"),
            module(0x5000, b"/var/heaplab-preload-12ab34cd.so"),
        ];
        let mut image = builder.add_image(Image { pid: 7, modules, ..Image::default() }, true);
        let main = builder.define(&mut image, 0, 0x1100, 10);
        for _ in 0..2 {
            let own = builder.define(&mut image, main, 0x5100, 10);
            let handler = builder.define(&mut image, own, 0x1200, 10);
            let row = builder.stack_row(handler);
            let addresses: Vec<u64> = builder
                .tables
                .frames_of(row)
                .map(|row| builder.tables.frames[row as usize].address)
                .collect();
            assert_eq!(addresses, [0x1200, 0x1100]);
        }
        let alone = builder.define(&mut image, 0, 0x5100, 10);
        assert!(builder.stack_row(alone) != 0, "a stack of its own");
    }

    #[test]
    fn stacks_share_callers_and_frames_lie_in_modules() {
        let clock = Clock::between(
            ClockReading { counter: 0, monotonic_ns: 0 },
            ClockReading { counter: 10, monotonic_ns: 10 },
        )
        .unwrap();
        let mut builder = TableBuilder::new(clock, 16);
        let module = |loaded, unloaded| ImageModule {
            bias: 0x1000,
            start: 0x1000,
            end: 0x2000,
            loaded,
            unloaded,
            ..Default::default()
        };
        let image = Image {
            pid: 7,
            modules: vec![module(5, Some(50)), module(60, None)],
            ..Image::default()
        };
        let mut image = builder.add_image(image, true);
        let outer = builder.define(&mut image, 0, 0x1100, 10);
        let middle = builder.define(&mut image, outer, 0x1200, 11);
        let deep = builder.define(&mut image, middle, 0x1200, 11);
        let jit = builder.define(&mut image, outer, 0x9999, 12);
        assert_eq!(builder.define(&mut image, middle, 0x1200, 49), deep, "defined once more");
        let addresses = |builder: &mut TableBuilder, stack| {
            let stack = builder.stack_row(stack);
            builder
                .tables
                .frames_of(stack)
                .map(|row| builder.tables.frames[row as usize].address)
                .collect::<Vec<_>>()
        };
        assert_eq!(addresses(&mut builder, deep), [0x200, 0x200, 0x100]);
        assert_eq!(addresses(&mut builder, jit), [0x9999, 0x100]);
        assert_eq!(builder.tables.frames.len(), 3, "the same place is one frame");
        // unloaded; then another module lies there
        let between = builder.define(&mut image, 0, 0x1100, 55);
        let later = builder.define(&mut image, 0, 0x1100, 61);
        let [outer, between, later] = [outer, between, later].map(|stack| builder.stack_row(stack));
        let module_of = |stack: u32| {
            builder.tables.frames[builder.tables.stacks[stack as usize].frame as usize].module
        };
        assert_eq!([outer, between, later].map(module_of), [Some(0), None, Some(1)]);
    }
}
