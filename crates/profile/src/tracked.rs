//! A counter of live objects that knows its value at the peak.

use crate::Amount;

/// Live objects of some group, and their number at the whole's peak.
///
/// Every change gets the number of the current peak ([`crate::Instant::peak`]). A counter unchanged
/// since this peak first copies itself; a counter already changed does not. So `at_peak` is exact
/// without touching any counter when a new peak is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Tracked {
    /// The live objects now.
    pub live: Amount,
    at_peak: Amount,
    peak: u64,
}

impl Tracked {
    #[inline]
    fn remember(&mut self, peak: u64) {
        if self.peak != peak {
            self.at_peak = self.live;
            self.peak = peak;
        }
    }

    /// An object of the group was born or got this size.
    #[inline]
    pub fn add(&mut self, peak: u64, bytes: u64, usable_bytes: u64) {
        self.remember(peak);
        self.live.objects += 1;
        self.live.bytes += bytes;
        self.live.usable_bytes += usable_bytes;
    }

    /// An object of the group died or left it.
    #[inline]
    pub fn remove(&mut self, peak: u64, bytes: u64, usable_bytes: u64) {
        self.remember(peak);
        self.live.objects -= 1;
        self.live.bytes -= bytes;
        self.live.usable_bytes -= usable_bytes;
    }

    /// Its value at the last peak, with number `peak`.
    pub fn at_peak(&self, peak: u64) -> Amount {
        if self.peak == peak { self.at_peak } else { self.live }
    }
}
