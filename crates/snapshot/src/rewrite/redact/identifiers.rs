//! Names that may stay: identifiers of source text, and names that a runtime brings itself.
//!
//! Property names can be secrets (a map keyed by e-mail); what somebody wrote into a program is none. So what occurs as an identifier in source text may stay. Text in quotes and comments is no identifier. Telling a regular expression from a
//! division takes a parser of the language; here the token before decides, as in most highlighters, and a string ends at its
//! line's end at the latest.

use std::collections::HashSet;

/// Names of V8, Node and JavaScript itself, sorted; made by `data/own-names.mjs`.
const OWN_NAMES: &str = include_str!("../../../data/own-names.txt");

/// Names that may stay.
#[derive(Clone, Debug, Default)]
pub struct Identifiers {
    own: HashSet<&'static [u8]>,
    found: HashSet<Box<[u8]>>,
}

impl Identifiers {
    /// The names that a runtime brings itself.
    pub fn own() -> Identifiers {
        Identifiers { own: OWN_NAMES.lines().map(str::as_bytes).collect(), found: HashSet::new() }
    }

    /// Adds one name, if it is shaped like an identifier.
    pub fn add(&mut self, name: &[u8]) {
        if is_identifier(name) && !self.own.contains(name) {
            self.found.insert(name.into());
        }
    }

    /// Adds every identifier of a source text (JavaScript, and near enough to it C, Java, Rust).
    pub fn add_source(&mut self, source: &[u8]) {
        let mut at = 0;
        // Whether a slash would begin a regular expression.
        let mut expression = true;
        while let Some(byte) = source.get(at) {
            match byte {
                b'"' | b'\'' | b'`' => {
                    at = after_quoted(source, at);
                    expression = false;
                }
                b'/' if source.get(at + 1) == Some(&b'/') => at = at + line_length(&source[at..]),
                b'/' if source.get(at + 1) == Some(&b'*') => {
                    at = memchr::memmem::find(&source[at + 2..], b"*/").map_or(source.len(), |length| at + length + 4);
                }
                b'/' if expression => {
                    at = after_expression(source, at);
                    expression = false;
                }
                byte if starts_identifier(*byte) => {
                    let length = source[at..].iter().take_while(|byte| continues_identifier(**byte)).count();
                    let word = &source[at..at + length];
                    self.add(word);
                    expression =
                        matches!(word, b"return" | b"typeof" | b"case" | b"in" | b"of" | b"void" | b"delete" | b"yield" | b"await");
                    at += length;
                }
                byte => {
                    if !byte.is_ascii_whitespace() {
                        expression = !matches!(byte, b')' | b']' | b'0'..=b'9' | b'.');
                    }
                    at += 1;
                }
            }
        }
    }

    /// Whether the name may stay.
    pub fn contains(&self, name: &[u8]) -> bool {
        self.own.contains(name) || self.found.contains(name)
    }

    /// Whether it is one that a runtime brings.
    pub(super) fn is_own(&self, name: &[u8]) -> bool {
        self.own.contains(name)
    }
}

fn starts_identifier(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_' || byte == b'$' || byte >= 128
}

fn continues_identifier(byte: u8) -> bool {
    starts_identifier(byte) || byte.is_ascii_digit()
}

/// Whether it is shaped like an identifier.
pub(super) fn is_identifier(name: &[u8]) -> bool {
    name.first().is_some_and(|first| starts_identifier(*first)) && name.iter().all(|byte| continues_identifier(*byte))
}

fn line_length(source: &[u8]) -> usize {
    memchr::memchr2(b'\n', b'\r', source).unwrap_or(source.len())
}

/// Behind a quoted text; a template may have lines.
fn after_quoted(source: &[u8], start: usize) -> usize {
    let quote = source[start];
    let mut at = start + 1;
    while let Some(byte) = source.get(at) {
        match byte {
            b'\\' => at += 1,
            byte if *byte == quote => return at + 1,
            b'\n' if quote != b'`' => return at,
            _ => {}
        }
        at += 1;
    }
    source.len()
}

/// Behind a regular expression and its flags.
fn after_expression(source: &[u8], start: usize) -> usize {
    let (mut at, mut class) = (start + 1, false);
    while let Some(byte) = source.get(at) {
        match byte {
            b'\\' => at += 1,
            b'[' => class = true,
            b']' => class = false,
            b'\n' => return at,
            b'/' if !class => {
                at += 1;
                return at + source[at.min(source.len())..].iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
            }
            _ => {}
        }
        at += 1;
    }
    source.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn identifiers_and_nothing_in_quotes_or_comments() {
        let mut names = Identifiers::default();
        names.add_source(
            br#"class Session { constructor(user) { this.userName = user["quoted"] / 2 / total; } } // comment
               const x = 'alice\'s' + `template ${inside}`; /* block */ return /re["]gexp/gi.test(y) // eve
               const broken = 'never closed
               after = 1"#,
        );
        for name in ["Session", "userName", "user", "total", "x", "y", "test", "after"] {
            assert!(names.contains(name.as_bytes()), "{name}");
        }
        for name in ["quoted", "comment", "alice", "template", "inside", "block", "re", "gexp", "gi", "eve", "never", "closed"] {
            assert!(!names.contains(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn the_runtimes_own_names_are_there() {
        let names = Identifiers::own();
        for name in ["(GC roots)", "prototype", "__proto__", "Array", "system / Map", "sloppy_function_map", "length"] {
            assert!(names.contains(name.as_bytes()), "{name}");
        }
        assert!(!names.contains(b"alice") && !names.contains(b"root") || names.is_own(b"root"));
    }

    proptest! {
        #[test]
        fn any_source_ends(source in "[a-c\"'`/*\\\\\\[\\]\n ]{0,60}") {
            Identifiers::default().add_source(source.as_bytes());
        }
    }
}
