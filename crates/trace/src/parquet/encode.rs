//! From values to the bytes of a page, before compression. Bit widths are whole bytes (see the
//! parent module).

use super::thrift::{varint, zigzag};

/// Values that share a least difference.
pub const DELTA_BLOCK: usize = 1024;
/// Values that share a bit width.
pub const DELTA_MINIBLOCK: usize = 256;

/// `DELTA_BINARY_PACKED`. Differences wrap around, as the format requires.
pub fn delta(values: &[u64], out: &mut Vec<u8>) {
    varint(out, DELTA_BLOCK as u64);
    varint(out, (DELTA_BLOCK / DELTA_MINIBLOCK) as u64);
    varint(out, values.len() as u64);
    varint(out, zigzag(values.first().copied().unwrap_or(0) as i64));
    let mut previous = values.first().copied().unwrap_or(0);
    let mut differences = [0i64; DELTA_BLOCK];
    for block in values.get(1..).unwrap_or(&[]).chunks(DELTA_BLOCK) {
        // Each from its neighbour, without a carried value: the processor computes several at a
        // time.
        differences[0] = block[0].wrapping_sub(previous) as i64;
        for (difference, pair) in differences[1..].iter_mut().zip(block.windows(2)) {
            *difference = pair[1].wrapping_sub(pair[0]) as i64;
        }
        previous = block[block.len() - 1];
        let least = least_of(&differences[..block.len()]);
        varint(out, zigzag(least));
        delta_block(&mut differences, block.len(), least, out);
    }
}

/// Their minimum; by four, because a single chain of comparisons would wait at each step.
fn least_of(values: &[i64]) -> i64 {
    let mut least = [i64::MAX; 4];
    let (fours, rest) = values.as_chunks::<4>();
    for four in fours {
        least = std::array::from_fn(|lane| least[lane].min(four[lane]));
    }
    least.into_iter().chain(rest.iter().copied()).min().unwrap_or(i64::MAX)
}

fn delta_block(differences: &mut [i64; DELTA_BLOCK], used: usize, least: i64, out: &mut Vec<u8>) {
    let widths_at = out.len();
    out.extend_from_slice(&[0; DELTA_BLOCK / DELTA_MINIBLOCK]);
    for (index, mini) in differences.chunks_mut(DELTA_MINIBLOCK).enumerate() {
        let used = used.saturating_sub(index * DELTA_MINIBLOCK).min(DELTA_MINIBLOCK);
        if used == 0 {
            break;
        }
        let mut bits = 0u64;
        for difference in &mut mini[..used] {
            *difference = difference.wrapping_sub(least);
            bits |= *difference as u64;
        }
        mini[used..].fill(0);
        let bytes = (64 - bits.leading_zeros()).div_ceil(8) as usize;
        out[widths_at + index] = (bytes * 8) as u8;
        pack(mini, bytes, out);
    }
}

/// Appends the low `bytes` bytes of each value.
fn pack(values: &[i64], bytes: usize, out: &mut Vec<u8>) {
    match bytes {
        0 => {}
        1 => out.extend(values.iter().map(|value| *value as u8)),
        2 => append(values, out, |value| (*value as u16).to_le_bytes()),
        4 => append(values, out, |value| (*value as u32).to_le_bytes()),
        8 => append(values, out, |value| value.to_le_bytes()),
        _ => {
            // Eight bytes each time; the next value overwrites the excess.
            let (begin, length) = (out.len(), values.len() * bytes);
            out.resize(begin + length + 8, 0);
            for (place, value) in values.iter().enumerate() {
                let at = begin + place * bytes;
                out[at..at + 8].copy_from_slice(&value.to_le_bytes());
            }
            out.truncate(begin + length);
        }
    }
}

/// Appends the `bytes` of each value, without a capacity check a value.
fn append<T, const N: usize>(values: &[T], out: &mut Vec<u8>, bytes: impl Fn(&T) -> [u8; N]) {
    let begin = out.len();
    out.resize(begin + values.len() * N, 0);
    for (to, value) in out[begin..].as_chunks_mut::<N>().0.iter_mut().zip(values) {
        *to = bytes(value);
    }
}

/// Dictionary indices: the bit width, then one run if all are equal, else bit-packed.
pub fn indices(indices: &[u32], distinct: usize, out: &mut Vec<u8>) {
    if let Some(first) = indices.first()
        && indices.iter().all(|index| index == first)
    {
        return run(*first, indices.len(), distinct, out);
    }
    let bytes = index_bytes(distinct);
    out.push(bytes * 8);
    let groups = indices.len().div_ceil(8);
    varint(out, (groups as u64) << 1 | 1);
    match bytes {
        1 => out.extend(indices.iter().map(|index| *index as u8)),
        2 => append(indices, out, |index| (*index as u16).to_le_bytes()),
        _ => append(indices, out, |index| index.to_le_bytes()),
    }
    out.resize(out.len() + (groups * 8 - indices.len()) * usize::from(bytes), 0);
}

/// One bit a value, least significant first.
pub fn bits(values: impl ExactSizeIterator<Item = bool>, out: &mut Vec<u8>) {
    let (mut byte, mut filled) = (0, 0);
    for value in values {
        byte |= u8::from(value) << filled;
        filled += 1;
        if filled == 8 {
            out.push(byte);
            (byte, filled) = (0, 0);
        }
    }
    if filled > 0 {
        out.push(byte);
    }
}

/// Definition levels (the non-null rows) with their length before them, as in data pages of
/// version 1.
pub fn levels(present: &Present, rows: usize, out: &mut Vec<u8>) {
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    match present {
        Present::All | Present::None => {
            varint(out, (rows as u64) << 1);
            out.push(u8::from(matches!(present, Present::All)));
        }
        Present::Bits(bits) => {
            varint(out, (rows.div_ceil(8) as u64) << 1 | 1);
            out.extend_from_slice(&bits[..rows.div_ceil(8)]);
        }
    }
    let length = (out.len() - at - 4) as u32;
    out[at..at + 4].copy_from_slice(&length.to_le_bytes());
}

/// The non-null rows of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Present<'a> {
    /// All.
    All,
    /// None.
    None,
    /// The rows with a set bit, least significant first.
    Bits(&'a [u8]),
}

/// One run of a dictionary index, with its bit width.
pub fn run(index: u32, rows: usize, distinct: usize, out: &mut Vec<u8>) {
    let bytes = index_bytes(distinct);
    out.push(bytes * 8);
    varint(out, (rows as u64) << 1);
    out.extend_from_slice(&index.to_le_bytes()[..usize::from(bytes)]);
}

fn index_bytes(distinct: usize) -> u8 {
    match distinct {
        0..=0x100 => 1,
        0x101..=0x1_0000 => 2,
        _ => 4,
    }
}
