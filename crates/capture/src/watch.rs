//! Decides when a growing heap is worth a snapshot: each time that the heap nears its limit.
//!
//! V8 calls back a program whose heap nears its limit (`--heapsnapshot-near-heap-limit`). The
//! protocol has no such call, so heaplab polls the heap's use. A snapshot collects garbage. The
//! next snapshot is due when the heap has grown and nears its limit again: two snapshots of one
//! state show nothing new, and each stops the program.

use crate::CaptureError;
use crate::protocol::Connection;

/// JavaScript that gives the limit of old objects, in bytes. V8 gives up when old objects reach
/// that limit. `heap_size_limit` also counts the young generation (three semi-spaces, each 16 MiB
/// by default): 108 MiB for a program with `--max-old-space-size=60`.
const LIMIT: &str = r"(() => {
    if (typeof process !== 'object' || !process.versions || !process.versions.node) return performance.memory.jsHeapSizeLimit;
    const flags = process.execArgv.concat((process.env.NODE_OPTIONS || '').split(' ')).join(' ').replace(/_/g, '-');
    const mebibytes = name => { const found = [...flags.matchAll(new RegExp('--' + name + '[= ](\\d+)', 'g'))].pop(); return found && Number(found[1]); };
    const old = mebibytes('max-old-space-size');
    const all = require('v8').getHeapStatistics().heap_size_limit;
    return Math.min(all, old ? old * 1048576 : all - 3 * (mebibytes('max-semi-space-size') || 16) * 1048576);
})()";
/// What old objects take.
const USED: &str = r"(() => {
    if (typeof process !== 'object' || !process.versions || !process.versions.node) return performance.memory.usedJSHeapSize;
    const spaces = require('v8').getHeapSpaceStatistics().filter(space => !space.space_name.startsWith('new'));
    return spaces.reduce((sum, space) => sum + space.space_used_size, 0);
})()";

/// The heap at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Bytes that old objects take.
    pub used_bytes: u64,
    /// Bytes that they may take.
    pub limit_bytes: u64,
}

/// Asks what old objects may take.
///
/// # Errors
/// The target is gone, or neither Node nor Chromium.
pub fn limit_bytes(connection: &mut Connection) -> Result<u64, CaptureError> {
    Ok(connection.number(LIMIT)? as u64)
}

/// Asks what old objects take.
///
/// # Errors
/// The target is gone, or neither Node nor Chromium.
pub fn used_bytes(connection: &mut Connection) -> Result<u64, CaptureError> {
    Ok(connection.number(USED)? as u64)
}

/// Decides when the next snapshot is due.
#[derive(Clone, Copy, Debug)]
pub struct Trigger {
    /// The part of the limit that is near it.
    near: f64,
    /// Bytes that old objects took after the last snapshot.
    left: Option<u64>,
}

/// Growth since the last snapshot that makes another one due, as a part of the limit.
const GROWN: f64 = 0.02;

impl Trigger {
    /// Due at `near` of the limit, a part of 1.
    pub fn new(near: f64) -> Trigger {
        Trigger { near, left: None }
    }

    /// Whether a snapshot is due.
    pub fn is_due(&self, usage: Usage) -> bool {
        let limit = usage.limit_bytes as f64;
        let grown =
            self.left.is_none_or(|left| usage.used_bytes as f64 >= left as f64 + GROWN * limit);
        usage.used_bytes as f64 >= self.near * limit && grown
    }

    /// A snapshot was taken, and this is used after it.
    pub fn taken(&mut self, used_bytes: u64) {
        self.left = Some(used_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_is_due_near_the_limit_and_again_when_the_heap_has_grown() {
        let usage = |used_bytes| Usage { used_bytes, limit_bytes: 1000 };
        let mut trigger = Trigger::new(0.8);
        assert!(!trigger.is_due(usage(799)));
        assert!(trigger.is_due(usage(800)));
        trigger.taken(810);
        assert!(!trigger.is_due(usage(820)), "the same state");
        assert!(trigger.is_due(usage(830)));
        trigger.taken(300);
        assert!(!trigger.is_due(usage(500)), "the collection helped");
        assert!(trigger.is_due(usage(801)));
    }
}
