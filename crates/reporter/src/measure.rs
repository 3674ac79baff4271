//! How bytes of blocks are measured: by one function, which asks the allocator for the usable size
//! and, in a process under `heaplab record --dmd`, marks the block as reported.
//!
//! The recorder is asked by symbols that exist only where it is preloaded, so nothing links
//! against it, and elsewhere a mark costs one load. Its function gives the usable size itself: had
//! the program called `malloc_usable_size`, the recording would say that it uses its slop.

use crate::system;
use std::alloc::Layout;
use std::cell::Cell;
use std::collections::HashSet;
use std::ffi::c_void;
use std::sync::OnceLock;

/// The usable size of a block of the allocator; 0: unknown.
pub(crate) type Usable = unsafe extern "C" fn(*const c_void) -> usize;
/// Bytes of all blocks that the allocator has given out; negative: unknown.
pub(crate) type Allocated = extern "C" fn() -> i64;

static ALLOCATOR: OnceLock<(Usable, Option<Allocated>)> = OnceLock::new();

/// Names the program's allocator where `malloc` is not the one: a Rust program with another
/// `#[global_allocator]`, a C program with a prefixed jemalloc. `usable` gives the usable size of a
/// block, `allocated` the bytes of all blocks (negative: unknown), which `heap-unclassified` is
/// computed from. False: one is named already.
///
/// # Safety
/// `usable` is right for every block that the program measures, on any thread.
pub unsafe fn set_allocator(
    usable: unsafe extern "C" fn(*const c_void) -> usize,
    allocated: Option<extern "C" fn() -> i64>,
) -> bool {
    ALLOCATOR.set((usable, allocated)).is_ok()
}

/// What the program itself says that its allocator has given out.
pub(crate) fn allocated_as_named() -> Option<Option<i64>> {
    let (_, allocated) = ALLOCATOR.get()?;
    Some(allocated.map(|allocated| allocated()).filter(|bytes| *bytes >= 0))
}

thread_local! {
    /// Whether this thread asks reporters now: only then a measured block is a reported one.
    static IN_PASS: Cell<bool> = const { Cell::new(false) };
}

/// What the recorder has for us. All of it or nothing, because it is one object.
struct Recorder {
    report: ReportBlock,
    pass: ReportPass,
    on_mark: ReportOnMark,
}

type ReportBlock = unsafe extern "C" fn(*const c_void, u32) -> usize;
type ReportPass = unsafe extern "C" fn(u32);
type ReportOnMark = unsafe extern "C" fn(extern "C" fn()) -> u32;

/// The block is reported, and not only measured.
const REPORTED: u32 = 1;
/// The address lies somewhere in the block.
const INSIDE: u32 = 2;

fn recorder() -> Option<&'static Recorder> {
    static RECORDER: OnceLock<Option<Recorder>> = OnceLock::new();
    let find = || {
        let report = system::symbol(c"heaplab_report_block")?;
        let pass = system::symbol(c"heaplab_report_pass")?;
        let on_mark = system::symbol(c"heaplab_report_on_mark")?;
        // SAFETY: these are the recorder's functions of these names and types
        // (crates/preload/c/reports.c).
        unsafe {
            Some(Recorder {
                report: std::mem::transmute::<*mut c_void, ReportBlock>(report.as_ptr()),
                pass: std::mem::transmute::<*mut c_void, ReportPass>(pass.as_ptr()),
                on_mark: std::mem::transmute::<*mut c_void, ReportOnMark>(on_mark.as_ptr()),
            })
        }
    };
    RECORDER.get_or_init(find).as_ref()
}

/// Runs reporters: what they measure on this thread is reported.
pub(crate) fn pass(run: impl FnOnce()) {
    let is_outermost = !IN_PASS.replace(true);
    if let Some(recorder) = recorder().filter(|_| is_outermost) {
        // SAFETY: takes any number.
        unsafe { (recorder.pass)(1) };
    }
    run();
    if is_outermost {
        if let Some(recorder) = recorder() {
            // SAFETY: as above.
            unsafe { (recorder.pass)(0) };
        }
        IN_PASS.set(false);
    }
}

/// Under `record --dmd`: asks the reporters at each mark, and before the process exits.
pub(crate) fn watch_marks() {
    static WATCHES: OnceLock<()> = OnceLock::new();
    extern "C" fn ask() {
        drop(crate::collect());
    }
    WATCHES.get_or_init(|| {
        let Some(recorder) = recorder() else { return };
        // SAFETY: `ask` may be called from any thread, and never unwinds: reporters' panics are
        // caught.
        if unsafe { (recorder.on_mark)(ask) } != 0 {
            // SAFETY: the same.
            unsafe { libc::atexit(ask) };
        }
    });
}

/// The usable size of a block of `malloc`, or of the allocator that [`set_allocator`] named.
///
/// # Safety
/// `block` is one.
unsafe fn usable(block: *const c_void, flags: u32) -> usize {
    if let Some((usable, _)) = ALLOCATOR.get() {
        mark(block, flags);
        // SAFETY: the caller's promise, and set_allocator's.
        return unsafe { usable(block) };
    }
    match recorder() {
        // SAFETY: the caller's promise.
        Some(recorder) => unsafe { (recorder.report)(block, flags) },
        // SAFETY: the caller's promise.
        None => unsafe { libc::malloc_usable_size(block.cast_mut()) },
    }
}

/// As [`Measure::block`], reported within a reporter.
///
/// # Safety
/// As there.
#[cfg(feature = "c-interface")]
pub(crate) unsafe fn block(block: *const c_void) -> usize {
    let flags = if IN_PASS.get() { REPORTED } else { 0 };
    // SAFETY: the caller's promise.
    if block.is_null() { 0 } else { unsafe { usable(block, flags) } }
}

/// Marks an address as reported where the recorder wants it.
fn mark(inside: *const c_void, flags: u32) {
    if flags & REPORTED != 0
        && let Some(recorder) = recorder()
    {
        // SAFETY: with INSIDE the recorder reads nothing at the address.
        unsafe { (recorder.report)(inside, flags | INSIDE) };
    }
}

/// Whether usable sizes of the program's blocks can be asked.
pub(crate) fn has_usable_size() -> bool {
    ALLOCATOR.get().is_some() || rust_uses_malloc()
}

/// Whether blocks of Rust's collections are malloc's: an address that Rust gave back comes again
/// from malloc. Unknown allocators are not asked about blocks of others, which would be read as if
/// they were their own.
fn rust_uses_malloc() -> bool {
    static USES: OnceLock<bool> = OnceLock::new();
    const TRIES: usize = 512;
    *USES.get_or_init(|| {
        let layout = Layout::new::<[u64; 29]>();
        let (mut freed, mut kept) = (HashSet::new(), Vec::with_capacity(TRIES));
        let mut is_same = false;
        for _ in 0..TRIES {
            // SAFETY: the layout has a size, and the block is given back as it was asked for.
            unsafe {
                let block = std::alloc::alloc(layout);
                freed.insert(block as usize);
                std::alloc::dealloc(block, layout);
            }
            // SAFETY: any size may be asked for.
            let block = unsafe { libc::malloc(layout.size()) };
            kept.push(block);
            is_same = !block.is_null() && freed.contains(&(block as usize));
            if is_same {
                break;
            }
        }
        for block in kept {
            // SAFETY: malloc's, or null, and freed once.
            unsafe { libc::free(block) };
        }
        is_same
    })
}

/// One traversal: measures blocks, and knows which shared ones it has met.
#[derive(Debug)]
pub struct Measure {
    met: HashSet<usize>,
    flags: u32,
}

impl Default for Measure {
    fn default() -> Measure {
        Measure::new()
    }
}

impl Measure {
    /// Within a reporter: what is measured is reported. Elsewhere it is only measured.
    pub fn new() -> Measure {
        Measure { met: HashSet::new(), flags: if IN_PASS.get() { REPORTED } else { 0 } }
    }

    /// Measures without reporting: for [`crate::Kind::Other`], whose bytes others report.
    pub fn unreported() -> Measure {
        Measure { met: HashSet::new(), flags: 0 }
    }

    /// The usable bytes of a block; 0 for null.
    ///
    /// # Safety
    /// `block` is null or the start of a live block of `malloc`, or of the allocator that
    /// [`set_allocator`] named.
    pub unsafe fn block(&mut self, block: *const c_void) -> usize {
        if block.is_null() {
            return 0;
        }
        // SAFETY: the caller's promise.
        unsafe { usable(block, self.flags) }
    }

    /// A live block of Rust's allocator with `bytes` asked for, which stand in where usable sizes
    /// cannot be asked.
    pub(crate) fn rust_block(&mut self, block: *const u8, bytes: usize) -> usize {
        if bytes == 0 {
            0
        } else if has_usable_size() {
            // SAFETY: Rust's allocator is malloc, or the one that was named.
            unsafe { usable(block.cast(), self.flags) }
        } else {
            mark(block.cast(), self.flags);
            bytes
        }
    }

    /// A block whose start is not known: `inside` lies in it, and `bytes` is what the layout of the
    /// data says that was asked for.
    pub fn around(&mut self, inside: *const c_void, bytes: usize) -> usize {
        if bytes > 0 {
            mark(inside, self.flags);
        }
        bytes
    }

    /// Whether this address is met for the first time: what is shared counts once a traversal.
    pub fn first(&mut self, shared: *const c_void) -> bool {
        self.met.insert(shared as usize)
    }
}
