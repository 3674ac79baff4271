//! A function's path: its name without parameters, template arguments and return type. Debuggers
//! and demanglers write all of these into one string, so `load<std::allocator<int>>` would look
//! like a function of an allocator.

/// The path of a C, C++ or Rust function: `void a::load<int>(char)` is `a::load`,
/// `<alloc::vec::Vec<T> as Clone>::clone` is `alloc::vec::Vec::clone`.
pub(super) fn function_path(name: &str) -> String {
    match name.strip_prefix('<').and_then(implementation) {
        Some((subject, rest)) => plain(subject) + &plain(rest),
        None => plain(name),
    }
}

/// The path that stands for a Rust method's `impl`, and the method. Code for a type of the standard
/// library is that of its trait, unless the library's own; the library's allocating traits
/// (`ToString`, `ToOwned`) are implemented for all types at once.
fn implementation(after_bracket: &str) -> Option<(&str, &str)> {
    let close = depths(after_bracket).find(|(_, letter, depth)| *letter == '>' && *depth < 0)?.0;
    let (inside, rest) = (&after_bracket[..close], &after_bracket[close + 1..]);
    if !rest.starts_with("::") {
        return None;
    }
    let at = depths(inside)
        .find(|(at, _, depth)| *depth == 0 && inside[*at..].starts_with(" as "))
        .map(|(at, ..)| at);
    let (subject, of_trait) = match at {
        Some(at) => (&inside[..at], Some(&inside[at + " as ".len()..])),
        None => (inside, None),
    };
    let subject = subject.trim_start_matches(['&', '*', '[', '(']).trim_start_matches("mut ");
    let is_path = subject.split(['<', ';']).next().is_some_and(|path| path.contains("::"));
    let stands = match of_trait {
        Some(of_trait) if is_path => {
            let is_for_types = ["core::", "std::"].iter().any(|own| of_trait.starts_with(own));
            if is_for_types { subject } else { of_trait }
        }
        Some(of_trait) => of_trait,
        None if is_path => subject,
        // Only the standard library has methods of the language's own types.
        None => "core::",
    };
    Some((stands, rest))
}

/// A name without the return type that demanglers write before functions made from templates.
pub(super) fn without_return_type(name: &str) -> &str {
    let (mut start, mut before) = (0, ' ');
    for (at, letter, depth) in depths(name) {
        let last = std::mem::replace(&mut before, letter);
        if depth == 0 && is_operator(last, &name[at..]) {
            break;
        }
        // `const` follows the parameters of a member that a lambda stands in.
        if depth == 0 && letter == ' ' && last != ')' {
            start = at + 1;
        }
    }
    &name[start..]
}

/// Whether a name goes on with the word `operator`, whose sign may be a bracket or a type.
fn is_operator(last: char, rest: &str) -> bool {
    !(last.is_alphanumeric() || last == '_')
        && rest.strip_prefix("operator").is_some_and(is_no_name)
}

/// A path without what stands in brackets and before spaces.
fn plain(name: &str) -> String {
    if !name.contains([':', '<', '(', ' ']) {
        return name.to_owned();
    }
    let (mut path, mut before) = (String::new(), ' ');
    for (at, letter, depth) in depths(name) {
        let (rest, last) = (&name[at..], std::mem::replace(&mut before, letter));
        if depth > 0 || "<>()[]".contains(letter) {
            continue;
        }
        // Nothing but parameters follows an operator.
        if is_operator(last, rest) {
            let sign = &rest["operator".len()..];
            let end = sign.char_indices().skip(1).find(|(_, letter)| *letter == '(');
            return path + "operator" + &sign[..end.map_or(sign.len(), |(at, _)| at)];
        }
        match letter {
            ' ' if last == ')' || rest.starts_with(" [") => break,
            ' ' => path.clear(),
            _ => path.push(letter),
        }
    }
    path
}

fn is_no_name(rest: &str) -> bool {
    rest.starts_with(|next: char| !next.is_alphanumeric() && next != '_')
}

/// Each character with its place and the brackets open around it; a bracket counts itself. Arrows
/// and operators are no brackets.
fn depths(name: &str) -> impl Iterator<Item = (usize, char, i32)> + '_ {
    let (mut depth, mut before) = (0i32, ' ');
    name.char_indices().map(move |(at, letter)| {
        let here = match letter {
            '<' | '(' | '[' => {
                depth += 1;
                depth
            }
            '>' if before == '-' => depth,
            '>' | ')' | ']' => {
                depth -= 1;
                depth
            }
            _ => depth,
        };
        before = letter;
        (at, letter, here)
    })
}

/// The words of a name in small letters: `sqlite3DbMallocRaw` is sqlite, 3, db, malloc, raw.
pub(super) fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut before = '_';
    for letter in name.chars() {
        let begins = !before.is_alphanumeric()
            || before.is_lowercase() && letter.is_uppercase()
            || before.is_numeric() != letter.is_numeric();
        if letter.is_alphanumeric() {
            if begins {
                words.push(String::new());
            }
            words.last_mut().expect("a word began").extend(letter.to_lowercase());
        }
        before = letter;
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_no_arguments_and_no_return_type() {
        for (name, path) in [
            ("malloc", "malloc"),
            ("load(std::allocator<int> const&) const", "load"),
            ("std::string const& load<int>(char)", "load"),
            ("void a::load<std::string, int>(char (*)(int))", "a::load"),
            ("std::unique_ptr<A, B<C> > std::make_unique<A>()", "std::make_unique"),
            ("Cache<std::string>::insert(int) [clone .cold]", "Cache::insert"),
            ("operator new(unsigned long)", "operator new"),
            ("std::ostream& operator<< <int>(int)", "operator<< <int>"),
            ("A::operator()(int) const", "A::operator()"),
            ("(anonymous namespace)::load(char const*)", "::load"),
            ("a::b(int)::{lambda()#1}::operator()(int) const", "a::b::{lambda#1}::operator()"),
            ("operators::add(int)", "operators::add"),
            (
                "alloc::raw_vec::RawVec<T,A>::reserve::do_reserve",
                "alloc::raw_vec::RawVec::reserve::do_reserve",
            ),
            ("<alloc::vec::Vec<T> as core::clone::Clone>::clone", "alloc::vec::Vec::clone"),
            ("<T as alloc::string::ToString>::to_string", "alloc::string::ToString::to_string"),
            ("<str as alloc::borrow::ToOwned>::to_owned", "alloc::borrow::ToOwned::to_owned"),
            ("<[T]>::to_vec", "core::::to_vec"),
            ("<app::User as core::convert::From<&str>>::from", "app::User::from"),
            ("<&mut app::User as core::iter::Iterator>::next", "app::User::next"),
            ("<fn(A) -> B as alloc::x::Y>::call", "alloc::x::Y::call"),
            ("<alloc::vec::Vec<T> as app::Load>::load", "app::Load::load"),
            (
                "<app::User as alloc::string::ToString>::to_string",
                "alloc::string::ToString::to_string",
            ),
            ("<module>", ""),
            ("<frozen importlib._bootstrap>", ""),
            ("alloc::vec::from_elem::<u8>", "alloc::vec::from_elem::"),
        ] {
            assert_eq!(function_path(name), path, "{name}");
        }
    }

    #[test]
    fn unbalanced_names_end() {
        let nested = "<a as ".repeat(100_000) + &">::b".repeat(100_000);
        for name in
            [&nested, ">>>", "<<<", "a<b", "<a", "<>::", "operator", "x operator(", "é<ü>::ß(", ""]
        {
            let _ = (function_path(name), words(name));
        }
    }

    #[test]
    fn words_begin_at_signs_capitals_and_digits() {
        assert_eq!(words("sqlite3DbMallocRaw"), ["sqlite", "3", "db", "malloc", "raw"]);
        assert_eq!(words("_PyMem_RawMalloc"), ["py", "mem", "raw", "malloc"]);
        assert_eq!(words("xmalloc"), ["xmalloc"]);
    }
}
