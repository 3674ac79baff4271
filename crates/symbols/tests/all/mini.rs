//! MiniDebugInfo made as distributions make it, against gdb, and damaged in every way.

use crate::{
    oracle::{Reference, all_of, reference},
    support::{bare_name, build_id, functions, gdb, have, only, ours, run, section},
};
use heaplab_symbols::{Image, SymbolError};
use proptest::prelude::*;
use std::{
    path::{Path, PathBuf},
    sync::LazyLock,
};

const TOOLS: [&str; 6] = ["g++", "nm", "objcopy", "readelf", "xz", "gdb"];

/// The stripped program with the symbols of the full one in `.gnu_debugdata`, packed by `xz` with
/// `how`.
fn with_mini(reference: &Reference, how: &[&str]) -> PathBuf {
    reference.objcopy(&["--strip-debug", "--remove-section=.comment", "app", "mini"]);
    reference.objcopy(&["--only-keep-debug", "mini", "mini"]);
    reference.objcopy(&["--strip-all", "app", "stripped"]);
    let packed = reference.path().join("mini.xz");
    let _ = std::fs::remove_file(&packed);
    run("xz", &[&["--keep"], how, &["mini"]].concat(), reference.path());
    with_section(reference, &packed)
}

/// The stripped program with the content of `file` as its `.gnu_debugdata`.
fn with_section(reference: &Reference, file: &Path) -> PathBuf {
    reference.objcopy(&[
        "--add-section",
        &format!(".gnu_debugdata={}", file.display()),
        "stripped",
        "shipped",
    ]);
    reference.path().join("shipped")
}

#[test]
fn symbols_in_gnu_debugdata_are_those_of_gdb() {
    if !have(&TOOLS) {
        return;
    }
    let reference = reference();
    let sized: Vec<(u64, u64)> = functions(&reference.app)
        .values()
        .map(|(start, length)| (*start, start + length))
        .collect();
    for how in [
        &["-9"][..],
        &["--check=crc32", "--block-size=4096"],
        &["--check=none", "--x86", "--lzma2=dict=64KiB"],
        &["--delta", "--lzma2"],
    ] {
        let shipped = with_mini(&reference, how);
        let addresses = all_of(section(&shipped, ".text"));
        let (answers, report) = ours(&shipped, &build_id(&shipped), &only(&[]), &addresses);
        assert_eq!(report.notes, Vec::<String>::new());
        assert!(report.has_packed_symbols && !report.has_debug_information, "{report:?}");
        for ((address, places), judge) in
            addresses.iter().zip(&answers).zip(gdb(&shipped, &[], &addresses))
        {
            assert!(places.len() <= 1);
            let ours = places.first().and_then(|place| place.function.as_deref()).map(bare_name);
            // gdb falls back to the nearest symbol without a size.
            let is_sized = sized.iter().any(|(start, end)| (*start..*end).contains(address));
            assert_eq!(
                ours,
                judge.symbol.filter(|_| is_sized),
                "at {address:#x}, packed with {how:?}"
            );
        }
        let hidden = functions(&reference.app)["_ZL6hiddeni"].0;
        assert!(
            answers[addresses.iter().position(|address| *address == hidden).unwrap()][0]
                .function
                .is_some(),
            "no dynamic symbol"
        );
    }
}

#[test]
fn a_debug_file_is_better_and_wins() {
    if !have(&TOOLS) {
        return;
    }
    let reference = reference();
    reference.objcopy(&["--only-keep-debug", "app", "app.debug"]);
    let shipped = with_mini(&reference, &["-6"]);
    reference.objcopy(&["--add-gnu-debuglink=app.debug", "shipped"]);
    let report = reference.check(&shipped, &only(&[]));
    assert!(!report.has_packed_symbols && report.debug_file.is_some());
}

/// The result without `.gnu_debugdata`: the dynamic symbols (this program has none) and a sentence
/// with the reason.
fn expect_nothing(reference: &Reference, shipped: &Path, why: &str) {
    let (answers, report) = ours(shipped, "", &only(&[]), &reference.addresses);
    assert!(answers.iter().all(Vec::is_empty));
    assert!(!report.has_packed_symbols);
    assert!(
        report.notes.iter().any(|note| note.contains(".gnu_debugdata") && note.contains(why)),
        "{why}: {:?}",
        report.notes
    );
}

#[test]
fn what_is_damaged_or_lies_is_named_and_left_out() {
    if !have(&TOOLS) {
        return;
    }
    let reference = reference();
    with_mini(&reference, &["-6"]);
    let packed = std::fs::read(reference.path().join("mini.xz")).unwrap();
    let file = reference.path().join("packed");
    let expect = |bytes: &[u8], why: &str| {
        std::fs::write(&file, bytes).unwrap();
        expect_nothing(&reference, &with_section(&reference, &file), why);
    };
    expect(&packed[..packed.len() / 2], "ends early");
    expect(&packed[..packed.len() - 1], "ends early");
    expect(b"no xz stream", "no readable xz stream");
    let mut changed = packed.clone();
    changed[packed.len() / 2] ^= 0x10;
    expect(&changed, "no readable xz stream");
    expect(&with_dictionary(packed.clone(), 37), "1610612736 bytes");
    expect(&with_dictionary(packed, 40), "UnsupportedLzmaProperties");
    // Eight megabytes of zeros in little more than a thousand bytes.
    std::fs::write(reference.path().join("zeros"), vec![0; 8 << 20]).unwrap();
    run("xz", &["zeros"], reference.path());
    let bomb = std::fs::read(reference.path().join("zeros.xz")).unwrap();
    assert!(bomb.len() < 4096);
    expect(&bomb, "the limit for this file");
    // Compressed twice: the compressed size in the file bounds the inner section, not the
    // decompressed size.
    std::fs::write(reference.path().join("zeros"), vec![0; 8 << 20]).unwrap();
    std::fs::write(reference.path().join("padding"), vec![0; 128 << 10]).unwrap();
    reference.objcopy(&[
        "--add-section=.debug_str=zeros",
        "--add-section=.padding=padding",
        "mini",
        "twice",
    ]);
    reference.objcopy(&["--compress-debug-sections=zlib", "twice"]);
    let inner = std::fs::read(reference.path().join("twice")).unwrap();
    assert!(inner.len() < 1 << 20 && Image::parse(inner).is_ok());
    run("xz", &["twice"], reference.path());
    expect(&std::fs::read(reference.path().join("twice.xz")).unwrap(), "the limit for this file");
    // And an ELF file of another build.
    std::fs::create_dir(reference.path().join("other")).unwrap();
    let other = crate::support::compile_cpp(&reference.path().join("other"), &["-O1"]);
    run("xz", &[other.to_str().unwrap()], reference.path());
    expect(&std::fs::read(other.with_extension("xz")).unwrap(), "another build");
}

/// The stream with the dictionary size `code` in the header of its first block.
fn with_dictionary(mut stream: Vec<u8>, code: u8) -> Vec<u8> {
    let header = 12..12 + 4 * usize::from(stream[12]);
    let filter =
        header.start + stream[header.clone()].windows(2).position(|two| two == [0x21, 1]).unwrap();
    stream[filter + 2] = code;
    let checksum = crc32fast::hash(&stream[header.clone()]).to_le_bytes();
    stream[header.end..header.end + 4].copy_from_slice(&checksum);
    stream
}

/// A program with packed symbols that no checksum protects, and their place in it.
static SHIPPED: LazyLock<Option<(Vec<u8>, std::ops::Range<usize>)>> = LazyLock::new(|| {
    have(&TOOLS).then(|| {
        let reference = reference();
        let shipped = with_mini(&reference, &["--check=none"]);
        let bytes = std::fs::read(&shipped).unwrap();
        let start = bytes.windows(6).position(|window| window == b"\xfd7zXZ\0").unwrap();
        let end = start + bytes[start..].windows(2).position(|window| window == b"YZ").unwrap();
        (bytes, start..end)
    })
});

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn changed_streams_do_no_harm(changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6)) {
        if let Some((bytes, packed)) = SHIPPED.as_ref() {
            let mut bytes = bytes.clone();
            for (place, value) in changes {
                bytes[packed.start + place.index(packed.len())] = value;
            }
            let image = Image::parse(bytes).unwrap();
            match image.mini_debug_information().unwrap() {
                Ok(_) | Err(SymbolError::Mini(_) | SymbolError::TooLarge { .. } | SymbolError::Elf(_)) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }
}
