//! Runs a workload of (slot, words) pairs on this heap and prints old space after each forced
//! collection, one line each: committed, used, available, waste, new space used, large objects
//! committed. A slot of -1 forces a full collection, of -2 a scavenge.
//!
//! `cargo run --release -p heaplab-v8 --example against_node -- many,version=7.9,compact=never
//! workload.bin`
//!
//! The file is the one that a driver in the real Node reads (pairs of little-endian 32-bit
//! numbers), so that both sides can be laid side by side.

use heaplab_heap::{Ask, Birth, Collected, Heap, Object, Origin, World};
use heaplab_v8::{Spec, V8Heap};
use std::ptr::NonNull;

struct Table(Vec<Option<Object>>);

impl World for Table {
    fn slots(&self) -> u32 {
        self.0.len() as u32
    }

    fn object(&self, slot: u32) -> Option<Object> {
        self.0[slot as usize]
    }

    fn fields(&self, _slot: u32, _visit: &mut dyn FnMut(u32)) {}

    fn moved(&mut self, slot: u32, to: NonNull<u8>) {
        if let Some(object) = &mut self.0[slot as usize] {
            object.address = to;
        }
    }

    fn reclaimed(&mut self, slot: u32) {
        self.0[slot as usize] = None;
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, spec, file, rest @ ..] = &arguments[..] else {
        return Err("usage: against_node SPEC WORKLOAD [check] [pages]".into());
    };
    let mut heap = V8Heap::new(Spec::parse(spec)?)?;
    let bytes = std::fs::read(file)?;
    let number =
        |at: usize| i32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let most = (0..bytes.len()).step_by(8).map(number).max().unwrap_or(0);
    let mut table = Table(vec![None; most as usize + 1]);
    for at in (0..bytes.len()).step_by(8) {
        let (slot, words) = (number(at), number(at + 4));
        if slot < 0 {
            if rest.iter().any(|word| word == "pages") {
                println!("pages {:?}", heap.free_by_page());
            }
            heap.collect(if slot == -1 { Ask::Full } else { Ask::Minor }, &mut table)?;
            print_last(&heap);
            if rest.iter().any(|word| word == "check") {
                heap.check_deep()?;
            }
            continue;
        }
        let before = table.0[slot as usize].map(|object| object.address);
        if words == 0 {
            table.0[slot as usize] = None;
            heap.stored(slot as u32, before, None);
            continue;
        }
        let size = words as usize * 8;
        let birth =
            Birth { slot: slot as u32, size, align: 1, origin: Origin::Generated, old: false };
        let address = heap.allocate(birth, &mut table)?;
        table.0[slot as usize] = Some(Object { address, size, root: true });
        heap.stored(slot as u32, before, Some(address));
    }
    Ok(())
}

fn print_last(heap: &V8Heap) {
    if let Some(last) = heap.collections().last() {
        let (before, old) = (&last.before, &last.after);
        let spaces: Vec<String> = last
            .spaces
            .iter()
            .map(|space| format!("{} {}", space.after.used_bytes, space.after.committed_bytes))
            .collect();
        println!(
            "{} {} {} {} {} {} {} {}",
            before.committed_bytes,
            before.used_bytes,
            before.available_bytes,
            old.committed_bytes,
            old.used_bytes,
            old.available_bytes,
            old.waste_bytes,
            spaces.join(" ")
        );
    }
}
