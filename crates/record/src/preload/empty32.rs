//! An empty shared object for 32-bit x86: a 32-bit dynamic linker finds it where a 64-bit one finds
//! the recorder.
//!
//! Without it that linker would complain on the program's standard error, about an object of the
//! wrong class or a missing one. It loads this object silently: no code, no symbol, no relocation,
//! no initializer. Written here byte by byte because heaplab's compiler need not have 32-bit
//! libraries. Source: the System V gABI (ELF header, program headers, dynamic section). glibc
//! requires: a loadable segment; a dynamic section, in writable memory (older versions relocate it
//! in place); DT_STRTAB, which is read even without a lookup; and PT_GNU_STACK, without which it
//! makes the stack executable.

/// Offset of the program headers, and bytes before them.
const HEADER_BYTES: u32 = 52;
const SEGMENT_BYTES: u32 = 32;
const SEGMENTS: u32 = 3;
/// Five tags and the end, eight bytes each.
const DYNAMIC: u32 = HEADER_BYTES + SEGMENTS * SEGMENT_BYTES;
const DYNAMIC_BYTES: u32 = 6 * 8;
/// A hash table with one empty bucket: four words.
const HASH: u32 = DYNAMIC + DYNAMIC_BYTES;
/// The first symbol of every table, all zero.
const SYMBOLS: u32 = HASH + 16;
const SYMBOL_BYTES: u32 = 16;
/// One empty string.
const STRINGS: u32 = SYMBOLS + SYMBOL_BYTES;
const STRINGS_BYTES: u32 = 4;
const TOTAL_BYTES: u32 = STRINGS + STRINGS_BYTES;

/// The object's bytes.
pub fn object() -> Vec<u8> {
    const READ_WRITE: u32 = 6;
    let mut bytes = b"\x7fELF\x01\x01\x01".to_vec(); // 32-bit, little-endian, version 1, System V
    bytes.resize(16, 0);
    for half in [3_u16, 3] {
        bytes.extend(half.to_le_bytes()); // ET_DYN, EM_386
    }
    // Version; no entry point; program headers; no section headers; no flags.
    words(&mut bytes, &[1, 0, HEADER_BYTES, 0, 0]);
    for half in [HEADER_BYTES as u16, SEGMENT_BYTES as u16, SEGMENTS as u16, 40, 0, 0] {
        bytes.extend(half.to_le_bytes());
    }
    // Each: type, offset, two addresses, size in the file and in memory, permissions, alignment.
    // First PT_LOAD, then PT_DYNAMIC, then PT_GNU_STACK.
    words(&mut bytes, &[1, 0, 0, 0, TOTAL_BYTES, TOTAL_BYTES, READ_WRITE, 4096]);
    words(&mut bytes, &[2, DYNAMIC, DYNAMIC, DYNAMIC, DYNAMIC_BYTES, DYNAMIC_BYTES, READ_WRITE, 4]);
    words(&mut bytes, &[0x6474_e551, 0, 0, 0, 0, 0, READ_WRITE, 16]);
    // DT_HASH, DT_STRTAB, DT_SYMTAB, DT_STRSZ, DT_SYMENT, DT_NULL.
    words(
        &mut bytes,
        &[4, HASH, 5, STRINGS, 6, SYMBOLS, 10, STRINGS_BYTES, 11, SYMBOL_BYTES, 0, 0],
    );
    // One bucket and one chain, both ending at once.
    words(&mut bytes, &[1, 1, 0, 0]);
    bytes.resize(TOTAL_BYTES as usize, 0);
    bytes
}

fn words(bytes: &mut Vec<u8>, words: &[u32]) {
    bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use object::read::elf::{Dyn, FileHeader, ProgramHeader};
    use object::{Object, elf};

    #[test]
    fn it_is_an_object_with_nothing_in_it() {
        let bytes = object();
        assert_eq!(bytes.len(), TOTAL_BYTES as usize);
        let header = elf::FileHeader32::<object::Endianness>::parse(&*bytes).unwrap();
        let endian = header.endian().unwrap();
        assert_eq!((header.e_type(endian), header.e_machine(endian)), (elf::ET_DYN, elf::EM_386));
        let segments = header.program_headers(endian, &*bytes).unwrap();
        let kinds: Vec<_> = segments
            .iter()
            .map(|segment| (segment.p_type(endian), segment.p_flags(endian)))
            .collect();
        let read_write = elf::PF_R | elf::PF_W;
        assert_eq!(
            kinds,
            [
                (elf::PT_LOAD, read_write),
                (elf::PT_DYNAMIC, read_write),
                (elf::PT_GNU_STACK, read_write)
            ]
        );
        let dynamic = segments[1].dynamic(endian, &*bytes).unwrap().expect("a dynamic section");
        let end = dynamic.last().unwrap();
        assert_eq!((end.d_tag(endian), end.d_val(endian)), (elf::DT_NULL, 0));
        let file = object::File::parse(&*bytes).unwrap();
        assert_eq!((file.dynamic_symbols().count(), file.entry()), (0, 0));
    }
}
