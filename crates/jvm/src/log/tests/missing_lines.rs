//! Logs that lack lines: cut, rotated, or with holes.

use super::*;

#[test]
fn a_log_that_breaks_off_keeps_what_was_read() {
    let text = unpacked(JDK17);
    let (whole, _) = imported(text.as_bytes(), false).unwrap();
    let half = &text.as_bytes()[..text.len() / 2];
    let (events, done) = imported(half, false).unwrap();
    let number = half.iter().filter(|byte| **byte == b'\n').count() + 1;
    assert_eq!(
        done.meta.cut.unwrap(),
        format!("jvm.log: line {number} breaks off: the log was cut")
    );
    assert!(events.len() > whole.len() / 3);
    // A block without its last line is known by its address, without its type.
    let same = events.iter().zip(&whole).take_while(|(one, other)| one == other).count();
    assert!(events.len() - same <= 2, "{} of {}", same, events.len());
    // Compressed, it ends within a compressed block.
    let (events, done) = imported(&JDK17[..JDK17.len() / 2], false).unwrap();
    assert!(
        events.len() > whole.len() / 4 && done.meta.cut.is_some(),
        "{} {:?}",
        events.len(),
        done.meta.cut
    );
}

#[test]
fn a_rotated_log_lacks_births() {
    let text = unpacked(JDK17);
    let rest = &text[text.find("[").unwrap()
        + text[text.len() / 3..].find('\n').unwrap()
        + text.len() / 3
        + 1..];
    let error = imported(rest.as_bytes(), false).unwrap_err().to_string();
    assert!(
        error.starts_with("jvm.log: event 0: line ")
            && error.contains("never born")
            && error.contains("filecount=0"),
        "{error}"
    );
    let (events, done) = imported(rest.as_bytes(), true).unwrap();
    assert!(events.len() > 3000);
    assert!(
        done.meta.losses.iter().any(|loss| loss.contains("taken as born there; the first: line ")),
        "{:?}",
        done.meta.losses
    );
}

#[test]
fn a_missing_line_is_not_a_missing_beginning() {
    let death = "Arena @0xa0 (non-class sm): dies.";
    for (start, expected) in [
        (&[" - commit_granule_bytes: 65536."][..], "the line that says so is missing"),
        (&[], "the beginning of the log is missing"),
    ] {
        let mut lines = start.to_vec();
        lines.extend(["Arena @0xb0 (non-class sm): : born.", death]);
        let (_, done) = imported(log(&lines).as_bytes(), false).unwrap();
        let cut = done.meta.cut.unwrap();
        assert!(cut.contains(expected), "{cut}");
    }
}

/// Lines cut out of the middle of a real log, and bytes that are no text: the rest stays, and the
/// reported gap is a lower bound, never more.
#[test]
fn holes_in_a_log_are_noticed() {
    for (name, packed) in [("17", JDK17), ("25", JDK25)] {
        let text = unpacked(packed);
        let lines: Vec<&str> = text.lines().collect();
        let lines = &lines[..lines.len() / 2];
        let whole = imported((lines.join("\n") + "\n").as_bytes(), true).unwrap();
        assert!(!whole.1.meta.gaps && whole.1.meta.losses.is_empty(), "{:?}", whole.1.meta.losses);
        let blocks = |events: &[Event]| events_of(events, Op::Alloc) as u64;
        let (mut holes, mut noticed) = (0, 0);
        for length in [5, 20, 50] {
            for at in (lines.len() / 3..lines.len() - 2000).step_by(lines.len() / 9) {
                let rest = [&lines[..at], &lines[at + length..]].concat().join("\n") + "\n";
                let (events, done) = imported(rest.as_bytes(), true).unwrap();
                let lost = blocks(&whole.0) - blocks(&events);
                if lost == 0 {
                    continue;
                }
                holes += 1;
                noticed += u32::from(done.meta.gaps || !done.meta.losses.is_empty());
                let said = done.meta.losses.join(" ");
                assert!(!said.contains("beginning of the log"), "{name}: {said}");
                if let Some(part) = said.split_once("at the least ") {
                    let least = part
                        .1
                        .split_once(" block")
                        .map_or(0, |(count, _)| count.parse::<u64>().unwrap_or(0));
                    assert!(least <= lost, "{name}, {length} lines at {at}: {lost} lost, {said}");
                }
            }
        }
        assert!(holes >= 10 && noticed * 10 >= holes * 8, "{name}: {noticed} of {holes}");
    }
}

#[test]
fn where_lines_are_missing_is_said() {
    let of = |arena: &str, what: &str| format!("Arena @{arena} (non-class sm): {what}");
    let request = |base: &str, used: u64| {
        let after = format!(
            "after allocation: 1 chunk(s), current:@0x3, u, base {base}, level lv12 (512), used: {used}, committed: 512, committed-free: 9"
        );
        [of("0xa0", "requested 10 words."), of("0xa0", &after), of("0xa0", "returning 0x4000000.")]
    };
    let chunk =
        "allocated new chunk @0x3, u, base 0x4000000, level lv12 for requested word size 10.";
    let mut lines = vec![of("0xa0", ": born."), of("0xa0", chunk)];
    for (address, used) in [("0x4000000", 10), ("0x40000a0", 30), ("0x40000f0", 40)] {
        lines.extend(
            request("0x4000000", used)
                .map(|line| line.replace("returning 0x4000000", &format!("returning {address}"))),
        );
    }
    lines.push(of("0xa0", "returned 2 chunks, total capacity 1024 words."));
    lines.push("a line of\0\0 no text".into());
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let (events, done) = imported(log(&lines).as_bytes(), false).unwrap();
    assert_eq!((events_of(&events, Op::Alloc), done.meta.cut, done.meta.gaps), (3, None, true));
    let said = &done.meta.losses[0];
    assert!(said.contains("noticed 3 times, the first time at line 8; at the least 1 block, 10 words, 1 chunk, 1 damaged line"), "{said}");
}

/// Holes that only one later line reveals: noticed if certain, and not where JVMs write such lines.
#[test]
fn holes_that_one_line_gives_away_are_noticed() {
    let of = |what: &str| format!("Arena @0xa0 (non-class sm): {what}");
    let told = |block: &str| format!("Metaspace::allocate: type 7 return {block}.");
    let chunk = |what: &str| {
        format!("ChkMgr @0x1 (non-class-space): {what} chunk @0x3, u, base 0x4000000, level lv12.")
    };
    let (born, asked, free) =
        (of(": born."), of("requested 10 words."), of("taken from fbl (now: 0, 0)."));
    let (given, began) =
        (of("returning 0x4000100."), String::from(" - commit_granule_bytes: 65536."));
    let once = vec![born.clone(), asked.clone(), free.clone(), told("0x4000000")];
    let other = |line: &str| format!("#{line}");
    let vm = vec![other(&asked), other(&free), other(&asked), other(&given)];
    let cases: [(&str, Vec<String>, Option<&str>); 8] = [
        (
            "nothing is missing",
            [once.clone(), vec![asked.clone(), given.clone(), told("0x4000100")]].concat(),
            None,
        ),
        (
            "where a free block lies",
            [once.clone(), vec![asked.clone(), free.clone(), asked.clone()]].concat(),
            Some("line 7; at the least 1 block"),
        ),
        ("what the VM thread asks for", [once.clone(), vm].concat(), None),
        (
            "who asked for a free block",
            [once.clone(), vec![free.clone()]].concat(),
            Some("line 5; at the least 1 block"),
        ),
        (
            "who was told",
            [once.clone(), vec![asked.clone(), given.clone(), asked.clone()]].concat(),
            Some("noticed at line 7"),
        ),
        (
            "what came back",
            [once.clone(), vec![chunk("handing out"), chunk("handing out")]].concat(),
            Some("noticed at line 6"),
        ),
        (
            "what was handed out",
            [vec![began], once.clone(), vec![chunk(": returning")]].concat(),
            Some("noticed at line 6"),
        ),
        ("the beginning, which is known", [once, vec![chunk(": returning")]].concat(), None),
    ];
    for (name, lines, expected) in cases {
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let (_, done) = imported(log(&lines).as_bytes(), true).unwrap();
        let said = done
            .meta
            .losses
            .iter()
            .find(|loss| loss.contains("missing between"))
            .cloned()
            .unwrap_or_default();
        assert_eq!(done.meta.gaps, expected.is_some(), "{name}: {said}");
        assert!(said.contains(expected.unwrap_or("")), "{name}: {said}");
    }
}
