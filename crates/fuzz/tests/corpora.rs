//! Every input that fuzzing kept, and every seed, through its target: what was mended stays mended.
//!
//! `fuzz/corpora/TARGET.tar.gz` are plain archives of files; fuzz/README.md says how to make them.

use flate2::read::GzDecoder;
use std::io::Read;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// Bytes of a header of an archive, and what its contents are padded to.
const BLOCK_BYTES: usize = 512;

/// Names and contents of the files in a tar archive; folders are left out.
fn files(archive: &[u8]) -> Vec<(String, &[u8])> {
    let mut files = Vec::new();
    let mut rest = archive;
    while rest.len() >= BLOCK_BYTES && rest[0] != 0 {
        let (header, behind) = rest.split_at(BLOCK_BYTES);
        let text = |range: std::ops::Range<usize>| {
            String::from_utf8_lossy(&header[range]).trim_matches(['\0', ' ']).to_owned()
        };
        let bytes = usize::from_str_radix(&text(124..136), 8).expect("an octal length");
        if header[156] == b'0' {
            files.push((text(0..100), &behind[..bytes]));
        }
        rest = &behind[bytes.next_multiple_of(BLOCK_BYTES)..];
    }
    files
}

fn run_all(target: &str, run: fn(&[u8])) {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    let archive = here.join(format!("corpora/{target}.tar.gz"));
    let packed =
        std::fs::read(&archive).unwrap_or_else(|error| panic!("{}: {error}", archive.display()));
    let mut unpacked = Vec::new();
    GzDecoder::new(&packed[..]).read_to_end(&mut unpacked).expect("an archive");
    let kept = files(&unpacked);
    assert!(!kept.is_empty(), "{target} has no corpus");
    for (name, input) in kept {
        try_one(target, &name, input, run);
    }
    for seed in std::fs::read_dir(here.join("seeds").join(target)).into_iter().flatten() {
        let path = seed.expect("a readable folder").path();
        try_one(target, &path.display().to_string(), &std::fs::read(&path).expect("a seed"), run);
    }
}

fn try_one(target: &str, name: &str, input: &[u8], run: fn(&[u8])) {
    if catch_unwind(AssertUnwindSafe(|| run(input))).is_err() {
        panic!("{target}: {name}, {} bytes, see above", input.len());
    }
}

macro_rules! corpora {
    ($($target:ident)*) => {
        $(#[test]
        fn $target() {
            run_all(stringify!($target), heaplab_fuzz::$target::run);
        })*
    };
}

corpora!(
    chunks curve dmd elastic events expression import jvm_log metaspace ocaml old_metaspace_log
    program snapshot snapshot_header snapshot_lists snapshot_packed snapshot_rewrite spool
    spool_block sweep symbols table v8
);

#[test]
fn every_target_has_its_test() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    let count = |folder: &str| std::fs::read_dir(here.join(folder)).expect("a folder").count();
    assert_eq!((count("fuzz_targets"), count("corpora")), (23, 23));
}
