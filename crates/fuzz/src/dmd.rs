//! The importer of DMD's JSON: any bytes, packed or not. The imported rows are in legal order, and
//! every live block stands in one list of dark matter.

use heaplab_dark_matter::{DarkMatterError, find};
use heaplab_trace::import::{Format, ImportOptions, import};
use heaplab_trace::order::OrderChecker;
use heaplab_trace::source::Slice;
use heaplab_trace::{Event, EventSink, Op, TraceError};

/// More rows are counted, not kept: one row of DMD may stand for millions of blocks.
const KEPT: usize = 1 << 16;

/// The first rows, and the number of all.
#[derive(Default)]
struct Rows {
    kept: Vec<Event>,
    all: u64,
}

impl EventSink for Rows {
    fn push(&mut self, event: &Event) -> Result<(), TraceError> {
        self.all += 1;
        if self.kept.len() < KEPT {
            self.kept.push(*event);
        }
        Ok(())
    }
}

/// One input.
pub fn run(data: &[u8]) {
    let mut rows = Rows::default();
    let imported = import(data, Some(Format::Dmd), &ImportOptions::default(), &mut rows);
    let Ok(imported) = imported else { return };
    let mut checker = OrderChecker::new("imported", &imported.tables);
    for event in &rows.kept {
        checker.check(event).expect("an importer gives events in legal order");
    }
    if rows.all > KEPT as u64 {
        return;
    }
    let of = |op| rows.kept.iter().filter(|event| event.op == op).count() as i64;
    match find(&imported.tables, || Ok(Slice(&rows.kept))) {
        Err(DarkMatterError::NeverAsked) => assert_eq!(of(Op::Report), 0),
        Err(error) => panic!("{error}"),
        Ok(found) => {
            let lists = [&found.unreported, &found.once, &found.twice];
            let listed: i64 = lists.iter().map(|list| list.blocks.count).sum();
            assert_eq!((listed, found.live.count), (of(Op::Alloc), of(Op::Alloc)));
            assert!(found.is_whole && found.set_aside == 0 && found.of_nothing.is_empty());
        }
    }
}
