//! The system's and the allocator's figures for the process: `resident`, `resident-unique` (by
//! which about:memory adds up processes), `vsize`, `heap-allocated`, `heap-committed`.
//!
//! glibc's `heap-allocated` is `mallinfo2`: blocks with their heads (8 bytes each), and freed
//! blocks that threads keep in their caches. jemalloc's is `stats.allocated`. Other allocators are
//! not asked: without `heap-allocated` there is no `heap-unclassified`.

use crate::measure;
use crate::registry::{Kind, Sink, Units};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::{self, NonNull};
use std::sync::OnceLock;

/// Adds the known figures.
pub(crate) fn report(sink: &mut Sink) {
    let mut other = |path: &str, bytes: u64, description: &str| {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        sink.add(path, Kind::Other, Units::Bytes, bytes, description);
    };
    if let Some((allocated, committed)) = heap() {
        other(
            "heap-allocated",
            allocated,
            "Memory that the allocator has given to the program and not got back.",
        );
        if let Some(committed) = committed {
            other(
                "heap-committed",
                committed,
                "Memory that the allocator has from the system, given out or free.",
            );
        }
    }
    if let Some((size, resident)) = statm() {
        other("resident", resident, "Memory of the process that is in RAM, shared pages included.");
        if let Some(unique) = unique() {
            other("resident-unique", unique, "Memory in RAM that no other process shares.");
        }
        other("vsize", size, "Address space that the process has mapped.");
    }
}

/// Bytes of the process's mappings, and those resident.
fn statm() -> Option<(u64, u64)> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let mut pages = text.split(' ').map(str::parse::<u64>);
    // SAFETY: asks a number.
    let page = u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).ok()?;
    Some((pages.next()?.ok()? * page, pages.next()?.ok()? * page))
}

/// Bytes resident that are the process's alone; a kernel before 4.14 does not tell.
fn unique() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup").ok()?;
    Some(private(&text))
}

/// The private bytes of a `smaps_rollup`. Huge pages of the kernel's pool are no resident memory.
fn private(text: &str) -> u64 {
    let kibibytes = |line: &str| {
        let amount =
            ["Private_Clean:", "Private_Dirty:"].iter().find_map(|of| line.strip_prefix(of));
        amount.and_then(|amount| amount.trim().strip_suffix(" kB")?.parse::<u64>().ok())
    };
    text.lines().filter_map(kibibytes).sum::<u64>() << 10
}

/// Bytes allocated, and bytes committed if the allocator tells.
fn heap() -> Option<(u64, Option<u64>)> {
    if let Some(named) = measure::allocated_as_named() {
        return named.and_then(|bytes| u64::try_from(bytes).ok()).map(|bytes| (bytes, None));
    }
    if let Some(mallctl) = allocators_own(c"mallctl") {
        return jemalloc(mallctl);
    }
    glibc().map(|heap| (heap.uordblks + heap.hblkhd, Some(heap.arena + heap.hblkhd)))
}

/// glibc's `struct mallinfo2`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Mallinfo2 {
    arena: u64,
    _unused: [u64; 3],
    hblkhd: u64,
    _more: [u64; 2],
    uordblks: u64,
    _rest: [u64; 2],
}

fn glibc() -> Option<Mallinfo2> {
    let mallinfo2 = allocators_own(c"mallinfo2")?;
    // SAFETY: glibc's function of this name has this type, and ten words of `size_t`.
    let mallinfo2: extern "C" fn() -> Mallinfo2 =
        unsafe { std::mem::transmute(mallinfo2.as_ptr()) };
    Some(mallinfo2())
}

fn jemalloc(mallctl: NonNull<c_void>) -> Option<(u64, Option<u64>)> {
    type Mallctl =
        unsafe extern "C" fn(*const c_char, *mut c_void, *mut usize, *mut c_void, usize) -> c_int;
    // SAFETY: jemalloc's function of this name has this type.
    let mallctl: Mallctl = unsafe { std::mem::transmute(mallctl.as_ptr()) };
    let ask = |name: &CStr| {
        let (mut bytes, mut length) = (0_usize, size_of::<usize>());
        let to = ptr::from_mut(&mut bytes).cast();
        // SAFETY: the value is a size, and there is room for it.
        let failed = unsafe { mallctl(name.as_ptr(), to, &mut length, ptr::null_mut(), 0) };
        (failed == 0).then_some(bytes as u64)
    };
    let mut epoch = 1_u64;
    let from = ptr::from_mut(&mut epoch).cast();
    // SAFETY: `epoch` takes 64 bits; writing any brings the counts up to date.
    unsafe { mallctl(c"epoch".as_ptr(), ptr::null_mut(), ptr::null_mut(), from, size_of::<u64>()) };
    Some((ask(c"stats.allocated")?, ask(c"stats.active")))
}

/// Gives glibc's free memory back to the system. Other allocators do so by themselves.
pub(crate) fn trim() {
    if let Some(trim) = allocators_own(c"malloc_trim") {
        // SAFETY: glibc's function of this name has this type.
        let trim: extern "C" fn(usize) -> c_int = unsafe { std::mem::transmute(trim.as_ptr()) };
        trim(0);
    }
}

/// A symbol of the process.
pub(crate) fn symbol(name: &CStr) -> Option<NonNull<c_void>> {
    // SAFETY: the name ends in a zero byte.
    NonNull::new(unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) })
}

/// A function of the object that holds the process's `malloc`: another allocator's figures do not
/// cover its blocks.
fn allocators_own(name: &CStr) -> Option<NonNull<c_void>> {
    static ALLOCATOR: OnceLock<Option<usize>> = OnceLock::new();
    let allocator = *ALLOCATOR.get_or_init(|| {
        // Under `heaplab record`, malloc is the recorder's, which knows the allocator behind it.
        let behind = symbol(c"heaplab_report_allocator").map(|function| {
            // SAFETY: the recorder's function of this name has this type.
            let function: extern "C" fn() -> *mut c_void =
                unsafe { std::mem::transmute(function.as_ptr()) };
            function()
        });
        object_of(behind.and_then(NonNull::new).or_else(|| symbol(c"malloc"))?)
    });
    let function = symbol(name)?;
    (object_of(function)? == allocator?).then_some(function)
}

/// Start of the object that contains an address.
fn object_of(address: NonNull<c_void>) -> Option<usize> {
    // SAFETY: a struct of pointers, which dladdr fills.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: dladdr takes any address.
    let found = unsafe { libc::dladdr(address.as_ptr(), &mut info) };
    (found != 0).then_some(info.dli_fbase as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_pages_are_added_up() {
        let text = "5581-7ffc [rollup]\nRss:  6536 kB\nShared_Clean:  2208 kB\n\
                    Private_Clean:   12 kB\nPrivate_Dirty:  4096 kB\nPrivate_Hugetlb:  2048 kB\n";
        assert_eq!(private(text), 4108 << 10);
    }

    #[test]
    fn unique_memory_is_resident() {
        let (_, resident) = statm().unwrap();
        let unique = unique().expect("a kernel since 4.14");
        assert!(unique > 0 && unique <= resident + (1 << 20), "{unique} of {resident}");
    }
}
