//! The parameters in a heap's name on the command line: `elastic:granule=64k`,
//! `metaspace:jdk17,limit=64m`.
//!
//! Here, because each family of heaps has its own table of them, and all tables are written and
//! explained alike.

/// A parameter of a heap.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// Its name on the command line.
    pub name: &'static str,
    /// Its possible values.
    pub takes: &'static str,
    /// Its value when not named.
    pub default: &'static str,
    /// Its effect, in one line.
    pub help: &'static str,
}

/// A count of bytes, with k, m or g for powers of 1024; `None` if it is none or exceeds a word.
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
