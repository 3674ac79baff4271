//! Resident memory by the system, beside the live bytes.
//!
//! Samples are taken now and then, so even the largest may miss the peak. The kernel keeps a
//! high-water mark for each process; it comes with the samples if it was recorded. Several
//! processes together have no such mark, because each had its own at another time.

use heaplab_trace::tables::Tables;
use serde::Serialize;
use std::collections::BTreeMap;

/// The peak of resident memory of a process, or of all together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ResidentPeak {
    /// Bytes of all kinds, including code, stacks, shared memory and the recorder's own pages.
    pub bytes: u64,
    /// Whether the kernel counted it over the whole life until the last sample; otherwise it is the
    /// largest sample.
    pub is_kernels: bool,
    /// Number of samples.
    pub samples: u64,
    /// The most anonymous bytes in a sample, that is heaps and stacks; 0: unknown.
    pub anonymous_bytes: u64,
}

/// Resident bytes over time: of one process, or the sum over all living ones.
pub fn resident(tables: &Tables, process: Option<u32>) -> Vec<(u64, u64)> {
    over_time(tables, process, |sample| sample.resident_bytes)
}

fn over_time(
    tables: &Tables,
    process: Option<u32>,
    bytes: impl Fn(&heaplab_trace::tables::Sample) -> u64,
) -> Vec<(u64, u64)> {
    let mut now: BTreeMap<u32, u64> = BTreeMap::new();
    // A sample of only committed bytes, from a JVM's log, has no resident bytes.
    let samples = tables.samples.iter().filter(|sample| sample.resident_bytes > 0);
    let samples = samples.filter(|sample| process.is_none_or(|process| process == sample.process));
    samples
        .map(|sample| {
            now.insert(sample.process, bytes(sample));
            now.retain(|row, _| {
                tables
                    .processes
                    .get(*row as usize)
                    .and_then(|process| process.ended_ns)
                    .is_none_or(|ended| ended >= sample.time_ns)
            });
            (sample.time_ns, now.values().sum())
        })
        .collect()
}

/// The peak of resident memory; `None`: it was never sampled.
pub fn resident_peak(tables: &Tables, process: Option<u32>) -> Option<ResidentPeak> {
    let most = |values: Vec<(u64, u64)>| values.into_iter().map(|(_, bytes)| bytes).max();
    let sampled = resident(tables, process);
    let samples = sampled.len() as u64;
    let sampled_bytes = most(sampled)?;
    let anonymous_bytes =
        most(over_time(tables, process, |sample| sample.resident_anonymous_bytes)).unwrap_or(0);
    let one = process.or((tables.processes.len() < 2).then_some(0));
    let own = tables.samples.iter().filter(|sample| Some(sample.process) == one);
    let counted = own.map(|sample| sample.resident_peak_bytes).max().unwrap_or(0);
    Some(ResidentPeak {
        bytes: sampled_bytes.max(counted),
        is_kernels: counted > 0,
        samples,
        anonymous_bytes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use heaplab_trace::tables::{Process, Sample};

    #[test]
    fn resident_bytes_of_all_processes_are_those_alive() {
        let sample = |time_ns, process, resident_bytes, resident_peak_bytes| Sample {
            time_ns,
            process,
            resident_bytes,
            resident_anonymous_bytes: resident_bytes / 2,
            resident_peak_bytes,
            ..Sample::default()
        };
        let mut tables = Tables {
            processes: vec![
                Process::default(),
                Process { ended_ns: Some(15), ..Process::default() },
            ],
            samples: vec![sample(0, 0, 100, 0), sample(10, 1, 50, 70), sample(20, 0, 120, 130)],
            ..Tables::default()
        };
        assert_eq!(resident(&tables, None), [(0, 100), (10, 150), (20, 120)]);
        assert_eq!(resident(&tables, Some(1)), [(10, 50)]);
        // The marks of two processes are of different times.
        let together =
            ResidentPeak { bytes: 150, is_kernels: false, samples: 3, anonymous_bytes: 75 };
        assert_eq!(resident_peak(&tables, None), Some(together));
        let first = ResidentPeak { bytes: 130, is_kernels: true, samples: 2, anonymous_bytes: 60 };
        assert_eq!(resident_peak(&tables, Some(0)), Some(first));
        tables.samples.retain(|sample| sample.process == 1);
        assert_eq!(resident_peak(&tables, Some(0)), None);
    }
}
