//! Damaged files: an error or fewer names, never a panic, and never memory out of proportion to the
//! file.

use crate::support::{compile_cpp, have, run};
use heaplab_symbols::{Image, Resolver, SymbolError};
use proptest::prelude::*;
use std::sync::LazyLock;

/// The program unchanged, and with compressed debug information; none without a compiler.
static PROGRAMS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    if !have(&["g++", "objcopy"]) {
        return Vec::new();
    }
    let folder = tempfile::tempdir().unwrap();
    let app = compile_cpp(folder.path(), &[]);
    run("objcopy", &["--compress-debug-sections=zlib", "app", "compressed"], folder.path());
    [app, folder.path().join("compressed")]
        .iter()
        .map(|file| std::fs::read(file).unwrap())
        .collect()
});

/// Resolves addresses all over the file, if readable.
fn try_all(bytes: Vec<u8>) -> Option<usize> {
    let image = Image::parse(bytes).ok()?;
    let mut resolver = Resolver::new(&image, Some(&image), Some(&image));
    let named = (0..0x2000)
        .step_by(7)
        .chain([u64::MAX, u64::MAX - 1])
        .filter(|address| !resolver.resolve(*address).is_empty())
        .count();
    Some(named)
}

#[test]
fn whole_files_give_names() {
    for bytes in PROGRAMS.iter() {
        assert!(try_all(bytes.clone()).unwrap() > 20);
    }
}

#[test]
fn files_cut_anywhere_are_refused_or_give_less() {
    for bytes in PROGRAMS.iter() {
        for length in (0..bytes.len()).step_by(331) {
            try_all(bytes[..length].to_vec());
        }
    }
}

#[test]
fn a_section_that_claims_too_much_is_refused() {
    let Some(bytes) = PROGRAMS.get(1) else { return };
    let sections = u64::from_le_bytes(bytes[0x28..0x30].try_into().unwrap()) as usize;
    let mut refused = 0;
    // Every compressed section begins with its type, a reserved word and its claimed length.
    for header in bytes[sections..].chunks_exact(64) {
        let flags = u64::from_le_bytes(header[8..16].try_into().unwrap());
        let offset = u64::from_le_bytes(header[24..32].try_into().unwrap()) as usize;
        if flags & 0x800 != 0 {
            let mut bomb = bytes.clone();
            bomb[offset + 8..offset + 16].copy_from_slice(&(1u64 << 40).to_le_bytes());
            match Image::parse(bomb) {
                Err(SymbolError::TooLarge { claimed_bytes, .. }) => {
                    assert_eq!(claimed_bytes, 1 << 40)
                }
                Err(error) => panic!("{error}"),
                // Names and lines do not need this section, so it is never decompressed.
                Ok(_) => continue,
            }
            refused += 1;
        }
    }
    assert!(refused >= 4);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn changed_bytes_do_no_harm(which in 0usize..2, changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12)) {
        if let Some(bytes) = PROGRAMS.get(which) {
            let mut bytes = bytes.clone();
            for (place, value) in changes {
                let place = place.index(bytes.len());
                bytes[place] = value;
            }
            try_all(bytes);
        }
    }

    #[test]
    fn changed_headers_do_no_harm(place in 0usize..64, value in any::<u8>(), section in 0usize..40, field in 0usize..64, other in any::<u8>()) {
        if let Some(bytes) = PROGRAMS.first() {
            let sections = u64::from_le_bytes(bytes[0x28..0x30].try_into().unwrap()) as usize;
            let mut bytes = bytes.clone();
            if let Some(byte) = bytes.get_mut(sections + section * 64 + field) {
                *byte = other;
            }
            try_all(bytes.clone());
            bytes[place] = value;
            try_all(bytes);
        }
    }
}
