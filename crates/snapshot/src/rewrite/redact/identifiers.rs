//! Names that may stay: identifiers of source text, and names that a runtime brings itself.
//!
//! Property names can be secrets (a map keyed by e-mail); a name written in a program's source is
//! not. So names that occur as identifiers in source text may stay. `lexer` finds the identifiers.

use super::lexer::{self, continues_identifier, starts_identifier};
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

    /// Adds the identifiers of a source text (JavaScript or TypeScript, and near enough to them C
    /// and Java). What follows where only a parser could tell names from texts is left out; false
    /// where that is so.
    pub fn add_source(&mut self, source: &[u8]) -> bool {
        let mut words = Vec::new();
        let whole = lexer::javascript(source, &mut words).is_ok();
        words.into_iter().for_each(|word| self.add(word));
        whole
    }

    /// The same of a Python text.
    pub fn add_python(&mut self, source: &[u8]) -> bool {
        let mut words = Vec::new();
        let whole = lexer::python(source, &mut words).is_ok();
        words.into_iter().for_each(|word| self.add(word));
        whole
    }

    /// Whether the name may stay.
    pub fn contains(&self, name: &[u8]) -> bool {
        self.own.contains(name) || self.found.contains(name)
    }

    /// Whether a runtime brings this name.
    pub(super) fn is_own(&self, name: &[u8]) -> bool {
        self.own.contains(name)
    }
}

/// Whether the name has the shape of an identifier.
pub(super) fn is_identifier(name: &[u8]) -> bool {
    name.first().is_some_and(|first| starts_identifier(*first))
        && name.iter().all(|byte| continues_identifier(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Lexer = for<'t> fn(&'t [u8], &mut Vec<&'t [u8]>) -> Result<(), lexer::Doubt>;

    /// The words that are kept, and whether all was read.
    fn read(with: Lexer, source: &str) -> (String, bool) {
        let mut words = Vec::new();
        let whole = with(source.as_bytes(), &mut words).is_ok();
        (
            words
                .iter()
                .map(|word| std::str::from_utf8(word).unwrap())
                .collect::<Vec<_>>()
                .join(" "),
            whole,
        )
    }

    #[test]
    fn identifiers_and_nothing_in_quotes_or_comments() {
        for (source, words) in [
            (r#"user["quoted"] / 2 / total; // eve"#, "user total"),
            (r"const x = 'alice\'s' + y /* block */ + z", "const x y z"),
            (r#"return /re["]gexp/gi.test(y)"#, "return test y"),
            ("a `t ${ `zz ${q} eve` } alice` b", "a b"),
            ("a `t ${ {k: `}`} } alice` b", "a b"),
            ("if (a) /alice's/.test(b)", "if a test b"),
            ("x.if (a) / b / c", "x if a b c"),
            ("f(a) / b / c; g[0] / d", "f a b c g d"),
            ("i++ / 2; ++i", "i i"),
            ("for (;;) {} /alice'/.x", "for x"),
            ("x = {} / y / z", "x y z"),
            ("a <!-- alice and eve\nb\n  --> alice\nc\n/* */ --> alice", "a b c"),
            ("while (n --> zero) {}", "while n zero"),
            ("#! /usr/bin/env alice\nb", "b"),
            ("0x1f + 1e5 + 10n + .5 + x", "x"),
            ("'a\\\nb' + c; \"x\\\r\ny\" + d", "c d"),
            ("/[/'\\]`]eve/u, x", "x"),
            ("this.#hidden", "this hidden"),
        ] {
            assert_eq!(read(lexer::javascript, source), (words.to_owned(), true), "{source}");
        }
    }

    #[test]
    fn in_doubt_nothing_more_is_kept() {
        for (source, words) in [
            ("a = 'never closed\nalice", "a"),
            ("a = /never closed\nalice", "a"),
            ("b: {} / alice / eve", "b"),
            ("yield / alice / eve", "yield"),
            ("a <!-- `alice\neve`", "a"),
            ("a // \u{2028} alice", "a"),
            ("a = \"\"\"alice\n eve\"\"\"", "a"),
            ("a = \"\" \"alice\"", "a"),
            ("a \\u0061lice", "a"),
            ("a ) / alice", "a"),
            ("a = /[[']/v, alice", "a"),
            ("let a = <p>alice said</p>; b", ""),
            ("let a = <>alice said</>; b", ""),
        ] {
            assert_eq!(read(lexer::javascript, source), (words.to_owned(), false), "{source}");
        }
    }

    #[test]
    fn python_has_quotes_and_comments_of_its_own() {
        for (source, words, whole) in [
            ("import a # alice's\nb", "import a b", true),
            ("x = '''one\nalice's \"eve\"\n''' + y", "x y", true),
            (
                "def f():\n    \"\"\"alice\n    \\\"\"\" eve\"\"\"\n    return g",
                "def f return g",
                true,
            ),
            ("x = rb'alice' + Rb\"eve\" + f'{a} {{alice}}' + y", "x y", true),
            ("x = f\"{d['alice']}\" + y", "x y", true),
            ("x = f\"{d[\"alice\"]}\" + y", "x", false),
            ("x = 'never closed\nalice", "x", false),
            ("x = 1_000j + 0xff + y", "x y", true),
        ] {
            assert_eq!(read(lexer::python, source), (words.to_owned(), whole), "{source}");
        }
    }

    #[test]
    fn the_runtimes_own_names_are_there() {
        let names = Identifiers::own();
        for name in [
            "(GC roots)",
            "prototype",
            "__proto__",
            "Array",
            "system / Map",
            "sloppy_function_map",
            "length",
        ] {
            assert!(names.contains(name.as_bytes()), "{name}");
        }
        assert!(!names.contains(b"alice") && !names.contains(b"root") || names.is_own(b"root"));
    }

    proptest! {
        #[test]
        fn any_source_ends(source in "[a-c0\"'`/*\\\\\\[\\]\n ${}()#<!>.+-]{0,60}") {
            Identifiers::default().add_source(source.as_bytes());
            Identifiers::default().add_python(source.as_bytes());
        }
    }
}
