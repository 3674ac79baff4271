//! A program's allocation site: the innermost frame that is not an allocation function itself, with
//! the same result everywhere.

use super::Tables;

/// Parts of names of functions that only pass a request on to the allocator, in C, C++ and Rust, in
/// small letters.
const WRAPPERS: [&str; 14] = [
    "malloc",
    "calloc",
    "realloc",
    "memalign",
    "slice_alloc",
    "operator new",
    "alloc::alloc",
    "alloc::raw_vec",
    "__rust_alloc",
    "__rdl_",
    "__rg_",
    "rawvec",
    "allocator",
    "_m_allocate",
];
/// A longer chain of wrappers is a program's own code with such names.
const WRAPPERS_MAX: usize = 6;

impl Tables {
    /// Number of a stack's frames (rows of `frames`, innermost first) that only pass the request
    /// on. One frame always stays.
    pub fn wrappers(&self, frames: &[u32]) -> usize {
        // Nameless functions may stand between wrappers: a library's static ones have no names.
        let nameless = |frame: u32| {
            self.frames.get(frame as usize).is_none_or(|frame| frame.function.is_none())
        };
        let leading = frames
            .iter()
            .take(WRAPPERS_MAX)
            .take_while(|frame| nameless(**frame) || self.is_wrapper(**frame))
            .count();
        let wrappers = frames[..leading]
            .iter()
            .rposition(|frame| self.is_wrapper(*frame))
            .map_or(0, |last| last + 1);
        // The last wrapper stays if nothing else would.
        if wrappers == frames.len() { wrappers.saturating_sub(1) } else { wrappers }
    }

    /// Whether a function, by its name, only passes a request on to the allocator.
    pub fn is_wrapper(&self, frame: u32) -> bool {
        let Some(function) =
            self.frames.get(frame as usize).and_then(|frame| frame.function.as_deref())
        else {
            return false;
        };
        // `sqlite3MallocSize` and `my_malloc_stats` are wrappers in spirit; arguments and return
        // types are ignored.
        let name = function.split('(').next().unwrap_or(function).to_ascii_lowercase();
        WRAPPERS.iter().any(|wrapper| name.contains(wrapper))
    }

    /// Most frames that [`Tables::wrappers`] looks at: a stack may be cut one frame behind them.
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

/// A function's name without its arguments: `a::b(int)::{lambda()#1}` keeps what names it, and
/// `a::b(int, char) const` is `a::b`.
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
            return if at == 0 { name } else { &end[..at] };
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lose_their_arguments_and_nothing_else() {
        for (name, short) in [
            ("pcache1Alloc", "pcache1Alloc"),
            ("a::b(int, char (*)(int)) const", "a::b"),
            ("(anonymous namespace)::load(char const*)", "(anonymous namespace)::load"),
            ("a::b(int)::{lambda()#1}", "a::b(int)::{lambda()#1}"),
            ("<T as Into<U>>::into", "<T as Into<U>>::into"),
            ("libz.so.1+0x1f", "libz.so.1+0x1f"),
            ("(nothing)", "(nothing)"),
            ("unbalanced)", "unbalanced)"),
        ] {
            assert_eq!(bare_name(name), short);
        }
    }
}
