//! Measures bytes of blocks by one function. It asks the allocator for the usable size and, in a
//! process under `heaplab record --dmd`, marks the block as reported.
//!
//! The recorder's functions are symbols that exist only if it is preloaded. So nothing links
//! against them, and without the recorder a mark costs one load. The recorder's function returns
//! the usable size itself: a call of `malloc_usable_size` would make the recording say that the
//! program uses its slop.

use crate::{marks, system};
use std::alloc::Layout;
use std::cell::Cell;
use std::collections::HashSet;
use std::ffi::{CStr, c_char, c_void};
use std::sync::OnceLock;

/// The usable size of a block of the allocator; 0: unknown.
pub(crate) type Usable = unsafe extern "C" fn(*const c_void) -> usize;
/// Bytes of all blocks that the allocator has given out; negative: unknown.
pub(crate) type Allocated = extern "C" fn() -> i64;

static ALLOCATOR: OnceLock<(Usable, Option<Allocated>)> = OnceLock::new();

/// Names the program's allocator if that is not `malloc`: for a Rust program with another
/// `#[global_allocator]`, or a C program with a prefixed jemalloc. `usable` returns the usable size
/// of a block, `allocated` the bytes of all blocks (negative: unknown), the basis of
/// `heap-unclassified`. False: an allocator is already named.
///
/// # Safety
/// `usable` is right for every block that the program measures, on any thread.
pub unsafe fn set_allocator(
    usable: unsafe extern "C" fn(*const c_void) -> usize,
    allocated: Option<extern "C" fn() -> i64>,
) -> bool {
    ALLOCATOR.set((usable, allocated)).is_ok()
}

/// Bytes given out, by the named allocator's own account.
pub(crate) fn allocated_as_named() -> Option<Option<i64>> {
    let (_, allocated) = ALLOCATOR.get()?;
    Some(allocated.map(|allocated| allocated()).filter(|bytes| *bytes >= 0))
}

thread_local! {
    /// Whether this thread is asking reporters: only then a measured block counts as reported.
    static IN_PASS: Cell<bool> = const { Cell::new(false) };
}

/// The recorder's functions: all of them or none, because the recorder is one object.
struct Recorder {
    report: ReportBlock,
    pass: ReportPass,
    on_mark: ReportOnMark,
    mark: SetMark,
}

type ReportBlock = unsafe extern "C" fn(*const c_void, u32) -> usize;
type ReportPass = unsafe extern "C" fn(u32);
type ReportOnMark = unsafe extern "C" fn(extern "C" fn()) -> u32;
type SetMark = unsafe extern "C" fn(*const c_char);

/// A pass begins; the calling function itself runs the reporters and ends the pass, so that the
/// recorder need not look at the stack outside of it for each block.
const BEGINS: u32 = 1 | 2;
const ENDS: u32 = 0;

/// Report the block too; otherwise only measure it.
const REPORTED: u32 = 1;
/// The address may lie anywhere inside the block.
const INSIDE: u32 = 2;

fn recorder() -> Option<&'static Recorder> {
    static RECORDER: OnceLock<Option<Recorder>> = OnceLock::new();
    let find = || {
        let report = system::symbol(c"heaplab_report_block")?;
        let pass = system::symbol(c"heaplab_report_pass")?;
        let on_mark = system::symbol(c"heaplab_report_on_mark")?;
        let mark = system::symbol(c"heaplab_mark")?;
        // SAFETY: these are the recorder's functions of these names and types
        // (crates/preload/c/reports.c).
        unsafe {
            Some(Recorder {
                report: std::mem::transmute::<*mut c_void, ReportBlock>(report.as_ptr()),
                pass: std::mem::transmute::<*mut c_void, ReportPass>(pass.as_ptr()),
                on_mark: std::mem::transmute::<*mut c_void, ReportOnMark>(on_mark.as_ptr()),
                mark: std::mem::transmute::<*mut c_void, SetMark>(mark.as_ptr()),
            })
        }
    };
    RECORDER.get_or_init(find).as_ref()
}

/// Runs reporters: blocks that they measure on this thread count as reported.
pub(crate) fn pass(run: impl FnOnce()) {
    let is_outermost = !IN_PASS.replace(true);
    if let Some(recorder) = recorder().filter(|_| is_outermost) {
        // SAFETY: takes any number.
        unsafe { (recorder.pass)(BEGINS) };
    }
    run();
    if is_outermost {
        if let Some(recorder) = recorder() {
            // SAFETY: as above.
            unsafe { (recorder.pass)(ENDS) };
        }
        IN_PASS.set(false);
    }
}

/// Under `record --dmd`: asks the reporters at each mark, and before the process exits.
pub(crate) fn watch_marks() {
    static WATCHES: OnceLock<()> = OnceLock::new();
    extern "C" fn ask() {
        marks::recorder_asks();
    }
    extern "C" fn ask_at_exit() {
        marks::forget();
        ask();
    }
    WATCHES.get_or_init(|| {
        let Some(recorder) = recorder() else { return };
        // SAFETY: any thread may call `ask`, and `ask` never unwinds: reporters' panics are caught.
        if unsafe { (recorder.on_mark)(ask) } != 0 {
            // SAFETY: the same.
            unsafe { libc::atexit(ask_at_exit) };
        }
    });
}

/// Sets a mark in the recording, if there is one.
pub(crate) fn mark_recording(name: &CStr) {
    if let Some(recorder) = recorder() {
        // SAFETY: the name ends in a zero byte.
        unsafe { (recorder.mark)(name.as_ptr()) };
    }
}

/// The usable size of a block of `malloc`, or of the allocator that [`set_allocator`] named.
///
/// # Safety
/// `block` is a live block of this allocator.
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

/// [`Measure::block`] within a reporter, where it reports the block.
///
/// # Safety
/// As for [`Measure::block`].
#[cfg(feature = "c-interface")]
pub(crate) unsafe fn block(block: *const c_void) -> usize {
    let flags = if IN_PASS.get() { REPORTED } else { 0 };
    // SAFETY: the caller's promise.
    if block.is_null() { 0 } else { unsafe { usable(block, flags) } }
}

/// Marks an address as reported if the recorder wants it.
fn mark(inside: *const c_void, flags: u32) {
    if flags & REPORTED != 0
        && let Some(recorder) = recorder()
    {
        // SAFETY: with INSIDE the recorder reads nothing at the address.
        unsafe { (recorder.report)(inside, flags | INSIDE) };
    }
}

/// Whether the allocator tells usable sizes of the program's blocks.
pub(crate) fn has_usable_size() -> bool {
    ALLOCATOR.get().is_some() || rust_uses_malloc()
}

/// Whether blocks of Rust's collections are malloc's: malloc returns an address that Rust has just
/// freed. An unknown allocator is not asked about other allocators' blocks, because it would
/// misread them.
fn rust_uses_malloc() -> bool {
    static USES: OnceLock<bool> = OnceLock::new();
    const TRIES: usize = 512;
    *USES.get_or_init(|| {
        let layout = Layout::new::<[u64; 29]>();
        let (mut freed, mut kept) = (HashSet::new(), Vec::with_capacity(TRIES));
        let mut is_same = false;
        for _ in 0..TRIES {
            // SAFETY: the layout has a size, and the block is freed with the same layout.
            unsafe {
                let block = std::alloc::alloc(layout);
                freed.insert(block as usize);
                std::alloc::dealloc(block, layout);
            }
            // SAFETY: malloc takes any size.
            let block = unsafe { libc::malloc(layout.size()) };
            kept.push(block);
            is_same = !block.is_null() && freed.contains(&(block as usize));
            if is_same {
                break;
            }
        }
        for block in kept {
            // SAFETY: the block is malloc's or null, and is freed once.
            unsafe { libc::free(block) };
        }
        is_same
    })
}

/// One traversal: measures blocks, and remembers shared ones.
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
    /// Within a reporter measured blocks count as reported; elsewhere they are only measured.
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

    /// A live block of Rust's allocator. Without usable sizes the `bytes` requested for it stand
    /// in.
    pub(crate) fn rust_block(&mut self, block: *const u8, bytes: usize) -> usize {
        if bytes == 0 {
            0
        } else if has_usable_size() {
            // SAFETY: Rust's allocator is malloc or the named one.
            unsafe { usable(block.cast(), self.flags) }
        } else {
            mark(block.cast(), self.flags);
            bytes
        }
    }

    /// A block with an unknown start: `inside` lies in it, and `bytes` is the size requested for
    /// it, by the data's layout.
    pub fn around(&mut self, inside: *const c_void, bytes: usize) -> usize {
        if bytes > 0 {
            mark(inside, self.flags);
        }
        bytes
    }

    /// Whether this address is new: shared data counts once a traversal.
    pub fn first(&mut self, shared: *const c_void) -> bool {
        self.met.insert(shared as usize)
    }
}
