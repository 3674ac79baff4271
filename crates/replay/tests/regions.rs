//! Arenas that outlive their program: a pass leaves nothing behind for the next one.

use heaplab_heap::{Allocating, CheckError, Footprint, Region, Request};
use heaplab_replay::{Driver, Touch};
use heaplab_trace::program::{Facts, Program, compile};
use heaplab_trace::source::Slice;
use heaplab_trace::tables::Tables;
use heaplab_trace::{Event, Op};
use std::collections::BTreeMap;
use std::io::Cursor;
use std::path::Path;
use std::ptr::NonNull;

/// Of each live arena, its blocks, all of which stay until it ends. No arena may begin twice or end twice.
#[derive(Default)]
struct Arenas {
    alive: BTreeMap<u32, Vec<Box<[u64]>>>,
    ended: usize,
}

impl Allocating for Arenas {
    const REGIONS: bool = true;

    fn allocate(&mut self, request: Request) -> Option<NonNull<u8>> {
        let blocks = self.alive.entry(request.region.0).or_default();
        blocks.push(vec![0; request.size.div_ceil(8).max(2)].into_boxed_slice());
        NonNull::new(blocks.last_mut()?.as_mut_ptr().cast())
    }

    unsafe fn deallocate(&mut self, _block: NonNull<u8>) {}

    unsafe fn reallocate(&mut self, _block: NonNull<u8>, _request: Request) -> Option<NonNull<u8>> {
        None
    }

    unsafe fn usable_size(&self, _block: NonNull<u8>) -> Option<usize> {
        None
    }

    fn begin_region(&mut self, region: Region) {
        assert!(self.alive.insert(region.0, Vec::new()).is_none(), "region {} begins while it is alive", region.0);
    }

    unsafe fn end_region(&mut self, region: Region) {
        assert!(self.alive.remove(&region.0).is_some(), "region {} ends and is not alive", region.0);
        self.ended += 1;
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
            events.push(Event { arena, object: u64::from(arena) * 10 + nth, size: 100, ..Event::default() });
        }
        if arena % 3 == 0 {
            events.push(Event { op: Op::ArenaDeath, arena, ..Event::default() });
        }
    }
    let mut out = Cursor::new(Vec::new());
    compile(&mut Slice(&events), &Tables::default(), Facts::default(), 0, Path::new("test"), &mut out).unwrap();
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
