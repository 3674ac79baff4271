//! The other files of a bundle: any bytes.

use heaplab_trace::bundle::FILES;

/// One input.
pub fn run(data: &[u8]) {
    if let Some((choice, bytes)) = data.split_first() {
        // Behind the events, which have a target of their own, and round to the first.
        let other = usize::from(*choice) % (FILES.len() - 1);
        crate::common::read_with(FILES[(other + 2) % FILES.len()], bytes);
    }
}
