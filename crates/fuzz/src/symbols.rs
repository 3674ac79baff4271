//! An ELF file with its debug information: any bytes, taken as program, separate debug file, shared
//! debug file and file of split DWARF at once; what they say of addresses spread over the code, the
//! data and beyond both. Symbols packed into it (`.gnu_debugdata`) are unpacked and asked too, and
//! bytes that begin as an xz stream are unpacked as such.

use heaplab_symbols::{Image, Resolver, unpack_symbols};

/// One input.
pub fn run(data: &[u8]) {
    if data.starts_with(b"\xfd7zXZ\0") {
        if let Ok(unpacked) = unpack_symbols(data) {
            assert!(unpacked.len() <= (256 * data.len()).max(1 << 20), "bounded");
        }
        return;
    }
    let Ok(image) = Image::parse(data.to_vec()) else { return };
    image.checksum();
    ask(&image, &image);
    if let Some(Ok(packed)) = image.mini_debug_information() {
        ask(&image, &packed);
    }
}

fn ask(image: &Image, separate: &Image) {
    let mut resolver = Resolver::new(image, Some(separate), Some(image));
    // Where the code of the seeds lies: an object file, a shared object, a program.
    let code = [0, 0x1000, 0x40_0000];
    let near = code.into_iter().flat_map(|start| (start..start + 0x200).step_by(9));
    let addresses: Vec<u64> =
        near.chain((0..64).map(|bit| 1 << bit)).chain([0, u64::MAX]).collect();
    let wanted: Vec<u64> = resolver.split_units(&addresses).iter().map(|unit| unit.id).collect();
    let _ = resolver.add_split(&wanted, separate);
    for address in addresses {
        for place in resolver.resolve(address) {
            assert!(
                place.function.is_some() || place.file.is_some() || place.line > 0,
                "a place says something"
            );
        }
    }
    assert!(
        resolver.problems().len() <= 4,
        "one for each table and the debug information: {:?}",
        resolver.problems()
    );
}
