//! The node that ran a block: a machine in one of its epochs.
//!
//! Absolute times of two machines, or of one machine before and after a new kernel, cannot be
//! compared. An epoch is a machine's state between two starts: its processor, kernel, huge pages
//! and boot. MMTk's continuous benchmarks tell epochs apart for the same reason.

use heaplab_experiment::results::Machine;
use heaplab_experiment::run::machine;
use serde::{Deserialize, Serialize};
use std::fs;
use xxhash_rust::xxh3::xxh3_64;

/// A machine in one of its epochs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// The host's name, or the one it was given.
    pub name: String,
    /// Eight hexadecimal digits: a hash of the machine and its boot.
    pub epoch: String,
    /// The machine's processor, kernel and huge pages.
    pub machine: Machine,
}

impl Node {
    /// This machine, under the given name or the host's.
    pub fn this(name: Option<&str>) -> Node {
        let machine = machine();
        let kernel = |name: &str| {
            let path = format!("/proc/sys/kernel/{name}");
            fs::read_to_string(path).unwrap_or_default().trim().to_owned()
        };
        let what = (&machine, kernel("random/boot_id"));
        let whole = xxh3_64(&serde_json::to_vec(&what).unwrap_or_default());
        Node {
            name: name.map_or_else(|| kernel("hostname"), str::to_owned),
            epoch: format!("{:08x}", whole >> 32),
            machine,
        }
    }

    /// The name and epoch: they tell this node from others.
    pub fn key(&self) -> (&str, &str) {
        (&self.name, &self.epoch)
    }
}
