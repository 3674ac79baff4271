//! Arenas that outlive their program: a pass leaves nothing for the next one.

use heaplab_heap::{Block, CheckError, Footprint, Heap, Manual, Region, Request, Verified};
use heaplab_replay::{Driver, Touch};
use heaplab_trace::program::{Facts, Program, compile};
use heaplab_trace::source::Slice;
use heaplab_trace::tables::Tables;
use heaplab_trace::{Event, Op};
use std::collections::BTreeMap;
use std::io::Cursor;
use std::path::Path;
use std::ptr::NonNull;

/// The blocks of each live arena; all stay until it ends. No arena may begin twice or end twice.
#[derive(Default)]
struct Arenas {
    alive: BTreeMap<u32, Vec<Box<[u64]>>>,
    ended: usize,
}

impl Manual for Arenas {
    const REGIONS: bool = true;

    fn allocate(&mut self, request: Request) -> Option<NonNull<u8>> {
        let blocks = self.alive.entry(request.region.0).or_default();
        blocks.push(vec![0; request.size.div_ceil(8).max(2)].into_boxed_slice());
        NonNull::new(blocks.last_mut()?.as_mut_ptr().cast())
    }

    unsafe fn deallocate(&mut self, _block: Block) {}

    unsafe fn reallocate(&mut self, _block: Block, _new_size: usize) -> Option<NonNull<u8>> {
        None
    }

    unsafe fn usable_size(&self, _block: Block) -> Option<usize> {
        None
    }

    fn begin_region(&mut self, region: Region) {
        assert!(
            self.alive.insert(region.0, Vec::new()).is_none(),
            "region {} begins while it is alive",
            region.0
        );
    }

    unsafe fn end_region(&mut self, region: Region) {
        assert!(
            self.alive.remove(&region.0).is_some(),
            "region {} ends and is not alive",
            region.0
        );
        self.ended += 1;
    }
}

impl Heap for Arenas {
    fn version(&self) -> String {
        "arenas".into()
    }

    fn footprint(&self) -> Footprint {
        Footprint::default()
    }

    fn check(&self) -> Result<(), CheckError> {
        Ok(())
    }

    fn check_deep(&self) -> Result<(), CheckError> {
        Ok(())
    }
}

/// A hundred arenas of ten blocks; every third one ends.
fn program() -> Program {
    let mut events = Vec::new();
    for arena in 1..=100 {
        events.push(Event { op: Op::ArenaBirth, arena, ..Event::default() });
        for nth in 0..10 {
            events.push(Event {
                arena,
                object: u64::from(arena) * 10 + nth,
                size: 100,
                ..Event::default()
            });
        }
        if arena % 3 == 0 {
            events.push(Event { op: Op::ArenaDeath, arena, ..Event::default() });
        }
    }
    let mut out = Cursor::new(Vec::new());
    compile(
        &mut Slice(&events),
        &Tables::default(),
        Facts::default(),
        0,
        Path::new("test"),
        &mut out,
    )
    .unwrap();
    Program::from_bytes(&out.into_inner(), Path::new("test")).unwrap()
}

#[test]
fn arenas_that_outlive_the_program_end_before_the_next_pass() {
    let program = program();
    let mut driver = Driver::new(&program, Arenas::default()).unwrap();
    for pass in 1..=3 {
        driver.run(Touch::Known).unwrap();
        assert_eq!((driver.heap().alive.len(), driver.heap().ended), (67, pass * 100 - 67));
        driver.rewind();
        assert_eq!((driver.heap().alive.len(), driver.heap().ended), (0, pass * 100));
    }
}

#[test]
fn a_pass_that_is_broken_off_ends_what_has_begun() {
    let program = program();
    let mut driver = Driver::new(&program, Arenas::default()).unwrap();
    let (middle, _) = program.steps().nth(500).unwrap().unwrap();
    driver.run_to(middle, Touch::Known).unwrap();
    let begun = driver.heap().alive.len() + driver.heap().ended;
    assert!(driver.heap().alive.len() > 20 && begun < 60, "{begun} arenas");
    driver.rewind();
    assert_eq!((driver.heap().alive.len(), driver.heap().ended), (0, begun));
}

/// Parts of a forged program, in words of docs/replay-program.md.
mod forged {
    /// A block of 100 bytes is born in `slot` and `region`.
    pub fn birth(slot: u32, region: u32) -> Vec<u32> {
        vec![slot << 3 | 4, region << 8, 100, 0]
    }

    pub fn free(slot: u32) -> Vec<u32> {
        vec![slot << 3]
    }

    /// `slot` grows to 200 bytes; the word claims that the block belongs to `region`.
    pub fn growth(slot: u32, region: u32) -> Vec<u32> {
        vec![slot << 3 | 4, region << 8 | 1 << 7, 200, 0]
    }

    pub fn begin(region: u32) -> Vec<u32> {
        vec![region << 6 | 1 << 3 | 6]
    }

    pub fn end(region: u32, members: &[u32]) -> Vec<u32> {
        [&[region << 6 | 2 << 3 | 6, members.len() as u32], members].concat()
    }
}

/// A program of these words and four slots, with correct checksums.
fn of_words(words: &[u32]) -> Program {
    // Four blocks outside of arenas give the wanted number of words and slots; the forged words
    // replace them.
    let mut events: Vec<Event> =
        (0..4).map(|object| Event { object, size: 8, ..Event::default() }).collect();
    let frees = words.len().saturating_sub(8);
    assert!(words.len() >= 8, "pad the program");
    events.extend((0..frees as u64).map(|_| Event {
        op: Op::UsableSizeRead,
        object: 0,
        ..Event::default()
    }));
    let mut out = Cursor::new(Vec::new());
    compile(
        &mut Slice(&events),
        &Tables::default(),
        Facts::default(),
        0,
        Path::new("test"),
        &mut out,
    )
    .unwrap();
    let mut bytes = out.into_inner();
    for (index, word) in words.iter().enumerate() {
        bytes[64 + index * 4..68 + index * 4].copy_from_slice(&word.to_le_bytes());
    }
    let sum = xxhash_rust::xxh3::xxh3_64(&bytes[64..]);
    bytes[48..56].copy_from_slice(&sum.to_le_bytes());
    let sum = xxhash_rust::xxh3::xxh3_64(&bytes[..56]);
    bytes[56..64].copy_from_slice(&sum.to_le_bytes());
    let program = Program::from_bytes(&bytes, Path::new("test")).unwrap();
    assert_eq!((program.words(), program.facts().slots), (words, 4));
    program
}

/// An arena heap that aborts the test when it gets a foreign block, a wrong size, or the wrong
/// arena.
#[derive(Default)]
struct Strict {
    live: BTreeMap<usize, (Region, usize, Box<[u64]>)>,
    alive: std::collections::BTreeSet<u32>,
}

impl Manual for Strict {
    const REGIONS: bool = true;

    fn allocate(&mut self, request: Request) -> Option<NonNull<u8>> {
        assert!(
            request.region == Region::MALLOC || self.alive.contains(&request.region.0),
            "a birth in a dead arena"
        );
        let mut memory = vec![0; request.size.div_ceil(8).max(2)].into_boxed_slice();
        let address = NonNull::new(memory.as_mut_ptr().cast::<u8>())?;
        self.live.insert(address.addr().get(), (request.region, request.size, memory));
        Some(address)
    }

    unsafe fn deallocate(&mut self, block: Block) {
        let (region, size, _) =
            self.live.remove(&block.address.addr().get()).expect("a dead block is freed");
        assert_eq!((region, size), (block.region, block.size));
    }

    unsafe fn reallocate(&mut self, block: Block, new_size: usize) -> Option<NonNull<u8>> {
        let moved = self.allocate(block.request(new_size))?;
        // SAFETY: the caller's promise; the blocks are different ones and hold the smaller of both
        // sizes.
        unsafe {
            moved.copy_from_nonoverlapping(block.address, block.size.min(new_size));
            self.deallocate(block);
        }
        Some(moved)
    }

    unsafe fn usable_size(&self, block: Block) -> Option<usize> {
        Some(self.live[&block.address.addr().get()].1)
    }

    fn begin_region(&mut self, region: Region) {
        assert!(self.alive.insert(region.0), "an arena begins twice");
    }

    unsafe fn end_region(&mut self, region: Region) {
        assert!(self.alive.remove(&region.0), "an arena ends twice");
        self.live.retain(|_, (of, ..)| *of != region);
    }
}

impl Heap for Strict {
    fn version(&self) -> String {
        "strict".into()
    }

    fn footprint(&self) -> Footprint {
        let requested = self.live.values().map(|(_, size, _)| *size as u64).sum();
        Footprint { requested_bytes: Some(requested), ..Footprint::default() }
    }

    fn check(&self) -> Result<(), CheckError> {
        Ok(())
    }

    fn check_deep(&self) -> Result<(), CheckError> {
        Ok(())
    }
}

/// Runs the parts as a program and returns the driver's verdict. Every program, even a damaged one,
/// ends with everything freed.
fn forge(parts: &[Vec<u32>]) -> String {
    let mut words = parts.concat();
    // Switches to thread 0 have no effect.
    words.resize(words.len().max(8), 6);
    let program = of_words(&words);
    let mut driver = Driver::new(&program, Verified::new(Strict::default())).unwrap();
    let said = driver.run(Touch::None).map_or_else(|error| error.to_string(), |()| "ran".into());
    driver.rewind();
    driver.heap().finish().unwrap();
    // A heap without arenas may refuse the program; it must stay sound.
    let mut plain =
        Driver::new(&program, heaplab_system::System(heaplab_system::glibc::Glibc)).unwrap();
    let _ = plain.run(Touch::Known);
    plain.rewind();
    said
}

#[test]
fn no_forged_program_reaches_a_dead_block() {
    use forged::{begin, birth, end, free, growth};
    assert_eq!(
        forge(&[
            begin(1),
            birth(0, 1),
            growth(0, 1),
            birth(1, 1),
            free(1),
            end(1, &[0]),
            birth(0, 0),
            free(0)
        ]),
        "ran"
    );
    // An ended region may begin again.
    assert_eq!(
        forge(&[begin(1), birth(0, 1), end(1, &[0]), begin(1), birth(0, 1), end(1, &[0])]),
        "ran"
    );
    let cases: [(&str, &[Vec<u32>]); 16] = [
        (
            "region 1 ends with the block in slot 1, which lives in region 2",
            &[begin(1), begin(2), birth(0, 1), birth(1, 2), end(1, &[0, 1])],
        ),
        (
            "region 1 ends with the block in slot 1, which lives in region 0",
            &[begin(1), birth(0, 1), birth(1, 0), end(1, &[0, 1])],
        ),
        (
            "region 1 ends and 1 of its live blocks are not",
            &[begin(1), birth(0, 1), birth(1, 1), end(1, &[0]), free(1)],
        ),
        (
            "region 1 ends and 2 of its live blocks are not",
            &[begin(1), birth(0, 1), birth(1, 1), end(1, &[])],
        ),
        ("slot 0 is empty", &[begin(1), birth(0, 1), birth(1, 1), end(1, &[0, 0])]),
        ("slot 0 is empty", &[begin(1), birth(0, 1), end(1, &[0]), free(0)]),
        ("slot 0 is empty", &[begin(1), birth(0, 1), end(1, &[0]), growth(0, 1)]),
        ("slot 9 is outside of the table", &[begin(1), birth(0, 1), end(1, &[0, 9])]),
        (
            "region 1 begins and is alive already",
            &[begin(1), birth(0, 1), begin(1), birth(1, 1), end(1, &[0])],
        ),
        ("region 1 is not alive", &[begin(1), birth(0, 1), end(1, &[0]), end(1, &[]), birth(0, 0)]),
        ("region 1 is not alive", &[begin(1), birth(0, 1), end(1, &[0]), birth(0, 1)]),
        ("region 7 is not alive", &[begin(1), birth(0, 7), birth(1, 1)]),
        ("region 0 begins and is alive already", &[begin(0), birth(0, 0), birth(1, 0)]),
        ("region 0 is not alive", &[birth(0, 0), end(0, &[0]), birth(1, 0)]),
        // A region numbered beyond the program's own length.
        ("region 4000 begins and is alive already", &[begin(4000), birth(0, 4000), birth(1, 0)]),
        // A growth that claims another region changes nothing: the driver uses the region in its
        // own table.
        (
            "region 2 ends with the block in slot 0, which lives in region 1",
            &[begin(1), begin(2), birth(0, 1), growth(0, 2), end(2, &[0])],
        ),
    ];
    for (expected, parts) in cases {
        let said = forge(parts);
        assert!(said.contains(expected), "{expected}: {said}");
    }
}
