//! A JVM's log of its metaspace: any bytes, leniently or not; what comes out is in legal order, and
//! chunks name rows that are there.
//!
//! A byte from 0x80 on stands for a whole line of a real log, so that lines meet in every order
//! without being found letter by letter.

use heaplab_jvm::{Format, import};
use heaplab_trace::import::ImportOptions;
use heaplab_trace::order::OrderChecker;

/// One line of each kind, of JDK 17 and of 25, about two arenas.
const LINES: &str = include_str!("jvm_log_lines.txt");

/// One input.
pub fn run(data: &[u8]) {
    let Some((choice, rest)) = data.split_first() else { return };
    let lines: Vec<&str> = LINES.lines().collect();
    let mut text = Vec::new();
    for byte in rest {
        match byte {
            0x80.. => {
                text.extend_from_slice(lines[usize::from(byte - 0x80) % lines.len()].as_bytes());
                text.push(b'\n');
            }
            _ => text.push(*byte),
        }
    }
    let options = ImportOptions { lenient: choice & 1 == 1, ..ImportOptions::default() };
    let mut events = Vec::new();
    let Ok(imported) = import(&text[..], Some(Format::Log), &options, &mut events) else {
        return;
    };
    let mut checker = OrderChecker::new("imported", &imported.tables);
    for event in &events {
        checker.check(event).expect("an importer gives events in legal order");
    }
    let (rows, arenas) = (events.len() as u64, imported.tables.arenas.len() as u32);
    for chunk in &imported.tables.chunks {
        assert!(chunk.row <= rows && chunk.arena < arenas);
    }
}
