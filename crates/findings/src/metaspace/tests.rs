//! Real logs (crates/jvm/tests/data/jvm-log), and statistics made by hand.

use super::*;
use heaplab_jvm::{At, Reclaim, Report, import, report};
use heaplab_trace::import::ImportOptions;
use heaplab_trace::source::Slice;

fn reported(log: &[u8]) -> Report {
    let mut events = Vec::new();
    let imported = import(log, None, &ImportOptions::default(), &mut events).unwrap();
    report(&imported.tables, &mut Slice(&events), 0, At::End).unwrap()
}

#[test]
fn the_wastes_of_a_small_program() {
    let logs: [(&str, &[u8]); 2] = [
        ("jdk17", include_bytes!("../../../jvm/tests/data/jvm-log/jdk-17.0.15.log.gz")),
        ("jdk25", include_bytes!("../../../jvm/tests/data/jvm-log/jdk-25.0.2.log.gz")),
    ];
    for (name, log) in logs {
        let report = reported(log);
        let mut text = String::new();
        for finding in findings(&report.statistics, &report.requests) {
            text += &format!("- {}\n  {}\n\n", finding.title, finding.advice);
        }
        insta::assert_snapshot!(name, text);
    }
}

/// Every advised setting exists in the recorded JVM: JDK 21 removed the policy.
#[test]
fn advice_is_for_the_recorded_version() {
    let advice = |reclaim| {
        let pinned = heaplab_jvm::statistics::Pinned {
            granules: 1,
            free_bytes: 60 << 10,
            free_in_quarters_bytes: 48 << 10,
            ..Default::default()
        };
        let statistics = Statistics { reclaim, pinned, ..Statistics::default() };
        let found = findings(&statistics, &Requests::default());
        let found = found.into_iter().find(|finding| finding.kind == PINNED_GRANULES).unwrap();
        let saving = found.evidence::<Waste>().unwrap().saving_bytes;
        (found.advice, saving)
    };
    let (balanced, saving) = advice(Reclaim::Balanced);
    assert!(
        balanced.contains("up to 48.00 KB: -XX:MetaspaceReclaimPolicy=aggressive.")
            && saving == Some(48 << 10),
        "{balanced}"
    );
    let (removed, saving) = advice(Reclaim::Removed);
    assert!(
        removed.contains("has no setting") && !removed.contains("aggressive") && saving.is_none(),
        "{removed}"
    );
    assert!(advice(Reclaim::Unknown).0.contains("JDK 16 to 20"));
}

#[test]
fn refused_requests_are_a_finding() {
    let report = reported(include_bytes!("../../../jvm/tests/data/jvm-log/jdk-17-refused.log.gz"));
    let found = findings(&report.statistics, &report.requests);
    let first = &found[0];
    // The limit is the command line's: 384 KB.
    assert_eq!((first.kind, report.statistics.full.unwrap().limit_bytes), (REFUSED, 384 << 10));
    assert!(
        first.title.starts_with("4 requests refused: MaxMetaspaceSize, 384.00 KB, was reached"),
        "{}",
        first.title
    );
    let mut statistics = Statistics::default();
    let mut advice = |change: &dyn Fn(&mut Statistics)| {
        change(&mut statistics);
        let found = findings(&statistics, &Requests::default());
        found.first().map(|finding| format!("{} {}", finding.title, finding.advice))
    };
    assert_eq!(advice(&|_| {}), None);
    assert!(
        advice(&|statistics| statistics.counters.refused = 2)
            .unwrap()
            .contains("CompressedClassSpaceSize")
    );
    assert!(
        advice(&|statistics| statistics.counters.commits_refused_at_threshold = 1)
            .unwrap()
            .contains("-XX:MetaspaceSize")
    );
}
