//! MiniDebugInfo: the symbols of a stripped file, as an ELF file compressed with xz into its
//! section `.gnu_debugdata`.
//!
//! Fedora and its relatives ship every program this way ("MiniDebugInfo" in gdb's manual):
//! functions that the dynamic symbol table lacks, without lines and without inlined functions.
//! Neither the length of the result nor the dictionary size in the stream is trusted: both have
//! bounds, and the result grows only as decoded.

use crate::SymbolError;
use xz4rust::{XzDecoder, XzError, XzNextBlockResult};

/// Symbols are at most this many times the length of their compressed form (real ones stay
/// below 20) ...
const EXPANSION_MAX: u64 = 256;
/// ... while small ones may have this many bytes anyway ...
const UNPACKED_MIN_BYTES: u64 = 1 << 20;
/// ... and none more than this.
const UNPACKED_MAX_BYTES: u64 = 1 << 30;
/// The largest dictionary that `xz` uses on its own account (`xz -9`).
const DICTIONARY_MAX_BYTES: usize = 64 << 20;
/// Bytes decoded at a time.
const STEP_BYTES: usize = 64 << 10;

/// Decompresses the content of a section `.gnu_debugdata`, one xz stream, to at most 256 times its
/// length (and 1 GiB).
///
/// # Errors
/// The stream is cut or damaged, wants a dictionary larger than any in use, or expands beyond the
/// limit.
pub fn unpack(packed: &[u8]) -> Result<Vec<u8>, SymbolError> {
    let limit_bytes = (packed.len() as u64)
        .saturating_mul(EXPANSION_MAX)
        .clamp(UNPACKED_MIN_BYTES, UNPACKED_MAX_BYTES);
    let mut decoder = XzDecoder::in_heap_with_alloc_dict_size(0, DICTIONARY_MAX_BYTES);
    let mut unpacked = Vec::new();
    let mut step = vec![0; STEP_BYTES];
    let mut rest = packed;
    loop {
        let at = packed.len() - rest.len();
        let ends_early =
            || SymbolError::Mini(format!("the xz stream ends early, after {} bytes", packed.len()));
        let result = decoder.decode(rest, &mut step).map_err(|error| match error {
            XzError::NeedsLargerInputBuffer => ends_early(),
            error => SymbolError::Mini(format!(
                "no readable xz stream ({error} after byte {at} of {})",
                packed.len()
            )),
        })?;
        let (consumed, produced) = (result.input_consumed(), result.output_produced());
        if unpacked.len() as u64 + produced as u64 > limit_bytes {
            let section = ".gnu_debugdata".into();
            return Err(SymbolError::TooLarge {
                section,
                claimed_bytes: unpacked.len() as u64 + produced as u64,
                limit_bytes,
            });
        }
        unpacked.extend_from_slice(&step[..produced]);
        rest = &rest[consumed..];
        match result {
            XzNextBlockResult::EndOfStream(..) => return Ok(unpacked),
            XzNextBlockResult::NeedMoreData(0, 0) => return Err(ends_early()),
            XzNextBlockResult::NeedMoreData(..) => {}
        }
    }
}
