//! An ELF file with its debug information: any bytes, taken as program, separate debug file and shared debug file at once; what they say of
//! addresses spread over the code, the data and beyond both.

#![no_main]

use heaplab_symbols::{Image, Resolver};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(image) = Image::parse(data.to_vec()) else { return };
    image.checksum();
    let mut resolver = Resolver::new(&image, Some(&image), Some(&image));
    // Where the code of the seeds lies: an object file, a shared object, a program.
    let code = [0, 0x1000, 0x40_0000];
    let near = code.into_iter().flat_map(|start| (start..start + 0x200).step_by(9));
    for address in near.chain((0..64).map(|bit| 1 << bit)).chain([0, u64::MAX]) {
        for place in resolver.resolve(address) {
            assert!(place.function.is_some() || place.file.is_some() || place.line > 0, "a place says something");
        }
    }
    assert!(resolver.problems().len() <= 4, "one for each table and the debug information: {:?}", resolver.problems());
});
