//! Merges findings of one function and one cause. Detectors tell sites apart by several frames, so
//! a report would name the same function a dozen times.

use crate::function;
use crate::sites::largest;
use crate::{Cost, Found, Options, Saving, StackShare};
use heaplab_trace::tables::Tables;
use std::collections::{BTreeMap, HashMap};

/// Names each finding's function and joins those of one function and cause. Words are not yet made.
pub(crate) fn by_function(tables: &Tables, findings: Vec<Found>, options: &Options) -> Vec<Found> {
    let mut order: HashMap<(String, String), usize> = HashMap::new();
    let mut grouped: Vec<Found> = Vec::new();
    for mut finding in findings {
        let (name, others) = function::largest(tables, &finding.stacks);
        finding.function = name.clone();
        // A finding that spans several functions, or has no stack, stays alone.
        let apart = others > 0 || name.is_empty();
        let key = (name, format!("{:?} {}", finding.basis, finding.evidence.cause()));
        match order.get(&key).filter(|_| !apart) {
            Some(at) => absorb(&mut grouped[*at], finding),
            None => {
                if !apart {
                    order.insert(key, grouped.len());
                }
                grouped.push(finding);
            }
        }
    }
    for finding in &mut grouped {
        finding.function_count = 1 + function::largest(tables, &finding.stacks).1 as u64;
        let stacks = std::mem::take(&mut finding.stacks);
        (finding.stacks, finding.stack_count) = largest(stacks, options.stacks_per_finding);
        finding.evidence.shorten(options);
    }
    grouped
}

fn absorb(into: &mut Found, from: Found) {
    into.count += from.count;
    into.saving = Saving {
        at_peak_bytes: into.saving.at_peak_bytes.saturating_add(from.saving.at_peak_bytes),
        total_bytes: into.saving.total_bytes.saturating_add(from.saving.total_bytes),
        copied_bytes: into.saving.copied_bytes.saturating_add(from.saving.copied_bytes),
        requests: into.saving.requests + from.saving.requests,
    };
    costs(&mut into.costs, &from.costs);
    let judged = into.basis;
    into.costs.sort_by_key(|cost| (cost.basis != judged, cost.basis));
    if from.confidence.level < into.confidence.level {
        into.confidence = from.confidence;
    }
    let mut shares: BTreeMap<u32, StackShare> = BTreeMap::new();
    for share in into.stacks.drain(..).chain(from.stacks) {
        let sum = shares.entry(share.stack).or_insert(StackShare { count: 0, bytes: 0, ..share });
        sum.count += share.count;
        sum.bytes = sum.bytes.saturating_add(share.bytes);
    }
    into.stacks = shares.into_values().collect();
    into.evidence.absorb(from.evidence);
}

fn costs(into: &mut Vec<Cost>, from: &[Cost]) {
    for cost in from {
        match into.iter_mut().find(|known| known.basis == cost.basis) {
            Some(known) => {
                known.at_peak_bytes = known.at_peak_bytes.saturating_add(cost.at_peak_bytes);
                known.total_bytes = known.total_bytes.saturating_add(cost.total_bytes);
            }
            None => into.push(*cost),
        }
    }
}
