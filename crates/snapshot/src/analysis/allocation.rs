//! Allocation sites of the objects on the heap, and allocation times. Source: `AllocationProfile`,
//! `buildSamples`.

use super::Analysis;
use hashbrown::HashMap;

/// A function that allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllocationSite {
    /// Index in [`crate::Traces::functions`].
    pub function: u32,
    /// Objects allocated while tracking ran.
    pub count: u64,
    /// Their bytes.
    pub size_bytes: u64,
    /// How many of these objects are on the heap.
    pub live_count: u64,
    /// Their own sizes, bytes.
    pub live_size_bytes: u64,
}

/// What of a time of the recording is on the heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampleSize {
    /// Microseconds since the recording began.
    pub timestamp_us: u64,
    /// The last id of the time.
    pub last_assigned_id: u64,
    /// Own bytes of the objects whose ids were assigned since the sample before.
    pub size_bytes: u64,
}

impl Analysis<'_, '_> {
    /// Functions by allocated bytes, most first. Empty unless allocations were tracked.
    pub fn allocation_sites(&self) -> Vec<AllocationSite> {
        let traces = &self.snapshot.traces;
        let live = self.live_by_trace();
        let mut sites: Vec<AllocationSite> = (0u32..)
            .take(traces.functions.len())
            .map(|function| AllocationSite {
                function,
                count: 0,
                size_bytes: 0,
                live_count: 0,
                live_size_bytes: 0,
            })
            .collect();
        for trace in traces.nodes.iter().filter(|trace| trace.count != 0) {
            let site = &mut sites[trace.function as usize];
            let (live_count, live_size) = live.get(&trace.id).copied().unwrap_or_default();
            site.count += trace.count;
            site.size_bytes += trace.size_bytes;
            site.live_count += live_count;
            site.live_size_bytes += live_size;
        }
        sites.retain(|site| site.count != 0);
        sites.sort_by_key(|site| std::cmp::Reverse(site.size_bytes));
        sites
    }

    fn live_by_trace(&self) -> HashMap<u64, (u64, u64)> {
        let graph = &self.snapshot.graph;
        let mut live: HashMap<u64, (u64, u64)> = HashMap::new();
        if graph.trace_nodes.is_empty() {
            return live;
        }
        for node in graph.nodes() {
            let entry = live.entry(u64::from(graph.trace_nodes[node as usize])).or_default();
            entry.0 += 1;
            entry.1 += self.self_size(node);
        }
        live
    }

    /// The recording's times with the bytes still alive of each. Nodes of the embedder (even ids)
    /// have no time.
    pub fn sample_sizes(&self) -> Vec<SampleSize> {
        let samples = &self.snapshot.samples;
        let graph = &self.snapshot.graph;
        let mut sizes = vec![0; samples.len()];
        for node in graph.nodes().filter(|node| graph.id(*node) % 2 == 1) {
            let id = u64::from(graph.id(node));
            if let Some(size) =
                sizes.get_mut(samples.partition_point(|sample| sample.last_assigned_id < id))
            {
                *size += self.self_size(node);
            }
        }
        let with_size = |(sample, size_bytes): (&crate::Sample, u64)| SampleSize {
            timestamp_us: sample.timestamp_us,
            last_assigned_id: sample.last_assigned_id,
            size_bytes,
        };
        samples.iter().zip(sizes).map(with_size).collect()
    }
}
