//! The first rows of the comparison: do HotSpot's arenas in this project decide as the recorded
//! JVMs did? Only then a figure beside "HotSpot" is HotSpot's. Space and places are exact, so each
//! is counted once and nothing is timed.
//!
//! Tests ask the same and end at the first difference (`cargo test -p heaplab-metaspace --test
//! recorded --test old_recorded`), also for random lists replayed into real JVMs (`--test
//! whitebox`, with an installed JDK). Here everything is counted.

use super::workload::{folder, gunzipped};
use anyhow::{Context, Result, bail};
use heaplab_metaspace::elastic::{ArenaId, Decision, ElasticMetaspace};
use heaplab_metaspace::old::recording;
use heaplab_metaspace::plan::{ArenaPlan, Plan};
use heaplab_metaspace::spec::Spec;
use std::collections::HashMap;
use std::ptr::NonNull;

/// The replayed recordings.
pub const TRACES: [&str; 2] = ["churn", "jruby"];
/// HotSpot's side of the samples was recorded with each of these policies.
pub const POLICIES: [&str; 3] = ["balanced", "aggressive", "none"];
/// Samples stand after each group of this many allocations, and before and after each purge.
const SAMPLED_EVERY: usize = 2000;

/// Number of equal results.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Alike {
    /// Number of equal results.
    pub equal: usize,
    /// Number of compared results. A result on only one side counts as unequal.
    pub of: usize,
    /// The first difference.
    pub difference: Option<String>,
}

impl Alike {
    fn count(&mut self, ours: Option<&str>, theirs: Option<&str>) {
        self.of += 1;
        if ours == theirs {
            self.equal += 1;
        } else if self.difference.is_none() {
            self.difference = Some(format!(
                "{} here, {} recorded",
                ours.unwrap_or("nothing"),
                theirs.unwrap_or("nothing")
            ));
        }
    }
}

impl std::fmt::Display for Alike {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {} equal", self.equal, self.of)?;
        self.difference.as_ref().map_or(Ok(()), |difference| write!(f, "; first: {difference}"))
    }
}

/// A recording replayed line by line.
struct Replayed {
    heap: ElasticMetaspace,
    arenas: HashMap<usize, ArenaId>,
    blocks: Vec<Option<NonNull<u64>>>,
}

impl Replayed {
    fn new(heap: ElasticMetaspace) -> Replayed {
        Replayed { heap, arenas: HashMap::new(), blocks: Vec::new() }
    }

    /// Runs one line; returns its operation. `plan` describes an arena; `None` leaves it out.
    fn step<'l>(
        &mut self,
        line: &'l str,
        plan: impl Fn(usize, &str) -> Option<ArenaPlan>,
    ) -> Result<&'l str> {
        let fields: Vec<&str> = line.split(' ').collect();
        let number = |at: usize| -> Result<usize> {
            fields.get(at).and_then(|field| field.parse().ok()).with_context(|| line.to_string())
        };
        let op = *fields.get(1).with_context(|| line.to_string())?;
        match op {
            "b" => {
                let arena = number(2)?;
                if let Some(plan) = plan(arena, fields.get(3).with_context(|| line.to_string())?) {
                    self.arenas.insert(arena, self.heap.birth(plan));
                }
            }
            "a" | "f" => {
                let id = self.arenas.get(&number(2)?).copied();
                let words = number(3)?;
                self.blocks.push(id.and_then(|id| self.heap.allocate_words(id, words)));
            }
            "d" => {
                let block = number(4).ok().and_then(|nth| self.blocks.get(nth).copied().flatten());
                if let (Some(id), Some(block)) = (self.arenas.get(&number(2)?).copied(), block) {
                    // SAFETY: recordings free what they allocated in that arena, once; nobody
                    // touches the blocks.
                    unsafe { self.heap.deallocate_words(id, block, number(3)?) };
                }
            }
            "k" => {
                if let Some(id) = self.arenas.remove(&number(2)?) {
                    // SAFETY: nobody touches the blocks.
                    unsafe { self.heap.death(id) };
                }
            }
            "p" => self.heap.purge(),
            "x" => {}
            _ => bail!("{line:?} is no event"),
        }
        Ok(op)
    }
}

/// Compares used and committed words at every sample of HotSpot 17's own arenas: non-class, all of
/// the standard kind, in a context of their own.
pub fn samples(trace: &str, policy: &str) -> Result<Alike> {
    let (text, recorded) = (
        gunzipped(&format!("{trace}.trace.gz"))?,
        gunzipped(&format!("wb_{trace}_{policy}.csv.gz"))?,
    );
    let spec = Spec::parse(&format!("jdk17,reclaim={policy}"))?;
    let mut replayed = Replayed::new(ElasticMetaspace::test_context(spec, None, None)?);
    let (mut alike, mut recorded) = (Alike::default(), recorded.lines().skip(1));
    let mut sample = |replayed: &Replayed, event: usize, op: &str| {
        let ours = format!(
            "{event},{op},{},{}",
            replayed.heap.used_words(),
            replayed.heap.committed_words()
        );
        alike.count(Some(&ours), recorded.next());
    };
    let mut events = 0;
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        events += 1;
        if line.ends_with(" p") {
            sample(&replayed, events, "before_purge");
        }
        let op = replayed.step(line, |_, space| (space != "c").then(ArenaPlan::default))?;
        match op {
            "p" => sample(&replayed, events, "after_purge"),
            "a" | "f" if replayed.blocks.len().is_multiple_of(SAMPLED_EVERY) => {
                sample(&replayed, events, "a")
            }
            _ => {}
        }
    }
    sample(&replayed, events, "end");
    recorded.for_each(|more| alike.count(None, Some(more)));
    Ok(alike)
}

/// A decision in the golden files' form; `None`: the files leave this kind out.
fn written(class: bool, decision: &Decision, with_returns: bool) -> Option<String> {
    let space = if class { 'c' } else { 'n' };
    Some(match decision {
        Decision::Asked(preferred, smallest, words) => {
            format!("{space},req,{:02},{:02},{words},", preferred.0, smallest.0)
        }
        Decision::HandedOut(level, offset) => format!("{space},out,,{:02},,0:{offset}", level.0),
        Decision::Returned(level, offset) if with_returns => {
            format!("{space},ret,{:02},,,0:{offset}", level.0)
        }
        Decision::Merged(level, offset) if with_returns => {
            format!("{space},mrg,,{:02},,0:{offset}", level.0)
        }
        _ => return None,
    })
}

/// Compares every chunk requested, handed out, returned and merged, class and non-class, in order.
pub fn decisions(trace: &str) -> Result<Alike> {
    let (text, golden) =
        (gunzipped(&format!("{trace}.trace.gz"))?, gunzipped(&format!("{trace}.golden.csv.gz"))?);
    let table = gunzipped(&format!("{trace}.arenas.csv.gz"))?;
    let plan = |line: &str| -> Result<ArenaPlan> {
        let fields: Vec<&str> = line.split(',').collect();
        let [_, _, space, kind, ..] = fields[..] else {
            bail!("{trace}.arenas.csv.gz: {line:?} has no kind")
        };
        Ok(ArenaPlan::parse(if space == "c" { "class" } else { "non-class" }, kind))
    };
    let plans: Vec<ArenaPlan> = table.lines().skip(1).map(plan).collect::<Result<_>>()?;
    let with_returns = golden.lines().any(|line| line.contains(",ret,"));
    let recorded = golden
        .lines()
        .skip(1)
        .filter_map(|line| line.split_once(','))
        .map(|(_, decision)| decision);
    // The first chunk of class space is taken before anyone can watch.
    let mut recorded = recorded.filter(|line| !line.contains("purge")).skip(2);
    let mut heap = ElasticMetaspace::new(Spec::parse("jdk17")?, Plan::default())?;
    heap.spaces_mut().iter_mut().for_each(|space| space.watch());
    let (mut replayed, mut alike) = (Replayed::new(heap), Alike::default());
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        replayed.step(line, |arena, _| plans.get(arena).copied())?;
        for (class, space) in [false, true].into_iter().zip(replayed.heap.spaces_mut()) {
            for ours in space
                .decisions()
                .iter()
                .filter_map(|decision| written(class, decision, with_returns))
            {
                alike.count(Some(&ours), recorded.next());
            }
        }
    }
    recorded.for_each(|more| alike.count(None, Some(more)));
    Ok(alike)
}

/// The old metaspace beside JDK 11 at one of its drops.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub struct OldDrop {
    /// The program's cycle.
    pub cycle: u64,
    /// Used bytes, as the JVM said.
    pub used_bytes: u64,
    /// Committed bytes, by the JVM's own account.
    pub jvm_bytes: u64,
    /// And here.
    pub ours_bytes: u64,
    /// Committed bytes of class space, by the JVM's own account.
    pub jvm_class_bytes: u64,
    /// And here.
    pub ours_class_bytes: u64,
}

/// `jdk11` on the recording of JDK 11 itself: committed bytes at every drop.
pub fn old_drops() -> Result<Vec<OldDrop>> {
    let name = "jdk11-churn.txt.gz";
    let events = recording::parse(&gunzipped(name)?)
        .with_context(|| folder().join(name).display().to_string())?;
    let (_, comparison) = recording::replay(&events)?;
    let drops = comparison.moments.iter().filter(|moment| moment.said.step == "dropped");
    let drop = |moment: &recording::ComparedMoment| OldDrop {
        cycle: moment.said.cycle,
        used_bytes: moment.said.used_bytes,
        jvm_bytes: moment.said.committed_bytes,
        ours_bytes: moment.ours.committed_bytes(),
        jvm_class_bytes: moment.said.class_committed_bytes,
        ours_class_bytes: moment.ours.class.committed_bytes,
    };
    Ok(drops.map(drop).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_on_one_side_alone_is_not_equal() {
        let mut alike = Alike::default();
        alike.count(Some("a"), Some("a"));
        alike.count(Some("b"), None);
        alike.count(None, Some("c"));
        assert_eq!(alike.to_string(), "1 of 3 equal; first: b here, nothing recorded");
    }

    #[test]
    fn what_is_counted_is_all_that_was_recorded_and_other_decisions_are_found() {
        let samples = samples("jruby", "aggressive").unwrap();
        assert!(samples.equal == samples.of && samples.of > 100, "{samples}");
        let decisions = decisions("jruby").unwrap();
        assert!(decisions.equal == decisions.of && decisions.of > 5_000, "{decisions}");
        let drops = old_drops().unwrap();
        assert!(
            drops.len() == 5
                && drops
                    .iter()
                    .all(|drop| drop.ours_bytes == drop.jvm_bytes && drop.used_bytes > 0),
            "{drops:?}"
        );
    }
}
