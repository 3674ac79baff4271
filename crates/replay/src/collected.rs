//! The loop for heaps that collect: births and deaths go to the driver's slots, and the heap finds
//! them out.
//!
//! A free of the workload only empties its slot. A reallocation is a birth in the same slot: the
//! content is copied and the old object dies, as in a language with arrays that do not grow in
//! place. Arenas are nothing but their objects.
//!
//! Any program is safe to run, even a damaged one: slots and fields are checked, and the heap
//! learns only of objects that it returned itself.

use crate::cell::{CellKind, CellReport, CellRequest, SpaceReport, TimeReport, canary};
use crate::driver::ReplayError;
use crate::slots::{Fullest, Slots};
use crate::touch::{Touch, touch};
use crate::{SpaceSample, system};
use heaplab_heap::witness::{Objects, Witness, check_after_full};
use heaplab_heap::{
    Ask, Birth, Collected, Collection, Origin, OutOfMemory, Place, Request, Violation,
};
use heaplab_trace::program::{
    Managed, Program, Step, TRANSIENT_WORDS, decode, is_freed_at, slot_at, transients,
};
use std::ptr::NonNull;

/// Distance between the current instruction and the prefetch of a slot's entry, in words.
const PREFETCH_WORDS: usize = 24;

/// Most fields of an object: a damaged program names any number.
const FIELDS_MAX: u32 = 1 << 20;

/// Serves `request` with a heap that collects.
pub fn run<H: Collected>(heap: H, program: &Program, request: &CellRequest) -> CellReport {
    if request.threads {
        let reason = format!(
            "{} collects for one thread; replay it in recorded order (without --threads)",
            request.heap
        );
        return CellReport::Failed { reason };
    }
    let report = match request.kind {
        CellKind::Space => Slots::new(program.facts().slots)
            .and_then(|slots| space(Driver::new(program, heap, slots), request)),
        CellKind::Time => Slots::new(program.facts().slots)
            .and_then(|slots| time(Driver::new(program, heap, slots), request)),
        CellKind::Verify => verify(Driver::new(program, heap, Witness::new(program.facts().slots))),
        CellKind::Canary => return canary(),
    };
    report.unwrap_or_else(|error| CellReport::Failed { reason: error.to_string() })
}

/// Runs one program on one collected heap, in recorded order on this thread.
pub struct Driver<'a, H, W> {
    program: &'a Program,
    heap: H,
    world: W,
    at: usize,
    /// The place of the next birth.
    next: Place,
}

impl<'a, H: Collected, W: Objects> Driver<'a, H, W> {
    /// A driver at the beginning of `program`.
    pub fn new(program: &'a Program, heap: H, world: W) -> Self {
        Driver { program, heap, world, at: 0, next: Place::Any }
    }

    /// The heap.
    pub fn heap(&mut self) -> &mut H {
        &mut self.heap
    }

    /// The workload's objects.
    pub fn world(&self) -> &W {
        &self.world
    }

    /// Runs the instructions before word `end`.
    ///
    /// # Errors
    /// The program is damaged, or the heap is out of memory.
    pub fn run_to(&mut self, end: usize, policy: Touch) -> Result<(), ReplayError> {
        match policy {
            Touch::All => self.run_touching::<{ Touch::ALL }>(end),
            Touch::Known => self.run_touching::<{ Touch::KNOWN }>(end),
            Touch::None => self.run_touching::<{ Touch::NONE }>(end),
        }
    }

    /// Runs until the heap has collected `collections` times, to the end of that instruction. Runs
    /// to the program's end if `collections` is `None` or the heap collects less often. Writes no
    /// object.
    ///
    /// # Errors
    /// As for [`Driver::run_to`].
    pub fn run_until(&mut self, collections: Option<usize>) -> Result<(), ReplayError> {
        let words = self.program.words().len();
        let Some(wanted) = collections else { return self.run_to(words, Touch::None) };
        while self.at < words && self.heap.collections().len() < wanted {
            self.run_to(self.at + 1, Touch::None)?;
        }
        Ok(())
    }

    fn run_touching<const POLICY: u8>(&mut self, end: usize) -> Result<(), ReplayError> {
        // Local, so that it stays in a register.
        let mut at = self.at;
        let done = self.run_from::<POLICY>(&mut at, end);
        self.at = at;
        done
    }

    #[inline(always)]
    fn run_from<const POLICY: u8>(
        &mut self,
        at: &mut usize,
        end: usize,
    ) -> Result<(), ReplayError> {
        let words = self.program.words();
        while *at < end {
            let word = *at;
            if let Some(ahead) = words.get(word + PREFETCH_WORDS) {
                self.world.ahead(slot_at(*ahead));
                self.heap.ahead(slot_at(*ahead));
            }
            let Some(step) = decode(words, at)? else { return Ok(()) };
            match step {
                Step::Allocate { slot, size, align_log2, zeroed, .. } => {
                    if slot >= self.world.slots() || self.world.object(slot).is_some() {
                        let found =
                            if slot < self.world.slots() { "taken already" } else { OUTSIDE };
                        return Err(ReplayError::Slot { word, slot, found });
                    }
                    let request =
                        Request { zeroed, align: 1 << align_log2, ..Request::of(size as usize) };
                    // Most births are not transient, and a look at the words costs less than a call
                    // of the heap.
                    if !W::SEES_ALL && self.next == Place::Any && is_freed_at(words, *at, slot) {
                        let run = &words[word..end.min(words.len())];
                        let born = self.transients::<POLICY>(slot, run, request);
                        if born > 0 {
                            *at = word + born * TRANSIENT_WORDS;
                            continue;
                        }
                    }
                    self.birth::<POLICY>(slot, request, None, word)?;
                }
                Step::Reallocate { slot, size, align_log2, .. } => {
                    let before = self.held(slot, word)?.1;
                    let request = Request { align: 1 << align_log2, ..Request::of(size as usize) };
                    self.birth::<POLICY>(slot, request, Some(before), word)?;
                }
                Step::Free { slot } => self.death(slot, word)?,
                Step::RegionDeath { first, members, .. } => {
                    for slot in &words[first..first + members] {
                        self.death(*slot, word)?;
                    }
                }
                Step::Managed(managed) => self.managed(managed, word)?,
                Step::UsableSize { .. } | Step::Thread { .. } | Step::RegionBirth { .. } => {}
            }
        }
        Ok(())
    }

    /// Address and bytes of the object in `slot`.
    #[inline(always)]
    fn held(&self, slot: u32, word: usize) -> Result<(NonNull<u8>, usize), ReplayError> {
        let held = self.world.object(slot).map(|object| (object.address, object.size));
        held.ok_or(ReplayError::Slot { word, slot, found: "empty" })
    }

    /// An object is born in `slot`, with the content of the object that it replaces, of `before`
    /// bytes.
    #[inline(always)]
    fn birth<const POLICY: u8>(
        &mut self,
        slot: u32,
        request: Request,
        before: Option<usize>,
        word: usize,
    ) -> Result<(), ReplayError> {
        let place = std::mem::take(&mut self.next);
        let birth = Birth {
            slot,
            size: request.size,
            align: request.align,
            origin: Origin::Generated,
            place,
        };
        let born = self.heap.allocate(birth, &mut self.world);
        let born = born.map_err(|error| self.out_of_memory(word, &error))?;
        let request = Request { size: self.heap.body_bytes(&birth), ..request };
        // The old object may have moved while the heap made room.
        let replaced = self.world.object(slot).map(|object| object.address);
        if let (Some(bytes), Some(replaced)) = (before, replaced) {
            // SAFETY: both objects are live and hold at least this many bytes, and two objects
            // share none.
            unsafe { born.copy_from_nonoverlapping(replaced, bytes.min(request.size)) };
        }
        self.world.born(slot, born, request.size);
        self.heap.stored(slot, replaced, Some(born));
        // SAFETY: the heap has just given this object for this request.
        unsafe { touch::<POLICY>(born, request) };
        self.safepoint(word)
    }

    /// Transient objects are born in `slot` and die. Stops when `words` end the run or when the
    /// heap wants single steps. Returns how many were born. Each request equals `like` except for
    /// its size.
    #[inline(always)]
    fn transients<const POLICY: u8>(&mut self, slot: u32, words: &[u32], like: Request) -> usize {
        self.heap.transients(slot, transients(words), |body, size| {
            // SAFETY: the heap has just given these bytes, and no other object has them: nothing
            // was born since.
            unsafe { touch::<POLICY>(body, Request { size, ..like }) };
        })
    }

    #[inline(always)]
    fn safepoint(&mut self, word: usize) -> Result<(), ReplayError> {
        let done = self.heap.safepoint(&mut self.world);
        done.map_err(|error| self.out_of_memory(word, &error))
    }

    #[cold]
    fn out_of_memory(&self, word: usize, error: &OutOfMemory) -> ReplayError {
        let words = self.program.words().len().max(1);
        let percent = (word * 100 / words) as u32;
        ReplayError::OutOfMemory { percent, error: error.to_string() }
    }

    #[inline(always)]
    fn death(&mut self, slot: u32, word: usize) -> Result<(), ReplayError> {
        let (address, _) = self.held(slot, word)?;
        self.world.died(slot);
        self.heap.stored(slot, Some(address), None);
        self.safepoint(word)
    }

    #[cold]
    fn managed(&mut self, managed: Managed, word: usize) -> Result<(), ReplayError> {
        match managed {
            Managed::Collect => self.collect(Ask::Full, word)?,
            Managed::CollectYoung => self.collect(Ask::Minor, word)?,
            Managed::Trim => {
                self.heap.trim();
            }
            Managed::NextOld => self.next = Place::Old,
            Managed::NextHiddenClass => self.next = Place::HiddenClass,
            Managed::Release { slot } => {
                self.held(slot, word)?;
                self.world.released(slot);
            }
            Managed::Reference { from, field, to } => {
                // This heap, unlike the recorded one, may have reclaimed an object that the program
                // let go of.
                let known = self.world.object(from).is_some()
                    && to.is_none_or(|to| self.world.object(to).is_some());
                if field >= FIELDS_MAX {
                    return Err(ReplayError::Slot {
                        word,
                        slot: from,
                        found: "given a field beyond the millionth",
                    });
                }
                if known {
                    self.world.referred(from, field, to);
                    to.into_iter().for_each(|to| self.heap.linked(from, to));
                }
            }
        }
        Ok(())
    }

    fn collect(&mut self, ask: Ask, word: usize) -> Result<(), ReplayError> {
        let done = self.heap.collect(ask, &mut self.world);
        done.map_err(|error| self.out_of_memory(word, &error))?;
        // Work that the collection itself requested runs before the program's next step.
        self.safepoint(word)
    }

    /// Lets everything die and returns to the beginning. These collections belong to no pass.
    fn rewind(&mut self) -> Result<(), ReplayError> {
        for slot in 0..self.world.slots() {
            if let Some(object) = self.world.object(slot) {
                self.world.died(slot);
                self.heap.stored(slot, Some(object.address), None);
            }
        }
        (self.at, self.next) = (0, Place::Any);
        self.collect(Ask::Full, 0)
    }
}

const OUTSIDE: &str = "outside of the table";

fn space<H: Collected>(
    mut driver: Driver<'_, H, Slots>,
    request: &CellRequest,
) -> Result<CellReport, ReplayError> {
    let anonymous = || {
        system::anonymous()
            .ok_or_else(|| ReplayError::Memory("/proc/self tells no anonymous memory".into()))
    };
    let checkpoints = driver.program.checkpoints();
    let mut samples = Vec::with_capacity(checkpoints.len());
    anonymous()?;
    let baseline = anonymous()?;
    driver.world.watch_collections();
    for checkpoint in checkpoints {
        driver.run_to(checkpoint.word as usize, request.touch)?;
        let (now, footprint) = (anonymous()?, driver.heap.footprint());
        let mut sample = SpaceSample {
            anonymous_bytes: now.bytes,
            huge_bytes: now.huge_bytes,
            committed_bytes: footprint.committed_bytes,
            active_bytes: footprint.active_bytes,
        };
        // A copying collection holds more than the heap at any checkpoint.
        if let Some(Fullest { committed_bytes, anonymous }) = driver.world.take_fullest() {
            sample.committed_bytes = sample.committed_bytes.map(|bytes| bytes.max(committed_bytes));
            if anonymous.bytes > now.bytes {
                sample.anonymous_bytes = anonymous.bytes;
                sample.huge_bytes = anonymous.huge_bytes;
            }
        }
        samples.push(sample);
    }
    driver.run_to(usize::MAX, request.touch)?;
    let (collections, log) = (driver.heap.collections().to_vec(), driver.heap.log());
    let trimmed_bytes = if driver.heap.trim() { Some(anonymous()?.bytes) } else { None };
    let (baseline_bytes, baseline_huge_bytes) = (baseline.bytes, baseline.huge_bytes);
    let version = driver.heap.version();
    Ok(CellReport::Space(SpaceReport {
        version,
        baseline_bytes,
        baseline_huge_bytes,
        samples,
        trimmed_bytes,
        collections,
        log,
    }))
}

/// Each pass begins on a heap that has collected everything; the reported collections are those of
/// the first pass.
fn time<H: Collected>(
    mut driver: Driver<'_, H, Slots>,
    request: &CellRequest,
) -> Result<CellReport, ReplayError> {
    let mut passes_ns = Vec::with_capacity(request.passes as usize);
    let mut collections: Option<Vec<Collection>> = None;
    driver.heap.measure_pauses();
    let (cpu, faults) = (system::cpu_ns(), system::minor_faults());
    for _ in 0..request.passes {
        let begin = system::cpu_ns();
        driver.run_to(usize::MAX, request.touch)?;
        passes_ns.push(system::cpu_ns() - begin);
        collections.get_or_insert_with(|| driver.heap.collections().to_vec());
        driver.rewind()?;
    }
    let (cpu_ns, minor_faults) = (system::cpu_ns() - cpu, system::minor_faults() - faults);
    let version = driver.heap.version();
    Ok(CellReport::Time(TimeReport {
        version,
        passes_ns,
        cpu_ns,
        minor_faults,
        collections: collections.unwrap_or_default(),
    }))
}

fn verify<H: Collected>(mut driver: Driver<'_, H, Witness>) -> Result<CellReport, ReplayError> {
    let failed = |violation: Violation| Ok(CellReport::Failed { reason: violation.to_string() });
    let mut settled = 0;
    let words = driver.program.words().len();
    while driver.at < words {
        // The witness fills objects itself; the driver's own stores would look like damage to it.
        driver.run_to(driver.at + 1, Touch::None)?;
        let activity = driver.heap.activity();
        if activity > settled {
            settled = activity;
            driver.world.settle();
            if let Err(error) = driver.heap.check_deep() {
                return failed(error.into());
            }
        }
        if let Some(violation) = driver.world.violation() {
            return failed(violation.clone());
        }
    }
    driver.collect(Ask::Full, words)?;
    driver.world.settle();
    if let Some(violation) = driver.world.violation() {
        return failed(violation.clone());
    }
    match check_after_full(&driver.heap, &driver.world) {
        Ok(()) => Ok(CellReport::Verified { version: driver.heap.version() }),
        Err(violation) => failed(violation),
    }
}
