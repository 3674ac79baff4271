//! The report against the output of `jcmd VM.metaspace` of a JDK 17
//! (traces/metaspace/vmms_jdk17_balanced.dropped5.txt.gz).

mod common;

use common::{Replayed, parse, text};
use heaplab_metaspace::elastic::ElasticMetaspace;
use heaplab_metaspace::elastic::report::{LevelUsage, Report};
use heaplab_metaspace::plan::{ArenaPlan, Plan};
use heaplab_metaspace::spec::Spec;
use heaplab_text::jcmd::{bytes as human, percent};
use std::collections::BTreeSet;

/// The metaspace at the end of a recorded workload.
fn report(trace: &str, spec: &str) -> Report {
    let table = text(&format!("{trace}.arenas.csv.gz"));
    let plan = |line: &str| {
        let fields: Vec<&str> = line.split(',').collect();
        ArenaPlan::parse(if fields[2] == "c" { "class" } else { "non-class" }, fields[3])
    };
    let plans: Vec<ArenaPlan> = table.lines().skip(1).map(plan).collect();
    let mut replayed =
        Replayed::new(ElasticMetaspace::new(Spec::parse(spec).unwrap(), Plan::default()).unwrap());
    for event in parse(&text(&format!("{trace}.trace.gz"))) {
        replayed.step(event, |arena| Some(plans[arena]));
    }
    replayed.heap.report()
}

/// A line without its numbers and their units, which vary in width.
fn form(line: &str) -> String {
    let words = line.split_whitespace().filter(|word| *word != "(").map(|word| {
        let bare = word.trim_matches(|c: char| "(),.<>=".contains(c));
        let is_size = bare
            .strip_suffix(['k', 'm'])
            .is_some_and(|size| size.bytes().all(|byte| byte.is_ascii_digit()));
        if is_size
            || matches!(bare, "KB" | "MB" | "GB" | "bytes" | "chunk" | "chunks")
            || word.starts_with("capacity=")
            || word.starts_with("committed=")
        {
            return "#".to_string();
        }
        word.chars()
            .map(|c| if c.is_ascii_digit() || "<>.".contains(c) { '#' } else { c })
            .collect()
    });
    let mut joined: Vec<String> = words.collect();
    joined.dedup_by(|a, b| a.contains('#') && b.contains('#'));
    joined
        .into_iter()
        .map(|word| if word.contains('#') { "#".into() } else { word })
        .collect::<Vec<String>>()
        .join(" ")
}

#[test]
fn every_line_of_the_jvm_s_text_has_its_like_in_ours() {
    let ours = report("churn", "jdk17").to_string();
    let forms: BTreeSet<String> = ours.lines().map(form).collect();
    // Lines that only a JVM has.
    let jvm_only = ["Total Usage", "Initial GC threshold", "Current GC threshold", "CDS:"];
    let jvm = text("vmms_jdk17_balanced.dropped5.txt.gz");
    let missing: Vec<&str> = jvm
        .lines()
        .filter(|line| {
            !jvm_only.iter().any(|start| line.starts_with(start)) && !forms.contains(&form(line))
        })
        .collect();
    assert!(missing.is_empty(), "{missing:#?}\n{ours}");
}

/// Lines with bytes known from the JVM's text are reprinted, byte for byte.
#[test]
fn the_text_is_laid_out_as_the_jvm_s() {
    let mut report = report("churn", "jdk17");
    let jvm = text("vmms_jdk17_balanced.dropped5.txt.gz");
    let class = &mut report.spaces[1];
    (class.committed_bytes, class.nodes) = (11_927_552, 1);
    class.kinds.truncate(1);
    let usage = &mut class.kinds[0].usage;
    (usage.deallocated_blocks, usage.deallocated_bytes) = (123, 29_665);
    let level = |index: usize, chunks, capacity_bytes, used_bytes, free_bytes, waste_bytes| {
        let chunk_bytes = (16 << 20) >> index;
        LevelUsage {
            chunk_bytes,
            chunks,
            capacity_bytes,
            committed_bytes: capacity_bytes,
            used_bytes,
            free_bytes,
            waste_bytes,
        }
    };
    usage.levels[6] = level(6, 1, 256 << 10, 256 << 10, 0, 0);
    usage.levels[12] = level(12, 39, 156 << 10, (156 << 10) - 32, 0, 32);
    usage.levels[13] = level(13, 200, 400 << 10, 172_411, 237_189, 0);
    let ours = report.to_string();
    let expected = [
        "      512k chunks:  (none)",
        "      256k chunks:    1 chunk, ",
        "        4k chunks:   39 chunks,",
        "        2k chunks:  200 chunks,",
        "    deallocated: 123 blocks",
        "      Class space:",
        " 16m: (none)",
        "num_arena_births",
        "Waste (unused",
    ];
    for start in expected {
        let line = jvm
            .lines()
            .find(|line| line.starts_with(start))
            .unwrap_or_else(|| panic!("the JVM has no line {start:?}"));
        let like = |other: &&str| form(other) == form(line);
        let numbers_differ = start.contains("num_") || start.contains("Waste");
        let found = if numbers_differ {
            ours.lines().any(|other| like(&other))
        } else {
            ours.lines().any(|other| other == line)
        };
        assert!(found, "{line}\n{ours}");
    }
}

#[test]
fn the_parts_add_up() {
    for spec in ["jdk17", "jdk17,reclaim=aggressive", "jdk18", "jdk16"] {
        for trace in ["churn", "jruby"] {
            let report = report(trace, spec);
            for space in &report.spaces {
                let total = space.usage().total();
                assert_eq!(
                    total.committed_bytes,
                    total.used_bytes + total.free_bytes + total.waste_bytes,
                    "{spec}, {trace}"
                );
                assert!(
                    total.committed_bytes + space.free_chunks_committed_bytes()
                        <= space.committed_bytes,
                    "{spec}, {trace}"
                );
                assert!(space.usage().deallocated_bytes <= total.used_bytes);
            }
            let counters = report.counters;
            let in_use: u64 = report.spaces.iter().map(|space| space.usage().total().chunks).sum();
            // The guard chunk of class space has no owner.
            assert_eq!(
                counters.num_chunks_taken_from_freelist - counters.num_chunks_returned_to_freelist,
                in_use + 1
            );
        }
    }
}

/// The old design in JDK 11's form, line for line, and every committed byte in its listing.
#[test]
fn the_old_design_is_listed_as_jdk_11_lists_it() {
    let mut path = std::path::PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    path.push("../../../traces/metaspace/jdk11-churn.txt.gz");
    let mut recorded = String::new();
    std::io::Read::read_to_string(
        &mut flate2::read::GzDecoder::new(std::fs::File::open(path).unwrap()),
        &mut recorded,
    )
    .unwrap();
    let (metaspace, _) = heaplab_metaspace::old::recording::replay(
        &heaplab_metaspace::old::recording::parse(&recorded).unwrap(),
    )
    .unwrap();
    let statistics = metaspace.statistics();
    let ours = statistics.to_string();
    let forms: BTreeSet<String> = ours.lines().map(form).collect();
    // Lines that only a JVM has, and kinds of chunks that only one of the programs had.
    let elsewhere = [
        "Total Usage",
        "Initial",
        "Current",
        "CDS:",
        "MaxMetaspaceSize",
        "CompressedClassSpaceSize",
        "InitialBoot",
    ];
    let jvm = text("vmms_jdk11_stock.dropped5.txt.gz");
    let is_kind = |line: &str| line.contains("specialized") || line.contains("humongous");
    let compared = jvm
        .lines()
        .filter(|line| !elsewhere.iter().any(|start| line.starts_with(start)) && !is_kind(line));
    let missing: Vec<&str> = compared.filter(|line| !forms.contains(&form(line))).collect();
    assert!(missing.is_empty(), "{missing:#?}\n{ours}");
    let (listing, total) = (statistics.listing("jdk11"), statistics.listing("jdk11").total());
    assert_eq!(
        total.committed_bytes,
        total.used_bytes + total.free_bytes + total.waste_bytes + total.overhead_bytes
    );
    assert_eq!(
        listing.committed_bytes,
        total.committed_bytes + listing.free_chunks_bytes + listing.uncut_bytes
    );
    assert_eq!(
        (total.used_bytes, total.arenas),
        (statistics.used_bytes(), statistics.both().arenas)
    );
    assert!(
        ours.contains("Usage by kind of loader (jdk11):") && ours.contains("boot, class"),
        "{ours}"
    );
}

/// The elastic design in the same terms.
#[test]
fn both_designs_give_one_listing() {
    let report = report("churn", "jdk17");
    let (listing, usage) = (report.listing(), report.usage().total());
    let total = listing.total();
    assert_eq!(
        (total.committed_bytes, total.used_bytes, total.free_bytes),
        (usage.committed_bytes, usage.used_bytes, usage.free_bytes)
    );
    assert_eq!(listing.committed_bytes, report.committed_bytes());
    assert!(listing.to_string().contains("Usage by kind of loader (jdk17"), "{listing}");
}

#[test]
fn a_report_is_the_same_after_json() {
    let report = report("jruby", "jdk17");
    let json = serde_json::to_string(&report).unwrap();
    assert_eq!(serde_json::from_str::<Report>(&json).unwrap(), report);
}

#[test]
fn sizes_and_shares_are_written_as_hotspot_writes_them() {
    let sizes = [0, 736, 1023, 1024, 9052, 1 << 20, 16_737_894, 1 << 30].map(human);
    assert_eq!(
        sizes,
        [
            "0 bytes",
            "736 bytes",
            "1023 bytes",
            "1.00 KB",
            "8.84 KB",
            "1.00 MB",
            "15.96 MB",
            "1.00 GB"
        ]
    );
    let shares = [(0, 0), (0, 5), (5, 5), (1, 1000), (999, 1000), (75, 100), (1, 100), (99, 100)]
        .map(|(part, whole)| percent(part, whole));
    assert_eq!(shares, ["  ?%", "  0%", "100%", " <1%", ">99%", " 75%", "  1%", " 99%"]);
}
