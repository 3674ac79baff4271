//! Generating allocates nothing for an object or a reference: twice as many of both take no more
//! allocator calls, except for tables that double.

use heaplab_snapshot::generate::{
    Description, EdgeSink, Embedder, GeneratorOptions, NameSink, Position, generate,
};
use heaplab_snapshot::write::{EdgeName, edge_type, node_type};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

fn count() {
    // A thread that is being torn down counts no more.
    let _ = CALLS.try_with(|calls| calls.set(calls.get() + 1));
}

// SAFETY: every call goes on to the system's allocator unchanged; the counter is a plain cell of
// this thread without a destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise, passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise, passed on.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's promise, passed on.
        unsafe { System.realloc(block, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Objects with scattered addresses that refer to the next one and to three others, by name and by
/// index; every eighth has a place in a script.
struct Heap {
    objects: u64,
    source: Vec<u8>,
}

const SCRIPT: u64 = 1;
/// Odd, so that objects lie in no order.
const SPREAD: u64 = 0x9e37_79b1;
const NAMES: [&[u8]; 3] = [b"next", b"left", b"right"];

impl Heap {
    fn new(objects: u64) -> Heap {
        Heap { objects, source: b"let a = 1;\n".repeat(4000) }
    }

    /// The object with a number, and back: multiplication by the inverse undoes multiplication by
    /// an odd number.
    fn handle(number: u64) -> u64 {
        0x5000_0000_0000 + u64::from((number as u32).wrapping_mul(SPREAD as u32)) * 16
    }

    fn number(handle: u64) -> u64 {
        let inverse = (0..5).fold(1u32, |inverse, _| {
            inverse.wrapping_mul(2u32.wrapping_sub((SPREAD as u32).wrapping_mul(inverse)))
        });
        u64::from((((handle - 0x5000_0000_0000) / 16) as u32).wrapping_mul(inverse))
    }

    fn target(&self, number: u64, which: u64) -> u64 {
        if which == 0 {
            (number + 1) % self.objects
        } else {
            (number * 7 + which * 1_000_003) % self.objects
        }
    }
}

impl Embedder for Heap {
    fn root(&mut self) -> u64 {
        Self::handle(0)
    }

    fn targets(&mut self, object: u64, visit: &mut impl FnMut(u64)) {
        let number = Self::number(object);
        (0..4).for_each(|which| visit(Self::handle(self.target(number, which))));
    }

    fn describe(&mut self, object: u64, names: &mut impl NameSink) -> Description {
        let number = Self::number(object);
        let name = names.intern([&b"Point"[..], b"Line", b"Plane"][number as usize % 3]);
        Description {
            node_type: node_type::OBJECT,
            name,
            id: 2 * number + 1,
            self_size: 32,
            trace_node_id: 0,
            detachedness: 0,
        }
    }

    fn references(&mut self, object: u64, edges: &mut impl EdgeSink) {
        let number = Self::number(object);
        for (which, name) in (0..).zip(NAMES) {
            edges.named(edge_type::PROPERTY, name, Self::handle(self.target(number, which)));
        }
        edges.edge(edge_type::ELEMENT, EdgeName::Index(3), Self::handle(self.target(number, 3)));
    }

    fn position(&mut self, object: u64) -> Option<Position> {
        let number = Self::number(object);
        number
            .is_multiple_of(8)
            .then(|| Position::Offset { script: SCRIPT, offset: number % self.source.len() as u64 })
    }

    fn scripts(&self) -> Vec<u64> {
        vec![SCRIPT]
    }

    fn script_source(&self, script: u64) -> Option<&[u8]> {
        (script == SCRIPT).then_some(&self.source)
    }
}

fn calls_of(objects: u64) -> u64 {
    let mut heap = Heap::new(objects);
    let before = CALLS.with(Cell::get);
    let (_, profile) = generate(&mut heap, std::io::sink(), GeneratorOptions::default()).unwrap();
    let calls = CALLS.with(Cell::get) - before;
    assert_eq!(profile.nodes, objects);
    calls
}

#[test]
fn no_object_and_no_reference_takes_an_allocation() {
    let (once, twice) = (calls_of(50_000), calls_of(100_000));
    assert!(twice < once + 64, "{once} calls for 50,000 objects, {twice} for 100,000");
    assert!(once < 1000, "{once} calls for 50,000 objects");
}
