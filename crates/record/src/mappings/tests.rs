//! Reading mappings: a text of `smaps` with every kind of row, and rows that no kernel writes.

use super::*;
use proptest::prelude::*;
use std::time::Duration;

fn mapping(head: &str, resident: u64, anonymous: u64, flags: &str) -> String {
    format!(
        "{head}\nSize:    64 kB\nRss:     {resident} kB\nAnonymous:     {anonymous} kB\nAnonHugePages:  0 kB\nVmFlags: {flags}\n"
    )
}

#[test]
fn every_row_has_its_kind() {
    let text = [
        mapping(
            "55aad0976000-55aad0978000 r--p 00000000 fe:00 247026     /usr/bin/a b",
            8,
            0,
            "rd mr",
        ),
        mapping(
            "55aad0978000-55aad097d000 r-xp 00002000 fe:00 247026     /usr/bin/a b",
            20,
            0,
            "rd ex",
        ),
        mapping(
            "55aad097d000-55aad097e000 rw-p 00007000 fe:00 247026     /usr/bin/a b",
            4,
            4,
            "rd wr",
        ),
        mapping("55aad097e000-55aad0980000 rw-p 00000000 00:00 0 ", 4, 4, "rd wr"),
        mapping("55aae0000000-55aae0021000 rw-p 00000000 00:00 0          [heap]", 12, 12, "rd wr"),
        mapping("7f0000000000-7f0000021000 rw-p 00000000 00:00 0 ", 16, 16, "rd wr nr"),
        mapping("7f0000021000-7f0004000000 ---p 00000000 00:00 0 ", 0, 0, "mr"),
        mapping("7f1000000000-7f1000100000 rw-p 00000000 00:00 0 ", 24, 24, "rd wr nr dd"),
        mapping("7f2000000000-7f2000100000 rw-p 00000000 00:00 0 ", 28, 28, "rd wr"),
        mapping(
            "7f3000000000-7f3000100000 rw-p 00000000 00:00 0          [anon:pool of x]",
            32,
            32,
            "rd wr",
        ),
        mapping(
            "7f4000000000-7f4000100000 rw-s 00000000 00:01 5          /dev/shm/x (deleted)",
            36,
            0,
            "rd wr sh",
        ),
        mapping(
            "7f5000000000-7f5000100000 rw-s 00000000 00:01 5          /tmp/s/1-0.process",
            40,
            0,
            "rd wr sh",
        ),
        mapping(
            "7f5000200000-7f5000300000 r-xp 00000000 00:01 5          /home/c/heaplab-preload-1.so",
            44,
            0,
            "rd ex",
        ),
        mapping(
            "7ffc0d000000-7ffc0d021000 rw-p 00000000 00:00 0          [stack]",
            48,
            48,
            "rd wr gd",
        ),
        mapping("7ffc0d100000-7ffc0d102000 r-xp 00000000 00:00 0          [vdso]", 4, 0, "rd ex"),
        "nonsense\n7f-\n: kB\n".into(),
    ]
    .concat();
    let reading = smaps::parse(&text, "/tmp/s", &[0x7f20_0008_0000, 0x7ffc_0d01_0000]);
    let files: Vec<(ResidentKind, &str, u64, u32)> = reading
        .files
        .iter()
        .map(|file| (file.kind, file.name.as_str(), file.bytes / 1024, file.mappings))
        .collect();
    assert_eq!(
        files,
        [
            (ResidentKind::Code, "/usr/bin/a b", 20, 1),
            (ResidentKind::Data, "/usr/bin/a b", 4, 1),
            (ResidentKind::File, "/usr/bin/a b", 8, 1),
            (ResidentKind::Shared, "/dev/shm/x (deleted)", 36, 1),
            (ResidentKind::Recorder, "", 84, 2),
            (ResidentKind::Kernel, "[vdso]", 4, 1),
        ]
    );
    let rows: Vec<(u64, &str, u8)> = reading
        .anonymous
        .iter()
        .map(|row| (row.bytes / 1024, row.name.as_str(), row.facts))
        .collect();
    assert_eq!(
        rows,
        [
            (4, "/usr/bin/a b", facts::ZEROED_DATA),
            (12, "[heap]", 0),
            (16, "", facts::GLIBC_HEAP),
            (24, "", facts::RECORDERS),
            (28, "", facts::STACK),
            (32, "[anon:pool of x]", 0),
            (48, "[stack]", facts::STACK),
        ]
    );
    assert_eq!(reading.bytes(), 320 * 1024);
}

#[test]
fn memory_behind_a_file_is_zeroed_data_only_behind_its_private_pages() {
    let plain = "rd wr";
    let rows = [
        ("7f5000000000-7f5000100000 rw-s 00000000 00:01 5 /tmp/s/1-0.process", 40, plain),
        ("7f5000100000-7f5000200000 rw-p 00000000 00:00 0 ", 52, plain),
        ("7f5000200000-7f5000201000 rw-p 00000000 00:01 5 /home/c/heaplab-preload-1.so", 4, plain),
        ("7f5000201000-7f5000204000 rw-p 00000000 00:00 0 ", 12, "rd wr dd"),
        ("7f5000204000-7f5000206000 rw-p 00000000 00:00 0 ", 8, plain),
        ("7f6000200000-7f6000201000 rw-p 00000000 00:01 5 /home/c/heaplab-preload-1.so", 4, plain),
        ("7f6000201000-7f6000205000 rw-p 00000000 00:00 0 ", 16, plain),
        ("7f7000200000-7f7000201000 rw-p 00000000 00:01 5 /lib/x.so", 4, plain),
        (
            "7f7000201000-7f7000206000 rw-p 00000000 00:00 0 [anon: glibc: .bss /lib/x.so]",
            20,
            plain,
        ),
        ("7f7000206000-7f700020c000 rw-p 00000000 00:00 0 ", 24, plain),
    ];
    let text: String =
        rows.map(|(head, resident, flags)| mapping(head, resident, 0, flags)).concat();
    let reading = smaps::parse(&text, "/tmp/s", &[]);
    let recorders = reading.files.iter().find(|part| part.kind == ResidentKind::Recorder);
    assert_eq!(recorders.map(|part| part.bytes), Some(48 * 1024), "{:#?}", reading.files);
    let of = |row: &AnonymousRow| (row.bytes / 1024, row.name.clone(), row.facts);
    let anonymous: Vec<_> = reading.anonymous.iter().map(of).collect();
    let unnamed = String::new;
    let expected = [
        (52, unnamed(), 0),
        (12, unnamed(), facts::RECORDERS),
        (8, unnamed(), 0),
        (16, unnamed(), facts::RECORDERS),
        (20, "/lib/x.so".into(), facts::ZEROED_DATA),
        (24, unnamed(), 0),
    ];
    assert_eq!(anonymous, expected);
}

#[test]
fn this_process_adds_up_to_what_the_kernel_counts() {
    let text = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let resident: u64 = text
        .lines()
        .filter_map(|line| {
            line.strip_prefix("Rss:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok()
        })
        .sum();
    assert_eq!(smaps::parse(&text, "/nowhere", &[]).bytes(), resident * 1024);
}

#[test]
fn so_many_rows_are_folded_without_losing_a_byte() {
    let text: String = (0..ROWS_MAX as u64 + 10)
        .map(|at| {
            let start = 0x10_0000 + at * 0x2000;
            mapping(&format!("{start:x}-{:x} rw-p 0 00:00 0 ", start + 0x1000), 4, 4, "rd wr")
        })
        .collect();
    let reading = smaps::parse(&text, "/nowhere", &[]);
    assert_eq!(reading.anonymous.len(), ROWS_MAX + 1);
    assert_eq!(reading.bytes(), (ROWS_MAX as u64 + 10) * 4096);
}

proptest! {
    #[test]
    fn any_text_is_read_without_panic(lines in prop::collection::vec("[0-9a-f]{1,6}-[0-9a-f]{1,17} [rwxp-]{0,5}( [0-9a-z:/\\[\\]]{0,9}){0,5}|(Rss|Anonymous|AnonHugePages|VmFlags): {0,3}[0-9]{0,20} ?(kB)?|\\PC{0,40}", 0..60)) {
        let reading = smaps::parse(&lines.join("\n"), "/tmp", &[5, u64::MAX]);
        prop_assert!(reading.anonymous.windows(2).all(|rows| rows[0].end <= rows[1].start));
    }
}

#[test]
fn checks_are_close_at_first() {
    let ms = Duration::from_millis;
    let next = |so_far, processes| sampler::until_next_check(ms(so_far), processes);
    assert_eq!([0, 50, 100].map(|so_far| next(so_far, 1)), [ms(5); 3]);
    assert_eq!(next(400, 1), ms(20));
    assert_eq!([2000, 1 << 40].map(|so_far| next(so_far, 1)), [ms(100); 2]);
    assert_eq!([10, 1 << 40].map(|processes| next(50, processes)), [ms(20), ms(100)]);
}

/// The kernel gives the mappings in the order of their addresses; the stack is one of the last.
#[test]
fn a_process_that_ends_meanwhile_has_no_half_reading() {
    for trial in 0..100 {
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let pid = child.id();
        // The kernel names the stack late in exec.
        while !smaps::text_of(pid).is_some_and(|text| text.contains("[stack]")) {}
        let killing = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_micros(4 * trial));
            child.kill().unwrap();
            child.wait().unwrap();
        });
        while let Some(text) = smaps::text_of(pid) {
            assert!(text.contains("[stack]"), "trial {trial}: {text}");
        }
        killing.join().unwrap();
    }
}
