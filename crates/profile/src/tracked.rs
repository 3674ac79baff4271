//! A counter of live objects that knows what it was at the peak.

use crate::Amount;

/// Live objects of some group, and how many it had when the whole was at its peak.
///
/// Every change is told the number of the current peak ([`crate::Instant::peak`]). A counter that
/// has not changed since that peak was passed copies itself first; one that has is left alone. So
/// `at_peak` is exact without touching any counter when a new peak is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Tracked {
    /// Now.
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

    /// What it was at the last peak, `peak` being the number of that.
    pub fn at_peak(&self, peak: u64) -> Amount {
        if self.peak == peak { self.at_peak } else { self.live }
    }
}
