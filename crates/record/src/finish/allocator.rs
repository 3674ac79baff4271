//! The allocator that a program ran on, told by its modules.

use heaplab_trace::tables::Tables;
use std::fs;

/// Libraries that replace the C library's allocator, by the start of their file names.
const REPLACEMENTS: [(&str, &str); 16] = [
    ("libasan.", "AddressSanitizer"),
    ("libclang_rt.asan", "AddressSanitizer"),
    ("libhwasan.", "HWAddressSanitizer"),
    ("libclang_rt.hwasan", "HWAddressSanitizer"),
    ("libtsan.", "ThreadSanitizer"),
    ("libclang_rt.tsan", "ThreadSanitizer"),
    ("liblsan.", "LeakSanitizer"),
    ("libclang_rt.lsan", "LeakSanitizer"),
    ("libclang_rt.msan", "MemorySanitizer"),
    ("libclang_rt.scudo", "Scudo"),
    ("libjemalloc", "jemalloc"),
    ("libmimalloc", "mimalloc"),
    ("libtcmalloc", "tcmalloc"),
    ("libtbbmalloc", "tbbmalloc"),
    ("libsnmalloc", "snmalloc"),
    ("libhoard", "Hoard"),
];
/// Largest C library searched for its version.
const LIBRARY_BYTES_MAX: u64 = 64 << 20;

/// "glibc 2.36", "jemalloc (libjemalloc.so.2)"; empty if no module tells.
pub fn name(tables: &Tables) -> String {
    let file_names = || {
        tables.modules.iter().map(|module| (module, module.path.rsplit('/').next().unwrap_or("")))
    };
    for (prefix, allocator) in REPLACEMENTS {
        if let Some((_, file)) = file_names().find(|(_, file)| file.starts_with(prefix)) {
            return format!("{allocator} ({file})");
        }
    }
    let Some((library, _)) =
        file_names().find(|(_, file)| *file == "libc.so.6" || file.starts_with("libc-2."))
    else {
        return String::new();
    };
    let readable =
        fs::metadata(&library.path).is_ok_and(|metadata| metadata.len() <= LIBRARY_BYTES_MAX);
    let version = readable
        .then(|| fs::read(&library.path).ok())
        .flatten()
        .and_then(|bytes| glibc_version(&bytes));
    version.map_or_else(|| String::from("glibc"), |version| format!("glibc {version}"))
}

/// The version in glibc's banner ("... stable release version 2.36.").
fn glibc_version(library: &[u8]) -> Option<String> {
    const BANNER: &[u8] = b" release version ";
    let at = memchr::memmem::find(library, BANNER)? + BANNER.len();
    let rest = library[at..].split(|byte| !byte.is_ascii_digit() && *byte != b'.').next()?;
    let version = std::str::from_utf8(rest).ok()?.trim_end_matches('.');
    (!version.is_empty()).then(|| version.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use heaplab_trace::tables::Module;

    #[test]
    fn the_allocator_is_told_by_modules() {
        let with = |paths: &[&str]| Tables {
            modules: paths
                .iter()
                .map(|path| Module { path: (*path).to_owned(), ..Module::default() })
                .collect(),
            ..Tables::default()
        };
        assert_eq!(name(&with(&[])), "");
        assert_eq!(name(&with(&["/nowhere/libc.so.6"])), "glibc");
        assert_eq!(
            name(&with(&["/lib/libc.so.6", "/lib/libasan.so.8"])),
            "AddressSanitizer (libasan.so.8)"
        );
        assert_eq!(
            name(&with(&["/lib/libc.so.6", "/usr/lib/libjemalloc.so.2"])),
            "jemalloc (libjemalloc.so.2)"
        );
        assert_eq!(
            glibc_version(
                b"GNU C Library (Debian GLIBC 2.36-9) stable release version 2.36.\nCopyright"
            ),
            Some(String::from("2.36"))
        );
    }
}
