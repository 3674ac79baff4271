//! Groups stacks into sites: stacks with equal innermost frames. Frames further out tell the
//! caller, but the fix belongs where the program asks for the memory.

use crate::StackShare;
use hashbrown::HashMap;
use heaplab_trace::{StackId, tables::Tables};

/// A number for the innermost frames of a stack.
pub(crate) type Site = u32;

/// Numbers the sites of stacks.
#[derive(Debug)]
pub(crate) struct Sites<'a> {
    tables: &'a Tables,
    frames: usize,
    known: HashMap<Vec<u32>, Site>,
    /// Detectors ask for a stack again with each size.
    of_stack: HashMap<StackId, Site>,
}

impl<'a> Sites<'a> {
    pub(crate) fn new(tables: &'a Tables, frames: usize) -> Self {
        Sites { tables, frames, known: HashMap::new(), of_stack: HashMap::new() }
    }

    /// The site of a stack.
    pub(crate) fn of(&mut self, stack: StackId) -> Site {
        if let Some(site) = self.of_stack.get(&stack) {
            return *site;
        }
        let innermost = innermost_frames(self.tables, stack, self.frames).collect();
        let next = self.known.len() as Site;
        let site = *self.known.entry(innermost).or_insert(next);
        self.of_stack.insert(stack, site);
        site
    }
}

/// Groups stacks by function, at any place in it: stacks with equal innermost functions.
#[derive(Debug)]
pub(crate) struct Functions<'a> {
    tables: &'a Tables,
    frames: usize,
    /// By module's file and name; a frame without a name stands for itself.
    names: HashMap<(Option<&'a str>, &'a str), u32>,
    known: HashMap<Vec<Function>, Site>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Function {
    Named(u32),
    Frame(u32),
}

impl<'a> Functions<'a> {
    pub(crate) fn new(tables: &'a Tables, frames: usize) -> Self {
        Functions { tables, frames, names: HashMap::new(), known: HashMap::new() }
    }

    /// The site of a stack.
    pub(crate) fn of(&mut self, stack: StackId) -> Site {
        let tables = self.tables;
        let innermost = innermost_frames(tables, stack, self.frames)
            .map(|frame| self.function(frame))
            .collect();
        let next = self.known.len() as Site;
        *self.known.entry(innermost).or_insert(next)
    }

    /// The function into which the frame's code was compiled; inlined functions belong to it.
    fn function(&mut self, row: u32) -> Function {
        let outermost = inlined_into(self.tables, row).last().unwrap_or(row);
        let frame = self.tables.frames.get(outermost as usize);
        let Some((frame, name)) = frame.and_then(|frame| Some((frame, frame.function.as_deref()?)))
        else {
            return Function::Frame(row);
        };
        let module = frame.module.and_then(|module| self.tables.modules.get(module as usize));
        let next = self.names.len() as u32;
        Function::Named(
            *self.names.entry((module.map(|module| module.path.as_str()), name)).or_insert(next),
        )
    }
}

/// The frame that called the allocator; `None` without a stack.
pub(crate) fn innermost(tables: &Tables, stack: StackId) -> Option<u32> {
    tables.physical_frames_of(stack).next()
}

/// At least `least` frames, and as many more as lead to the function that a person would name.
fn innermost_frames(tables: &Tables, stack: StackId, least: usize) -> impl Iterator<Item = u32> {
    let frames: Vec<u32> = tables.frames_of(stack).take(Tables::WRAPPERS_MAX + 1).collect();
    let site = tables.site(&frames);
    let mut shown = 0;
    let leading = tables.physical_frames_of(stack).take_while(move |row| {
        let is_before = shown <= site;
        shown += inlined_into(tables, *row).count();
        is_before
    });
    let count = leading.count().max(least);
    tables.physical_frames_of(stack).take(count)
}

/// A frame, and the frames that it was inlined into.
fn inlined_into(tables: &Tables, row: u32) -> impl Iterator<Item = u32> + '_ {
    std::iter::successors(Some(row), |at| {
        let outer = tables.frames.get(*at as usize)?.inlined_into;
        outer.filter(|outer| outer > at)
    })
}

/// The shares, the largest first, at most `most` of them, and the number of all.
pub(crate) fn largest(mut shares: Vec<StackShare>, most: usize) -> (Vec<StackShare>, u64) {
    shares.sort_by(|a, b| {
        b.bytes.cmp(&a.bytes).then(b.count.cmp(&a.count)).then(a.stack.cmp(&b.stack))
    });
    let all = shares.len() as u64;
    shares.truncate(most);
    (shares, all)
}
