//! The kernel's view: the addresses that a space gets when they are few, and its system calls
//! compared with its report.
//!
//! Some tests start this program again as a child with less address space, under strace, or under
//! valgrind. If one of those programs is not installed, its test prints a line and passes.

#![cfg(not(miri))]

use heaplab_elastic::{Arena, Error, Growth, Options, Reclaim, Report, Space};
use std::alloc::Layout;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output};

/// Makes this program act as a child; the value names the task.
const CHILD: &str = "ELASTIC_TEST_CHILD";

/// This test program as a child that runs one test, under `tool` where there is one.
fn child(test: &str, tool: &[&str]) -> Command {
    let this = std::env::current_exe().unwrap();
    let mut command = match tool {
        [] => Command::new(&this),
        [program, arguments @ ..] => {
            let mut command = Command::new(program);
            command.args(arguments).arg(&this);
            command
        }
    };
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]).env(CHILD, "1");
    command
}

fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

fn succeeded(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        output.status.success(),
        "{:?}\n{}{}",
        output.status,
        text(&output.stdout),
        text(&output.stderr)
    );
    text(&output.stdout)
}

/// Arenas of all sizes in the default space, and what it reserved.
fn use_the_default_space() -> Report {
    let space = Space::default();
    let arenas: Vec<Arena> = [Growth::MICRO, Growth::STANDARD, Growth::LARGE]
        .map(|growth| space.arena(growth).unwrap())
        .into();
    for arena in &arenas {
        for bytes in [24, 900, 5_000, 200_000, 1 << 20] {
            let block = arena.allocate(Layout::from_size_align(bytes, 8).unwrap()).unwrap();
            // SAFETY: the block has this size.
            unsafe { block.write_bytes(1, bytes) };
        }
    }
    let report = space.report().unwrap();
    drop(arenas);
    space.trim().unwrap();
    assert_eq!(space.committed_bytes(), 0);
    report
}

#[test]
fn the_default_space_takes_what_address_space_there_is() {
    if is_child() {
        let report = use_the_default_space();
        println!("\nreserved {}", report.reserved_bytes);
        assert!(
            report.reserved_bytes == report.wanted_bytes
                || report.to_string().contains("64.00 GB wanted: the system refused")
        );
        let explicit = Space::new(Options { reserve_bytes: 32 << 30, ..Options::default() });
        assert!(
            matches!(explicit, Err(Error::System(_))),
            "more than there is was asked for: {explicit:?}"
        );
        // The rest of the program still has the same amount.
        assert!(Vec::<u8>::new().try_reserve_exact(report.reserved_bytes / 2).is_ok());
        return;
    }
    for limit_bytes in [8u64 << 30, 1 << 30, 300 << 20, 120 << 20] {
        let mut command = child("the_default_space_takes_what_address_space_there_is", &[]);
        let limited = move || {
            let limit = libc::rlimit { rlim_cur: limit_bytes, rlim_max: limit_bytes };
            // SAFETY: the structure is one, and lives for the call.
            if unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) } == 0 {
                Ok(())
            } else {
                Err(std::io::Error::last_os_error())
            }
        };
        // SAFETY: the closure makes a system call and nothing else.
        unsafe { command.pre_exec(limited) };
        let said = succeeded(&command.output().unwrap());
        let reserved = said
            .lines()
            .find_map(|line| line.strip_prefix("reserved "))
            .unwrap_or_else(|| panic!("{said}"));
        let reserved: u64 = reserved.parse().unwrap();
        assert!(
            reserved >= limit_bytes / 16 && reserved <= limit_bytes / 2,
            "{reserved} of {limit_bytes}"
        );
    }
}

#[test]
fn the_default_space_works_under_valgrind() {
    if is_child() {
        println!("\nreserved {}", use_the_default_space().reserved_bytes);
        return;
    }
    if heaplab_oracle::runs("valgrind", &["true"]) {
        let tool = ["valgrind", "--quiet", "--error-exitcode=9"];
        let said =
            succeeded(&child("the_default_space_works_under_valgrind", &tool).output().unwrap());
        assert!(said.contains("reserved "), "{said}");
    }
}

/// Lines of /proc/self/maps that touch the space with a page on either side.
fn mappings(space: &Space, page: usize) -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let (from, to) = (space.addresses().start - page, space.addresses().end + page);
    let parsed = maps.lines().filter_map(|line| line.split_once(' ')?.0.split_once('-'));
    let address = |text: &str| usize::from_str_radix(text, 16).unwrap();
    parsed.filter(|(start, end)| address(start) < to && from < address(end)).count()
}

#[test]
fn a_report_has_the_mappings_of_proc_guard_pages_included() {
    let space = Space::default();
    let page = space.options().granule_bytes;
    let check = |expected: std::ops::RangeInclusive<usize>| {
        let report = space.report().unwrap();
        assert_eq!(report.mappings, mappings(&space, page), "{report}");
        assert!(expected.contains(&report.mappings), "{report}");
    };
    check(1..=3);
    let arena = space.arena(Growth::STANDARD).unwrap();
    arena.alloc(1u8).unwrap();
    check(3..=4);
    drop(arena);
    space.trim().unwrap();
    check(3..=4);
}

#[test]
fn a_report_has_the_system_calls_that_strace_sees() {
    if is_child() {
        let space = Space::new(Options {
            reclaim: Reclaim::AtReturn { keep_bytes: 0 },
            ..Options::default()
        })
        .unwrap();
        for round in 0..40 {
            let arenas: Vec<Arena> =
                (0..100).map(|_| space.arena(Growth::SMALL).unwrap()).collect();
            for (nth, arena) in arenas.iter().enumerate() {
                for block in 0..10 {
                    arena
                        .allocate(
                            Layout::from_size_align(24 + (nth + block * 211 + round) % 700, 8)
                                .unwrap(),
                        )
                        .unwrap();
                }
                // Large enough to be populated at once.
                (nth == 7).then(|| {
                    arena.allocate(Layout::from_size_align(400 << 10, 8).unwrap()).unwrap()
                });
            }
        }
        let (addresses, report) = (space.addresses(), space.report().unwrap());
        let calls = report.system_calls;
        println!("\nspace {} {}", addresses.start, addresses.end);
        println!("calls {} {} {}", calls.mprotect, calls.madvise(), report.commits);
        // Beyond here the space goes.
        std::process::exit(0);
    }
    if !heaplab_oracle::runs("strace", &["true"]) {
        return;
    }
    let trace = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("elastic-strace-{}", std::process::id()));
    let tool = ["strace", "-f", "-o", trace.to_str().unwrap(), "-e", "trace=mprotect,madvise"];
    let said = succeeded(
        &child("a_report_has_the_system_calls_that_strace_sees", &tool).output().unwrap(),
    );
    let numbers = |name: &str| -> Vec<usize> {
        let line = said
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .unwrap_or_else(|| panic!("{said}"));
        line.split_whitespace().map(|number| number.parse().unwrap()).collect()
    };
    let (space, calls) = (numbers("space "), numbers("calls "));
    let text = std::fs::read_to_string(&trace).unwrap();
    std::fs::remove_file(&trace).unwrap();
    let seen = |call: &str| {
        let arguments =
            text.lines().filter_map(|line| line.split_once(call)?.1.strip_prefix("(0x"));
        let addresses = arguments
            .map(|rest| usize::from_str_radix(rest.split(',').next().unwrap(), 16).unwrap());
        addresses.filter(|address| (space[0]..space[1]).contains(address)).count()
    };
    assert_eq!([seen("mprotect"), seen("madvise")], calls[..2], "mprotect and madvise");
    assert!(calls[0] < 10 && calls[2] > 1_000, "thousands of commits take a few calls: {calls:?}");
}
