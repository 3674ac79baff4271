//! The jobs of a sweep: a job runs on one machine, and nobody needs to run it twice.

use std::fmt;

/// What of a workload is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Work {
    /// Space on every heap: the same on any machine, under any load.
    Space,
    /// This repetition of the times of every heap: wants a processor for itself.
    Time(u32),
}

/// One block of one workload.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Job {
    /// The workload's name.
    pub workload: String,
    /// The job's kind.
    pub work: Work,
}

impl fmt::Display for Job {
    /// Its name, which is also its file's without `.json`: `sqlite/space`, `sqlite/block-00003`.
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        match self.work {
            Work::Space => write!(out, "{}/space", self.workload),
            Work::Time(block) => write!(out, "{}/block-{block:05}", self.workload),
        }
    }
}

/// All jobs: space first, because it needs no repetition; then every workload's first block, every
/// workload's second, so that a sweep that ends early has something of each.
pub(crate) fn all<'a>(
    workloads: &'a [String],
    repetitions: u32,
    (space, time): (bool, bool),
) -> impl Iterator<Item = Job> + 'a {
    let of =
        move |work| workloads.iter().map(move |workload| Job { workload: workload.clone(), work });
    let blocks = if time { repetitions } else { 0 };
    of(Work::Space).filter(move |_| space).chain((0..blocks).flat_map(move |at| of(Work::Time(at))))
}

/// The number of this job's part, of `parts`. Blocks of one workload go round all parts: if one
/// node had all blocks of a workload, nothing would show how nodes differ.
pub(crate) fn part(workload: usize, work: Work, parts: u32) -> u32 {
    let workload = (workload as u64 % u64::from(parts.max(1))) as u32;
    match work {
        Work::Space => workload,
        Work::Time(block) => {
            ((u64::from(block) + u64::from(workload)) % u64::from(parts.max(1))) as u32
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_named_as_their_files() {
        let workloads = ["a".to_owned(), "b".to_owned()];
        let names: Vec<String> =
            all(&workloads, 2, (true, true)).map(|job| job.to_string()).collect();
        assert_eq!(
            names,
            [
                "a/space",
                "b/space",
                "a/block-00000",
                "b/block-00000",
                "a/block-00001",
                "b/block-00001"
            ]
        );
        assert_eq!(all(&workloads, 2, (false, true)).count(), 4);
        assert_eq!(all(&workloads, 2, (true, false)).count(), 2);
    }

    #[test]
    fn every_part_has_blocks_of_every_workload() {
        for parts in 1..6 {
            for workload in 0..7 {
                let mut seen = vec![0; parts as usize];
                for block in 0..parts * 3 {
                    seen[part(workload, Work::Time(block), parts) as usize] += 1;
                }
                assert!(seen.iter().all(|blocks| *blocks == 3), "{parts} parts: {seen:?}");
            }
        }
    }
}
