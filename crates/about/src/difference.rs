//! What changed between two readings, path by path, as about:memory's "Load and diff".
//!
//! Numbers that differ from run to run are equal for this (`steady`), so that a process is
//! compared with its successor.

use crate::steady::steady;
use crate::tree::nearest;
use crate::{Report, Saved};
use std::collections::BTreeMap;

/// `after` less `before`. Reports without a difference are left out.
pub fn between(before: &Saved, after: &Saved) -> Saved {
    let (first, mut second) = (by_path(before), by_path(after));
    let mut reports = Vec::new();
    for (key, (mut report, sum)) in first {
        match second.remove(&key) {
            Some((other, to)) if (other.kind, other.units) == (report.kind, report.units) => {
                report.amount = nearest(to - sum);
            }
            other => {
                // Another kind or other units: a new report under an old name.
                second.extend(other.map(|other| (key, other)));
                report.presence = Some(1);
                report.amount = nearest(-sum);
            }
        }
        reports.push(report);
    }
    let new = second.into_values();
    reports.extend(new.map(|(report, sum)| Report {
        presence: Some(2),
        amount: nearest(sum),
        ..report
    }));
    reports.retain(|report| report.amount != 0);
    let mut difference = Saved::new(after.has_usable_size, reports);
    difference.said = after.said.clone();
    difference
}

/// The first report of each path, and the sum of all.
fn by_path(saved: &Saved) -> BTreeMap<(String, String), (Report, i128)> {
    let mut all: BTreeMap<(String, String), (Report, i128)> = BTreeMap::new();
    for report in &saved.reports {
        let (process, path) = (steady(&report.process), steady(&report.path));
        let (_, sum) = all
            .entry((process.clone(), path.clone()))
            .or_insert_with(|| (Report { process, path, ..report.clone() }, 0));
        *sum += i128::from(report.amount);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use heaplab_reporter::{Kind, Units};

    fn saved(process: &str, reports: &[(&str, i64)]) -> Saved {
        let report = |(path, amount): &(&str, i64)| Report {
            process: process.into(),
            path: (*path).into(),
            kind: Kind::Heap,
            units: Units::Bytes,
            amount: *amount,
            description: "Bytes.".into(),
            presence: None,
        };
        Saved::new(true, reports.iter().map(report).collect())
    }

    #[test]
    fn a_process_is_compared_with_its_successor() {
        let before = saved("app (pid 7)", &[("explicit/a(0x7f3a)", 10), ("explicit/gone", 5)]);
        let after = saved(
            "app (pid 88)",
            &[("explicit/a(0xb2)", 4), ("explicit/a(0xb2)", 9), ("explicit/new", 1)],
        );
        let found: Vec<_> = between(&before, &after)
            .reports
            .into_iter()
            .map(|report| (report.process, report.path, report.amount, report.presence))
            .collect();
        let process = || "app (pid NNN)".to_owned();
        assert_eq!(
            found,
            [
                (process(), "explicit/a(0xNNN)".into(), 3, None),
                (process(), "explicit/gone".into(), -5, Some(1)),
                (process(), "explicit/new".into(), 1, Some(2)),
            ]
        );
        assert!(between(&after, &after).reports.is_empty());
    }
}
