//! A program's allocation site: the innermost frame that is not an allocation function itself, with
//! the same result everywhere.

use super::Tables;
use super::function_path::{function_path, without_return_type, words};

/// Standard libraries of C++ and Rust: a container asks for memory on behalf of its caller.
const LIBRARIES: [&str; 2] = ["std::", "__gnu_cxx::"];
/// Those of Rust alone. Names of C++ functions end with parameters: `core` may be a program's.
const RUST_LIBRARIES: [&str; 3] = ["alloc::", "core::", "hashbrown::"];
/// Their files. Debug information may name an inlined function without its module.
const LIBRARY_FILES: [&str; 4] =
    ["/library/alloc/src/", "/library/core/src/", "/library/std/src/", "/hashbrown-"];
/// Functions of these libraries that call a function of the program. Without line information it
/// may be inlined in them, unseen.
const CALLERS: [&str; 5] =
    ["invoke", "_M_run", "operator()", "core::ops::function::", "__rust_begin_short_backtrace"];
/// C's functions. Words of names begin or end with them: `xmalloc`, `mallocz`.
const C_FUNCTIONS: [&str; 5] = ["malloc", "calloc", "realloc", "memalign", "reallocarray"];
/// Beginnings of the functions that pass a request on to Rust's global allocator.
const RUST_FUNCTIONS: [&str; 3] = ["__rust_alloc", "__rdl_", "__rg_"];

/// Frames that [`Tables::wrappers`] looks at.
const WRAPPERS_MAX: usize = 32;
/// A longer chain of wrappers outside of standard libraries is a program's own code with such
/// names.
const OWN_WRAPPERS_MAX: usize = 6;

/// How a function passes a request on to the allocator.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wrapper {
    Library,
    Own,
}

impl Tables {
    /// Number of a stack's frames (rows of `frames`, innermost first) that only pass the request
    /// on. One frame always stays.
    pub fn wrappers(&self, frames: &[u32]) -> usize {
        let (mut wrappers, mut own) = (0, 0);
        for (at, row) in frames.iter().take(WRAPPERS_MAX).enumerate() {
            let wrapper = self.wrapper(*row);
            // Nameless functions may stand between wrappers: a library's static ones have no names.
            if wrapper.is_none() && self.function(*row).is_some() {
                break;
            }
            own += usize::from(wrapper != Some(Wrapper::Library));
            if own > OWN_WRAPPERS_MAX {
                break;
            }
            if wrapper.is_some() {
                wrappers = at + 1;
            }
        }
        // The last wrapper stays if nothing else would.
        if wrappers == frames.len() { wrappers.saturating_sub(1) } else { wrappers }
    }

    /// Place of the frame that a person would name for the stack: the innermost interpreted
    /// function, for which the interpreter asks, or else the frame behind the wrappers.
    pub fn site(&self, frames: &[u32]) -> usize {
        let is_native =
            |row: &u32| self.frames.get(*row as usize).is_some_and(|f| f.module.is_some());
        let mut searched = frames.iter().take(WRAPPERS_MAX);
        let python = match frames.first().is_some_and(is_native) {
            true => searched.position(|row| self.is_interpreted(*row) && !self.is_wrapper(*row)),
            false => None,
        };
        python.unwrap_or_else(|| self.wrappers(frames))
    }

    /// Whether a frame is of Python or JavaScript, as far as known: it has a file and no module.
    pub fn is_interpreted(&self, row: u32) -> bool {
        let frame = self.frames.get(row as usize);
        frame.is_some_and(|frame| {
            frame.module.is_none() && frame.function.is_some() && frame.file.is_some()
        })
    }

    /// Whether a function, by its name, only passes a request on to the allocator.
    pub fn is_wrapper(&self, frame: u32) -> bool {
        self.wrapper(frame).is_some()
    }

    fn function(&self, row: u32) -> Option<&str> {
        self.frames.get(row as usize)?.function.as_deref()
    }

    fn wrapper(&self, row: u32) -> Option<Wrapper> {
        let wrapper = wrapper(self.function(row)?);
        let file = self.frames[row as usize].file.as_deref().unwrap_or_default();
        let is_library = || LIBRARY_FILES.iter().any(|part| file.contains(part));
        wrapper.or_else(|| is_library().then_some(Wrapper::Library))
    }

    /// Most frames that [`Tables::wrappers`] and [`Tables::site`] look at: a stack may be cut one
    /// frame behind them.
    pub const WRAPPERS_MAX: usize = WRAPPERS_MAX;

    /// A frame's place in the source: `file.c:12`, or `module+0x1f` or an address if unknown.
    pub fn frame_place(&self, frame: u32) -> String {
        let Some(frame) = self.frames.get(frame as usize) else { return String::from("?") };
        let last = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
        let module = || frame.module.and_then(|module| self.modules.get(module as usize));
        match (&frame.file, module()) {
            (Some(file), _) if frame.line > 0 => format!("{}:{}", last(file), frame.line),
            (_, Some(module)) => format!("{}+{:#x}", last(&module.path), frame.address),
            (_, None) => format!("{:#x}", frame.address),
        }
    }
}

/// Each wrapper's name has one of these parts; most other names have none.
const PARTS: [&str; 11] = [
    "lloc",
    "LLOC",
    "align",
    "ALIGN",
    "operator new",
    "std::",
    "__gnu_cxx::",
    "core::",
    "hashbrown::",
    "__rdl_",
    "__rg_",
];

fn wrapper(function: &str) -> Option<Wrapper> {
    // `<[T]>::to_vec` is of no module.
    if !function.starts_with('<') && !PARTS.iter().any(|part| function.contains(part)) {
        return None;
    }
    let path = function_path(function);
    let is_of = |libraries: &[&str]| libraries.iter().any(|library| path.starts_with(library));
    let is_rust = || bare_name(function) == function && is_of(&RUST_LIBRARIES);
    if is_of(&LIBRARIES) || is_rust() || function.contains(" as core::alloc::") {
        let calls = CALLERS.iter().any(|caller| path.contains(caller));
        return (!calls).then_some(Wrapper::Library);
    }
    let mut parts = path.rsplit("::").filter(|part| !part.is_empty());
    let (name, class) = (parts.next()?, parts.next());
    let words_of_name = words(name);
    let is_c = words_of_name.iter().any(|word| {
        !word.starts_with("reallocat")
            && C_FUNCTIONS.iter().any(|known| word.starts_with(known) || word.ends_with(known))
    });
    // `PoolAllocator::allocate`, `frame_allocator_alloc`.
    let is_of_allocator = || {
        let all = [words(class.unwrap_or_default()), words_of_name.clone()].concat();
        let begins = |word: &str| word.starts_with("alloc") || word.starts_with("realloc");
        all.windows(2).any(|pair| pair[0] == "allocator" && begins(&pair[1]))
    };
    let is_own = is_c
        || name.starts_with("operator new")
        || name.contains("slice_alloc")
        || RUST_FUNCTIONS.iter().any(|known| name.starts_with(known))
        || is_of_allocator();
    is_own.then_some(Wrapper::Own)
}

/// A function's name without its arguments and return type: `a::b(int)::{lambda()#1}` keeps what
/// names it, and `void a::b<int>(char) const` is `a::b<int>`.
pub fn bare_name(name: &str) -> &str {
    let end = name.strip_suffix(" const").unwrap_or(name);
    if !end.ends_with(')') {
        return name;
    }
    let mut depth = 0;
    for (at, letter) in end.char_indices().rev() {
        match letter {
            ')' => depth += 1,
            '(' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return if at == 0 { name } else { without_return_type(&end[..at]) };
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrappers_are_told_from_functions_of_the_program() {
        for name in [
            "malloc",
            "xmalloc",
            "av_mallocz",
            "sqlite3DbMallocRaw",
            "PyMem_RawRealloc",
            "xreallocarray",
            "g_slice_alloc0",
            "operator new(unsigned long)",
            "v8::internal::Malloced::operator new(unsigned long)",
            "__gnu_cxx::new_allocator<int>::allocate(unsigned long, void const*)",
            "app::PoolAllocator<int>::allocate(unsigned long)",
            "frame_allocator_alloc",
            "__rustc::__rust_alloc",
            "std::map<int, User>::operator[](int const&)",
            "std::unique_ptr<User> std::make_unique<User>()",
            "alloc::raw_vec::RawVec<T,A>::with_capacity_in",
            "<alloc::vec::Vec<T> as core::clone::Clone>::clone",
            "<T as alloc::string::ToString>::to_string",
            "<[T]>::to_vec",
            "<app::Own as core::alloc::global::GlobalAlloc>::alloc",
        ] {
            assert!(wrapper(name).is_some(), "{name}");
        }
        for name in [
            "load_allocator_config",
            "reallocate_seats",
            "locallock_take",
            "void load_users<std::string>(std::string const&)",
            "Cache<std::string, std::allocator<char> >::insert(int)",
            "std::string const& load<int>(char)",
            "app::FrameAllocator::load(int)",
            "std::_Function_handler<void (), main::{lambda()#1}>::_M_invoke(std::_Any_data const&)",
            "std::sys::backtrace::__rust_begin_short_backtrace",
            "<app::User as core::convert::From<&str>>::from",
            "app::main::{{closure}}",
            "coreutils::copy",
            "core::load(int) const",
            "",
        ] {
            assert!(wrapper(name).is_none(), "{name}");
        }
    }

    #[test]
    fn names_lose_their_arguments_and_nothing_else() {
        for (name, short) in [
            ("pcache1Alloc", "pcache1Alloc"),
            ("a::b(int, char (*)(int)) const", "a::b"),
            ("(anonymous namespace)::load(char const*)", "(anonymous namespace)::load"),
            ("a::b(int)::{lambda()#1}", "a::b(int)::{lambda()#1}"),
            ("std::pair<int, A> a::b<A, int>(A) const", "a::b<A, int>"),
            ("std::ostream& operator<< <char>(int)", "operator<< <char>"),
            ("A::operator unsigned long() const", "A::operator unsigned long"),
            (
                "app::f(int) const::{lambda()#1}::operator()() const",
                "app::f(int) const::{lambda()#1}::operator()",
            ),
            ("operator new(unsigned long)", "operator new"),
            ("<T as Into<U>>::into", "<T as Into<U>>::into"),
            ("libz.so.1+0x1f", "libz.so.1+0x1f"),
            ("(nothing)", "(nothing)"),
            ("unbalanced)", "unbalanced)"),
        ] {
            assert_eq!(bare_name(name), short);
        }
    }
}
