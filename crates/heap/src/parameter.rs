//! What a heap's name may be followed by on a command line: `elastic:granule=64k`,
//! `metaspace:jdk17,limit=64m`.
//!
//! Here, because each family of heaps has its own table of them and all are written and explained
//! alike.

/// A parameter of a heap.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// As it is named on the command line.
    pub name: &'static str,
    /// The values it takes.
    pub takes: &'static str,
    /// What it is without being named.
    pub default: &'static str,
    /// What it does, in a line.
    pub help: &'static str,
}

/// A count of bytes, with k, m or g for powers of 1024; `None` where it is none or more than a word
/// holds.
pub fn bytes(text: &str) -> Option<u64> {
    let (digits, shift) = match text.char_indices().last()? {
        (end, 'k' | 'K') => (&text[..end], 10),
        (end, 'm' | 'M') => (&text[..end], 20),
        (end, 'g' | 'G') => (&text[..end], 30),
        _ => (text, 0),
    };
    let number: u64 = digits.parse().ok()?;
    number.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::bytes;

    #[test]
    fn bytes_have_units_of_1024() {
        let read = ["0", "100000", "64k", "64K", "3m", "4g", "18446744073709551615"].map(bytes);
        assert_eq!(read, [0, 100_000, 64 << 10, 64 << 10, 3 << 20, 4 << 30, u64::MAX].map(Some));
        for text in ["", "k", "-1", "1.5m", "1kk", "1t", " 1", "17179869184g"] {
            assert_eq!(bytes(text), None, "{text:?}");
        }
    }
}
