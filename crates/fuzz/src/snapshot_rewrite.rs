//! Everything that makes a file from a file: any bytes, validated, converted, redacted, multiplied,
//! trimmed. What comes out is a valid snapshot or an error, and what `validate` calls good can be
//! rewritten.

use heaplab_snapshot::Snapshot;
use heaplab_snapshot::analysis::{Analysis, Options};
use heaplab_snapshot::rewrite::{
    Identifiers, Keep, Key, Redaction, RewriteError, Target, Trimming, convert, ladder, redact,
    trim,
};
use heaplab_snapshot::rows::Rows;
use heaplab_snapshot::validate::validate;

fn quiet(_: u64, _: u64) {}

/// What was written is good.
fn check(what: &str, written: Result<Vec<u8>, RewriteError>, must: bool) {
    match written {
        Ok(bytes) => {
            let report = validate(&bytes, &mut quiet);
            assert!(report.is_good(), "{what}: {report:?}\n{}", String::from_utf8_lossy(&bytes));
        }
        // Damage, a root that cannot be multiplied: what a good file does not have.
        Err(error) => assert!(!must || matches!(error, RewriteError::Asked(_)), "{what}: {error}"),
    }
}

/// One input.
pub fn run(data: &[u8]) {
    let report = validate(data, &mut quiet);
    assert!(report.good_bytes <= data.len() as u64);
    let good = report.is_good();
    let read = Snapshot::read(data);
    assert_eq!(report.damage, read.as_ref().err().cloned());
    let Ok(rows) = Rows::find(data) else {
        // Of what is read only a root that is not the first node cannot be written anew.
        assert!(!good || read.is_ok_and(|snapshot| snapshot.graph.root() != 0));
        return;
    };
    for (name, target) in Target::ALL {
        check(name, convert(&rows, target, Vec::new(), &mut quiet).map(|(bytes, _)| bytes), good);
    }
    for keep in [Keep::Identifiers, Keep::Names, Keep::Own] {
        let redaction = Redaction { keep, identifiers: Identifiers::own(), key: Key::new([1; 32]) };
        check(
            "redact",
            redact(&rows, redaction, Vec::new(), &mut quiet).map(|(bytes, _)| bytes),
            good,
        );
    }
    check("ladder", ladder(&rows, 3, Vec::new(), &mut quiet).map(|(bytes, _)| bytes), good);
    if let Ok(snapshot) = Snapshot::read(data) {
        let analysis = Analysis::of(&snapshot, &Options::default());
        let objects: Vec<u32> = snapshot.graph.nodes().step_by(3).take(5).collect();
        let trimming = Trimming { objects: &objects, referrers_max: 2 };
        check(
            "trim",
            trim(&rows, &analysis, &trimming, Vec::new(), &mut quiet).map(|(bytes, _)| bytes),
            good,
        );
    }
}
