//! The functions of `include/elastic.h`, for a static library that C links. The header documents
//! each.
//!
//! An `elastic_arena *` is a handle in a box of its own, because C copies the pointer, and a handle
//! changes when its arena first allocates. Pointers that the header requires are trusted; a null
//! has a meaning where the header allows one. An error that debugging aids find is a panic, which
//! in C ends the process with its message.

use crate::{
    Arena, ArenaStatistics, CommitLimit, Debug, Error, Growth, Options, Reclaim, Report, Space,
    UncommitTimes,
};
use allocator_api2::alloc::Allocator;
use std::alloc::Layout;
use std::ffi::{c_char, c_int, c_void};
use std::io::Write;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::time::Duration;

/// `ELASTIC_OPTIONS`.
const OPTIONS: c_int = 5;

/// `elastic_status`.
fn status(error: &Error) -> c_int {
    match error {
        Error::LimitReached { .. } => 1,
        Error::AddressSpace { .. } => 2,
        Error::Layout { .. } => 3,
        Error::System(_) | Error::Thread(_) | Error::Fork(_) => 4,
        Error::Options { .. } => OPTIONS,
    }
}

const MESSAGES: [&std::ffi::CStr; 6] = [
    c"done",
    c"the commit limit is reached: free arenas, trim the space, or raise the limit",
    c"the reserved address space is used up: reserve more when the space is made",
    c"no space can serve a block of this size and alignment",
    c"the kernel refused to reserve or commit memory, or to start a thread",
    c"options or chunk sizes that no space or arena can have",
];

/// `elastic_options`; zero means the default.
#[repr(C)]
pub struct COptions {
    reserve_bytes: usize,
    root_bytes: usize,
    granule_bytes: usize,
    limit_bytes: usize,
    keep_bytes: usize,
    interval_ms: u32,
    reclaim: c_int,
    huge_pages: c_int,
    debug: u32,
}

/// `elastic_arena_statistics`.
#[repr(C)]
pub struct CStatistics {
    chunks: usize,
    owned_bytes: usize,
    committed_bytes: usize,
    used_bytes: usize,
    free_bytes: usize,
    deallocated_bytes: usize,
    deallocated_blocks: usize,
    overhead_bytes: usize,
}

impl From<ArenaStatistics> for CStatistics {
    fn from(found: ArenaStatistics) -> CStatistics {
        let ArenaStatistics {
            chunks,
            owned_bytes,
            committed_bytes,
            used_bytes,
            free_bytes,
            deallocated_bytes,
            deallocated_blocks,
            overhead_bytes,
        } = found;
        CStatistics {
            chunks,
            owned_bytes,
            committed_bytes,
            used_bytes,
            free_bytes,
            deallocated_bytes,
            deallocated_blocks,
            overhead_bytes,
        }
    }
}

/// `elastic_space_usage`.
#[repr(C)]
pub struct CUsage {
    reserved_bytes: usize,
    committed_bytes: usize,
    resident_bytes: usize,
    mappings: usize,
    arenas: usize,
    in_arenas_bytes: usize,
    free_lines_bytes: usize,
    idle_bytes: usize,
    table_bytes: usize,
    commits: u64,
    uncommits: u64,
    uncommitted_bytes: u64,
    mmap_calls: u64,
    mprotect_calls: u64,
    madvise_calls: u64,
    at_return_ns: u64,
    at_trim_ns: u64,
    background_ns: u64,
    for_room_ns: u64,
    longest_ns: u64,
    asked_arenas: usize,
    not_asked_bytes: usize,
    asked: CStatistics,
}

/// Nothing where the options have a value that has no meaning.
fn options(given: &COptions) -> Option<Options> {
    let or = |value: usize, default: usize| if value == 0 { default } else { value };
    let defaults = Options::default();
    let keep_bytes = given.keep_bytes;
    let reclaim = match given.reclaim {
        0 => defaults.reclaim,
        1 => Reclaim::AtReturn { keep_bytes },
        2 => Reclaim::AtTrim,
        3 => Reclaim::Background {
            interval: Duration::from_millis(given.interval_ms.max(1).into()),
            keep_bytes,
        },
        _ => return None,
    };
    let debug = |bit: u32| given.debug >> bit & 1 == 1;
    if given.debug >> 4 != 0 || !(0..=1).contains(&given.huge_pages) {
        return None;
    }
    Some(Options {
        reserve_bytes: or(given.reserve_bytes, defaults.reserve_bytes),
        root_bytes: or(given.root_bytes, defaults.root_bytes),
        granule_bytes: or(given.granule_bytes, defaults.granule_bytes),
        // A limit always exists, so that it can be changed.
        limit: Some(Arc::new(CommitLimit::new(or(given.limit_bytes, usize::MAX)))),
        reclaim,
        huge_pages: given.huge_pages == 1,
        debug: Debug {
            canaries: debug(0),
            guard_pages: debug(1),
            poison: debug(2),
            no_reuse: debug(3),
        },
        ..defaults
    })
}

const DEFAULTS: COptions = COptions {
    reserve_bytes: 0,
    root_bytes: 0,
    granule_bytes: 0,
    limit_bytes: 0,
    keep_bytes: 0,
    interval_ms: 0,
    reclaim: 0,
    huge_pages: 0,
    debug: 0,
};

/// Writes like `snprintf`: cut to `capacity`, terminated. Returns the length of the whole text.
///
/// # Safety
/// `text` has `capacity` bytes.
unsafe fn write_text(text: *mut c_char, capacity: usize, message: &str) -> usize {
    if capacity > 0 {
        // SAFETY: as the caller promises.
        let mut place = unsafe { std::slice::from_raw_parts_mut(text.cast::<u8>(), capacity) };
        let fits = message.len().min(capacity - 1);
        // A slice takes only the part that fits; here everything fits.
        let _ = place.write_all(&message.as_bytes()[..fits]);
        place[0] = 0;
    }
    message.len()
}

/// Runs with an arena that stays its owner's.
///
/// # Safety
/// `arena` came from `elastic_arena_new`, lives, and no other thread uses it.
unsafe fn with<R>(arena: NonNull<c_void>, run: impl FnOnce(&mut Arena) -> R) -> R {
    // SAFETY: `elastic_arena_new` made the box; the caller promises that nobody else uses the
    // handle.
    run(unsafe { arena.cast().as_mut() })
}

/// # Safety
/// `given` is null or points to options; `space` is where to write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn elastic_space_new(
    given: *const COptions,
    space: *mut *mut Space,
) -> c_int {
    // SAFETY: as the caller promises.
    let Some(options) = options(unsafe { given.as_ref() }.unwrap_or(&DEFAULTS)) else {
        return OPTIONS;
    };
    match Space::new(options) {
        Ok(made) => {
            // SAFETY: as the caller promises.
            unsafe { space.write(Box::into_raw(Box::new(made))) };
            0
        }
        Err(error) => status(&error),
    }
}

/// # Safety
/// `space` is null or came from `elastic_space_new`, and is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn elastic_space_free(space: *mut Space) {
    if !space.is_null() {
        // SAFETY: it came from a Box.
        drop(unsafe { Box::from_raw(space) });
    }
}

/// # Safety
/// `space` lives; `bytes` is null or where to write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn elastic_space_trim(space: *const Space, bytes: *mut usize) -> c_int {
    // SAFETY: as the caller promises.
    match unsafe { &*space }.trim() {
        Ok(returned) => {
            if !bytes.is_null() {
                // SAFETY: as the caller promises.
                unsafe { bytes.write(returned) };
            }
            0
        }
        Err(error) => status(&error),
    }
}

/// # Safety
/// `space` lives.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn elastic_space_committed_bytes(space: *const Space) -> usize {
    // SAFETY: as the caller promises.
    unsafe { &*space }.committed_bytes()
}

/// # Safety
/// `space` lives.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn elastic_space_set_limit(space: *const Space, limit_bytes: usize) {
    // SAFETY: as the caller promises.
    if let Some(limit) = &unsafe { &*space }.options().limit {
        limit.set_limit_bytes(if limit_bytes == 0 { usize::MAX } else { limit_bytes });
    }
}

/// # Safety
/// `space` lives; `text` has `capacity` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn elastic_space_report(
    space: *const Space,
    text: *mut c_char,
    capacity: usize,
) -> usize {
    // SAFETY: as the caller promises.
    let report = unsafe { &*space }
        .report()
        .map_or_else(|error| error.to_string(), |report| report.to_string());
    // SAFETY: as the caller promises.
    unsafe { write_text(text, capacity, &report) }
}

/// The space's report, with the use that `count` arenas make of their chunks.
///
/// # Safety
/// `arenas` has `count` arenas that came from `elastic_arena_new`, live, and are used by this
/// thread alone; or `count` is 0.
unsafe fn report_with(
    space: &Space,
    arenas: *const NonNull<c_void>,
    count: usize,
) -> Result<Report, Error> {
    if count == 0 {
        return space.report();
    }
    // SAFETY: as the caller promises.
    let arenas = unsafe { std::slice::from_raw_parts(arenas, count) };
    // SAFETY: `elastic_arena_new` made each box, and nobody else uses it meanwhile.
    space.report_with(arenas.iter().map(|arena| unsafe { arena.cast().as_ref() }))
}

/// # Safety
/// `space` lives; `text` has `capacity` bytes; as for [`report_with`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn elastic_space_report_with(
    space: *const Space,
    arenas: *const NonNull<c_void>,
    count: usize,
    text: *mut c_char,
    capacity: usize,
) -> usize {
    // SAFETY: as the caller promises.
    let report = unsafe { report_with(&*space, arenas, count) }
        .map_or_else(|error| error.to_string(), |report| report.to_string());
    // SAFETY: as the caller promises.
    unsafe { write_text(text, capacity, &report) }
}

/// # Safety
/// `space` lives; `usage` is where to write; as for [`report_with`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn elastic_space_usage(
    space: *const Space,
    arenas: *const NonNull<c_void>,
    count: usize,
    usage: *mut CUsage,
) -> c_int {
    // SAFETY: as the caller promises.
    let report = match unsafe { report_with(&*space, arenas, count) } {
        Ok(report) => report,
        Err(error) => return status(&error),
    };
    let UncommitTimes { at_return_ns, at_trim_ns, background_ns, for_room_ns, longest_ns } =
        report.uncommit_times;
    // SAFETY: as the caller promises.
    unsafe {
        usage.write(CUsage {
            reserved_bytes: report.reserved_bytes,
            committed_bytes: report.committed_bytes,
            resident_bytes: report.resident_bytes,
            mappings: report.mappings,
            arenas: report.arenas,
            in_arenas_bytes: report.in_arenas_bytes(),
            free_lines_bytes: report.shared_free_bytes,
            idle_bytes: report.idle_bytes,
            table_bytes: report.table_bytes,
            commits: report.commits,
            uncommits: report.uncommits,
            uncommitted_bytes: report.uncommitted_bytes,
            mmap_calls: report.system_calls.mmap,
            mprotect_calls: report.system_calls.mprotect,
            madvise_calls: report.system_calls.madvise(),
            at_return_ns,
            at_trim_ns,
            background_ns,
            for_room_ns,
            longest_ns,
            asked_arenas: report.asked_arenas,
            not_asked_bytes: report.not_asked_bytes(),
            asked: report.asked.into(),
        });
    }
    0
}

/// # Safety
/// `space` lives; `sizes` has `count` sizes, or is null; `arena` is where to write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn elastic_arena_new(
    space: *const Space,
    sizes: *const usize,
    count: usize,
    arena: *mut *mut c_void,
) -> c_int {
    let growth = match count {
        0 => Growth::default(),
        1..=8 if !sizes.is_null() => {
            // SAFETY: as the caller promises.
            Growth::new(unsafe { std::slice::from_raw_parts(sizes, count) })
        }
        _ => return OPTIONS,
    };
    // SAFETY: as the caller promises.
    match unsafe { &*space }.arena(growth) {
        Ok(made) => {
            // SAFETY: as the caller promises.
            unsafe { arena.write(Box::into_raw(Box::new(made)).cast()) };
            0
        }
        Err(error) => status(&error),
    }
}

/// # Safety
/// `arena` is null or came from `elastic_arena_new`, and neither it nor its blocks are used
/// afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn elastic_arena_free(arena: *mut c_void) {
    if let Some(arena) = NonNull::new(arena) {
        // SAFETY: as the caller promises.
        drop(unsafe { Box::from_raw(arena.cast::<Arena>().as_ptr()) });
    }
}

/// # Safety
/// `arena` came from `elastic_arena_new`; none of its blocks is used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn elastic_arena_reset(arena: NonNull<c_void>) {
    // SAFETY: as the caller promises.
    unsafe { with(arena, Arena::reset) };
}

/// # Safety
/// `arena` came from `elastic_arena_new` and is used by this thread alone; `statistics` is where to
/// write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn elastic_arena_statistics(
    arena: NonNull<c_void>,
    statistics: *mut CStatistics,
) {
    // SAFETY: as the caller promises.
    let found = unsafe { with(arena, |arena| arena.statistics()) };
    // SAFETY: as the caller promises.
    unsafe { statistics.write(found.into()) };
}

/// # Safety
/// `arena` came from `elastic_arena_new` and is used by this thread alone; `text` has `capacity`
/// bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn elastic_arena_check(
    arena: NonNull<c_void>,
    text: *mut c_char,
    capacity: usize,
) -> usize {
    // SAFETY: as the caller promises.
    match unsafe { with(arena, |arena| arena.check()) } {
        Ok(()) => 0,
        // SAFETY: as above.
        Err(overwritten) => unsafe { write_text(text, capacity, &overwritten.to_string()) },
    }
}

/// # Safety
/// `arena` came from `elastic_arena_new` and is used by this thread alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn elastic_allocate(
    arena: NonNull<c_void>,
    bytes: usize,
    align: usize,
) -> *mut c_void {
    let mut block = ptr::null_mut();
    // SAFETY: as the caller promises.
    unsafe { elastic_try_allocate(arena, bytes, align, &mut block) };
    block
}

/// # Safety
/// As for `elastic_allocate`; `block` is where to write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn elastic_try_allocate(
    arena: NonNull<c_void>,
    bytes: usize,
    align: usize,
    block: *mut *mut c_void,
) -> c_int {
    let Ok(layout) = Layout::from_size_align(bytes, if align == 0 { 16 } else { align }) else {
        return 3;
    };
    // SAFETY: as the caller promises.
    match unsafe { with(arena, |arena| arena.allocate(layout)) } {
        Ok(made) => {
            // SAFETY: as the caller promises.
            unsafe { block.write(made.as_ptr().cast()) };
            0
        }
        Err(error) => status(&error),
    }
}

/// # Safety
/// `block` is null or a live block of the arena with this size, and the caller does not use it
/// afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn elastic_deallocate(
    arena: NonNull<c_void>,
    block: *mut c_void,
    bytes: usize,
) {
    if let Some(block) = NonNull::new(block.cast())
        && let Ok(layout) = Layout::from_size_align(bytes, 1)
    {
        // SAFETY: as the caller promises; of a layout only the size matters here.
        unsafe { with(arena, |arena| arena.deallocate(block, layout)) };
    }
}

/// # Safety
/// `block` is null or a live block of the arena with `old_bytes` and this alignment. If another
/// block is returned, the caller does not use the old one afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn elastic_reallocate(
    arena: NonNull<c_void>,
    block: *mut c_void,
    old_bytes: usize,
    new_bytes: usize,
    align: usize,
) -> *mut c_void {
    let align = if align == 0 { 16 } else { align };
    let Some(block) = NonNull::new(block.cast::<u8>()) else {
        // SAFETY: as the caller promises.
        return unsafe { elastic_allocate(arena, new_bytes, align) };
    };
    let (Ok(old), Ok(new)) =
        (Layout::from_size_align(old_bytes, align), Layout::from_size_align(new_bytes, align))
    else {
        return ptr::null_mut();
    };
    let resize = |arena: &mut Arena| {
        let arena = &*arena;
        // SAFETY: as the caller promises.
        unsafe {
            if new_bytes < old_bytes {
                (&arena).shrink(block, old, new)
            } else {
                (&arena).grow(block, old, new)
            }
        }
    };
    // SAFETY: as the caller promises.
    unsafe { with(arena, resize) }.map_or(ptr::null_mut(), |moved| moved.as_ptr().cast())
}

/// The message of a status; of a number that is none, that of the options.
#[unsafe(no_mangle)]
pub extern "C" fn elastic_message(status: c_int) -> *const c_char {
    MESSAGES[usize::try_from(status).unwrap_or(usize::MAX).min(MESSAGES.len() - 1)].as_ptr()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_is_passed_on() {
        let keep_bytes = 5;
        let given = COptions {
            reserve_bytes: 1,
            root_bytes: 2,
            granule_bytes: 3,
            limit_bytes: 4,
            keep_bytes,
            interval_ms: 6,
            reclaim: 3,
            huge_pages: 1,
            debug: 0b0101,
        };
        let made = options(&given).unwrap();
        assert_eq!(
            (made.reserve_bytes, made.root_bytes, made.granule_bytes, made.huge_pages),
            (1, 2, 3, true)
        );
        assert_eq!(made.limit.map(|limit| limit.limit_bytes()), Some(4));
        assert_eq!(
            made.reclaim,
            Reclaim::Background { interval: Duration::from_millis(6), keep_bytes }
        );
        assert_eq!(made.debug, Debug { canaries: true, poison: true, ..Debug::default() });
        let debug = options(&COptions { debug: 0b1010, ..DEFAULTS }).unwrap().debug;
        assert_eq!(debug, Debug { guard_pages: true, no_reuse: true, ..Debug::default() });
        let (defaults, expected) = (options(&DEFAULTS).unwrap(), Options::default());
        assert_eq!(
            (defaults.reserve_bytes, defaults.root_bytes, defaults.granule_bytes),
            (64 << 30, expected.root_bytes, expected.granule_bytes)
        );
        assert_eq!(
            (defaults.reclaim, defaults.huge_pages, defaults.debug),
            (expected.reclaim, false, Debug::default())
        );
        assert_eq!(defaults.limit.map(|limit| limit.limit_bytes()), Some(usize::MAX));
    }
}
