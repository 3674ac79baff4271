//! Requests to a JVM's metaspace, by kind of loader and by type of metadata: all that a workload
//! without chunks can tell.

use crate::At;
use hashbrown::HashMap;
use heaplab_trace::arena_members::ArenaMembers;
use heaplab_trace::tables::Tables;
use heaplab_trace::{Event, EventSource, Flags, Op, TraceError};
use serde::Serialize;
use std::collections::BTreeMap;

/// Blocks with their bytes, as requested.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Blocks {
    /// Blocks.
    pub count: u64,
    /// Bytes requested.
    pub bytes: u64,
}

impl Blocks {
    fn add(&mut self, bytes: u64) {
        self.count += 1;
        self.bytes += bytes;
    }

    fn remove(&mut self, bytes: u64) {
        self.count -= 1;
        self.bytes -= bytes;
    }
}

/// Arenas of one kind of loader and one space.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Loaders {
    /// boot, standard, hidden, reflection, micro; empty: not known.
    pub kind: String,
    /// Whether they are of class space.
    pub class: bool,
    /// Arenas alive.
    pub arenas: u64,
    /// Arenas born so far.
    pub born: u64,
    /// Live blocks.
    pub live: Blocks,
    /// Blocks given back before their arena died, so far.
    pub given_back: Blocks,
}

/// Live blocks of one type of metadata.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Type {
    /// ConstMethod, Method, ...; empty: not known.
    pub name: String,
    /// Live blocks.
    pub live: Blocks,
}

/// The requests up to a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Asked {
    /// The moment: ns since the recording began.
    pub time_ns: u64,
    /// By kind of loader and space, the most live bytes first.
    pub loaders: Vec<Loaders>,
    /// By type, the most live bytes first.
    pub types: Vec<Type>,
    /// Live blocks.
    pub live: Blocks,
    /// The most bytes that were live at once, and when.
    pub peak_bytes: u64,
    /// ns since the recording began.
    pub peak_ns: u64,
    /// Rows of events up to the moment.
    pub peak_row: u64,
    /// Requests that the JVM refused.
    pub refused: u64,
    /// Times that free memory was given back.
    pub purges: u64,
}

struct Live {
    arena: u32,
    stack: u32,
    bytes: u64,
}

struct Pass<'t> {
    tables: &'t Tables,
    asked: Asked,
    /// By kind and space.
    loaders: BTreeMap<(String, bool), Loaders>,
    types: HashMap<u32, Blocks>,
    live: HashMap<u64, Live>,
    members: ArenaMembers,
}

/// Looks at the JVM of row `process`. Where its peak was is known at its end: [`At::Peak`] is the
/// end, with the `peak_row` that a second look takes.
///
/// # Errors
/// The events cannot be read.
pub fn asked(
    tables: &Tables,
    events: &mut impl EventSource,
    process: u32,
    at: At,
) -> Result<Asked, TraceError> {
    let mut pass = Pass {
        tables,
        asked: Asked::default(),
        loaders: BTreeMap::new(),
        types: HashMap::new(),
        live: HashMap::new(),
        members: ArenaMembers::default(),
    };
    let (mut row, mut result) = (0, None);
    events.for_each(|event| {
        let is_past = match at {
            At::Time(time_ns) => event.time_ns > time_ns,
            At::Row(wanted) => row >= wanted,
            At::End | At::Peak => false,
        };
        if is_past && result.is_none() {
            result = Some(pass.result());
        }
        row += 1;
        if event.process == process && event.counts() {
            let peak = pass.asked.peak_bytes;
            pass.event(event);
            if pass.asked.peak_bytes > peak {
                pass.asked.peak_row = row;
            }
        } else if event.process == process && event.has(Flags::FAILED) {
            pass.asked.refused += 1;
        }
        Ok(())
    })?;
    Ok(result.unwrap_or_else(|| pass.result()))
}

impl Pass<'_> {
    fn loaders(&mut self, arena: u32) -> &mut Loaders {
        let row = self.tables.arenas.get(arena as usize);
        let key = row
            .map_or((String::new(), false), |row| (row.growth_policy.clone(), row.kind == "class"));
        let (kind, class) = key.clone();
        self.loaders.entry(key).or_insert_with(|| Loaders { kind, class, ..Loaders::default() })
    }

    fn event(&mut self, event: &Event) {
        self.asked.time_ns = event.time_ns;
        match event.op {
            Op::ArenaBirth => {
                let loaders = self.loaders(event.arena);
                (loaders.arenas, loaders.born) = (loaders.arenas + 1, loaders.born + 1);
            }
            Op::Alloc => {
                self.loaders(event.arena).live.add(event.size);
                self.types.entry(event.stack).or_default().add(event.size);
                self.asked.live.add(event.size);
                let live = Live { arena: event.arena, stack: event.stack, bytes: event.size };
                self.live.insert(event.object, live);
                let is_live = |object| self.live.contains_key(&object);
                self.members.born(event.arena, event.object, is_live);
                if self.asked.live.bytes > self.asked.peak_bytes {
                    self.asked.peak_bytes = self.asked.live.bytes;
                    self.asked.peak_ns = event.time_ns;
                }
            }
            Op::Free => {
                if let Some(block) = self.dead(event.object) {
                    self.loaders(block.arena).given_back.add(block.bytes);
                }
            }
            Op::ArenaDeath => {
                let loaders = self.loaders(event.arena);
                loaders.arenas = loaders.arenas.saturating_sub(1);
                for object in self.members.died(event.arena) {
                    self.dead(object);
                }
            }
            Op::Trim => self.asked.purges += 1,
            _ => {}
        }
    }

    fn dead(&mut self, object: u64) -> Option<Live> {
        let block = self.live.remove(&object)?;
        self.loaders(block.arena).live.remove(block.bytes);
        self.asked.live.remove(block.bytes);
        if let Some(blocks) = self.types.get_mut(&block.stack) {
            blocks.remove(block.bytes);
        }
        Some(block)
    }

    fn result(&self) -> Asked {
        let mut loaders: Vec<Loaders> = self.loaders.values().cloned().collect();
        loaders.sort_by_key(|loaders| std::cmp::Reverse(loaders.live.bytes));
        let name = |stack: u32| {
            let frame = self.tables.frames_of(stack).next();
            frame.map_or(String::new(), |frame| self.tables.frame_label(frame))
        };
        let named = self.types.iter().filter(|(_, live)| live.count > 0);
        let mut types: Vec<Type> =
            named.map(|(stack, live)| Type { name: name(*stack), live: *live }).collect();
        types.sort_by(|a, b| b.live.bytes.cmp(&a.live.bytes).then_with(|| a.name.cmp(&b.name)));
        Asked { loaders, types, ..self.asked.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import;
    use heaplab_trace::import::ImportOptions;
    use heaplab_trace::source::Slice;

    #[test]
    fn a_workload_without_chunks_is_told_by_loader_and_type() {
        let trace = "#metaspace-trace 1 dt_us op args\n5 b 0 n 0\n0 b 1 c 0\n2 b 2 n 1\n0 a 2 10 7\n1 a 0 3 -1\n0 x 1 99\n1 a 2 20 7\n1 d 2 10 0\n0 k 2\n3 p\n";
        let mut events = Vec::new();
        let imported =
            import(trace.as_bytes(), None, &ImportOptions::default(), &mut events).unwrap();
        assert!(crate::is_metaspace(&imported.tables) && !crate::has_chunks(&imported.tables));
        let at = |at| asked(&imported.tables, &mut Slice(&events), 0, at).unwrap();
        let end = at(At::End);
        assert_eq!((end.live, end.purges), (Blocks { count: 1, bytes: 24 }, 1));
        assert_eq!((end.peak_bytes, end.peak_ns, end.refused), (264, 9_000, 1));
        let standard = end.loaders.iter().find(|loaders| loaders.kind == "standard").unwrap();
        assert_eq!((standard.arenas, standard.born, standard.live.bytes), (0, 1, 0));
        assert_eq!(standard.given_back, Blocks { count: 1, bytes: 80 });
        let peak = at(At::Row(end.peak_row));
        assert_eq!(peak.live, Blocks { count: 3, bytes: 264 });
        assert_eq!(
            peak.types[0],
            Type { name: "Method".into(), live: Blocks { count: 2, bytes: 240 } }
        );
        assert_eq!(at(At::Time(7_000)).live.bytes, 80);
    }
}
