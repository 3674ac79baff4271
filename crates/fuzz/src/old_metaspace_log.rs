//! A log of JDK 11, or a recording, from anybody: an error or a recording that replays to its end
//! or stops at a line.

use heaplab_metaspace::old::{jvm_log, recording};

const REPORT: &str = "step,cycle,loaders,used,committed,class_used,class_committed,uptime_ms\nloaded,1,1,10,393216,3,131072,1\n";

/// One input.
pub fn run(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let events = if text.starts_with(recording::HEADER) {
        recording::parse(text).ok()
    } else {
        jvm_log::convert(text, REPORT).ok().map(|converted| converted.events)
    };
    if let Some((metaspace, _)) = events.and_then(|events| recording::replay(&events).ok()) {
        metaspace.check_deep().expect("a sound metaspace");
    }
}
