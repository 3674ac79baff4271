//! Small logs by hand; `studies/elastic-metaspace/churn/record-jdk11` records a whole one.

use super::super::recording::{self, Event};
use super::*;
use proptest::prelude::*;

/// A boot loader, a micro loader that grows once, a block given back, a death.
const LOG: &str = "\
[10ns][7] node @0x00000000000000f0: reserved=1048576.00 KB, committed=0.00 KB (  0%), used=0.00 KB (  0%)
[11ns][7]    [0x0000000100000000, 0x0000000100000000, 0x0000000100000000, 0x0000000140000000)
[12ns][7] Compressed class space size: 1073741824 Address: 0x0000000100000000 Req Addr: 0x0000000100000000
[13ns][7] node @0x00000000000000e0: reserved=8192.00 KB, committed=0.00 KB (  0%), used=0.00 KB (  0%)
[14ns][7]    [0x00007f0000001000, 0x00007f0000001000, 0x00007f0000001000, 0x00007f0000801000)
[20ns][7] SpaceManager(): 0x0000000000000010
[21ns][7] SpaceManager(): 0x0000000000000020
[22ns][7] SpaceManager::added chunk: 
[23ns][7] Metachunk: bottom 0x00007f0000001000 top 0x00007f0000001040 end 0x00007f0000001400 size 128 (specialized)
[24ns][7] Metachunk: bottom 0x0000000100000000 top 0x0000000100000040 end 0x0000000100000400 size 128 (specialized)
[30ns][7] returning block at 0x00007f0000001080 size = 5
[31ns][7] SpaceManager::grow_and_allocate for 40 words 100 words used 28 words left
[32ns][7] returning block at 0x00007f0000001320 size = 28
[33ns][7] Metachunk: bottom 0x00007f0000001400 top 0x00007f0000001440 end 0x00007f0000001800 size 128 (specialized)
[2000001ns][8] GC(3) ~SpaceManager(): 0x0000000000000010
[2000001ns][8] GC(3) returned one specialized chunk at 0x00007f0000001400 to freelist.
[2000002ns][8] GC(3) returned one specialized chunk at 0x00007f0000001000 to freelist.
";

const REPORT: &str = "step,cycle,loaders,used,committed,class_used,class_committed,uptime_ms\nloaded,1,1,10,393216,3,131072,1\n";

#[test]
fn a_log_becomes_a_recording_that_replays() {
    let converted = convert(LOG, REPORT).unwrap();
    let text: Vec<String> = converted.events.iter().map(Event::to_string).collect();
    assert_eq!(
        text,
        [
            "n c 0 134217728",
            "n n 4096 1048576",
            "b 0 n m 0 0 128",
            "b 1 c m 0 0 128",
            "a 0 8",
            "a 0 5",
            "d 0 1",
            "a 0 79",
            "g 0 40 0 1 128",
            "s loaded 1 1 10 393216 3 131072",
            "k 0",
            "p",
        ]
    );
    let written = format!("{} JDK 11\n{}\n", recording::HEADER, text.join("\n"));
    assert_eq!(recording::parse(&written).unwrap(), converted.events);
    let (metaspace, comparison) = recording::replay(&converted.events).unwrap();
    metaspace.check_deep().unwrap();
    assert_eq!(
        (comparison.chunks, comparison.chunks_equal, comparison.first_difference),
        (3, 3, None)
    );
    assert_eq!(comparison.moments[0].ours.committed_bytes(), 393_216);
}

#[test]
fn what_is_missing_is_said_with_its_line() {
    let said = |log: &str, report: &str| convert(log, report).unwrap_err().to_string();
    assert!(said("[1ns][2] hello\n", REPORT).starts_with("the log does not name a class space"));
    let cut: String = LOG
        .lines()
        .filter(|line| !line.contains("SpaceManager():"))
        .map(|line| format!("{line}\n"))
        .collect();
    assert_eq!(
        said(&cut, REPORT),
        "line 7: a chunk is added, but no arena was born and none asked for it; is the log cut or rotated? record it with filecount=0"
    );
    assert_eq!(
        said(LOG, "header\nloaded,1,x"),
        "line 2 of the program's report: expected eight values separated by commas, found \"loaded,1,x\""
    );
    // A log may end anywhere.
    for end in 0..LOG.len() {
        if LOG.is_char_boundary(end) {
            let _ = convert(&LOG[..end], REPORT);
        }
    }
}

#[test]
fn a_recording_names_the_line_that_it_cannot_read() {
    let said = |text: &str| recording::parse(text).unwrap_err().to_string();
    assert_eq!(
        said(""),
        "line 1 of the recording: expected a header that begins with #old-metaspace 1, found \"\""
    );
    assert_eq!(
        said("#old-metaspace 1\nk 1\nz 1\n"),
        "line 3 of the recording: expected an event of a recording, found \"z 1\""
    );
    assert_eq!(
        said("#old-metaspace 1\nk 99999999999\n"),
        "line 2 of the recording: expected an event of a recording, found \"k 99999999999\""
    );
    let event = |text: &str| recording::parse(&format!("{}\n{text}", recording::HEADER)).unwrap();
    let refused = |text: &str| recording::replay(&event(text)).err().unwrap().to_string();
    assert_eq!(
        refused("k 3"),
        "line 2 of the recording, \"k 3\": no such arena or block lives, the arena's number is another's, or the request is refused"
    );
    assert!(refused("a 3 10").starts_with("line 2"));
    let birth = "b 0 n s 0 0 512\n";
    assert!(refused(&format!("{birth}{birth}")).starts_with("line 3"), "two arenas of one number");
    assert!(
        refused(&format!("{birth}a 0 1\na 0 1\nd 0 0\nd 0 1\n")).starts_with("line 5"),
        "less than a block's least is no block"
    );
    let outlived = format!("{birth}a 0 20\nk 0\n{birth}d 0 0");
    assert!(
        refused(&outlived).starts_with("line 6"),
        "a block of the arena that had the number before"
    );
}

proptest! {
    /// Lines in any order and number give an error or a recording, and every recording's replay
    /// ends.
    #[test]
    fn shuffled_logs_do_no_harm(order in proptest::collection::vec(0usize..17, 0..60)) {
        let lines: Vec<&str> = LOG.lines().collect();
        let log: String = order.iter().map(|index| format!("{}\n", lines[*index])).collect();
        let converted = convert(&format!("{}\n{log}", lines[..5].join("\n")), REPORT);
        if let Some((metaspace, _)) = converted.ok().and_then(|converted| recording::replay(&converted.events).ok()) {
            prop_assert_eq!(metaspace.check_deep(), Ok(()));
        }
    }

    #[test]
    fn any_recording_replays_or_ends(lines in proptest::collection::vec("(n [nc] [0-9]{1,5} [0-9]{1,9}|b [0-3] [nc] [bsm] 0 0 128|a [0-3] [0-9]{1,8}|g [0-3] [0-9]{1,7} 0 1 128|f [0-3] [0-9]{1,4} 0 0|d [0-3] [0-9]|k [0-3]|p 0?)", 0..40)) {
        let text = format!("{}\n{}", recording::HEADER, lines.join("\n"));
        if let Some((metaspace, _)) = recording::parse(&text).ok().and_then(|events| recording::replay(&events).ok()) {
            prop_assert_eq!(metaspace.check_deep(), Ok(()));
        }
    }
}
