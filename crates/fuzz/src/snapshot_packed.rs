//! A packed heap snapshot, unpacked as the command line does it and read. The first byte chooses
//! the kind of packing and what the rest is: the packed stream itself behind the bytes that tell
//! its kind; or what is packed here, which must come out as it was, in one piece or in two; or that
//! with one byte changed or the end cut off.

use flate2::Compression;
use flate2::write::GzEncoder;
use heaplab_snapshot::Snapshot;
use heaplab_snapshot::packed::{Packing, UnpackError};
use std::io::Write;

/// What may come of an input.
const LIMIT_BYTES: u64 = 1 << 20;

/// One input.
pub fn run(data: &[u8]) {
    let Some((choice, rest)) = data.split_first() else { return };
    let packing = if choice & 1 == 0 { Packing::Gzip } else { Packing::Zstandard };
    let packed = match choice >> 1 & 3 {
        0 => [beginning(packing), rest].concat(),
        1 => pack(packing, rest),
        2 => {
            let (first, second) = rest.split_at(rest.len() / 2);
            [pack(packing, first), pack(packing, second)].concat()
        }
        _ => damaged(packing, rest),
    };
    let whole = matches!(choice >> 1 & 3, 1 | 2).then_some(rest);
    unpacked(&packed, whole);
}

/// The bytes that tell the kind.
fn beginning(packing: Packing) -> &'static [u8] {
    match packing {
        Packing::Gzip => &[0x1f, 0x8b],
        Packing::Zstandard => &[0x28, 0xb5, 0x2f, 0xfd],
    }
}

fn pack(packing: Packing, bytes: &[u8]) -> Vec<u8> {
    match packing {
        Packing::Gzip => {
            let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
            packed.write_all(bytes).expect("memory");
            packed.finish().expect("memory")
        }
        Packing::Zstandard => zstd::encode_all(bytes, 1).expect("memory"),
    }
}

/// The first two bytes say where, the third what becomes of the byte there; 0 cuts the file.
fn damaged(packing: Packing, rest: &[u8]) -> Vec<u8> {
    let [low, high, change, content @ ..] = rest else { return beginning(packing).to_vec() };
    let mut packed = pack(packing, content);
    let kept = beginning(packing).len();
    let at = kept + usize::from(u16::from_le_bytes([*low, *high])) % (packed.len() - kept);
    match change {
        0 => packed.truncate(at),
        change => packed[at] ^= change,
    }
    packed
}

/// Unpacks and reads; `whole` is what must come out, where that is known.
fn unpacked(packed: &[u8], whole: Option<&[u8]>) {
    let packing = Packing::of(packed).expect("the bytes that tell the kind");
    let mut most = 0;
    let result = packing.unpack(packed, LIMIT_BYTES, &mut |there| {
        assert!(there > most, "{there} behind {most}");
        most = there;
    });
    assert!(most <= LIMIT_BYTES);
    let begins = |bytes: &[u8]| {
        bytes.iter().find(|byte| !byte.is_ascii_whitespace()).is_none_or(|byte| *byte == b'{')
    };
    match result {
        Ok(bytes) => {
            assert!(bytes.len() as u64 == most && begins(&bytes));
            assert!(whole.is_none_or(|whole| whole == bytes));
            // Any error will do.
            let _ = Snapshot::read(&bytes);
        }
        Err(UnpackError::Damaged { unpacked_bytes, .. }) => {
            assert!(whole.is_none() && unpacked_bytes <= LIMIT_BYTES + 1)
        }
        Err(UnpackError::NoSnapshot) => assert!(whole.is_none_or(|whole| !begins(whole))),
        Err(UnpackError::TooLarge { limit_bytes }) => {
            assert!(
                limit_bytes == LIMIT_BYTES
                    && whole.is_none_or(|whole| whole.len() as u64 > LIMIT_BYTES)
            );
        }
    }
}
