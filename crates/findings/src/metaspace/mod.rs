//! The largest wastes of a JVM's metaspace, each with its cause and remedy.
//!
//! The bytes of such a finding are committed bytes without a live block. Findings overlap only
//! where they say so: "loaders of one class" and "free in chunks" show two sides of the same bytes.
//! They come from the metaspace at a moment ([`heaplab_jvm::Report`]), not from a pass over
//! requests.

mod blocks;
mod chunks;
mod granules;
mod refused;
#[cfg(test)]
mod tests;

pub use blocks::{FREE_BLOCKS, LARGE_REQUESTS};
pub use chunks::{FREE_IN_CHUNKS, ONE_CLASS_LOADERS, WASTE};
pub use granules::{IDLE_GRANULES, PINNED_GRANULES};
pub use refused::REFUSED;

use crate::{Basis, Cost, Finding, Found, Kind, Rank, Run, Saving};
use heaplab_jvm::{Requests, Statistics};
use heaplab_text::jcmd::bytes;
use serde::Serialize;
use std::any::Any;
use std::cmp::Reverse;

/// Wastes below this part of the committed bytes are no finding.
const SHARE_MIN: u64 = 200;

/// Evidence of a waste.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Waste {
    #[serde(skip)]
    kind: Kind,
    #[serde(skip)]
    title: String,
    #[serde(skip)]
    advice: String,
    /// Committed bytes concerned.
    pub bytes: u64,
    /// Bytes that the change would give back, if the recording can tell.
    pub saving_bytes: Option<u64>,
}

impl Finding for Waste {
    fn kind(&self) -> Kind {
        self.kind
    }

    fn title(&self, _of: &Found) -> [String; 2] {
        [self.title.clone(), String::new()]
    }

    fn cost(&self, _of: &Found) -> String {
        String::new()
    }

    fn advice(&self, _of: &Found, _run: &Run<'_>) -> String {
        self.advice.clone()
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        let saving = self.saving_bytes.map(|saving| ("the change gives back", bytes(saving)));
        [("committed without a block", bytes(self.bytes))].into_iter().chain(saving).collect()
    }

    fn to_json(&self) -> serde_json::Value {
        serde_json::to_value(self).unwrap_or_default()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

impl Waste {
    fn found(self) -> Found {
        let [title, advice] = [self.title.clone(), self.advice.clone()];
        let cost =
            Cost { basis: Basis::Measured, at_peak_bytes: self.bytes, total_bytes: self.bytes };
        let saved_bytes = self.saving_bytes.unwrap_or(0);
        Found {
            rank: Rank::AtPeak,
            what: title.clone(),
            title,
            advice,
            costs: vec![cost],
            saving: Saving { at_peak_bytes: saved_bytes, ..Saving::default() },
            ..Found::draft(Basis::Measured, self)
        }
    }
}

/// The findings: requests that `MaxMetaspaceSize` refused, then the most bytes first.
pub fn findings(statistics: &Statistics, requests: &Requests) -> Vec<Found> {
    let found = [
        refused::refused(statistics),
        granules::pinned(statistics),
        granules::idle(statistics),
        chunks::one_class(statistics),
        chunks::free_in_chunks(statistics),
        blocks::free_blocks(statistics),
        chunks::waste(statistics),
        blocks::large(requests),
    ];
    let is_no_waste = |kind| [LARGE_REQUESTS, REFUSED].contains(&kind);
    let counts = |waste: &Waste| {
        is_no_waste(waste.kind) || waste.bytes * SHARE_MIN >= statistics.committed_bytes()
    };
    let mut wastes: Vec<Waste> = found.into_iter().flatten().filter(counts).collect();
    // A shortage that a collection cured is no trouble: it comes last, with no bytes.
    let is_cured =
        statistics.full.is_none() && statistics.counters.commits_refused_at_threshold > 0;
    wastes.sort_by_key(|waste| (waste.kind != REFUSED || is_cured, Reverse(waste.bytes)));
    wastes.into_iter().map(Waste::found).collect()
}

fn share(part: u64, statistics: &Statistics) -> String {
    let whole = statistics.committed_bytes().max(1);
    format!("{:.0} % of what is committed", 100.0 * part as f64 / whole as f64)
}

fn plural(count: u64, one: &str) -> String {
    format!("{count} {one}{}", if count == 1 { "" } else { "s" })
}
