//! The state that importers of a collected heap's births and deaths share: live objects by number.

use super::{ImportOptions, Imported};
use crate::bundle::Meta;
use crate::program::SIZE_MAX;
use crate::tables::{Arena, Process, StackNode, Tables, Thread};
use crate::{
    Event, EventSink, Family, Flags, NOTICED_AT_COLLECTION, ObjectId, Op, Origin, StackId,
    TraceError,
};
use hashbrown::HashMap;
use std::io::{self, BufRead};

/// Events of a collected heap: gives ids, and keeps the order legal.
pub struct Managed<'s, S> {
    sink: &'s mut S,
    options: ImportOptions,
    live: HashMap<u64, ObjectId>,
    born: ObjectId,
    rows: u64,
    /// Collections so far: promotions and deaths between two births belong to one collection.
    collection: u32,
    collecting: bool,
    time_ns: u64,
    /// Tables and meta so far.
    pub out: Imported,
}

impl<'s, S: EventSink> Managed<'s, S> {
    /// A heap before its first birth.
    pub fn new(options: &ImportOptions, sink: &'s mut S) -> Managed<'s, S> {
        let tables = Tables {
            stacks: vec![StackNode::default()],
            arenas: vec![Arena { kind: "malloc".into(), ..Arena::default() }],
            processes: vec![Process::default()],
            threads: vec![Thread::default()],
            ..Tables::default()
        };
        let program = options.name.to_string_lossy().into_owned();
        let meta = Meta { program, death_rule: NOTICED_AT_COLLECTION.into(), ..Meta::default() };
        let out = Imported { tables, meta };
        Managed {
            sink,
            options: options.clone(),
            live: HashMap::new(),
            born: 0,
            rows: 0,
            collection: 0,
            collecting: false,
            time_ns: 0,
            out,
        }
    }

    /// Objects born so far.
    pub fn born_objects(&self) -> u64 {
        self.born
    }

    /// Sets the time of the next events, ns since the beginning.
    pub fn set_time(&mut self, time_ns: u64) {
        self.time_ns = time_ns.min(i64::MAX as u64);
    }

    /// Adds the birth of an object of `size` bytes, called `name`, from `stack`.
    pub fn birth(
        &mut self,
        name: u64,
        size: u64,
        origin: Origin,
        old: bool,
        stack: StackId,
    ) -> Result<(), TraceError> {
        if size > SIZE_MAX {
            return Err(TraceError::Limit {
                path: self.options.name.clone(),
                place: format!("event {}", self.rows),
                what: "size of an object",
                found: size,
                limit: SIZE_MAX,
            });
        }
        if self.live.insert(name, self.born).is_some() {
            return Err(self.order(format!("object {name} is born, but it lives already")));
        }
        let object = self.born;
        self.born += 1;
        self.collecting = false;
        let flags = if old { Flags::DIRECT_TO_OLD } else { Flags::default() };
        self.push(Event { op: Op::Alloc, object, size, origin, flags, stack, ..Event::default() })
    }

    /// Adds a collection's promotion of `name`.
    pub fn promotion(&mut self, name: u64) -> Result<(), TraceError> {
        self.collect();
        match self.live.get(&name) {
            Some(&object) => self.push(Event { op: Op::Promote, object, ..Event::default() }),
            None => Err(self.order(format!("object {name} is promoted, but it does not live"))),
        }
    }

    /// Adds a collection's finding that `name` is dead.
    pub fn death(&mut self, name: u64) -> Result<(), TraceError> {
        self.collect();
        match self.live.remove(&name) {
            Some(object) => self.push(Event { op: Op::Free, object, ..Event::default() }),
            None => Err(self.order(format!("object {name} dies, but it does not live"))),
        }
    }

    fn collect(&mut self) {
        if !self.collecting {
            self.collecting = true;
            self.collection = self.collection.saturating_add(1);
        }
    }

    fn push(&mut self, event: Event) -> Result<(), TraceError> {
        let collection = if event.op == Op::Alloc { 0 } else { self.collection };
        let time_ns = self.time_ns;
        self.rows += 1;
        self.sink.push(&Event { collection, time_ns, family: Family::Managed, ..event })
    }

    fn order(&self, what: String) -> TraceError {
        TraceError::Order { path: self.options.name.clone(), row: self.rows, what }
    }
}

/// Bytes of a stream, with their place for messages.
pub struct Bytes<'o, R> {
    input: R,
    options: &'o ImportOptions,
    /// Bytes read so far.
    pub at: u64,
}

impl<'o, R: BufRead> Bytes<'o, R> {
    /// The bytes of `input`.
    pub fn new(input: R, options: &'o ImportOptions) -> Bytes<'o, R> {
        Bytes { input, options, at: 0 }
    }

    /// The next byte; nothing at the end.
    pub fn next(&mut self) -> Result<Option<u8>, TraceError> {
        let byte = match self.input.fill_buf() {
            Ok(bytes) => bytes.first().copied(),
            Err(error) => return Err(TraceError::io(&self.options.name, "read")(error)),
        };
        if byte.is_some() {
            self.input.consume(1);
            self.at += 1;
        }
        Ok(byte)
    }

    /// Whether anything follows.
    pub fn is_more(&mut self) -> Result<bool, TraceError> {
        let bytes = self.input.fill_buf().map_err(TraceError::io(&self.options.name, "read"))?;
        Ok(!bytes.is_empty())
    }

    /// Fills `out`; false if the stream ends before.
    pub fn fill(&mut self, out: &mut [u8]) -> Result<bool, TraceError> {
        match self.input.read_exact(out) {
            Ok(()) => {
                self.at += out.len() as u64;
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
            Err(error) => Err(TraceError::io(&self.options.name, "read")(error)),
        }
    }

    /// An error about content outside of the format.
    pub fn malformed(&self, expected: &str, found: impl Into<String>) -> TraceError {
        TraceError::Malformed {
            path: self.options.name.clone(),
            place: format!("byte {}", self.at),
            expected: expected.into(),
            found: found.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_live_objects_are_not_given_twice() {
        let mut events = Vec::new();
        let mut heap = Managed::new(&ImportOptions::default(), &mut events);
        let mut birth = |name| heap.birth(name, 8, Origin::default(), false, 0);
        birth(7).unwrap();
        assert!(birth(7).unwrap_err().to_string().contains("7 is born, but it lives already"));
        heap.death(7).unwrap();
        assert!(heap.death(7).unwrap_err().to_string().contains("7 dies, but it does not live"));
        heap.birth(7, 8, Origin::default(), false, 0).unwrap();
        assert_eq!(heap.born_objects(), 2);
    }
}
