//! Any allocator in a shared library, loaded beside the process's own.
//!
//! `dlopen` with `RTLD_LOCAL` keeps the library's `malloc` from replacing the process's, and
//! `RTLD_DEEPBIND` makes the library's own calls find its own functions. (`dlmopen` would load a
//! second C library as well; that one's malloc, locks and thread storage do not know this process.)
//! A library without a `malloc` would silently give the one of the C library it depends on; so
//! every function is checked for the file that holds it.

use crate::Malloc;
use heaplab_heap::Footprint;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Why a library cannot serve as a heap.
#[derive(Debug, thiserror::Error)]
pub enum LibraryError {
    /// The loader cannot take the path.
    #[error("{}: a path with a zero byte", .0.display())]
    Path(PathBuf),
    /// The loader refused.
    #[error("{}: cannot be loaded: {reason}", path.display())]
    Load {
        /// The library.
        path: PathBuf,
        /// The loader's message.
        reason: String,
    },
    /// A function is missing, or another library's.
    #[error("{}: has no {function} of its own{}; a heap needs malloc, calloc, realloc, free, malloc_usable_size and posix_memalign",
        path.display(), found.as_ref().map(|file| format!(" (it would use that of {file})")).unwrap_or_default())]
    Function {
        /// The library.
        path: PathBuf,
        /// The function.
        function: &'static str,
        /// The file that has it instead.
        found: Option<String>,
    },
}

/// The functions of a loaded library; the library is never unloaded.
#[derive(Clone, Copy, Debug)]
pub struct Library {
    malloc: unsafe extern "C" fn(usize) -> *mut c_void,
    calloc: unsafe extern "C" fn(usize, usize) -> *mut c_void,
    realloc: unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void,
    free: unsafe extern "C" fn(*mut c_void),
    posix_memalign: unsafe extern "C" fn(*mut *mut c_void, usize, usize) -> c_int,
    usable_size: unsafe extern "C" fn(*mut c_void) -> usize,
    name: &'static str,
}

impl Library {
    /// Loads the library at `path`.
    pub fn load(path: &Path) -> Result<Library, LibraryError> {
        let c_path = CString::new(path.as_os_str().as_bytes())
            .map_err(|_| LibraryError::Path(path.into()))?;
        // SAFETY: the path ends with a zero. The library's constructors run, as the user asked by
        // naming it.
        let handle = unsafe {
            libc::dlopen(c_path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL | libc::RTLD_DEEPBIND)
        };
        if handle.is_null() {
            // SAFETY: after a failed dlopen it returns a string that is valid until the next call.
            let reason = unsafe { CStr::from_ptr(libc::dlerror()) }.to_string_lossy().into_owned();
            return Err(LibraryError::Load { path: path.into(), reason });
        }
        let find = |name| own_function(handle, path, name);
        // SAFETY: functions with these names have these types in every C allocator; the code checks
        // that they are the library's own.
        unsafe {
            Ok(Library {
                malloc: std::mem::transmute::<
                    *mut c_void,
                    unsafe extern "C" fn(usize) -> *mut c_void,
                >(find(c"malloc")?),
                calloc: std::mem::transmute::<
                    *mut c_void,
                    unsafe extern "C" fn(usize, usize) -> *mut c_void,
                >(find(c"calloc")?),
                realloc: std::mem::transmute::<
                    *mut c_void,
                    unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void,
                >(find(c"realloc")?),
                free: std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut c_void)>(find(
                    c"free",
                )?),
                posix_memalign: std::mem::transmute::<
                    *mut c_void,
                    unsafe extern "C" fn(*mut *mut c_void, usize, usize) -> c_int,
                >(find(c"posix_memalign")?),
                usable_size: std::mem::transmute::<
                    *mut c_void,
                    unsafe extern "C" fn(*mut c_void) -> usize,
                >(find(c"malloc_usable_size")?),
                name: String::leak(path.display().to_string()),
            })
        }
    }
}

/// The address of the function `name`, if it lies in the library itself and not in one it depends
/// on.
fn own_function(
    handle: *mut c_void,
    path: &Path,
    name: &'static CStr,
) -> Result<*mut c_void, LibraryError> {
    let missing = |found| LibraryError::Function {
        path: path.into(),
        function: name.to_str().unwrap_or("?"),
        found,
    };
    // SAFETY: the handle is that of a loaded library and the name ends with a zero.
    let function = unsafe { libc::dlsym(handle, name.as_ptr()) };
    if function.is_null() {
        return Err(missing(None));
    }
    let file = file_of(function);
    let same = file.as_ref().is_some_and(|file| {
        match (std::fs::canonicalize(file), std::fs::canonicalize(path)) {
            (Ok(found), Ok(asked)) => found == asked,
            // The loader found a bare name along its search path; only its file name can be
            // compared.
            _ => Path::new(file).file_name() == path.file_name(),
        }
    });
    if same { Ok(function) } else { Err(missing(file)) }
}

/// The file that holds `address`.
fn file_of(address: *mut c_void) -> Option<String> {
    let mut info = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: `info` may be written; any address is allowed.
    let found = unsafe { libc::dladdr(address, info.as_mut_ptr()) } != 0;
    // SAFETY: all-zero bytes are a valid `Dl_info`, and `dladdr` overwrote them if it found
    // something.
    let name: *const c_char = unsafe { info.assume_init() }.dli_fname;
    // SAFETY: a non-null name is a string of the loader's that lives as long as the library.
    (found && !name.is_null())
        .then(|| unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned())
}

// SAFETY: the library defines these functions itself, and the user declares it an allocator by
// naming it as a heap.
unsafe impl Malloc for Library {
    #[inline(always)]
    fn malloc(&self, size: usize) -> *mut c_void {
        // SAFETY: malloc has no precondition.
        unsafe { (self.malloc)(size) }
    }

    #[inline(always)]
    fn calloc(&self, size: usize) -> *mut c_void {
        // SAFETY: calloc has no precondition.
        unsafe { (self.calloc)(1, size) }
    }

    fn memalign(&self, align: usize, size: usize) -> *mut c_void {
        let mut block = std::ptr::null_mut();
        // SAFETY: `block` may be written, and the trait's caller gives a valid alignment.
        match unsafe { (self.posix_memalign)(&mut block, align, size) } {
            0 => block,
            _ => std::ptr::null_mut(),
        }
    }

    #[inline(always)]
    unsafe fn realloc(&self, block: *mut c_void, size: usize) -> *mut c_void {
        // SAFETY: the caller's promise.
        unsafe { (self.realloc)(block, size) }
    }

    #[inline(always)]
    unsafe fn free(&self, block: *mut c_void) {
        // SAFETY: the caller's promise.
        unsafe { (self.free)(block) }
    }

    #[inline(always)]
    unsafe fn usable_size(&self, block: *mut c_void) -> usize {
        // SAFETY: the caller's promise.
        unsafe { (self.usable_size)(block) }
    }

    fn footprint(&self) -> Footprint {
        Footprint::default()
    }

    fn trim(&self) -> bool {
        false
    }

    fn version(&self) -> String {
        self.name.to_string()
    }
}
