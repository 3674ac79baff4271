//! `chunks.parquet`, which a recording of a metaspace has beside the other files: any bytes; the
//! first says how many rows `meta.json` promises. Where they can be read, the metaspace's report is
//! made of them, at its peak and at its end.

use heaplab_jvm::{At, report};
use heaplab_trace::bundle::Selection;

/// One input.
pub fn run(data: &[u8]) {
    let Some((rows, bytes)) = data.split_first() else { return };
    let meta =
        std::fs::read_to_string(crate::common::good().join("meta.json")).expect("the good bundle");
    let meta = meta.replacen(
        "\"objects\"",
        &format!("\"chunks\": {}, \"objects\"", u32::from(*rows) + 1),
        1,
    );
    crate::common::open_with(
        &[("meta.json", meta.as_bytes()), ("chunks.parquet", bytes)],
        |bundle| {
            for at in [At::Peak, At::End] {
                for process in 0..2 {
                    let mut events = bundle.events(Selection::default()).expect("the good events");
                    let _ = report(bundle.tables(), &mut events, process, at);
                }
            }
        },
    );
}
