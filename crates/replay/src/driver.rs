//! The loop: decode an instruction, call the heap, keep the block in its slot.
//!
//! It must cost little beside the heap (docs/measuring.md has what it costs), so there is nothing in it but a bounds
//! check, an alignment check and the slot: instructions are read from mapped words in order, slots are reused, and the
//! entry of a slot is fetched into the cache while the instructions before it run. The heap's own memory is never
//! fetched ahead: that would do a part of the heap's work unmeasured.
//!
//! Any program is safe to run, a damaged one too: a slot is checked to be inside the table, empty before a birth and
//! taken before anything else, so that a heap only ever gets back what it gave. (Which blocks die with an arena is read
//! from the program, behind its checksum; only heaps with regions of their own believe it.)

use crate::cell::Runs;
use crate::pages::Pages;
use crate::touch::{Touch, touch};
use heaplab_heap::{Allocating, Region, Request};
use heaplab_trace::program::{Corrupt, Managed, Program, Step, decode, slot_at};
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

/// The blocks that are live, by slot. Entries are atomic so that threads may share it; on one thread that costs nothing.
pub type Table = Pages<AtomicPtr<u8>>;

/// How far ahead of the instruction that runs a slot's entry is fetched, in words.
const PREFETCH_WORDS: usize = 32;

/// How the error begins that says that the heap had no memory.
pub const RETURNED_NULL: &str = "the heap returned NULL";

/// Why a replay ended early.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// The heap returned no block.
    #[error("{RETURNED_NULL} for {size} bytes aligned to {align} ({what}, word {word} of the program)")]
    Refused {
        /// Word of the instruction.
        word: usize,
        /// "allocation" or "reallocation".
        what: &'static str,
        /// Bytes requested.
        size: u64,
        /// Alignment requested.
        align: u64,
    },
    /// The heap returned a block that is not aligned as it must be.
    #[error("the heap returned {address:#x} for {size} bytes aligned to {align} (word {word} of the program)")]
    Misaligned {
        /// Word of the instruction.
        word: usize,
        /// Where the block lies.
        address: usize,
        /// Bytes requested.
        size: u64,
        /// Alignment that the block must have.
        align: u64,
    },
    /// The program is damaged.
    #[error(transparent)]
    Corrupt(#[from] Corrupt),
    /// The program does what no program can: it frees what is not there, or puts two blocks in one slot.
    #[error("word {word} of the replay program: slot {slot} is {found}")]
    Slot {
        /// Word of the instruction.
        word: usize,
        /// The slot.
        slot: u32,
        /// What is wrong with it.
        found: &'static str,
    },
    /// A heap that collects has no room, though it collected.
    #[error("{error} (word {word} of the program)")]
    OutOfMemory {
        /// Word of the instruction.
        word: usize,
        /// The heap's own words.
        error: String,
    },
    /// The driver's own memory could not be had.
    #[error("no memory for the driver's tables: {0}")]
    Memory(String),
    /// Threads cannot replay this program.
    #[error("{0}")]
    Threads(String),
}

impl From<std::io::Error> for ReplayError {
    fn from(error: std::io::Error) -> Self {
        ReplayError::Memory(error.to_string())
    }
}

/// Runs one program on one heap, in recorded order on this thread.
pub struct Driver<'a, H> {
    program: &'a Program,
    heap: H,
    table: Table,
    at: usize,
    /// One bit a region, for [`Driver::rewind`]: written before anything is measured.
    regions: Pages<u64>,
}

impl<'a, H: Allocating> Driver<'a, H> {
    /// A driver at the beginning of `program`. Its table is written here, before anything is measured.
    pub fn new(program: &'a Program, heap: H) -> Result<Self, ReplayError> {
        let regions = if H::REGIONS { Pages::zeroed(regions(program).div_ceil(64))? } else { Pages::new() };
        Ok(Driver { program, heap, table: Table::zeroed(program.facts().slots as usize)?, at: 0, regions })
    }

    /// Runs the instructions before word `end`.
    pub fn run_to(&mut self, end: usize, policy: Touch) -> Result<(), ReplayError> {
        run(policy, self.program.words(), &mut self.at, end, &self.table, &mut self.heap)
    }

    /// Runs to the program's end.
    pub fn run(&mut self, policy: Touch) -> Result<(), ReplayError> {
        self.run_to(self.program.words().len(), policy)
    }

    /// Frees what is live, ends the regions that are alive, and goes back to the beginning.
    pub fn rewind(&mut self) {
        release(&self.table, &mut self.heap);
        if H::REGIONS {
            self.end_regions();
        }
        self.at = 0;
    }

    /// Ends the regions that outlive the program. Alive, they would go on growing with the next pass.
    fn end_regions(&mut self) {
        let alive = self.regions.as_mut_slice();
        alive.fill(0);
        let ran = self.program.steps().map_while(Result::ok).take_while(|(word, _)| *word < self.at);
        for (_, step) in ran {
            let (Step::RegionBirth { region } | Step::RegionDeath { region, .. }) = step else { continue };
            if let Some(bits) = alive.get_mut(region as usize / 64) {
                let bit = 1 << (region % 64);
                *bits = if matches!(step, Step::RegionBirth { .. }) { *bits | bit } else { *bits & !bit };
            }
        }
        for (nth, bits) in alive.iter().enumerate() {
            for bit in (0..64).filter(|bit| bits >> bit & 1 == 1) {
                // SAFETY: its blocks have left the table.
                unsafe { self.heap.end_region(Region(nth as u32 * 64 + bit)) };
            }
        }
    }

    /// The heap.
    pub fn heap(&mut self) -> &mut H {
        &mut self.heap
    }

    /// Where the block of a slot lies; `None`: the slot is empty, or there is none of that number.
    pub fn block(&self, slot: u32) -> Option<NonNull<u8>> {
        NonNull::new(self.table.get(slot as usize)?.load(Relaxed))
    }
}

impl<H: Allocating> Runs for Driver<'_, H> {
    type Heap = H;

    fn heap(&mut self) -> &mut H {
        &mut self.heap
    }

    fn pass(&mut self, touch: Touch) -> Result<(), ReplayError> {
        self.run(touch)
    }

    fn pass_with(&mut self, touch: Touch, mut each: impl FnMut(&mut H) -> Result<(), ReplayError>) -> Result<(), ReplayError> {
        for checkpoint in self.program.checkpoints() {
            self.run_to(checkpoint.word as usize, touch)?;
            each(&mut self.heap)?;
        }
        Ok(())
    }

    fn rewind(&mut self) {
        Driver::rewind(self);
    }

    /// CPU time: what other processes take from this one is not the heap's.
    fn clock() -> u64 {
        crate::system::cpu_ns()
    }
}

/// One more than the largest number of a region that begins. A damaged program's number cannot be larger than the program.
fn regions(program: &Program) -> usize {
    let numbers = program.steps().flatten().filter_map(|(_, step)| match step {
        Step::RegionBirth { region } => Some(region as usize + 1),
        _ => None,
    });
    numbers.max().unwrap_or(0).min(program.words().len())
}

/// Frees every block of `table`.
pub(crate) fn release<H: Allocating>(table: &[AtomicPtr<u8>], heap: &mut H) {
    for entry in table {
        if let Some(block) = NonNull::new(entry.swap(null_mut(), Relaxed)) {
            // SAFETY: the table holds only live blocks of this heap, and this one has just left it.
            unsafe { heap.deallocate(block) };
        }
    }
}

/// Runs the instructions of `words` from `*at` to `end`.
pub(crate) fn run<H: Allocating>(
    policy: Touch,
    words: &[u32],
    at: &mut usize,
    end: usize,
    table: &[AtomicPtr<u8>],
    heap: &mut H,
) -> Result<(), ReplayError> {
    match policy {
        Touch::All => run_touching::<H, { Touch::ALL }>(words, at, end, table, heap),
        Touch::Known => run_touching::<H, { Touch::KNOWN }>(words, at, end, table, heap),
        Touch::None => run_touching::<H, { Touch::NONE }>(words, at, end, table, heap),
    }
}

fn run_touching<H: Allocating, const POLICY: u8>(
    words: &[u32],
    at: &mut usize,
    end: usize,
    table: &[AtomicPtr<u8>],
    heap: &mut H,
) -> Result<(), ReplayError> {
    let words = &words[..end.min(words.len())];
    let mut next = *at;
    loop {
        let word = next;
        if let Some(ahead) = words.get(word + PREFETCH_WORDS) {
            prefetch(table.as_ptr().wrapping_add(slot_at(*ahead)));
        }
        let Some(step) = decode(words, &mut next)? else { break };
        match step {
            Step::Free { slot } => {
                let block = take(table, slot, word)?;
                // SAFETY: the table holds only live blocks of this heap, and this one has just left it.
                unsafe { heap.deallocate(block) };
            }
            Step::Allocate { slot, size, align_log2, zeroed, region } => {
                let entry = entry(table, slot, word)?;
                if !entry.load(Relaxed).is_null() {
                    return Err(ReplayError::Slot { word, slot, found: "taken already" });
                }
                let request = Request { size: size as usize, align: 1 << align_log2, zeroed, region: Region(region) };
                let block = heap.allocate(request).ok_or_else(|| refused(word, "allocation", request))?;
                entry.store(block.as_ptr(), Relaxed);
                check_alignment(block, request, word)?;
                // SAFETY: the heap has just given this block for this request.
                unsafe { touch::<POLICY>(block, request) };
            }
            Step::Reallocate { slot, size, align_log2, region } => {
                let entry = entry(table, slot, word)?;
                let Some(block) = NonNull::new(entry.load(Relaxed)) else {
                    return Err(ReplayError::Slot { word, slot, found: "empty" });
                };
                let request = Request { size: size as usize, align: 1 << align_log2, zeroed: false, region: Region(region) };
                // SAFETY: the table holds only live blocks of this heap; it gets the new address below.
                let block = unsafe { heap.reallocate(block, request) }.ok_or_else(|| refused(word, "reallocation", request))?;
                entry.store(block.as_ptr(), Relaxed);
                check_alignment(block, request, word)?;
                // SAFETY: the heap has just given this block for this request.
                unsafe { touch::<POLICY>(block, request) };
            }
            Step::UsableSize { slot } => {
                let Some(block) = NonNull::new(entry(table, slot, word)?.load(Relaxed)) else {
                    return Err(ReplayError::Slot { word, slot, found: "empty" });
                };
                // SAFETY: the table holds only live blocks of this heap.
                std::hint::black_box(unsafe { heap.usable_size(block) });
            }
            Step::Thread { .. } => {}
            Step::Managed(managed) => heed(table, heap, managed, word)?,
            Step::RegionBirth { region } => heap.begin_region(Region(region)),
            Step::RegionDeath { region, first, members } => {
                end_region(table, heap, Region(region), &words[first..first + members], word)?;
            }
        }
    }
    *at = next;
    Ok(())
}

#[inline(always)]
fn entry(table: &[AtomicPtr<u8>], slot: u32, word: usize) -> Result<&AtomicPtr<u8>, ReplayError> {
    table.get(slot as usize).ok_or(ReplayError::Slot { word, slot, found: "outside of the table" })
}

#[inline(always)]
fn take(table: &[AtomicPtr<u8>], slot: u32, word: usize) -> Result<NonNull<u8>, ReplayError> {
    let entry = entry(table, slot, word)?;
    let block = NonNull::new(entry.load(Relaxed)).ok_or(ReplayError::Slot { word, slot, found: "empty" })?;
    entry.store(null_mut(), Relaxed);
    Ok(block)
}

#[inline(always)]
fn check_alignment(block: NonNull<u8>, request: Request, word: usize) -> Result<(), ReplayError> {
    let align = request.required_align();
    let address = block.as_ptr() as usize;
    if address & (align - 1) == 0 {
        return Ok(());
    }
    Err(ReplayError::Misaligned { word, address, size: request.size as u64, align: align as u64 })
}

#[cold]
fn refused(word: usize, what: &'static str, request: Request) -> ReplayError {
    ReplayError::Refused { word, what, size: request.size as u64, align: request.align as u64 }
}

/// What a heap whose blocks the program frees does with an instruction for heaps that collect.
#[cold]
fn heed<H: Allocating>(table: &[AtomicPtr<u8>], heap: &mut H, managed: Managed, word: usize) -> Result<(), ReplayError> {
    match managed {
        Managed::Trim => {
            heap.trim();
        }
        Managed::Release { slot } => {
            let block = take(table, slot, word)?;
            // SAFETY: the table holds only live blocks of this heap, and this one has just left it.
            unsafe { heap.deallocate(block) };
        }
        Managed::Collect | Managed::CollectYoung | Managed::NextOld | Managed::Promote { .. } | Managed::Reference { .. } => {}
    }
    Ok(())
}

#[cold]
fn end_region<H: Allocating>(
    table: &[AtomicPtr<u8>],
    heap: &mut H,
    region: Region,
    members: &[u32],
    word: usize,
) -> Result<(), ReplayError> {
    for slot in members {
        let block = take(table, *slot, word)?;
        if !H::REGIONS {
            // SAFETY: the table holds only live blocks of this heap, and this one has just left it.
            unsafe { heap.deallocate(block) };
        }
    }
    // SAFETY: the region's blocks have left the table.
    unsafe { heap.end_region(region) };
    Ok(())
}

#[inline(always)]
fn prefetch<T>(address: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch may name any address and changes nothing.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address.cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a prefetch may name any address and changes nothing.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{0}]", in(reg) address, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = address;
}
