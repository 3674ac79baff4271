//! What elastic arenas are measured beside: bumpalo, talloc (where its library is installed), and
//! mallocs whose blocks are freed one by one, for which the driver keeps a table, as a program
//! would have to.

use heaplab_elastic::{Arena, ArenaStatistics, Growth, Options, Reclaim, Space};
use heaplab_system::Malloc;
use std::alloc::Layout;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::NonNull;

/// Something that serves blocks with lifetimes in common. Arenas are numbered by the driver.
pub trait Peer {
    /// Whether the blocks of an arena die with it. The driver frees them one by one where they do
    /// not.
    const REGIONS: bool;
    /// So many arenas will live at once: a table of their handles that grows leaves its former
    /// places behind, resident, which are nobody's.
    fn expect(&mut self, _arenas: usize) {}
    /// An arena begins.
    fn begin(&mut self, arena: usize);
    /// A block of whole words.
    fn allocate(&mut self, arena: usize, bytes: usize) -> *mut u8;
    /// A block dies before its arena.
    ///
    /// # Safety
    /// It came from this arena with this size and lives.
    unsafe fn free(&mut self, arena: usize, block: *mut u8, bytes: usize);
    /// An arena ends.
    fn end(&mut self, arena: usize);
    /// Gives back what can be given back.
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
    /// How arenas grow of which is known more, by number.
    known: Vec<Growth>,
    arenas: Vec<Option<Arena>>,
}

impl Elastic {
    /// A space of its own.
    pub fn new(growth: Growth, reclaim: Reclaim) -> Elastic {
        Elastic::with(growth, Options { reclaim, ..Options::default() })
    }

    /// Set to speed as mimalloc is by default: memory is kept until a trim, and asked for in huge
    /// pages.
    pub fn fast(growth: Growth) -> Elastic {
        // Valgrind, which counts what a replay does, has no 64 GB to reserve.
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

    /// The same with arenas that grow each as is known of it.
    pub fn knowing(self, known: Vec<Growth>) -> Elastic {
        Elastic { known, ..self }
    }

    /// What each live arena has.
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

/// bumpalo, whose chunks are the system's malloc's.
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

/// glibc's own trim, for whatever lies on its malloc.
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

/// No allocator: a pointer that counts up through memory that is resident already, again and again.
/// What it costs is the driver's loop and the writes into blocks that are out of the cache, which
/// everyone pays.
pub struct Counting {
    memory: Vec<u8>,
    at: usize,
}

impl Counting {
    /// More than any block of the recordings, behind what is counted through.
    const SLACK_BYTES: usize = 1 << 20;

    /// So many bytes, all of them touched.
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

/// No allocator: blocks lie where another replay of the same recording had them, in memory that the
/// kernel has to give first.
pub struct Placed {
    memory: memmap2::MmapMut,
    /// Of each block in order of birth.
    offsets: Vec<u32>,
    born: usize,
}

impl Placed {
    /// Of a huge page, which holds any block: each block keeps its place in one, and the last one
    /// is whole.
    const ALIGN_BYTES: usize = 2 << 20;

    /// As these blocks lie.
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

/// talloc, found while running, so that nobody has to have it.
pub struct Talloc {
    named: Named,
    free: Free,
    contexts: Vec<*mut c_void>,
}

const NAME: &CStr = c"bench";

impl Talloc {
    /// `None` where libtalloc is not installed.
    pub fn find() -> Option<Talloc> {
        // SAFETY: loading a library that is installed for being loaded; the names are terminated.
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
        // SAFETY: a context without a parent and of no bytes.
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
        // SAFETY: the context lives, and with it dies what it has.
        unsafe { (self.free)(self.contexts[arena], NAME.as_ptr()) };
    }

    fn trim(&mut self) {
        trim_system();
    }
}
