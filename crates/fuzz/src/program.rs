//! Compiled replay programs: any bytes, as they are and with the checksums that they should have,
//! so that what lies behind those is reached.

use heaplab_trace::program::{Program, VERSION};
use std::path::Path;
use xxhash_rust::xxh3::xxh3_64;

const HEADER_BYTES: usize = 64;

/// One input.
pub fn run(data: &[u8]) {
    decode(data);
    if data.len() >= HEADER_BYTES {
        decode(&signed(data.to_vec()));
    }
}

fn decode(data: &[u8]) {
    if let Ok(program) = Program::from_bytes(data, Path::new("fuzzed")) {
        let _ = program.steps().take(1 << 20).try_for_each(|step| step.map(drop));
    }
}

/// The same with magic, version and checksums put right.
fn signed(mut data: Vec<u8>) -> Vec<u8> {
    let field = |data: &[u8], at: usize| {
        u64::from_le_bytes(data[at * 8..at * 8 + 8].try_into().expect("8 bytes"))
    };
    data[..8].copy_from_slice(b"hlprogrm");
    data[8..16].copy_from_slice(&u64::from(VERSION).to_le_bytes());
    let body = field(&data, 3).saturating_mul(4).saturating_add(7) / 8 * 8;
    let end = usize::try_from(body.saturating_add(field(&data, 4)))
        .unwrap_or(usize::MAX)
        .saturating_add(HEADER_BYTES)
        .min(data.len());
    let sum = xxh3_64(&data[HEADER_BYTES..end]);
    data[48..56].copy_from_slice(&sum.to_le_bytes());
    let sum = xxh3_64(&data[..HEADER_BYTES - 8]);
    data[56..64].copy_from_slice(&sum.to_le_bytes());
    data
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_is_a_program_of_this_version() {
        let seed = include_bytes!("../../../fuzz/seeds/program/recorded");
        assert_eq!(signed(seed.to_vec()), seed);
        let program = Program::from_bytes(seed, Path::new("seed")).expect("a program");
        assert!(program.steps().filter(Result::is_ok).count() > 100);
    }
}
