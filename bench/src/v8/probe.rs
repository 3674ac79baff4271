//! One mechanism, repeated `count` times. Runs in a process of its own, under callgrind or alone;
//! the difference of two runs with different counts is the mechanism alone.

use anyhow::{Context, Result, bail, ensure};
use heaplab_heap::{Collected, Origin};
use heaplab_replay::Touch;
use heaplab_replay::collected::Driver;
use heaplab_replay::slots::Slots;
use heaplab_trace::program::Program;
use heaplab_v8::facts::VERSIONS;
use heaplab_v8::page::Pages;
use heaplab_v8::space::{MAIN, OldGeneration};
use heaplab_v8::{Spec, V8Heap, facts, strategy};
use std::hint::black_box;
use std::path::PathBuf;

/// Bytes of every block of a probe.
pub const BLOCK_BYTES: usize = 64;

/// Arguments of the hidden probe.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub struct Args {
    /// What to do
    #[arg(long, hide = true)]
    pub probe: Option<Probe>,
    /// How often
    #[arg(long, hide = true, default_value_t = 0)]
    count: usize,
    /// The workload of `replay` and `memory`
    #[arg(long, hide = true)]
    program: Option<PathBuf>,
    /// The heap of `replay` and `memory`, without `v8:`
    #[arg(long, hide = true, default_value = "many")]
    heap: String,
}

/// A mechanism.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Probe {
    /// The loop around the others.
    Nothing,
    /// Allocation in a linear area of old space.
    Linear,
    /// A refill by a node that fits.
    Refill,
    /// Sweeping a page with every second block alive.
    Sweep,
    /// mimalloc's malloc and free of one block.
    Mimalloc,
    /// mimalloc's malloc of blocks that stay.
    MimallocKept,
    /// The driver and the heap, on a program.
    Replay,
    /// Bytes that the heap took from malloc beside its pages, and live objects.
    Memory,
}

/// Runs the requested probe.
pub fn run(probe: Probe, args: &Args) -> Result<()> {
    match probe {
        Probe::Nothing => {
            for _ in 0..args.count {
                black_box(Some(black_box(BLOCK_BYTES)));
            }
            Ok(())
        }
        Probe::Linear => linear(args.count),
        Probe::Refill => refill(args.count),
        Probe::Sweep => sweep(args.count),
        Probe::Mimalloc => mimalloc(args.count, false),
        Probe::MimallocKept => mimalloc(args.count, true),
        Probe::Replay => replay(args).map(drop),
        Probe::Memory => memory(args),
    }
}

fn old_space() -> Result<OldGeneration> {
    let [_, version, ..] = VERSIONS;
    let many = strategy::released().swap_remove(2);
    let pages = Pages::new(1 << 32, version.header_bytes())?;
    Ok(OldGeneration::new(pages, many, version, [1 << 32, facts::SEMI_SPACE_BYTES]))
}

/// Blocks of at most one page: none of the counted allocations is a refill.
fn linear(count: usize) -> Result<()> {
    let mut old = old_space()?;
    ensure!((count + 1) * BLOCK_BYTES < facts::PAGE_BYTES - 1024, "more than a page holds");
    old.allocate(MAIN, BLOCK_BYTES, Origin::Collector).context("no memory")?;
    for _ in 0..count {
        black_box(old.allocate(MAIN, black_box(BLOCK_BYTES), Origin::Collector));
    }
    Ok(())
}

/// The number of holes, each of one block, does not depend on the count: only refills differ.
fn refill(count: usize) -> Result<()> {
    const HOLES: usize = 40_000;
    ensure!(count <= HOLES, "more than there are holes");
    let mut old = old_space()?;
    let blocks: Vec<usize> =
        (0..2 * HOLES).filter_map(|_| old.allocate(MAIN, BLOCK_BYTES, Origin::Collector)).collect();
    old.free_linear_area(MAIN);
    for block in blocks.iter().step_by(2) {
        let OldGeneration { pages, spaces, strategy, .. } = &mut old;
        spaces[MAIN].free.free(pages, strategy, *block, BLOCK_BYTES);
        spaces[MAIN].size -= BLOCK_BYTES;
    }
    let before = old.counts().refills;
    for _ in 0..count {
        black_box(old.allocate(MAIN, black_box(BLOCK_BYTES), Origin::Collector));
    }
    ensure!(old.counts().refills - before == count as u64, "not every allocation was a refill");
    Ok(())
}

/// The number of pages does not depend on the count: only the number of swept ones differs.
fn sweep(count: usize) -> Result<()> {
    const PAGES: usize = 64;
    ensure!(count <= PAGES, "more than there are pages");
    let mut old = old_space()?;
    let mut at = 0;
    while old.main_committed_bytes() < PAGES * facts::PAGE_BYTES || at % 2 == 0 {
        let address = old.allocate(MAIN, BLOCK_BYTES, Origin::Collector).context("no memory")?;
        let live = heaplab_v8::object::Header {
            kind: heaplab_v8::object::Kind::Plain,
            align_bits: 0,
            bytes: BLOCK_BYTES,
            slot: 0,
        };
        // SAFETY: the block was just allocated.
        unsafe { heaplab_v8::object::set_header(address, live) };
        if at % 2 == 0 {
            let page = old.pages.number(address);
            let offset = address - old.pages.start(page);
            old.pages[page].mark(offset);
            old.pages[page].live_bytes += BLOCK_BYTES as u32;
        }
        at += 1;
    }
    old.free_linear_area(MAIN);
    let OldGeneration { pages, spaces, strategy, sweeper, .. } = &mut old;
    spaces[MAIN].free.reset(pages);
    for page in pages.of(&spaces[MAIN].list) {
        sweeper.add(pages, page);
    }
    sweeper.start(pages);
    sweeper.sweep_some(pages, strategy, 0, count);
    ensure!(sweeper.swept_pages == count as u64, "{} pages were swept", sweeper.swept_pages);
    Ok(())
}

fn mimalloc(count: usize, kept: bool) -> Result<()> {
    use heaplab_heap::{Block, Manual, Request};
    let mut heap = heaplab_system::System(heaplab_system::mimalloc::Mimalloc);
    for _ in 0..count {
        let request = Request::of(black_box(BLOCK_BYTES));
        let block = black_box(heap.allocate(request)).context("no memory")?;
        if !kept {
            // SAFETY: the block was just allocated for this request.
            unsafe { heap.deallocate(Block::new(block, request)) };
        }
    }
    Ok(())
}

/// Runs the program on the heap; returns the driver with everything live at the end.
fn replay(args: &Args) -> Result<()> {
    let program = Program::open(args.program.as_deref().context("--program")?)?;
    let heap = V8Heap::new(Spec::parse(&args.heap)?)?;
    let mut driver = Driver::new(&program, heap, Slots::new(program.facts().slots)?);
    driver.run_to(usize::MAX, Touch::None)?;
    black_box(driver.heap().collections().len());
    Ok(())
}

/// Prints the bytes from malloc and the live objects, at the program's end and after its largest
/// collection.
fn memory(args: &Args) -> Result<()> {
    let program = Program::open(args.program.as_deref().context("--program")?)?;
    let slots = Slots::new(program.facts().slots)?;
    let before = malloc_bytes();
    let heap = V8Heap::new(Spec::parse(&args.heap)?)?;
    let mut driver = Driver::new(&program, heap, slots);
    driver.run_to(usize::MAX, Touch::None)?;
    let bytes = malloc_bytes() - before;
    let live = (0..program.facts().slots)
        .filter(|slot| heaplab_heap::World::object(driver.world(), *slot).is_some())
        .count();
    if live == 0 {
        bail!("nothing lives at the workload's end");
    }
    println!("{bytes} {live}");
    Ok(())
}

/// Bytes that the process has from glibc's malloc.
fn malloc_bytes() -> usize {
    // SAFETY: the call only reads malloc's own books.
    let books = unsafe { libc::mallinfo2() };
    books.uordblks + books.hblkhd
}
