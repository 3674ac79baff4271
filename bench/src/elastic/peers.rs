//! The peers of elastic arenas: bumpalo, talloc (if its library is installed), and mallocs whose
//! blocks are freed one by one. For the mallocs the driver keeps a table, as a program would.

use heaplab_elastic::{Arena, ArenaStatistics, Growth, Options, Reclaim, Space};
use heaplab_system::Malloc;
use std::alloc::Layout;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::NonNull;

/// An allocator for blocks with common lifetimes. The driver numbers the arenas.
pub trait Peer {
    /// Whether an arena's blocks die with it. If not, the driver frees them one by one.
    const REGIONS: bool;
    /// Announces the number of arenas live at once. A growing table of handles leaves its earlier
    /// places behind, resident and unused.
    fn expect(&mut self, _arenas: usize) {}
    /// An arena begins.
    fn begin(&mut self, arena: usize);
    /// A block of whole words.
    fn allocate(&mut self, arena: usize, bytes: usize) -> *mut u8;
    /// Frees a block before its arena dies.
    ///
    /// # Safety
    /// The block came from this arena with this size and is live.
    unsafe fn free(&mut self, arena: usize, block: *mut u8, bytes: usize);
    /// An arena ends.
    fn end(&mut self, arena: usize);
    /// Gives back as much memory as possible.
    fn trim(&mut self);
}

/// The layout of a block of whole words.
#[inline(always)]
pub fn words(bytes: usize) -> Layout {
    // SAFETY: 8 is a power of two, and blocks of these workloads are a few kilobytes.
    unsafe { Layout::from_size_align_unchecked(bytes, 8) }
}

/// Puts a value at an index, growing the table.
fn put<T>(table: &mut Vec<Option<T>>, at: usize, value: Option<T>) {
    if table.len() <= at {
        table.resize_with(at + 1, || None);
    }
    table[at] = value;
}

/// This project's.
pub struct Elastic {
    /// The space of all arenas.
    pub space: Space,
    growth: Growth,
    /// The growth of arenas with known facts, by number.
    known: Vec<Growth>,
    arenas: Vec<Option<Arena>>,
}

impl Elastic {
    /// A space of its own.
    pub fn new(growth: Growth, reclaim: Reclaim) -> Elastic {
        Elastic::with(growth, Options { reclaim, ..Options::default() })
    }

    /// Set for speed, like mimalloc's default: keeps memory until a trim, and asks for huge pages.
    pub fn fast(growth: Growth) -> Elastic {
        // Valgrind, which counts a replay's work, cannot reserve 64 GB.
        let reserve_bytes = 16 << 30;
        Elastic::with(
            growth,
            Options {
                reclaim: Reclaim::AtTrim,
                huge_pages: true,
                reserve_bytes,
                ..Options::default()
            },
        )
    }

    /// With all its options.
    pub fn with(growth: Growth, options: Options) -> Elastic {
        Elastic {
            space: Space::new(options).expect("address space"),
            growth,
            known: Vec::new(),
            arenas: Vec::new(),
        }
    }

    /// The same with a growth for each known arena.
    pub fn knowing(self, known: Vec<Growth>) -> Elastic {
        Elastic { known, ..self }
    }

    /// The figures of each live arena.
    pub fn statistics(&self) -> impl Iterator<Item = ArenaStatistics> {
        self.arenas.iter().flatten().map(Arena::statistics)
    }
}

impl Peer for Elastic {
    const REGIONS: bool = true;

    fn expect(&mut self, arenas: usize) {
        self.arenas.reserve_exact(arenas);
    }

    fn begin(&mut self, arena: usize) {
        let growth = self.known.get(arena).copied().unwrap_or(self.growth);
        let begun = self.space.arena(growth).expect("memory");
        put(&mut self.arenas, arena, Some(begun));
    }

    #[inline(always)]
    fn allocate(&mut self, arena: usize, bytes: usize) -> *mut u8 {
        self.arenas[arena].as_ref().expect("begun").allocate(words(bytes)).expect("memory").as_ptr()
    }

    unsafe fn free(&mut self, arena: usize, block: *mut u8, bytes: usize) {
        let (arena, block) =
            (self.arenas[arena].as_ref().expect("begun"), NonNull::new(block).expect("a block"));
        // SAFETY: the caller's promise.
        unsafe { arena.deallocate(block, words(bytes)) };
    }

    fn end(&mut self, arena: usize) {
        self.arenas[arena] = None;
    }

    fn trim(&mut self) {
        self.space.trim().expect("the kernel takes pages back");
    }
}

/// bumpalo; its chunks come from the system's malloc.
#[derive(Default)]
pub struct Bumpalo(Vec<Option<bumpalo::Bump>>);

impl Peer for Bumpalo {
    const REGIONS: bool = true;

    fn expect(&mut self, arenas: usize) {
        self.0.reserve_exact(arenas);
    }

    fn begin(&mut self, arena: usize) {
        put(&mut self.0, arena, Some(bumpalo::Bump::new()));
    }

    #[inline(always)]
    fn allocate(&mut self, arena: usize, bytes: usize) -> *mut u8 {
        self.0[arena].as_ref().expect("begun").alloc_layout(words(bytes)).as_ptr()
    }

    unsafe fn free(&mut self, _: usize, _: *mut u8, _: usize) {}

    fn end(&mut self, arena: usize) {
        self.0[arena] = None;
    }

    fn trim(&mut self) {
        trim_system();
    }
}

/// glibc's own trim, for all heaps on its malloc.
pub fn trim_system() {
    // SAFETY: the call only gives free memory back.
    unsafe { libc::malloc_trim(0) };
}

/// A malloc.
pub struct Blocks<M>(pub M);

impl<M: Malloc> Peer for Blocks<M> {
    const REGIONS: bool = false;

    fn begin(&mut self, _: usize) {}

    #[inline(always)]
    fn allocate(&mut self, _: usize, bytes: usize) -> *mut u8 {
        self.0.malloc(bytes).cast()
    }

    #[inline(always)]
    unsafe fn free(&mut self, _: usize, block: *mut u8, _: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.0.free(block.cast()) };
    }

    fn end(&mut self, _: usize) {}

    fn trim(&mut self) {
        self.0.trim();
    }
}

/// No allocator: a pointer that counts up through resident memory, again and again. Its cost is the
/// driver's loop and the writes into blocks outside of the cache, which every heap pays.
pub struct Counting {
    memory: Vec<u8>,
    at: usize,
}

impl Counting {
    /// Larger than any block of the recordings; lies behind the counted memory.
    const SLACK_BYTES: usize = 1 << 20;

    /// Memory of this many bytes, all of them touched.
    pub fn through(bytes: usize) -> Counting {
        Counting { memory: vec![1; bytes + Counting::SLACK_BYTES], at: 0 }
    }
}

impl Peer for Counting {
    const REGIONS: bool = true;

    fn begin(&mut self, _: usize) {}

    #[inline(always)]
    fn allocate(&mut self, _: usize, bytes: usize) -> *mut u8 {
        if self.at + bytes.max(Counting::SLACK_BYTES) > self.memory.len() {
            self.at = 0;
        }
        let block = self.memory[self.at..].as_mut_ptr();
        self.at += bytes;
        block
    }

    unsafe fn free(&mut self, _: usize, _: *mut u8, _: usize) {}

    fn end(&mut self, _: usize) {}

    fn trim(&mut self) {}
}

/// No allocator: blocks lie at their places in another replay of the same recording, in memory that
/// the kernel must first provide.
pub struct Placed {
    memory: memmap2::MmapMut,
    /// By block, in order of birth.
    offsets: Vec<u32>,
    born: usize,
}

impl Placed {
    /// Bytes of a huge page, which is larger than any block: each block keeps its place within its
    /// huge page, and the last page is whole.
    const ALIGN_BYTES: usize = 2 << 20;

    /// Memory laid out like these blocks.
    pub fn like(blocks: &[*mut u8], huge_pages: bool) -> anyhow::Result<Placed> {
        let (Some(first), Some(last)) = (blocks.iter().min(), blocks.iter().max()) else {
            anyhow::bail!("there are no blocks")
        };
        let base = first.addr() & !(Placed::ALIGN_BYTES - 1);
        let memory = memmap2::MmapMut::map_anon(last.addr() - base + 3 * Placed::ALIGN_BYTES)?;
        memory.advise(if huge_pages {
            memmap2::Advice::HugePage
        } else {
            memmap2::Advice::NoHugePage
        })?;
        let shift = memory.as_ptr().align_offset(Placed::ALIGN_BYTES);
        let offsets: Result<_, _> =
            blocks.iter().map(|block| u32::try_from(block.addr() - base + shift)).collect();
        Ok(Placed { memory, offsets: offsets?, born: 0 })
    }
}

impl Peer for Placed {
    const REGIONS: bool = true;

    fn begin(&mut self, _: usize) {}

    #[inline(always)]
    fn allocate(&mut self, _: usize, _: usize) -> *mut u8 {
        let block = self.memory[self.offsets[self.born] as usize..].as_mut_ptr();
        self.born += 1;
        block
    }

    unsafe fn free(&mut self, _: usize, _: *mut u8, _: usize) {}

    fn end(&mut self, _: usize) {}

    fn trim(&mut self) {}
}

type Named = unsafe extern "C" fn(*const c_void, usize, *const c_char) -> *mut c_void;
type Free = unsafe extern "C" fn(*mut c_void, *const c_char) -> c_int;

/// talloc, looked up at run time: it need not be installed.
pub struct Talloc {
    named: Named,
    free: Free,
    contexts: Vec<*mut c_void>,
}

const NAME: &CStr = c"bench";

impl Talloc {
    /// `None`: libtalloc is not installed.
    pub fn find() -> Option<Talloc> {
        // SAFETY: loads a library installed for loading; the names end with a zero.
        let (named, free) = unsafe {
            let library = libc::dlopen(c"libtalloc.so.2".as_ptr(), libc::RTLD_NOW);
            if library.is_null() {
                return None;
            }
            (
                libc::dlsym(library, c"talloc_named_const".as_ptr()),
                libc::dlsym(library, c"_talloc_free".as_ptr()),
            )
        };
        if named.is_null() || free.is_null() {
            return None;
        }
        // SAFETY: the functions of talloc.h have these types.
        let (named, free) = unsafe {
            (
                std::mem::transmute::<*mut c_void, Named>(named),
                std::mem::transmute::<*mut c_void, Free>(free),
            )
        };
        Some(Talloc { named, free, contexts: Vec::new() })
    }
}

impl Peer for Talloc {
    const REGIONS: bool = true;

    fn expect(&mut self, arenas: usize) {
        self.contexts.reserve_exact(arenas);
    }

    fn begin(&mut self, arena: usize) {
        if self.contexts.len() <= arena {
            self.contexts.resize(arena + 1, std::ptr::null_mut());
        }
        // SAFETY: makes a context without a parent and without bytes.
        self.contexts[arena] = unsafe { (self.named)(std::ptr::null(), 0, NAME.as_ptr()) };
    }

    fn allocate(&mut self, arena: usize, bytes: usize) -> *mut u8 {
        // SAFETY: the context lives.
        unsafe { (self.named)(self.contexts[arena], bytes, NAME.as_ptr()) }.cast()
    }

    unsafe fn free(&mut self, _: usize, block: *mut u8, _: usize) {
        // SAFETY: the caller's promise.
        unsafe { (self.free)(block.cast(), NAME.as_ptr()) };
    }

    fn end(&mut self, arena: usize) {
        // SAFETY: the context is live; its blocks die with it.
        unsafe { (self.free)(self.contexts[arena], NAME.as_ptr()) };
    }

    fn trim(&mut self) {
        trim_system();
    }
}
