//! A program written as a trace: allocates, grows and frees from named stacks.

use heaplab_findings::{Findings, Options, find};
use heaplab_profile::Profile;
use heaplab_trace::source::Slice;
use heaplab_trace::tables::{Frame, StackNode, Tables};
use heaplab_trace::{Event, Flags, Op};

#[derive(Default)]
pub struct Program {
    pub tables: Tables,
    pub events: Vec<Event>,
    born: u64,
}

impl Program {
    pub fn new() -> Program {
        let mut program = Program::default();
        program.tables.stacks.push(StackNode::default());
        program
    }

    /// A stack of functions, outermost first.
    pub fn stack(&mut self, functions: &[&str]) -> u32 {
        let mut parent = 0;
        for function in functions {
            let known = self
                .tables
                .frames
                .iter()
                .position(|frame| frame.function.as_deref() == Some(function));
            let frame = known.unwrap_or_else(|| {
                self.tables
                    .frames
                    .push(Frame { function: Some(function.to_string()), ..Frame::default() });
                self.tables.frames.len() - 1
            }) as u32;
            let node = StackNode { parent, frame };
            parent = self.tables.stacks.iter().skip(1).position(|known| *known == node).map_or_else(
                || {
                    self.tables.stacks.push(node);
                    self.tables.stacks.len() - 1
                },
                |index| index + 1,
            ) as u32;
        }
        parent
    }

    fn push(&mut self, event: Event) {
        let time_ns = 1000 * (self.events.len() as u64 + 1);
        self.events.push(Event { time_ns, ..event });
    }

    pub fn malloc(&mut self, stack: u32, size: u64) -> u64 {
        self.malloc_usable(stack, size, size.max(17).next_multiple_of(16) + 8)
    }

    pub fn malloc_usable(&mut self, stack: u32, size: u64, usable: u64) -> u64 {
        let object = self.born;
        self.born += 1;
        self.push(Event { op: Op::Alloc, object, stack, size, usable, ..Event::default() });
        object
    }

    pub fn calloc(&mut self, stack: u32, size: u64) -> u64 {
        let object = self.malloc(stack, size);
        self.events.last_mut().unwrap().flags = Flags::ZEROED;
        object
    }

    pub fn realloc(&mut self, stack: u32, object: u64, size: u64) {
        self.push(Event {
            op: Op::Realloc,
            object,
            stack,
            size,
            usable: size,
            flags: Flags::MOVED,
            ..Event::default()
        });
    }

    pub fn free(&mut self, object: u64) {
        self.push(Event { op: Op::Free, object, ..Event::default() });
    }

    pub fn usable_size(&mut self, object: u64) {
        self.push(Event { op: Op::UsableSizeRead, object, ..Event::default() });
    }

    pub fn findings(&self, options: Options) -> (Profile, Findings) {
        find(&self.tables, &mut Slice(&self.events), &Default::default(), options).unwrap()
    }
}
