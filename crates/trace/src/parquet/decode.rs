//! From the decompressed bytes of a page to values. Every function takes the number of values
//! promised by the page's header, refuses content with fewer, and allocates nothing beyond this
//! number.

use super::Fault;
use super::thrift::Reader;

/// `DELTA_BINARY_PACKED`: exactly `count` values into `out`, which is emptied first.
pub fn delta(bytes: &[u8], count: usize, out: &mut Vec<u64>) -> Result<(), Fault> {
    out.clear();
    let mut reader = Reader::new(bytes);
    let block = reader.varint()?;
    let minis = reader.varint()?;
    let total = reader.varint()?;
    let first = reader.signed()? as u64;
    if block == 0
        || block % 128 != 0
        || block > 1 << 16
        || minis == 0
        || block % minis != 0
        || (block / minis) % 32 != 0
    {
        return Err(Fault::new(
            "blocks of 128 n values in miniblocks of 32 n",
            format!("{block} values in {minis}"),
        ));
    }
    if total != count as u64 {
        return Err(Fault::new(format!("{count} values"), total.to_string()));
    }
    if count == 0 {
        return Ok(());
    }
    out.resize(count, 0);
    out[0] = first;
    let (minis, per_mini) = (minis as usize, (block / minis) as usize);
    let (mut previous, mut filled) = (first, 1);
    while filled < count {
        let least = reader.signed()? as u64;
        let widths = reader.take(minis)?;
        for width in widths {
            let wanted = per_mini.min(count - filled);
            if wanted == 0 {
                break;
            }
            let width = usize::from(*width);
            if width > 64 {
                return Err(Fault::new("a bit width of at most 64", width.to_string()));
            }
            // The last miniblock may be cut short after its last value.
            let whole = per_mini * width / 8;
            let packed = reader.take(whole.min(reader.rest().len()))?;
            if packed.len() * 8 < wanted * width {
                return Err(Fault::new(
                    format!("{wanted} values of {width} bits"),
                    format!("{} bytes", packed.len()),
                ));
            }
            let mini = &mut out[filled..filled + wanted];
            unpack(packed, width, mini, |difference| difference);
            for value in mini {
                previous = previous.wrapping_add(least).wrapping_add(*value);
                *value = previous;
            }
            filled += wanted;
        }
    }
    Ok(())
}

/// Fills `out` with values of `width` bits; `packed` must hold at least as many.
fn unpack<T>(packed: &[u8], width: usize, out: &mut [T], convert: impl Fn(u64) -> T) {
    match width {
        0 => out.iter_mut().for_each(|out| *out = convert(0)),
        1 => {
            for (eight, byte) in out.chunks_mut(8).zip(packed) {
                for (bit, out) in eight.iter_mut().enumerate() {
                    *out = convert(u64::from(byte >> bit & 1));
                }
            }
        }
        8 => out.iter_mut().zip(packed).for_each(|(out, byte)| *out = convert(u64::from(*byte))),
        16 => {
            let pairs = packed.as_chunks::<2>().0;
            out.iter_mut()
                .zip(pairs)
                .for_each(|(out, pair)| *out = convert(u64::from(u16::from_le_bytes(*pair))));
        }
        32 => {
            let fours = packed.as_chunks::<4>().0;
            out.iter_mut()
                .zip(fours)
                .for_each(|(out, four)| *out = convert(u64::from(u32::from_le_bytes(*four))));
        }
        _ => out
            .iter_mut()
            .enumerate()
            .for_each(|(index, out)| *out = convert(bits_at(packed, index * width, width))),
    }
}

/// `width` bits (1 to 64) from bit `at`; bits beyond the end read as zero.
fn bits_at(packed: &[u8], at: usize, width: usize) -> u64 {
    let mut window = [0u8; 16];
    let from = &packed[at / 8..];
    let length = from.len().min(9);
    window[..length].copy_from_slice(&from[..length]);
    let value = u128::from_le_bytes(window) >> (at % 8);
    (value & ((1u128 << width) - 1)) as u64
}

/// The content of a page of indices or levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runs {
    /// One run covers all: every value is this one, and `out` stays empty.
    Constant(u32),
    /// Several values.
    Mixed,
}

/// The hybrid of runs and bit-packed groups: `count` values of `width` bits into `out`, which is
/// emptied first, each converted by `convert`.
pub fn hybrid<T: Copy + Default>(
    bytes: &[u8],
    width: u32,
    count: usize,
    out: &mut Vec<T>,
    convert: impl Fn(u64) -> T,
) -> Result<Runs, Fault> {
    out.clear();
    if width > 32 {
        return Err(Fault::new("a bit width of at most 32", width.to_string()));
    }
    let mut reader = Reader::new(bytes);
    let width = width as usize;
    while out.len() < count {
        let head = reader.varint()?;
        let wanted = count - out.len();
        if head & 1 == 0 {
            let run = usize::try_from(head >> 1).unwrap_or(usize::MAX).min(wanted);
            let mut value = [0; 4];
            value[..width.div_ceil(8)].copy_from_slice(reader.take(width.div_ceil(8))?);
            let value = u32::from_le_bytes(value);
            if run == 0 {
                return Err(Fault::new("runs of at least one value", "an empty run"));
            }
            if run == count {
                return Ok(Runs::Constant(value));
            }
            out.resize(out.len() + run, convert(value.into()));
        } else {
            let groups = usize::try_from(head >> 1).unwrap_or(usize::MAX);
            let packed = reader.take(groups.saturating_mul(width).min(reader.rest().len()))?;
            let values = groups.saturating_mul(8).min(wanted);
            if values == 0 || packed.len() * 8 < values * width {
                return Err(Fault::new(
                    format!("{wanted} values of {width} bits"),
                    format!("{} bytes", packed.len()),
                ));
            }
            let filled = out.len();
            out.resize(filled + values, T::default());
            unpack(packed, width, &mut out[filled..], &convert);
        }
    }
    Ok(Runs::Mixed)
}

/// Definition levels with the length before them: which of `rows` are present. Returns the bytes
/// after them.
pub fn levels<'a>(
    bytes: &'a [u8],
    rows: usize,
    out: &mut Vec<u8>,
) -> Result<(Runs, &'a [u8]), Fault> {
    let mut reader = Reader::new(bytes);
    let mut length = [0; 4];
    length.copy_from_slice(reader.take(4)?);
    let levels = reader.take(u32::from_le_bytes(length) as usize)?;
    let runs = hybrid(levels, 1, rows, out, |level| level as u8)?;
    Ok((runs, reader.rest()))
}

/// `count` booleans, one bit each. If all are equal, returns their value and leaves `out` empty.
pub fn bits(bytes: &[u8], count: usize, out: &mut Vec<u64>) -> Result<Option<u64>, Fault> {
    out.clear();
    if bytes.len() * 8 < count {
        return Err(Fault::new(format!("{count} bits"), format!("{} bytes", bytes.len())));
    }
    let whole = &bytes[..count / 8];
    for (byte, value) in [(0u8, 0u64), (0xff, 1)] {
        let rest = (count / 8 * 8..count)
            .all(|index| u64::from(bytes[index / 8] >> (index % 8) & 1) == value);
        if rest && whole.iter().all(|each| *each == byte) {
            return Ok(Some(value));
        }
    }
    out.resize(count, 0);
    unpack(bytes, 1, out, |bit| bit);
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::super::encode::{self, Present};
    use super::*;
    use proptest::prelude::*;

    fn any_values() -> impl Strategy<Value = Vec<u64>> {
        let value = prop_oneof![0u64..10, 0u64..100_000, any::<u64>()];
        prop::collection::vec(value, 0..1500)
    }

    proptest! {
        #[test]
        fn differences_come_back(values in any_values()) {
            let (mut bytes, mut back) = (Vec::new(), Vec::new());
            encode::delta(&values, &mut bytes);
            delta(&bytes, values.len(), &mut back).unwrap();
            prop_assert_eq!(back, values);
        }

        #[test]
        fn indices_come_back(values in prop::collection::vec(0u32..70_000, 1..600), distinct in 70_000usize..80_000) {
            let (mut bytes, mut back) = (Vec::new(), Vec::new());
            encode::indices(&values, distinct, &mut bytes);
            match hybrid(&bytes[1..], u32::from(bytes[0]), values.len(), &mut back, |value| value as u32).unwrap() {
                Runs::Constant(value) => prop_assert!(values.iter().all(|each| *each == value)),
                Runs::Mixed => prop_assert_eq!(back, values),
            }
        }

        #[test]
        fn levels_come_back(present in prop::collection::vec(any::<bool>(), 1..500)) {
            let (mut packed, mut bytes, mut back) = (Vec::new(), Vec::new(), Vec::new());
            encode::bits(present.iter().copied(), &mut packed);
            encode::levels(&Present::Bits(&packed), present.len(), &mut bytes);
            let (runs, rest) = levels(&bytes, present.len(), &mut back).unwrap();
            prop_assert!(rest.is_empty() && runs == Runs::Mixed);
            prop_assert_eq!(back, present.iter().map(|bit| u8::from(*bit)).collect::<Vec<_>>());
        }

        #[test]
        fn any_width_unpacks(values in prop::collection::vec(any::<u64>(), 1..100), width in 1usize..=64) {
            let mask = u64::MAX >> (64 - width);
            let bit = |index: usize| values[index / width] >> (index % width) & 1 == 1;
            let mut packed = Vec::new();
            encode::bits((0..values.len() * width).map(bit), &mut packed);
            let mut back = vec![0; values.len()];
            unpack(&packed, width, &mut back, |value| value);
            prop_assert_eq!(back, values.iter().map(|value| value & mask).collect::<Vec<_>>());
        }

        #[test]
        fn any_bytes_are_decoded_or_refused(bytes: Vec<u8>, count in 0usize..5000, width in 0u32..40) {
            let _ = delta(&bytes, count, &mut Vec::new());
            let _ = hybrid(&bytes, width, count, &mut Vec::new(), |value| value);
            let _ = levels(&bytes, count, &mut Vec::new());
        }
    }

    #[test]
    fn a_promise_of_too_many_values_is_refused() {
        let mut bytes = Vec::new();
        encode::delta(&[1, 2, 3], &mut bytes);
        let fault = delta(&bytes, 4, &mut Vec::new()).unwrap_err();
        assert_eq!((fault.expected.as_str(), fault.found.as_str()), ("4 values", "3"));
    }
}
