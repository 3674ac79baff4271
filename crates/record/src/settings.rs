//! Settings of a recording as a person writes them: sizes and signals.

use crate::node;
use std::ops::RangeInclusive;

/// Bytes such as `256K`, if they are a power of two within `bounds`.
fn power_of_two(text: &str, bounds: RangeInclusive<u64>) -> Option<u64> {
    let (digits, unit) = match text.as_bytes().last() {
        Some(b'K' | b'k') => (&text[..text.len() - 1], 1 << 10),
        Some(b'M' | b'm') => (&text[..text.len() - 1], 1 << 20),
        Some(b'G' | b'g') => (&text[..text.len() - 1], 1 << 30),
        _ => (text, 1),
    };
    let bytes = digits.parse::<u64>().ok()?.checked_mul(unit)?;
    (bytes.is_power_of_two() && bounds.contains(&bytes)).then_some(bytes)
}

/// A ring's size in bytes: `256K`, `4M`.
///
/// # Errors
/// The size is not a power of two from 64K to 1G.
pub fn ring_size(text: &str) -> Result<u32, String> {
    power_of_two(text, 64 << 10..=1 << 30)
        .and_then(|bytes| u32::try_from(bytes).ok())
        .ok_or_else(|| String::from("expected a power of two from 64K to 1G, such as 256K or 4M"))
}

/// Bytes of new objects between two full collections: `1M`.
///
/// # Errors
/// The size is not a power of two from 1M to 512M.
pub fn granularity(text: &str) -> Result<u64, String> {
    power_of_two(text, node::GRANULARITY_MIN..=node::GRANULARITY_MAX).ok_or_else(|| {
        String::from(
            "expected a power of two from 1M to 512M (V8 has no smaller young generation than 1M)",
        )
    })
}

/// A signal's number, by number or name: `USR2`.
///
/// # Errors
/// The text names no signal that a program can spare.
pub fn signal_number(text: &str) -> Result<u32, String> {
    let name = text.strip_prefix("SIG").unwrap_or(text);
    // Numbers of Linux on x86-64 and aarch64.
    let named = [
        ("USR1", 10),
        ("USR2", 12),
        ("HUP", 1),
        ("URG", 23),
        ("WINCH", 28),
        ("IO", 29),
        ("PWR", 30),
    ];
    let known = named.iter().find(|(known, _)| *known == name).map(|(_, number)| *number);
    let refused = [9, 11, 7, 8, 4, 5, 6, 19, 20];
    known
        .or_else(|| name.parse().ok().filter(|number| (1..=64).contains(number) && !refused.contains(number)))
        .ok_or_else(|| String::from("expected the name of a signal that a program can spare (USR1, USR2, URG, ...) or its number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ring_sizes_are_powers_of_two_within_bounds() {
        assert_eq!(
            (ring_size("1M"), ring_size("65536"), ring_size("256k")),
            (Ok(1 << 20), Ok(65536), Ok(256 << 10))
        );
        for wrong in ["", "M", "3M", "32K", "2G", "-1", "1T", "é"] {
            assert!(ring_size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn granularities_are_powers_of_two_within_bounds() {
        assert_eq!(
            (granularity("1M"), granularity("4194304"), granularity("512m")),
            (Ok(1 << 20), Ok(4 << 20), Ok(512 << 20))
        );
        for wrong in ["", "M", "3M", "512K", "1G", "0", "-1M", "1T", "99999999999999999999M"] {
            assert!(granularity(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn signals_have_names_and_numbers() {
        assert_eq!(
            (signal_number("USR2"), signal_number("SIGUSR1"), signal_number("34")),
            (Ok(12), Ok(10), Ok(34))
        );
        for wrong in ["KILL", "9", "0", "65", "SEGV", ""] {
            assert!(signal_number(wrong).is_err(), "{wrong}");
        }
    }
}
