//! Importers: any bytes in any format, leniently or not; what comes out is in legal order.

use heaplab_jvm::{Format, import};
use heaplab_trace::import::{Format as Other, ImportOptions};
use heaplab_trace::order::OrderChecker;

/// One input.
pub fn run(data: &[u8]) {
    let Some((choice, text)) = data.split_first() else { return };
    let formats = [
        None,
        Some(Format::Other(Other::Text)),
        Some(Format::Other(Other::Android)),
        Some(Format::Other(Other::Logalloc)),
        Some(Format::Other(Other::Heaptrack)),
        Some(Format::Workload),
    ];
    let options = ImportOptions { lenient: choice & 1 == 1, ..ImportOptions::default() };
    let mut events = Vec::new();
    let Ok(imported) =
        import(text, formats[usize::from(choice >> 1) % formats.len()], &options, &mut events)
    else {
        return;
    };
    let mut checker = OrderChecker::new("imported", &imported.tables);
    for event in &events {
        checker.check(event).expect("an importer gives events in legal order");
    }
}
