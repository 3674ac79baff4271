//! The tables against the allocators themselves: every size to 64 KiB, every class boundary and its
//! neighbours to 8 MiB.

use heaplab_size_class::Allocator;
use std::ffi::{CString, c_void};

const DENSE: u64 = 64 * 1024;
const TOP: u64 = 8 * 1024 * 1024;

/// Every size to 64 KiB, then each class boundary of any table with the sizes one below and one
/// above, and the same around pages and powers of two.
fn sizes() -> Vec<u64> {
    let boundaries = Allocator::ALL.into_iter().flat_map(|allocator| {
        allocator
            .classes()
            .map(|class| class.largest_request)
            .take_while(|size| *size <= TOP)
            .collect::<Vec<_>>()
    });
    let mut sizes: Vec<u64> =
        boundaries.flat_map(|size| [size - 1, size, size + 1]).chain(0..=DENSE).collect();
    sizes.sort_unstable();
    sizes.dedup();
    assert!(sizes.len() > 70_000, "the test must look at more than {} sizes", sizes.len());
    sizes
}

fn compare(allocator: Allocator, real: impl Fn(u64) -> u64) {
    let wrong: Vec<String> = sizes()
        .into_iter()
        .filter_map(|size| {
            let (ours, theirs) = (allocator.usable(size, 1), real(size));
            (ours != theirs).then(|| format!("{size}: the table says {ours}, the library {theirs}"))
        })
        .collect();
    assert!(
        wrong.is_empty(),
        "{}: {} sizes differ: {:#?}",
        allocator.name(),
        wrong.len(),
        &wrong[..wrong.len().min(20)]
    );
}

#[test]
fn jemalloc() {
    compare(Allocator::Jemalloc, |size| {
        // SAFETY: the block is freed once, with the library that gave it, after its size was read.
        unsafe {
            let block = tikv_jemalloc_sys::malloc(size as usize);
            let usable = tikv_jemalloc_sys::malloc_usable_size(block);
            tikv_jemalloc_sys::free(block);
            if size > 0 {
                assert_eq!(tikv_jemalloc_sys::nallocx(size as usize, 0), usable, "nallocx({size})");
            }
            usable as u64
        }
    });
}

#[test]
fn jemalloc_aligned() {
    for align_log2 in 0..=16u32 {
        for size in (1..=20_000u64).step_by(7).chain([65_536, 65_537, 1 << 20, (1 << 20) + 1]) {
            // SAFETY: nallocx takes any size over 0 and any alignment; it allocates nothing.
            let real =
                unsafe { tikv_jemalloc_sys::nallocx(size as usize, align_log2 as i32) } as u64;
            assert_eq!(
                Allocator::Jemalloc.usable(size, 1 << align_log2),
                real,
                "size {size}, alignment {}",
                1 << align_log2
            );
        }
    }
}

#[test]
fn mimalloc() {
    compare(Allocator::Mimalloc, |size| {
        // SAFETY: the block is freed once, with the library that gave it, after its size was read.
        unsafe {
            let block = libmimalloc_sys::mi_malloc(size as usize);
            let usable = libmimalloc_sys::mi_usable_size(block);
            libmimalloc_sys::mi_free(block);
            usable as u64
        }
    });
}

/// `malloc`, `malloc_usable_size` and `free` of a shared library; `None` if it is not installed.
struct Shared {
    malloc: unsafe extern "C" fn(usize) -> *mut c_void,
    usable: unsafe extern "C" fn(*mut c_void) -> usize,
    free: unsafe extern "C" fn(*mut c_void),
}

impl Shared {
    fn open(file: &str, prefix: &str) -> Option<Shared> {
        let symbol = |handle: *mut c_void, name: &str| {
            let name = CString::new(name).unwrap();
            // SAFETY: the handle is open and the name ends with a zero byte.
            let address = unsafe { libc::dlsym(handle, name.as_ptr()) };
            assert!(!address.is_null(), "{file} has no {name:?}");
            address
        };
        let path = CString::new(file).unwrap();
        // SAFETY: the path ends with a zero byte; allocators' constructors have no other effect on
        // this process with RTLD_LOCAL.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if handle.is_null() {
            heaplab_oracle::skip(format_args!("{file} is not installed"));
            return None;
        }
        // SAFETY: the three symbols have the types that malloc, malloc_usable_size and free have
        // everywhere.
        unsafe {
            Some(Shared {
                malloc: std::mem::transmute::<
                    *mut c_void,
                    unsafe extern "C" fn(usize) -> *mut c_void,
                >(symbol(handle, &format!("{prefix}malloc"))),
                usable: std::mem::transmute::<
                    *mut c_void,
                    unsafe extern "C" fn(*mut c_void) -> usize,
                >(symbol(handle, &format!("{prefix}malloc_usable_size"))),
                free: std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut c_void)>(
                    symbol(handle, &format!("{prefix}free")),
                ),
            })
        }
    }

    fn usable(&self, size: u64) -> u64 {
        // SAFETY: the block is freed once, with the library that gave it, after its size was read.
        unsafe {
            let block = (self.malloc)(size as usize);
            let usable = (self.usable)(block);
            (self.free)(block);
            usable as u64
        }
    }
}

/// Runs the test of this name in a fresh process with room for the libraries' thread-local
/// variables: glibc keeps 1,664 bytes for libraries opened late, and two allocators need more.
/// Returns true in the process that only waits for the other.
fn elsewhere(test: &str) -> bool {
    const TUNABLES: &str = "GLIBC_TUNABLES";
    const ROOM: &str = "glibc.rtld.optional_static_tls=65536";
    if std::env::var(TUNABLES).is_ok_and(|set| set == ROOM) {
        return false;
    }
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    let status = child.args([test, "--exact", "--nocapture"]).env(TUNABLES, ROOM).status().unwrap();
    assert!(status.success(), "{test} failed in a process of its own");
    true
}

#[test]
fn jemalloc_5_3_0() {
    if elsewhere("jemalloc_5_3_0") {
        return;
    }
    if let Some(library) = Shared::open("libjemalloc.so.2", "") {
        // Newer systems use the same file name for 5.3.1, which has another table.
        if library.usable(32 * 1024 + 1) == Allocator::Jemalloc.usable(32 * 1024 + 1, 1) {
            eprintln!("jemalloc here is 5.3.1 or later");
            return compare(Allocator::Jemalloc, |size| library.usable(size));
        }
        compare(Allocator::Jemalloc530, |size| library.usable(size));
    }
}

#[test]
fn mimalloc_2_0() {
    if elsewhere("mimalloc_2_0") {
        return;
    }
    if let Some(library) = Shared::open("libmimalloc.so.2.0", "mi_") {
        compare(Allocator::Mimalloc2, |size| library.usable(size));
    }
}

#[test]
fn glibc_gives_the_table_or_more() {
    let sizes = sizes();
    for threshold in [32 << 20, 128 << 10] {
        glibc_from(threshold, &sizes);
    }
}

/// Makes glibc map chunks of `threshold` bytes and more.
fn glibc_from(threshold: i32, sizes: &[u64]) {
    // SAFETY: these parameters may be set at any time. They fix the threshold and leave no free
    // memory at the top; a request over the threshold would use that memory instead of a mapping.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, threshold);
        libc::mallopt(libc::M_TRIM_THRESHOLD, 0);
        libc::mallopt(libc::M_TOP_PAD, 0);
    }
    let mut exact = 0;
    for &size in sizes {
        // SAFETY: the block is freed once, with the library that gave it, after its size was read.
        let usable = unsafe {
            let block = libc::malloc(size as usize);
            let usable = libc::malloc_usable_size(block);
            libc::free(block);
            usable as u64
        };
        let table = Allocator::Glibc.usable(size, 1);
        let mapped = size + 24 > threshold as u64;
        // A block may be larger if a split would leave too little for a chunk.
        assert!(usable >= table, "{size}: the table says {table}, the library {usable}");
        exact += usize::from(usable == table || mapped);
    }
    assert!(exact * 100 > sizes.len() * 95, "only {exact} of {} sizes agree exactly", sizes.len());
}
