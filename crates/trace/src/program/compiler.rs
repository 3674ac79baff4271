//! From events to words, in one pass. Memory grows with the live objects, never with the events.

use super::encoding::{
    self, ALIGN_LOG2_MAX, Managed, REGIONS_MAX, SIZE_MAX, SLOTS_MAX, Step, THREADS_MAX,
};
use super::file::{Checkpoint, Facts, RegionKind, Writer};
use super::slots::Slots;
use crate::arena_members::ArenaMembers;
use crate::tables::{OpName, Tables};
use crate::{BY_REACHABILITY, Event, EventSource, Family, Flags, ObjectId, Op, Origin, TraceError};
use hashbrown::{HashMap, HashSet};
use std::io::{Seek, Write};
use std::path::Path;

/// Most checkpoints at regular distances; at least half as many once the program has enough events.
const REGULAR_CHECKPOINTS_MAX: usize = 128;

/// log2 of the alignment that every object has.
const WORD_LOG2: u8 = 3;

struct Live {
    slot: u32,
    region: u32,
    size: u64,
}

#[derive(Default)]
struct Compiler {
    words: Vec<u32>,
    written_words: u64,
    live: HashMap<ObjectId, Live>,
    /// Live objects outside of the recorded heap.
    outside: HashSet<ObjectId>,
    slots: Slots,
    threads: HashMap<u32, u32>,
    thread: u32,
    regions: HashMap<u32, u32>,
    kinds: HashMap<RegionKind, u32>,
    members: ArenaMembers,
    live_bytes: u64,
    regular: Vec<Checkpoint>,
    regular_distance: u64,
    marks: Vec<Checkpoint>,
    peak: Checkpoint,
    facts: Facts,
    /// Rows of `chunks` already read.
    chunks: usize,
    /// The word of each asked moment that has passed.
    moments: Vec<usize>,
}

/// Compiles the events of `source` into a program and writes it to `out`. `facts` carries the
/// caller's knowledge of the recording; its counts are filled in here. `origin` is named in errors.
/// Leaves out failed requests, events about a forked copy, memory outside of the recorded heap, and
/// that heap's collections and promotions.
pub fn compile<W: Write + Seek>(
    source: &mut impl EventSource,
    tables: &Tables,
    facts: Facts,
    key: u64,
    origin: &Path,
    out: W,
) -> Result<Facts, TraceError> {
    Ok(compile_and_standing(source, tables, facts, key, origin, &[], out)?.0)
}

/// The live objects and regions after a program, and the places of asked moments in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// The slot of each live object, in no order.
    pub slots: Vec<(ObjectId, u32)>,
    /// Each live region, and its row of `arenas`.
    pub regions: Vec<(u32, u32)>,
    /// For each asked moment the word before which everything has happened by then.
    pub moments: Vec<usize>,
}

/// [`compile`], and the state at the program's end. `moments_ns` are times in rising order; purges
/// up to the last of them belong to the program, even those after the last event.
pub fn compile_and_standing<W: Write + Seek>(
    source: &mut impl EventSource,
    tables: &Tables,
    facts: Facts,
    key: u64,
    origin: &Path,
    moments_ns: &[u64],
    out: W,
) -> Result<(Facts, Standing), TraceError> {
    let mut writer = Writer::new(out, origin)?;
    let mut compiler = Compiler { facts, regular_distance: 1, ..Compiler::default() };
    let mut row = 0;
    let mut batch = Vec::new();
    loop {
        source.next_batch(&mut batch)?;
        if batch.is_empty() {
            break;
        }
        for event in &batch {
            compiler.moments_before(Some(event.time_ns), moments_ns, tables);
            compiler.event(event, tables, row, origin)?;
            row += 1;
        }
        compiler.written_words += compiler.words.len() as u64;
        writer.words(&compiler.words)?;
        compiler.words.clear();
    }
    compiler.moments_before(None, moments_ns, tables);
    writer.words(&compiler.words)?;
    compiler.written_words += compiler.words.len() as u64;
    compiler.words.clear();
    let standing = Standing {
        moments: std::mem::take(&mut compiler.moments),
        slots: compiler.live.iter().map(|(object, live)| (*object, live.slot)).collect(),
        regions: compiler.regions.iter().map(|(arena, region)| (*region, *arena)).collect(),
    };
    let (facts, checkpoints) = compiler.finish();
    writer.finish(&facts, &checkpoints, key)?;
    Ok((facts, standing))
}

impl Compiler {
    fn event(
        &mut self,
        event: &Event,
        tables: &Tables,
        row: u64,
        origin: &Path,
    ) -> Result<(), TraceError> {
        if !event.counts() || self.is_outside(event) {
            self.facts.skipped_events += 1;
            return Ok(());
        }
        self.trims_before(event.time_ns, event.process, tables);
        match event.op {
            Op::Alloc => self.birth(event, tables, row, origin)?,
            Op::Free => self.death(event, row, origin)?,
            Op::Realloc => self.growth(event, row, origin)?,
            Op::UsableSizeRead => {
                self.switch_thread(event.thread, row, origin)?;
                let slot = self.slot_of(event.object, "asked for its usable size", row, origin)?;
                encoding::encode(&mut self.words, Step::UsableSize { slot });
                self.facts.usable_size_reads += 1;
            }
            Op::ArenaBirth => {
                self.switch_thread(event.thread, row, origin)?;
                self.region(event.arena, tables, row, origin)?;
            }
            Op::ArenaDeath => self.region_death(event, row, origin)?,
            Op::Mark => {
                let name = tables
                    .marks
                    .get(event.object as usize)
                    .map_or(String::new(), |mark| mark.name.clone());
                let mark = Checkpoint { mark: Some(self.facts.marks.len() as u32), ..self.here() };
                self.facts.marks.push(name);
                self.marks.push(mark);
            }
            Op::Promote => {
                self.slot_of(event.object, "promoted", row, origin)?;
                self.facts.skipped_events += 1;
            }
            Op::Reference => {
                let from = self.slot_of(event.object, "made to refer", row, origin)?;
                let to = if event.target == u64::MAX {
                    None
                } else {
                    Some(self.slot_of(event.target, "referred to", row, origin)?)
                };
                encoding::encode(
                    &mut self.words,
                    Step::Managed(Managed::Reference { from, field: event.field, to }),
                );
            }
            Op::Collect | Op::CollectYoung | Op::Trim => self.request(event, row, origin)?,
            Op::CollectBegin | Op::CollectEnd | Op::Report => self.facts.skipped_events += 1,
        }
        Ok(())
    }

    /// Whether the event is of memory outside of the recorded heap: a custom block of OCaml has it
    /// from malloc. On a heap it would be a block that the program never asked for.
    fn is_outside(&mut self, event: &Event) -> bool {
        if event.op == Op::Alloc {
            let is_outside = event.family == Family::Managed && event.origin == Origin::Custom;
            if is_outside {
                self.outside.insert(event.object);
                self.facts.outside_objects += 1;
            }
            return is_outside;
        }
        if self.outside.is_empty() {
            return false;
        }
        let is_of = |object: &ObjectId| self.outside.contains(object);
        match event.op {
            Op::Free => self.outside.remove(&event.object),
            Op::Promote => is_of(&event.object),
            Op::Reference => is_of(&event.object) || is_of(&event.target),
            _ => false,
        }
    }

    /// Adds the trims of a recorded heap before this time: where it gave memory back, another heap
    /// is asked to. Rows of `chunks` count events of all processes, so times decide.
    fn trims_before(&mut self, time_ns: u64, process: u32, tables: &Tables) {
        while let Some(chunk) =
            tables.chunks.get(self.chunks).filter(|chunk| chunk.time_ns < time_ns)
        {
            self.chunks += 1;
            if chunk.op == OpName::TRIM && chunk.process == process {
                encoding::encode(&mut self.words, Step::Managed(Managed::Trim));
            }
        }
    }

    /// Notes where the asked moments lie that are before an event of this time; `None`: the rest.
    fn moments_before(&mut self, time_ns: Option<u64>, moments_ns: &[u64], tables: &Tables) {
        let has_passed = |moment_ns: &&u64| time_ns.is_none_or(|time_ns| **moment_ns < time_ns);
        while let Some(moment_ns) = moments_ns.get(self.moments.len()).filter(has_passed) {
            let process = self.facts.process.unwrap_or(0);
            self.trims_before(moment_ns.saturating_add(1), process, tables);
            self.moments.push(self.here().word as usize);
        }
    }

    fn birth(
        &mut self,
        event: &Event,
        tables: &Tables,
        row: u64,
        origin: &Path,
    ) -> Result<(), TraceError> {
        self.switch_thread(event.thread, row, origin)?;
        check_request(event, row, origin)?;
        let region = self.region(event.arena, tables, row, origin)?;
        let slot = self.slots.take(self.thread);
        if u64::from(slot) >= SLOTS_MAX {
            return Err(limit(origin, row, "objects live at once", u64::from(slot) + 1, SLOTS_MAX));
        }
        if self.live.insert(event.object, Live { slot, region, size: event.size }).is_some() {
            let what = format!("object {} is born and was live already", event.object);
            return Err(TraceError::Order { path: origin.into(), row, what });
        }
        self.members.born(region, event.object, |object| self.live.contains_key(&object));
        let place = match event.origin {
            Origin::HiddenClass => Some(Managed::NextHiddenClass),
            _ => event.has(Flags::DIRECT_TO_OLD).then_some(Managed::NextOld),
        };
        place.into_iter().for_each(|next| encoding::encode(&mut self.words, Step::Managed(next)));
        self.facts.old_births += u64::from(place == Some(Managed::NextOld));
        self.facts.aligned_births += u64::from(event.align_log2 > WORD_LOG2);
        let (size, align_log2, zeroed) = (event.size, event.align_log2, event.has(Flags::ZEROED));
        encoding::encode_request(
            &mut self.words,
            Step::Allocate { slot, size, align_log2, zeroed, region },
        );
        self.live_bytes = self.live_bytes.saturating_add(size);
        self.facts.objects += 1;
        self.facts.block_size_max = self.facts.block_size_max.max(size);
        self.counted();
        Ok(())
    }

    fn death(&mut self, event: &Event, row: u64, origin: &Path) -> Result<(), TraceError> {
        self.switch_thread(event.thread, row, origin)?;
        let Some(dead) = self.live.remove(&event.object) else {
            let what = format!("object {} is freed and not live", event.object);
            return Err(TraceError::Order { path: origin.into(), row, what });
        };
        if self.facts.death_rule == BY_REACHABILITY {
            // The object lives while others refer to it, for as long as each heap takes to find
            // out: its slot stays its own.
            self.live_bytes = self.live_bytes.saturating_sub(dead.size);
            encoding::encode(&mut self.words, Step::Managed(Managed::Release { slot: dead.slot }));
        } else {
            self.retire(&dead);
            encoding::encode(&mut self.words, Step::Free { slot: dead.slot });
        }
        self.counted();
        Ok(())
    }

    /// Adds the program's requests to its heap as a whole.
    fn request(&mut self, event: &Event, row: u64, origin: &Path) -> Result<(), TraceError> {
        self.switch_thread(event.thread, row, origin)?;
        let managed = match event.op {
            Op::Collect => Managed::Collect,
            Op::CollectYoung => Managed::CollectYoung,
            _ => Managed::Trim,
        };
        self.facts.forced_collections += u64::from(event.op != Op::Trim);
        encoding::encode(&mut self.words, Step::Managed(managed));
        Ok(())
    }

    fn slot_of(
        &self,
        object: ObjectId,
        what: &str,
        row: u64,
        origin: &Path,
    ) -> Result<u32, TraceError> {
        let live = self.live.get(&object).map(|live| live.slot);
        live.ok_or_else(|| TraceError::Order {
            path: origin.into(),
            row,
            what: format!("object {object} is {what} and not live"),
        })
    }

    fn growth(&mut self, event: &Event, row: u64, origin: &Path) -> Result<(), TraceError> {
        self.switch_thread(event.thread, row, origin)?;
        check_request(event, row, origin)?;
        let Some(live) = self.live.get_mut(&event.object) else {
            let what = format!("object {} is reallocated and not live", event.object);
            return Err(TraceError::Order { path: origin.into(), row, what });
        };
        let old = std::mem::replace(&mut live.size, event.size);
        let (slot, region) = (live.slot, live.region);
        let step =
            Step::Reallocate { slot, size: event.size, align_log2: event.align_log2, region };
        encoding::encode_request(&mut self.words, step);
        self.live_bytes = self.live_bytes.saturating_sub(old).saturating_add(event.size);
        self.facts.block_size_max = self.facts.block_size_max.max(event.size);
        self.counted();
        Ok(())
    }

    fn region_death(&mut self, event: &Event, row: u64, origin: &Path) -> Result<(), TraceError> {
        self.switch_thread(event.thread, row, origin)?;
        let Some(region) = self.regions.remove(&event.arena).filter(|_| event.arena != 0) else {
            let what = format!("arena {} ends and never began", event.arena);
            return Err(TraceError::Order { path: origin.into(), row, what });
        };
        let members = self.members.died(region);
        let dead: Vec<Live> =
            members.iter().filter_map(|object| self.live.remove(object)).collect();
        encoding::encode(
            &mut self.words,
            Step::RegionDeath { region, first: 0, members: dead.len() },
        );
        for member in &dead {
            self.words.push(member.slot);
            self.retire(member);
        }
        Ok(())
    }

    fn retire(&mut self, dead: &Live) {
        self.live_bytes = self.live_bytes.saturating_sub(dead.size);
        self.slots.give(dead.slot, self.thread);
    }

    /// The dense number of the bundle's `arena`; a new arena begins here.
    fn region(
        &mut self,
        arena: u32,
        tables: &Tables,
        row: u64,
        origin: &Path,
    ) -> Result<u32, TraceError> {
        if arena == 0 {
            return Ok(0);
        }
        if let Some(region) = self.regions.get(&arena) {
            return Ok(*region);
        }
        self.facts.regions += 1;
        if self.facts.regions >= REGIONS_MAX {
            return Err(limit(
                origin,
                row,
                "arenas",
                self.facts.regions.into(),
                (REGIONS_MAX - 1).into(),
            ));
        }
        self.regions.insert(arena, self.facts.regions);
        if self.facts.kind_of_region.is_empty() {
            self.note_kind(tables, 0);
        }
        self.note_kind(tables, arena);
        encoding::encode(&mut self.words, Step::RegionBirth { region: self.facts.regions });
        Ok(self.facts.regions)
    }

    /// Notes that the next region is the bundle's `arena`.
    fn note_kind(&mut self, tables: &Tables, arena: u32) {
        let row = tables.arenas.get(arena as usize);
        let kind = row.map_or_else(RegionKind::default, |row| RegionKind {
            kind: row.kind.clone(),
            growth_policy: row.growth_policy.clone(),
        });
        let next = self.facts.region_kinds.len() as u32;
        let index = *self.kinds.entry(kind.clone()).or_insert(next);
        if index == next {
            self.facts.region_kinds.push(kind);
        }
        self.facts.kind_of_region.push(index);
    }

    fn switch_thread(&mut self, thread: u32, row: u64, origin: &Path) -> Result<(), TraceError> {
        let next = self.threads.len() as u32;
        let dense = *self.threads.entry(thread).or_insert(next);
        if dense >= THREADS_MAX {
            return Err(limit(origin, row, "threads", u64::from(dense) + 1, THREADS_MAX.into()));
        }
        if dense != self.thread {
            self.thread = dense;
            encoding::encode(&mut self.words, Step::Thread { thread: dense });
        }
        Ok(())
    }

    fn here(&self) -> Checkpoint {
        Checkpoint {
            word: self.written_words + self.words.len() as u64,
            event: self.facts.events,
            requested_bytes: self.live_bytes,
            live_objects: self.live.len() as u64,
            mark: None,
        }
    }

    /// Counts one more encoded event.
    fn counted(&mut self) {
        self.facts.events += 1;
        let peak = self.live_bytes > self.peak.requested_bytes;
        let regular = self.facts.events.is_multiple_of(self.regular_distance);
        if !peak && !regular {
            return;
        }
        let here = self.here();
        if peak {
            self.peak = here.clone();
        }
        if regular {
            self.regular.push(here);
            if self.regular.len() == REGULAR_CHECKPOINTS_MAX {
                self.regular_distance *= 2;
                self.regular
                    .retain(|checkpoint| checkpoint.event.is_multiple_of(self.regular_distance));
            }
        }
    }

    fn finish(mut self) -> (Facts, Vec<Checkpoint>) {
        let end = self.here();
        self.facts.peak_requested_bytes = self.peak.requested_bytes;
        self.facts.end_requested_bytes = self.live_bytes;
        self.facts.slots = self.slots.made();
        self.facts.threads = self.threads.len() as u32;
        let mut checkpoints = self.regular;
        checkpoints.append(&mut self.marks);
        checkpoints.extend([self.peak, end]);
        // Stable, so marks between the same two instructions keep their order.
        checkpoints.sort_by_key(|checkpoint| (checkpoint.word, checkpoint.mark));
        checkpoints.dedup_by(|later, earlier| {
            later.word == earlier.word && later.mark.is_none() && earlier.mark.is_none()
        });
        (self.facts, checkpoints)
    }
}

fn check_request(event: &Event, row: u64, origin: &Path) -> Result<(), TraceError> {
    if event.size > SIZE_MAX {
        return Err(limit(origin, row, "size of a block", event.size, SIZE_MAX));
    }
    if event.align_log2 > ALIGN_LOG2_MAX {
        return Err(limit(
            origin,
            row,
            "log2 of an alignment",
            event.align_log2.into(),
            ALIGN_LOG2_MAX.into(),
        ));
    }
    Ok(())
}

fn limit(origin: &Path, row: u64, what: &'static str, found: u64, limit: u64) -> TraceError {
    TraceError::Limit { path: origin.into(), place: format!("event {row}"), what, found, limit }
}
