//! The interface of a finding: evidence, with its words.
//!
//! A detector's file has the detection, the evidence, the words and their tests. To add one: write
//! its file, and name it in the list in `lib.rs`.

use crate::{Found, Level, Options, Rank, ShoeSize};
use heaplab_profile::{Instant, Object, Profile};
use heaplab_trace::{Event, ObjectId, tables::Tables};
use serde::{Serialize, Serializer};
use std::any::Any;
use std::fmt::Debug;

/// A sort of finding, as data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// In JSON: "clownshoes".
    pub name: &'static str,
    /// As a heading.
    pub title: &'static str,
    /// An explanation for readers who never heard of this kind.
    pub hint: &'static str,
    /// The unit of [`Found::count`].
    pub counts: &'static str,
    /// The meaning of [`StackShare::bytes`](crate::StackShare::bytes).
    pub share_bytes: &'static str,
    /// The meaning of [`Cost::total_bytes`](crate::Cost::total_bytes).
    pub total_bytes: &'static str,
}

impl Serialize for Kind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name)
    }
}

/// What judges and words need beside the finding.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// The pass that was watched.
    pub profile: &'a Profile,
    /// What counts as a finding.
    pub options: &'a Options,
}

impl Run<'_> {
    /// Whether so many bytes are a hundredth of the peak.
    pub(crate) fn is_large(&self, bytes: u64) -> bool {
        bytes >= self.options.least_at_peak(self.profile)
    }
}

/// Evidence, with its words.
pub trait Finding: Debug + Send + Sync + 'static {
    /// Which sort.
    fn kind(&self) -> Kind;

    /// The cause, to tell findings of a function apart: findings of one function and cause are
    /// merged.
    fn cause(&self) -> String {
        self.kind().name.into()
    }

    /// Merges another finding of the same cause and function.
    fn absorb(&mut self, other: Box<dyn Finding>) {
        let _ = other;
    }

    /// Drops evidence beyond the listed amount.
    fn shorten(&mut self, options: &Options) {
        let _ = options;
    }

    /// How often its function asks how much of its blocks it may use.
    fn reads_usable_sizes(&mut self, reads: u64) {
        let _ = reads;
    }

    /// Bytes by which it ranks: those that the program would not need any more.
    fn needed_bytes(&self, of: &Found) -> u64 {
        of.saving.at_peak_bytes
    }

    /// Bytes that say whether it belongs on a first screen.
    fn felt_bytes(&self, of: &Found) -> u64 {
        self.needed_bytes(of)
    }

    /// How early a person would mend it.
    fn rank(&self, of: &Found, run: &Run<'_>) -> Rank {
        if run.is_large(self.needed_bytes(of)) { Rank::AtPeak } else { Rank::OverRun }
    }

    /// Whether it came at one time and may be meant to stay: no mistake by itself.
    fn came_once(&self) -> bool {
        false
    }

    /// Words for the title: the bytes, and what to do.
    fn title(&self, of: &Found) -> [String; 2];

    /// The present cost, a sentence.
    fn cost(&self, of: &Found) -> String;

    /// What to do, a sentence or two with numbers.
    fn advice(&self, of: &Found, run: &Run<'_>) -> String;

    /// Further lines of a text.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }

    /// The certainty, in a word for a person.
    fn sureness(&self, level: Level) -> &'static str {
        match level {
            Level::High => "Sure",
            Level::Medium => "Likely",
            Level::Low => "Worth a look",
        }
    }

    /// Names and values for a table of facts.
    fn facts(&self) -> Vec<(&'static str, String)>;

    /// Sizes with their parts of the saving, and how many there are in all.
    fn sizes(&self) -> (&[ShoeSize], u64) {
        (&[], 0)
    }

    /// Its fields.
    fn to_json(&self) -> serde_json::Value;

    /// For [`Found::evidence`].
    fn as_any(&self) -> &dyn Any;

    /// For [`Finding::absorb`].
    fn into_any(self: Box<Self>) -> Box<dyn Any>;
}

/// Implements the methods that every kind of evidence shares.
macro_rules! evidence {
    ($kind:expr) => {
        fn kind(&self) -> $crate::Kind {
            $kind
        }

        fn to_json(&self) -> serde_json::Value {
            serde_json::to_value(self).unwrap_or_default()
        }

        fn as_any(&self) -> &dyn std::any::Any {
            self
        }

        fn into_any(self: Box<Self>) -> Box<dyn std::any::Any> {
            self
        }
    };
}
pub(crate) use evidence;

/// Watches a pass and gives its findings afterwards.
pub(crate) trait Detector {
    /// The pass begins.
    fn begins(&mut self, tables: &Tables) {
        let _ = tables;
    }

    /// An object is born.
    fn born(&mut self, now: &Instant, event: &Event, id: ObjectId);

    /// An object has another size.
    fn resized(
        &mut self,
        now: &Instant,
        event: &Event,
        id: ObjectId,
        before: &Object,
        after: &Object,
    );

    /// An object dies.
    fn died(&mut self, now: &Instant, event: &Event, id: ObjectId, object: &Object) {
        let _ = (now, event, id, object);
    }

    /// An object is live at the end.
    fn survived(&mut self, now: &Instant, id: ObjectId, object: &Object) {
        let _ = (now, id, object);
    }

    /// The findings. `peak` is the number of the highest peak.
    fn finish(self, tables: &Tables, run: &Run<'_>, peak: u64) -> Vec<Found>;
}
