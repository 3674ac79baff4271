//! Readable names for mangled ones, C++ and Rust.
//!
//! Mangled names refer back to their own parts, so a short hostile name can stand for gigabytes of
//! text. The output is therefore bounded; a name beyond the bound is shown mangled.

use std::fmt::{self, Write};

/// Longest name kept, in bytes.
pub(crate) const NAME_MAX_BYTES: usize = 16 * 1024;

/// The readable form of `name`, or `name` itself if it is not mangled or its readable form is too
/// long. Leaves out Rust's disambiguating hash. At most 16 KiB.
///
/// ```
/// assert_eq!(heaplab_symbols::demangle("_ZNSt6vectorIiSaIiEE9push_backEOi"), "std::vector<int, std::allocator<int> >::push_back(int&&)");
/// assert_eq!(heaplab_symbols::demangle("_RNvCs1234_7mycrate3foo"), "mycrate::foo");
/// assert_eq!(heaplab_symbols::demangle("sqlite3_exec"), "sqlite3_exec");
/// ```
pub fn demangle(name: &str) -> String {
    let readable =
        if name.len() > NAME_MAX_BYTES { None } else { rust(name).or_else(|| cpp(name)) };
    readable.unwrap_or_else(|| cut(name, NAME_MAX_BYTES).to_owned())
}

fn rust(name: &str) -> Option<String> {
    let symbol = rustc_demangle::try_demangle(name).ok()?;
    let mut text = Bounded::default();
    write!(text, "{symbol:#}").ok()?;
    Some(text.0)
}

fn cpp(name: &str) -> Option<String> {
    // A name without the prefix would be read as a type: "i" is not "int".
    if !(name.starts_with("_Z") || name.starts_with("___Z") || name.starts_with("_GLOBAL_")) {
        return None;
    }
    let symbol = cpp_demangle::Symbol::new(name).ok()?;
    let mut text = Bounded::default();
    symbol.structured_demangle(&mut text, &cpp_demangle::DemangleOptions::default()).ok()?;
    Some(text.0)
}

/// The longest beginning of `text` of at most `bytes` bytes that ends at a character.
pub(crate) fn cut(text: &str, bytes: usize) -> &str {
    let mut end = text.len().min(bytes);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Text that refuses to grow over [`NAME_MAX_BYTES`].
#[derive(Default)]
struct Bounded(String);

impl fmt::Write for Bounded {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        if self.0.len() + part.len() > NAME_MAX_BYTES {
            return Err(fmt::Error);
        }
        self.0.push_str(part);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_not_mangled_stay_as_they_are() {
        for name in ["main", "i", "_start", "operator new", "", "_Zzz", "caf\u{e9}"] {
            assert_eq!(demangle(name), name);
        }
    }

    #[test]
    fn rust_names_lose_their_hash() {
        assert_eq!(
            demangle("_ZN4core3fmt9Formatter3pad17h0123456789abcdefE"),
            "core::fmt::Formatter::pad"
        );
    }

    #[test]
    fn a_name_that_doubles_itself_is_shown_mangled() {
        // Each `S<n>_` stands for everything before it: the text doubles with every step.
        let mut name = String::from("_Z1f1AI");
        name.push_str("iE");
        for step in 0..40u32 {
            name.push_str(&format!(
                "1BIS{0}_S{0}_E",
                if step == 0 { String::new() } else { to_base_36(step - 1) }
            ));
        }
        assert!(demangle(&name).len() <= NAME_MAX_BYTES);
        let long = "x".repeat(NAME_MAX_BYTES * 2);
        assert_eq!(demangle(&long).len(), NAME_MAX_BYTES);
    }

    fn to_base_36(number: u32) -> String {
        char::from_digit(number % 36, 36)
            .map(|digit| digit.to_ascii_uppercase().to_string())
            .unwrap_or_default()
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_bounded(name in "_(Z|R)[A-Za-z0-9_]{0,200}") {
            proptest::prop_assert!(demangle(&name).len() <= NAME_MAX_BYTES);
        }
    }
}
