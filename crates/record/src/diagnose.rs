//! Why a program cannot be recorded, judged by its file before it starts.
//!
//! The dynamic linker preloads the recorder in front of the program's `malloc`. The recorder sees
//! nothing of a program without a dynamic linker (static), with another one (musl, 32-bit), with
//! one that ignores `LD_PRELOAD` (raised privileges), or with a `malloc` in the executable itself,
//! which the linker searches before preloaded objects. Other recorders give a silent empty
//! recording in these cases; heaplab gives a sentence.

use object::{Object, ObjectSymbol};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Largest executable with its symbols read; larger ones are judged by their headers alone.
const EXECUTABLE_BYTES_MAX: u64 = 1 << 30;
/// Most interpreters of interpreters that the kernel follows.
const SCRIPT_DEPTH_MAX: u32 = 5;

/// The option without which AddressSanitizer ends a program with a preloaded object.
pub const ASAN_ALLOWS: &str = "verify_asan_link_order=0";
/// A function that each sanitizer's runtime calls at its start, and the sanitizer's name.
const SANITIZERS: [(&[u8], &str); 5] = [
    (b"__asan_init", "AddressSanitizer"),
    (b"__hwasan_init", "HWAddressSanitizer"),
    (b"__tsan_init", "ThreadSanitizer"),
    (b"__msan_init", "MemorySanitizer"),
    (b"__lsan_do_leak_check", "LeakSanitizer"),
];

/// Why a program's requests cannot be seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// The program uses no dynamic linker: nothing can be preloaded.
    Static,
    /// The executable defines `malloc` itself.
    OwnMalloc {
        /// Libraries use it too (it is in the dynamic symbol table); otherwise only the executable.
        exported: bool,
    },
    /// The executable contains a sanitizer's runtime; the linker finds the runtime's `malloc`
    /// before any preloaded one. Holds the sanitizer's name.
    Sanitizer(&'static str),
    /// The program loads AddressSanitizer's runtime as a library and defines default options for
    /// the runtime. The runtime then does not find the recorder's options
    /// (`crates/preload/c/sanitizer.c`) and would end the program, because the recorder stands
    /// before it.
    OwnAsanOptions,
    /// A 32-bit program; the recorder is 64-bit.
    ThirtyTwoBit,
    /// Built for another processor.
    OtherArchitecture(String),
    /// Its dynamic linker is musl's; the recorder needs glibc's.
    Musl(PathBuf),
    /// The program runs with more rights than its user: the dynamic linker ignores `LD_PRELOAD`.
    RaisesPrivileges(&'static str),
    /// A script with an interpreter that has an obstacle.
    Interpreter(PathBuf, Box<Obstacle>),
}

impl Obstacle {
    /// Whether nothing of this program can be recorded (its children may be).
    pub fn is_complete(&self) -> bool {
        match self {
            Obstacle::OwnMalloc { exported } => *exported,
            Obstacle::Interpreter(_, inner) => inner.is_complete(),
            _ => true,
        }
    }
}

impl Obstacle {
    /// Whether the program's dynamic linker would fail over the recorder: musl's refuses to start
    /// the program, a 32-bit one complains on standard error. heaplab then preloads nothing.
    pub fn forbids_preloading(&self) -> bool {
        match self {
            Obstacle::Musl(_) | Obstacle::ThirtyTwoBit | Obstacle::OtherArchitecture(_) => true,
            Obstacle::Interpreter(_, inner) => inner.forbids_preloading(),
            _ => false,
        }
    }
}

impl Obstacle {
    /// Whether the program can be recorded once `ASAN_OPTIONS` contains [`ASAN_ALLOWS`].
    pub fn ends_with_asan_options(&self) -> bool {
        match self {
            Obstacle::OwnAsanOptions => true,
            Obstacle::Interpreter(_, inner) => inner.ends_with_asan_options(),
            _ => false,
        }
    }
}

impl std::fmt::Display for Obstacle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Obstacle::Static => write!(
                f,
                "is statically linked: no recorder can be preloaded into it (link it dynamically to record it)"
            ),
            Obstacle::OwnMalloc { exported: true } => write!(
                f,
                "defines malloc itself, and its definition is found before any preloaded one (build it with the system's malloc to record it)"
            ),
            Obstacle::OwnMalloc { exported: false } => {
                write!(
                    f,
                    "contains its own malloc: the executable's own requests are invisible, and only its libraries' are recorded"
                )
            }
            Obstacle::Sanitizer(name) => write!(
                f,
                "contains {name}, whose malloc is found before any preloaded one (build it without the sanitizer to record it, or with gcc's or clang's -shared-libasan)"
            ),
            Obstacle::OwnAsanOptions => write!(
                f,
                "is built with AddressSanitizer and defines __asan_default_options: AddressSanitizer then ends it under a recorder (set ASAN_OPTIONS={ASAN_ALLOWS} to record it)"
            ),
            Obstacle::ThirtyTwoBit => write!(f, "is a 32-bit program; the recorder is 64-bit"),
            Obstacle::OtherArchitecture(name) => {
                write!(f, "is built for another processor ({name})")
            }
            Obstacle::Musl(path) => write!(
                f,
                "uses musl's dynamic linker ({}); the recorder needs glibc's",
                path.display()
            ),
            Obstacle::RaisesPrivileges(how) => {
                write!(
                    f,
                    "{how}, and the dynamic linker ignores LD_PRELOAD then (record a copy without it, or record as its owner)"
                )
            }
            Obstacle::Interpreter(path, inner) => {
                write!(f, "is a script, and its interpreter {} {inner}", path.display())
            }
        }
    }
}

/// The file that the shell would run for `program`: itself if it contains a slash, else the first
/// executable file of that name in `search` (`PATH`).
pub fn find_program(program: &OsStr, search: Option<&OsStr>) -> Option<PathBuf> {
    if program.as_bytes().contains(&b'/') {
        return Some(PathBuf::from(program));
    }
    let search = search.unwrap_or(OsStr::new("/usr/local/bin:/usr/bin:/bin"));
    std::env::split_paths(search)
        .map(|folder| folder.join(program))
        .find(|path| is_executable(path))
}

/// Whether `path` is a file that this user may execute.
pub fn is_executable(path: &Path) -> bool {
    path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}

/// The obstacle to recording the program in the file `path`, if any. I/O errors count as none: the
/// start will fail and tell.
pub fn obstacle(path: &Path, search: Option<&OsStr>) -> Option<Obstacle> {
    obstacle_within(path, search, SCRIPT_DEPTH_MAX)
}

fn obstacle_within(path: &Path, search: Option<&OsStr>, depth: u32) -> Option<Obstacle> {
    let mut file = File::open(path).ok()?;
    let mut head = [0; 512];
    let length = read_up_to(&mut file, &mut head)?;
    let head = &head[..length];
    if let Some(interpreter) = script_interpreter(head, search) {
        let inner = obstacle_within(&interpreter, search, depth.checked_sub(1)?)?;
        return Some(Obstacle::Interpreter(interpreter, Box::new(inner)));
    }
    // The kernel ignores the privileges of a script's own file: only programs are checked.
    raised_privileges(path, &file).or_else(|| {
        let bytes = (file.metadata().ok()?.len() <= EXECUTABLE_BYTES_MAX)
            .then(|| fs::read(path).ok())??;
        elf_obstacle(&bytes)
    })
}

fn read_up_to(file: &mut File, buffer: &mut [u8]) -> Option<usize> {
    let mut length = 0;
    while length < buffer.len() {
        match file.read(&mut buffer[length..]).ok()? {
            0 => break,
            more => length += more,
        }
    }
    Some(length)
}

/// The interpreter in a `#!` line; for `env`, the program that it will look for.
fn script_interpreter(head: &[u8], search: Option<&OsStr>) -> Option<PathBuf> {
    let line = head.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let mut words =
        line.split(|byte| matches!(byte, b' ' | b'\t' | b'\r')).filter(|word| !word.is_empty());
    let interpreter = OsString::from_vec(words.next()?.to_vec());
    if Path::new(&interpreter).file_name() != Some(OsStr::new("env")) {
        return Some(PathBuf::from(interpreter));
    }
    let program = words.find(|word| !word.starts_with(b"-") && !word.contains(&b'='))?;
    find_program(OsStr::from_bytes(program), search)
}

/// Whether executing the file changes the identity or capabilities of the process (the kernel then
/// sets AT_SECURE).
fn raised_privileges(path: &Path, file: &File) -> Option<Obstacle> {
    let metadata = file.metadata().ok()?;
    let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
    if metadata.mode() & 0o4000 != 0 && metadata.uid() != user.as_raw() {
        return Some(Obstacle::RaisesPrivileges("runs as its owner (setuid)"));
    }
    if metadata.mode() & 0o2010 == 0o2010 && metadata.gid() != group.as_raw() {
        return Some(Obstacle::RaisesPrivileges("runs as its group (setgid)"));
    }
    let mut value = [0_u8; 64];
    let has_capabilities = rustix::fs::getxattr(path, "security.capability", &mut value[..])
        .is_ok_and(|length| length > 0);
    (has_capabilities && !user.is_root())
        .then_some(Obstacle::RaisesPrivileges("has file capabilities"))
}

/// The obstacle by an ELF file's headers and symbols. `None` for other files.
pub fn elf_obstacle(bytes: &[u8]) -> Option<Obstacle> {
    if !bytes.starts_with(b"\x7fELF") {
        return None;
    }
    if bytes.get(4) == Some(&1) {
        return Some(Obstacle::ThirtyTwoBit);
    }
    let file = object::File::parse(bytes).ok()?;
    let here = if cfg!(target_arch = "aarch64") {
        object::Architecture::Aarch64
    } else {
        object::Architecture::X86_64
    };
    if file.architecture() != here {
        return Some(Obstacle::OtherArchitecture(format!("{:?}", file.architecture())));
    }
    let Some(interpreter) = elf_interpreter(bytes) else { return Some(Obstacle::Static) };
    if interpreter.file_name().is_some_and(|name| name.as_bytes().starts_with(b"ld-musl")) {
        return Some(Obstacle::Musl(interpreter));
    }
    let defines = |symbol: object::Symbol<'_, '_>| is_definition_of(&symbol, b"malloc");
    let asks_asan = || {
        file.dynamic_symbols()
            .any(|symbol| symbol.is_undefined() && symbol.name_bytes() == Ok(b"__asan_init"))
    };
    if file.dynamic_symbols().any(|symbol| is_definition_of(&symbol, b"__asan_default_options"))
        && asks_asan()
    {
        return Some(Obstacle::OwnAsanOptions);
    }
    if file.dynamic_symbols().any(defines) {
        if let Some((_, name)) = SANITIZERS.iter().find(|(symbol, _)| {
            file.symbols()
                .chain(file.dynamic_symbols())
                .any(|found| is_definition_of(&found, symbol))
        }) {
            return Some(Obstacle::Sanitizer(name));
        }
        return Some(Obstacle::OwnMalloc { exported: true });
    }
    file.symbols().any(defines).then_some(Obstacle::OwnMalloc { exported: false })
}

fn is_definition_of(symbol: &object::Symbol<'_, '_>, name: &[u8]) -> bool {
    symbol.is_definition() && symbol.name_bytes() == Ok(name)
}

/// The path in PT_INTERP.
fn elf_interpreter(bytes: &[u8]) -> Option<PathBuf> {
    use object::read::elf::{FileHeader, ProgramHeader};
    let header = object::elf::FileHeader64::<object::Endianness>::parse(bytes).ok()?;
    let endian = header.endian().ok()?;
    let path = header
        .program_headers(endian, bytes)
        .ok()?
        .iter()
        .find_map(|segment| segment.interpreter(endian, bytes).ok()?)?;
    Some(PathBuf::from(OsString::from_vec(path.to_vec())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_judged_by_its_interpreter() {
        assert_eq!(
            script_interpreter(b"#! /bin/sh -e\necho", None),
            Some(PathBuf::from("/bin/sh"))
        );
        assert_eq!(
            script_interpreter(b"#!/usr/bin/env -S A=1 sh\n", Some(OsStr::new("/bin"))),
            Some(PathBuf::from("/bin/sh"))
        );
        assert_eq!(script_interpreter(b"\x7fELF", None), None);
        assert_eq!(script_interpreter(b"#!\n", None), None);
    }

    #[test]
    fn damaged_executables_are_no_obstacle_and_no_panic() {
        let own = fs::read("/proc/self/exe").expect("this test's own executable");
        for length in [0, 3, 4, 5, 16, 63, 64, 65, 200, 1000] {
            let _ = elf_obstacle(&own[..length.min(own.len())]);
        }
        assert_eq!(elf_obstacle(&own), None);
    }

    #[test]
    fn the_system_shell_is_recordable() {
        let shell = find_program(OsStr::new("sh"), None).expect("a shell");
        assert_eq!(obstacle(&shell, None), None);
        assert_eq!(find_program(OsStr::new("no-such-program-anywhere"), None), None);
    }
}
