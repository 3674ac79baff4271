//! Damage to lines of a real file, decided by a seed.

use std::io::Read;

/// xorshift64*: the same numbers from a seed everywhere.
pub struct Random(u64);

impl Random {
    /// Seeds next to each other give numbers that have nothing in common.
    pub fn new(seed: u64) -> Random {
        Random((seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number under `limit`, or 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }
}

/// The text of a file of this repository.
pub fn unpacked(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut text = Vec::new();
    flate2::read::GzDecoder::new(bytes).read_to_end(&mut text).unwrap();
    text.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect()
}

/// Up to `most` lines from somewhere (often the beginning), with up to thirty places of damage.
pub fn damaged(random: &mut Random, lines: &[Vec<u8>], most: u64) -> Vec<u8> {
    let from = if random.below(2) == 0 { 0 } else { random.below(lines.len() as u64) as usize };
    let count = random.below(most) as usize + 1;
    let mut part: Vec<Vec<u8>> = lines.iter().skip(from).take(count).cloned().collect();
    for _ in 0..random.below(30) {
        let at = random.below(part.len() as u64) as usize;
        let other = random.below(part.len() as u64) as usize;
        match random.below(9) {
            0 if part.len() > 1 => {
                part.remove(at);
            }
            1 => part.insert(at, part[other].clone()),
            2 => part.swap(at, other),
            3 => part.insert(at, lines[random.below(lines.len() as u64) as usize].clone()),
            4 => {
                let length = random.below(part[at].len() as u64 + 1) as usize;
                part[at].truncate(length);
            }
            5 if !part[at].is_empty() => {
                let place = random.below(part[at].len() as u64) as usize;
                part[at][place] = random.next() as u8;
            }
            // A stretch of lines again: what was born is born twice, what died dies twice.
            6 => {
                let again: Vec<Vec<u8>> =
                    part.iter().skip(other).take(random.below(60) as usize).cloned().collect();
                part.splice(at..at, again);
            }
            _ => renumber(random, &mut part[at]),
        }
    }
    let mut input = part.join(&b'\n');
    if random.below(3) > 0 {
        input.push(b'\n');
    }
    input
}

/// Another number where one stood.
fn renumber(random: &mut Random, line: &mut Vec<u8>) {
    let starts: Vec<usize> = (0..line.len())
        .filter(|at| {
            line[*at].is_ascii_digit() && (*at == 0 || !line[at - 1].is_ascii_alphanumeric())
        })
        .collect();
    let Some(start) = starts.get(random.below(starts.len() as u64) as usize).copied() else {
        return;
    };
    let length = line[start..]
        .iter()
        .position(|byte| !byte.is_ascii_alphanumeric())
        .unwrap_or(line.len() - start);
    let number = match random.below(8) {
        0 => 0,
        1 => 1,
        2 => u64::MAX,
        3 => i64::MAX as u64,
        4 => 1 << random.below(64),
        5 => (1u64 << random.below(64)).wrapping_sub(8),
        6 => random.below(5000),
        _ => random.next(),
    };
    let hexadecimal = line[start..].starts_with(b"0x");
    let text = if hexadecimal { format!("{number:#x}") } else { number.to_string() };
    line.splice(start..start + length, text.into_bytes());
}

/// Bytes that are no file of the kind, with words of one between them.
pub fn noise(random: &mut Random, lines: &[Vec<u8>]) -> Vec<u8> {
    let mut input = Vec::new();
    for _ in 0..random.below(2000) {
        match random.below(4) {
            0 => input.push(random.next() as u8),
            1 => input.push(b'\n'),
            _ => {
                let line = &lines[random.below(lines.len() as u64) as usize];
                let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
                input.extend_from_slice(words[random.below(words.len() as u64) as usize]);
                input.push(b' ');
            }
        }
    }
    input
}
