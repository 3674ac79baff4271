//! Heaplab's metaspace against HotSpot 17's decisions on the same workloads (traces/metaspace).

mod common;

use common::{Event, Replayed, parse, text};
use heaplab_buddy::Level;
use heaplab_heap::Heap;
use heaplab_metaspace::elastic::{Decision, ElasticMetaspace};
use heaplab_metaspace::plan::{ArenaPlan, Plan};
use heaplab_metaspace::spec::Spec;

const SAMPLED_EVERY: usize = 2000;

/// Used and committed words equal HotSpot's at every sample.
fn samples_equal(trace: &str, policy: &str) {
    let events = parse(&text(&format!("{trace}.trace.gz")));
    let expected = text(&format!("wb_{trace}_{policy}.csv.gz"));
    let mut expected = expected.lines().skip(1);
    let spec = Spec::parse(&format!("jdk17,reclaim={policy}")).unwrap();
    let mut replayed = Replayed::new(ElasticMetaspace::test_context(spec, None, None).unwrap());
    let class: Vec<usize> = events
        .iter()
        .filter_map(|event| {
            if let Event::Birth { arena, class: true, .. } = event { Some(*arena) } else { None }
        })
        .collect();
    let mut samples = 0;
    let mut sample = |replayed: &Replayed, event: usize, op: &str| {
        let ours = format!(
            "{event},{op},{},{}",
            replayed.heap.used_words(),
            replayed.heap.committed_words()
        );
        assert_eq!(Some(ours.as_str()), expected.next(), "{trace}, {policy}, sample {samples}");
        samples += 1;
    };
    for (index, event) in events.iter().enumerate() {
        if *event == Event::Purge {
            sample(&replayed, index + 1, "before_purge");
        }
        replayed.step(*event, |arena| (!class.contains(&arena)).then(ArenaPlan::default));
        match event {
            Event::Purge => sample(&replayed, index + 1, "after_purge"),
            Event::Allocate { .. } if replayed.blocks.len().is_multiple_of(SAMPLED_EVERY) => {
                sample(&replayed, index + 1, "a")
            }
            _ => {}
        }
    }
    sample(&replayed, events.len(), "end");
    assert_eq!(expected.next(), None);
    assert!(samples > 100, "{samples} samples");
    replayed.heap.check_deep().unwrap();
}

#[test]
fn churn_equals_word_for_word_balanced() {
    samples_equal("churn", "balanced");
}

#[test]
fn churn_equals_word_for_word_aggressive() {
    samples_equal("churn", "aggressive");
}

#[test]
fn churn_equals_word_for_word_none() {
    samples_equal("churn", "none");
}

#[test]
fn jruby_equals_word_for_word_balanced() {
    samples_equal("jruby", "balanced");
}

#[test]
fn jruby_equals_word_for_word_aggressive() {
    samples_equal("jruby", "aggressive");
}

#[test]
fn jruby_equals_word_for_word_none() {
    samples_equal("jruby", "none");
}

/// The plan of each arena, from its table.
fn plans(trace: &str) -> Vec<ArenaPlan> {
    let table = text(&format!("{trace}.arenas.csv.gz"));
    let plan = |line: &str| {
        let fields: Vec<&str> = line.split(',').collect();
        ArenaPlan::parse(if fields[2] == "c" { "class" } else { "non-class" }, fields[3])
    };
    table.lines().skip(1).map(plan).collect()
}

/// A decision in the golden files' form; `None`: a kind that they lack.
fn line(class: bool, decision: &Decision, with_returns: bool) -> Option<String> {
    let space = if class { 'c' } else { 'n' };
    Some(match decision {
        Decision::Asked(Level(preferred), Level(smallest), words) => {
            format!("{space},req,{preferred:02},{smallest:02},{words},")
        }
        Decision::HandedOut(Level(level), offset) => format!("{space},out,,{level:02},,0:{offset}"),
        Decision::Returned(Level(level), offset) if with_returns => {
            format!("{space},ret,{level:02},,,0:{offset}")
        }
        Decision::Merged(Level(level), offset) if with_returns => {
            format!("{space},mrg,,{level:02},,0:{offset}")
        }
        _ => return None,
    })
}

/// Every chunk requested, handed out, returned and merged equals HotSpot's, class and non-class, in
/// order.
fn decisions_equal(trace: &str) {
    let events = parse(&text(&format!("{trace}.trace.gz")));
    let (plans, golden) = (plans(trace), text(&format!("{trace}.golden.csv.gz")));
    let with_returns = golden.lines().any(|line| line.contains(",ret,"));
    let mut expected = golden
        .lines()
        .skip(1)
        .map(|line| line.split_once(',').unwrap().1)
        .filter(|line| !line.contains("purge"));
    let mut heap = ElasticMetaspace::new(Spec::parse("jdk17").unwrap(), Plan::default()).unwrap();
    // The first chunk of class space is taken before any watch.
    assert_eq!(
        (expected.next(), expected.next()),
        (Some("c,req,14,14,0,"), Some("c,out,,14,,0:0"))
    );
    heap.spaces_mut().iter_mut().for_each(|space| space.watch());
    let mut replayed = Replayed::new(heap);
    let mut decisions = 0;
    for (index, event) in events.iter().enumerate() {
        replayed.step(*event, |arena| Some(plans[arena]));
        for (class, space) in [false, true].into_iter().zip(replayed.heap.spaces_mut()) {
            for ours in
                space.decisions().iter().filter_map(|decision| line(class, decision, with_returns))
            {
                assert_eq!(
                    Some(ours.as_str()),
                    expected.next(),
                    "{trace}, event {index}: {event:?}, decision {decisions}"
                );
                decisions += 1;
            }
        }
    }
    assert_eq!(expected.next(), None);
    assert!(decisions > 5_000, "{decisions} decisions");
    replayed.heap.check_deep().unwrap();
}

#[test]
fn churn_takes_the_same_chunks() {
    decisions_equal("churn");
}

#[test]
fn jruby_takes_the_same_chunks() {
    decisions_equal("jruby");
}
