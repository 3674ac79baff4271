//! memtrace's call stacks, and where its codes lie in source.
//!
//! Source: janestreet/memtrace, the layout that `backtrace_codec.ml` and `location_codec.ml` write.
//!
//! - **A stack**, outermost call first, begins with a stated number of codes of the stack before.
//!   The rest comes from a table of 2^14 codes, in which each entry names the entry that last
//!   followed it. An entry of the stack is a place in the table (14 bits) with two bits for what
//!   follows: nothing, one predicted code, as many predicted codes as a byte says, or the code of
//!   that place in 8 bytes, which is stored there.
//! - **A location** says where a code lies: the functions inlined there, outermost first, each of 6
//!   bytes: 20 bits of line, 8 and 10 of columns, 5 for the file and 5 for the function. Files, and
//!   the functions of each file, are named by the number of others named since (at most 31), or by
//!   a text that follows.

use super::{Cursor, Packet};
use crate::tables::{Frame, StackNode, Tables};
use crate::{StackId, TraceError};
use hashbrown::HashMap;

const CODES: usize = 1 << 14;
/// Names that a table of names holds; as an index: a text follows.
const NAMES: usize = 31;
/// More calls than any stack has. memtrace's own limit is the packet's 32 KiB, and each prediction
/// in it can stand for 255.
const DEPTH_MAX: usize = 1 << 16;

/// The codes of one domain's stacks.
pub struct Stacks {
    codes: Vec<u64>,
    next: Vec<u16>,
    last: Vec<u64>,
    /// The row of `stacks` of each beginning of `last`.
    nodes: Vec<StackId>,
}

impl Stacks {
    pub fn new() -> Stacks {
        Stacks { codes: vec![0; CODES], next: vec![0; CODES], last: Vec::new(), nodes: Vec::new() }
    }

    /// Whether the table agrees with a packet's header about one entry.
    pub fn agrees(&self, packet: &Packet) -> bool {
        let (entry, next, code) = packet.verifier;
        let entry = usize::from(entry);
        entry >= CODES || (self.next[entry], self.codes[entry]) == (next, code)
    }

    /// Calls of the last stack.
    pub fn depth(&self) -> usize {
        self.last.len()
    }

    /// Reads a stack of `entries` entries that begins with `common` calls of the one before.
    pub fn read(
        &mut self,
        cursor: &mut Cursor<'_>,
        entries: u64,
        common: u64,
        tables: &mut Places<'_>,
    ) -> Result<StackId, TraceError> {
        // memtrace cuts long stacks: then more may be common than was written.
        let known = usize::try_from(common).is_ok_and(|common| common <= self.last.len());
        let kept = self.last.len();
        self.last.truncate(if known { common as usize } else { kept });
        self.nodes.truncate(self.last.len());
        let mut at = 0;
        for _ in 0..entries {
            let entry = cursor.number(2)? as u16;
            let (place, what) = (entry >> 2, entry & 3);
            self.next[at] = place;
            at = usize::from(place);
            if what == 3 {
                self.codes[at] = cursor.number(8)?;
            }
            self.last.push(self.codes[at]);
            let predicted = if what == 2 { cursor.number(1)? } else { u64::from(what == 1) };
            for _ in 0..predicted {
                at = usize::from(self.next[at]);
                self.last.push(self.codes[at]);
            }
            if self.last.len() > DEPTH_MAX {
                return Err(cursor.malformed("a stack of at most 65,536 calls", "more"));
            }
        }
        if !known {
            self.last.truncate(kept);
        }
        for nth in self.nodes.len()..self.last.len() {
            let caller = nth.checked_sub(1).map_or(0, |caller| self.nodes[caller]);
            let node = tables.node(caller, self.last[nth]);
            self.nodes.push(node);
        }
        Ok(self.nodes.last().copied().unwrap_or(0))
    }
}

/// Names, the one named last first.
struct Names<T>(Vec<(String, T)>);

impl<T> Names<T> {
    /// The name of an index, or the text that follows.
    fn read(
        &mut self,
        cursor: &mut Cursor<'_>,
        index: usize,
        new: impl FnOnce() -> T,
    ) -> Result<&mut (String, T), TraceError> {
        if index == NAMES {
            let text = cursor.text()?;
            self.0.truncate(NAMES - 1);
            self.0.insert(0, (text, new()));
        } else if index < self.0.len() {
            self.0[..=index].rotate_right(1);
        } else {
            return Err(cursor.malformed("a name that was used before", format!("{index} back")));
        }
        Ok(&mut self.0[0])
    }
}

/// The names of one domain's locations.
pub struct Locations(Names<Names<()>>);

impl Locations {
    pub fn new() -> Locations {
        Locations(Names(Vec::new()))
    }

    /// Reads where a code lies.
    pub fn read(
        &mut self,
        cursor: &mut Cursor<'_>,
        places: &mut Places<'_>,
    ) -> Result<(), TraceError> {
        let code = cursor.number(8)?;
        let mut outer = None;
        for _ in 0..cursor.number(1)? {
            let bits = cursor.number(6)?;
            let (file, function) = (bits >> 38 & 31, bits >> 43 & 31);
            let (file, functions) = self.0.read(cursor, file as usize, || Names(Vec::new()))?;
            let file = Some(file.clone());
            let function = functions.read(cursor, function as usize, || ())?.0.clone();
            let function = Some(function).filter(|name| name != "??");
            let frame = Frame {
                module: None,
                address: code,
                function,
                file,
                line: (bits & 0xf_ffff) as u32,
                inlined_into: outer,
            };
            outer = Some(places.frame(frame));
        }
        if let Some(frame) = outer {
            places.known.frames.insert(code, frame);
        }
        Ok(())
    }
}

/// Which rows stand for what, over all packets.
#[derive(Default)]
pub struct Known {
    /// Of a code: its innermost frame.
    frames: HashMap<u64, u32>,
    nodes: HashMap<(StackId, u32), StackId>,
}

/// The tables that stacks go into.
pub struct Places<'a> {
    pub known: &'a mut Known,
    pub tables: &'a mut Tables,
}

impl Places<'_> {
    fn frame(&mut self, frame: Frame) -> u32 {
        self.tables.frames.push(frame);
        (self.tables.frames.len() - 1) as u32
    }

    fn node(&mut self, caller: StackId, code: u64) -> StackId {
        let frame = match self.known.frames.get(&code) {
            Some(frame) => *frame,
            None => {
                let frame = self.frame(Frame { address: code, ..Frame::default() });
                self.known.frames.insert(code, frame);
                frame
            }
        };
        *self.known.nodes.entry((caller, frame)).or_insert_with(|| {
            self.tables.stacks.push(StackNode { parent: caller, frame });
            (self.tables.stacks.len() - 1) as StackId
        })
    }
}
