//! How large the requests of a metaspace were.

use heaplab_trace::{Event, Op};
use serde::Serialize;

/// How large requests were, over the whole recording up to the moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Requests {
    /// Non-class requests.
    pub non_class: u64,
    /// Bytes they asked for.
    pub non_class_bytes: u64,
    /// Of these, over 40 words.
    pub non_class_over_40_words: u64,
    /// Bytes those asked for.
    pub non_class_over_40_words_bytes: u64,
    /// Class-space requests.
    pub class: u64,
    /// Bytes they asked for.
    pub class_bytes: u64,
    /// The largest request.
    pub largest_bytes: u64,
}

impl Requests {
    /// Takes an allocation in an arena of class space, or not.
    pub fn note(&mut self, event: &Event, class: bool) {
        if event.op != Op::Alloc || !event.counts() {
            return;
        }
        self.largest_bytes = self.largest_bytes.max(event.size);
        if class {
            self.class += 1;
            self.class_bytes += event.size;
            return;
        }
        self.non_class += 1;
        self.non_class_bytes += event.size;
        if event.size > 40 * 8 {
            self.non_class_over_40_words += 1;
            self.non_class_over_40_words_bytes += event.size;
        }
    }
}
