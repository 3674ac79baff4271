//! Workloads in the real V8 of Node 13.14.0, and of the other three versions if installed.

use heaplab_heap::{Ask, Collection, SpaceState};
use heaplab_node::{NodeError, Run, Spec, Step, find, known, run};
use std::path::Path;

/// splitmix64.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((u128::from(z ^ (z >> 31)) * u128::from(limit)) >> 64) as u64
    }
}

/// The workload of the recorded facts: 20,000 slots replaced at random by mixed sizes (half under 9
/// words, 2 % up to 4,095), a collection every 20,000 births.
fn mixed(births: u64) -> Vec<Step> {
    let mut random = Random(7);
    let mut steps = Vec::new();
    for birth in 1..=births {
        let words = match random.below(100) {
            0..50 => 1 + random.below(8),
            50..98 => 9 + random.below(56),
            _ => 1 + random.below(4095),
        };
        steps.push(Step::Birth { slot: random.below(20_000) as u32, size: words * 8 });
        if birth % 20_000 == 0 {
            steps.push(Step::Collect(Ask::Full));
        }
    }
    steps
}

fn ran(text: &str, steps: &[Step]) -> Result<Run, NodeError> {
    run(&Spec::parse(text).unwrap(), 20_000, &mut |visit| {
        steps.iter().try_for_each(|step| visit(*step))
    })
}

/// Whether this Node is installed, as in CI the known version must be.
fn have(version: &str) -> bool {
    match find::node(&Spec::parse(&format!("version={version}")).unwrap()) {
        Ok(_) => true,
        Err(error) => {
            if version == known::VERSION {
                heaplab_oracle::skip(error);
            } else {
                eprintln!("skipped: {error}");
            }
            false
        }
    }
}

fn states(run: &Run) -> Vec<(u64, SpaceState, SpaceState)> {
    run.collections
        .iter()
        .map(|Collection { births, before, after, .. }| (*births, *before, *after))
        .collect()
}

#[test]
fn runs_repeat_to_the_byte_and_strategies_differ_as_the_facts_say() {
    if !have(known::VERSION) {
        return;
    }
    let steps = mixed(200_000);
    let mut committed = Vec::new();
    let mut many = Vec::new();
    for strategy in 0..6 {
        let text = format!("strategy={strategy},compact=never");
        let (first, again) = (ran(&text, &steps).unwrap(), ran(&text, &steps).unwrap());
        assert_eq!(states(&first), states(&again), "{text}");
        assert_eq!((first.collections.len(), first.unforced), (10, 0), "{text}");
        assert_eq!(first.collections[9].births, 200_000);
        let end = &first.collections[9].after;
        assert_eq!(end.committed_bytes % known::PAGE_BYTES, 0, "{text}: {end:?}");
        committed.push(end.committed_bytes);
        if strategy == 2 || strategy == 3 {
            many.push(states(&first));
        }
        let used: Vec<u64> =
            first.collections.iter().map(|collection| collection.after.used_bytes).collect();
        let live = 20_000 * 300;
        assert!(used[9] > live / 2 && used[9] < live * 3, "{used:?}");
    }
    assert_eq!(many[0], many[1], "ManyCached only finds faster what Many finds");
    // The shape: FastAlloc a little below Legacy, the four others far below and close together.
    let [legacy, fast, ref others @ ..] = committed[..] else { unreachable!() };
    assert!(fast < legacy, "{committed:?}");
    assert!(others.iter().all(|bytes| *bytes as f64 / (legacy as f64) < 0.85), "{committed:?}");
    // Always-compact leaves the same objects under every strategy. The pages may differ by one, by
    // the room on the last page.
    let always = [0, 2].map(|strategy| {
        ran(&format!("strategy={strategy},compact=always"), &steps).unwrap().collections[9].after
    });
    assert_eq!(always[0].used_bytes, always[1].used_bytes);
    assert!(
        always[0].committed_bytes.abs_diff(always[1].committed_bytes) <= known::PAGE_BYTES,
        "{always:?}"
    );
    assert!(always[0].committed_bytes * 2 < committed[2], "{always:?} {committed:?}");
}

#[test]
fn what_a_birth_takes_and_free_lists_are_as_stated() {
    if !have(known::VERSION) {
        return;
    }
    let births = |words: u64| (0..100).map(move |slot| Step::Birth { slot, size: words * 8 });
    for words in [1, 5, 100] {
        let steps: Vec<Step> = births(words).collect();
        let run = ran("compact=never,categories=true", &steps).unwrap();
        let new = run.collections[0].spaces.iter().find(|space| space.name == "new_space").unwrap();
        let expected = 100 * known::birth_bytes(words);
        assert!(
            (expected..expected + 200).contains(&new.before.used_bytes),
            "{words}: {} {expected}",
            new.before.used_bytes
        );
        let start = run.start.iter().find(|(name, _)| name == "old_space").unwrap().1;
        assert!(
            (start.committed_bytes - start.used_bytes) % known::PAGE_AREA_BYTES < 16 << 10,
            "pages are full or empty at the start: {start:?}"
        );
        assert_eq!(run.collections[0].before.used_bytes, 0, "nothing is in old space yet");
        let lists = run.collections[0].free_lists.as_ref().unwrap();
        assert_eq!((lists.before.len(), lists.swept.len()), (24, 24));
        assert!(lists.swept.iter().all(|free| free.blocks == 0), "{lists:?}");
    }
    // Collections promote the objects: headers and elements are in old space, and the heap finds
    // memory that dies there.
    let mut steps: Vec<Step> =
        births(100).chain([Step::Collect(Ask::Full), Step::Collect(Ask::Full)]).collect();
    steps.extend((0..100).map(|slot| Step::Death { slot }));
    steps.push(Step::Collect(Ask::Minor));
    steps.push(Step::Collect(Ask::Full));
    let run = ran("compact=never", &steps).unwrap();
    let used: Vec<u64> =
        run.collections.iter().map(|collection| collection.after.used_bytes).collect();
    assert_eq!(
        used[1],
        100 * (known::ARRAY_BYTES + known::ELEMENTS_HEADER_BYTES + 800),
        "{used:?}"
    );
    assert_eq!((used[3], run.collections[2].kind.as_ref()), (0, "scavenge"), "{used:?}");
}

#[test]
fn v8_s_own_collections_are_found_with_the_births_before_them() {
    if !have(known::VERSION) {
        return;
    }
    let steps = mixed(200_000);
    let run = ran("gc=own,compact=never,strategy=2,limit=32m", &steps).unwrap();
    let kinds =
        |kind: &str| run.collections.iter().filter(|collection| collection.kind == kind).count();
    assert!(
        kinds("scavenge") > 10 && kinds("mark-sweep") >= 2,
        "{} {}",
        kinds("scavenge"),
        kinds("mark-sweep")
    );
    assert!(run.collections.is_sorted_by_key(|collection| collection.births));
    assert_eq!(
        (run.collections.last().unwrap().births, run.collections.last().unwrap().cause.as_ref()),
        (200_000, "forced")
    );
    // When the first scavenge begins, new space is full except for the ends of its pages.
    let taken: u64 = steps
        .iter()
        .filter_map(|step| {
            if let Step::Birth { size, .. } = step {
                Some(known::birth_bytes(size / 8))
            } else {
                None
            }
        })
        .take(run.collections[0].births as usize)
        .sum();
    assert!((7 << 19..=4 << 20).contains(&taken), "{taken}");
    let again = ran("gc=own,compact=never,strategy=2,limit=32m", &steps).unwrap();
    assert_eq!(states(&run), states(&again));
    let fulls =
        run.collections.iter().filter(|collection| collection.kind == "mark-sweep").count() as u64;
    assert_eq!(run.unforced + 1, fulls);
}

#[test]
fn a_heap_that_is_too_small_a_node_that_hangs_and_one_without_strategies_say_so() {
    if !have(known::VERSION) {
        return;
    }
    let large: Vec<Step> = (0..20_000).map(|slot| Step::Birth { slot, size: 8192 }).collect();
    let said = ran("limit=32m", &large).unwrap_err().to_string();
    assert!(
        said.contains("out of memory with ")
            && said.contains(" bytes live")
            && said.contains("163840000")
            && said.contains("(limit=32m)"),
        "{said}"
    );
    let many: Vec<Step> =
        (0..400).flat_map(|_| mixed(1).into_iter().chain([Step::Collect(Ask::Full); 20])).collect();
    let error = ran("timeout=1", &many).unwrap_err();
    assert!(matches!(error, NodeError::Hung { seconds: 1, expected: 8000, .. }), "{error}");
    // A Node too new for the flag, under the version requested.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("node");
    let script = "#!/bin/sh\n[ \"$1\" = --version ] && { echo v13.14.0; exit; }\necho \"$0: bad option: $1\" >&2; exit 9\n";
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let said = ran(&format!("node={}", path.display()), &[]).unwrap_err().to_string();
    assert!(
        said.contains("cannot choose a free-list strategy (bad option --gc-freelist-strategy=5)"),
        "{said}"
    );
    std::fs::write(&path, "#!/bin/sh\n[ \"$1\" = --version ] && { echo v13.14.0; exit; }\necho oops >&2; kill -11 $$\n").unwrap();
    assert_eq!(
        ran(&format!("node={}", path.display()), &[]).unwrap_err().to_string(),
        "Node died: signal 11: oops, after 0 of 1 collections; run it again; if it dies again, try another version="
    );
    std::fs::write(
        &path,
        "#!/bin/sh\n[ \"$1\" = --version ] && { echo v13.14.0; exit; }\necho hello >&3\n",
    )
    .unwrap();
    let said = ran(&format!("node={}", path.display()), &[]).unwrap_err().to_string();
    assert!(
        said.starts_with(
            "what Node wrote to the results: expected a first line that names the spaces"
        ),
        "{said}"
    );
    assert!(Path::new(&path).exists());
}

/// Bytes that a process has read of the file that is its standard input.
fn read_bytes(pid: i32) -> u64 {
    let said = std::fs::read_to_string(format!("/proc/{pid}/fdinfo/0")).expect("a child that runs");
    let at = said.lines().find_map(|line| line.strip_prefix("pos:"));
    at.and_then(|at| at.trim().parse().ok()).expect("a position")
}

/// A real Node behind a script that reports its process id and stops. The test kills it while it
/// runs a workload, and while heaplab waits to read its own objects.
#[test]
fn a_node_that_is_killed_says_so_and_leaves_no_file() {
    if !have(known::VERSION) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (node, pid, own) =
        (folder.path().join("node"), folder.path().join("pid"), folder.path().join("own.toml"));
    let real = find::node(&Spec::default()).unwrap();
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = --version ] || {{ echo $$ > '{}'; kill -STOP $$; }}\nexec '{}' \"$@\"\n",
        pid.display(),
        real.display()
    );
    std::fs::write(&node, script).unwrap();
    std::fs::set_permissions(&node, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    // A minute of collections on any machine: the kill comes in its middle.
    let steps = [Step::Collect(Ask::Full); 20_000];
    for own_objects in ["", &format!(",own={}", own.display())] {
        let text = format!("node={}{own_objects}", node.display());
        let said = std::thread::scope(|scope| {
            let running = scope.spawn(|| ran(&text, &steps).unwrap_err().to_string());
            let number = loop {
                let text = std::fs::read_to_string(&pid).unwrap_or_default();
                match text.trim().parse::<i32>() {
                    Ok(number) if text.ends_with('\n') => break number,
                    _ if running.is_finished() => panic!("it ended: {:?}", running.join()),
                    _ => std::thread::sleep(std::time::Duration::from_millis(5)),
                }
            };
            // It goes on only for a workload, until it has read the first steps.
            while own_objects.is_empty() && read_bytes(number) == 0 {
                // SAFETY: as below. It may not have stopped yet, so each turn wakes it.
                unsafe { libc::kill(number, libc::SIGCONT) };
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            // SAFETY: kill takes numbers; the process is a child that nobody has waited for yet.
            assert_eq!(unsafe { libc::kill(number, libc::SIGKILL) }, 0, "it ran to its end");
            running.join().unwrap()
        });
        assert!(said.starts_with("Node died: signal 9: killed from outside"), "{said}");
        std::fs::remove_file(&pid).unwrap();
    }
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().flatten().collect();
    assert_eq!(left.len(), 1, "the script alone: {left:?}");
}

/// A file of `own=` is written again, but nothing else is replaced.
#[test]
fn own_replaces_no_other_file() {
    if !have(known::VERSION) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path().join("own.toml");
    let write = |strategy: u8| {
        ran(&format!("strategy={strategy},own={}", own.display()), &mixed(1_000)).map(|_| ())
    };
    write(2).unwrap();
    let text = std::fs::read_to_string(&own).unwrap();
    assert!(
        text.contains("Node 13.14.0, strategy=many,") && text.contains("\nnode = \"13.14.0\"\n")
    );
    write(2).unwrap();
    let said = write(0).unwrap_err().to_string();
    assert!(said.contains("strategy=legacy") && said.contains("found \"# Node's own"), "{said}");
    assert_eq!(std::fs::read_to_string(&own).unwrap(), text);
    std::fs::write(&own, "my notes\n").unwrap();
    let said = write(2).unwrap_err().to_string();
    assert!(said.ends_with("found \"no file of own=\": remove it or name another file"), "{said}");
    assert_eq!(std::fs::read_to_string(&own).unwrap(), "my notes\n");
}

#[test]
fn other_nodes_run_the_same_workload() {
    for version in ["12.22.1", "14.0.0", "14.21.3"] {
        if !have(version) {
            continue;
        }
        for compact in ["never", "regular", "always"] {
            let run =
                ran(&format!("version={version},compact={compact},strategy=2"), &mixed(60_000))
                    .unwrap();
            assert!(run.version.starts_with(&format!("Node {version} (V8 ")), "{}", run.version);
            let end = run.collections[2].after;
            assert!(
                run.collections.len() == 3
                    && end.used_bytes > 2 << 20
                    && end.committed_bytes + known::PAGE_BYTES > end.used_bytes,
                "{version} {compact}: {end:?}"
            );
            assert_eq!(run.thresholds.len(), if compact == "regular" { 3 } else { 0 }, "{version}");
        }
    }
}
