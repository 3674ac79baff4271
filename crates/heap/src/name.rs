//! How heaps are named on a command line: one grammar for all families.
//!
//! ```text
//! glibc                                  a heap
//! glibc:arena_max=1,mmap_max=0           with parameters
//! metaspace:jdk17,limit=64m              a variant of a family, with parameters
//! lib:/opt/libmine.so,NAME=VALUE         an argument is a variant
//! ```
//!
//! A comma and a colon mean the same between parts.

/// A parsed name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// The name as typed.
    pub text: String,
    /// Name of the heap or family.
    pub head: String,
    /// The part before any parameter: `jdk17`, `/opt/libmine.so`.
    pub variant: Option<String>,
    /// Parameters with their values, in order.
    pub parameters: Vec<(String, String)>,
    /// Pieces behind the variant that are no `PARAMETER=VALUE`.
    pub strays: Vec<String>,
}

impl Name {
    /// Splits a name. Families decide whether a heap of this name exists.
    pub fn parse(text: &str) -> Name {
        let text = text.trim();
        let (head, rest) =
            text.find([':', ',']).map_or((text, ""), |end| (&text[..end], &text[end + 1..]));
        let mut name = Name {
            text: text.into(),
            head: head.into(),
            variant: None,
            parameters: Vec::new(),
            strays: Vec::new(),
        };
        for (nth, piece) in rest.split(',').filter(|piece| !piece.is_empty()).enumerate() {
            let mut piece = piece;
            if nth == 0 {
                let end = end_of_variant(piece);
                if end > 0 {
                    name.variant = Some(piece[..end].into());
                    piece = piece[end..].trim_start_matches(':');
                }
            }
            match piece.split_once('=') {
                Some((key, value)) => name.parameters.push((key.into(), value.into())),
                None if piece.is_empty() => {}
                None => name.strays.push(piece.into()),
            }
        }
        name
    }

    /// The parameters as written: `limit=64m,reclaim=none`; includes strays.
    pub fn parameters_text(&self) -> String {
        let named = self.parameters.iter().map(|(key, value)| format!("{key}={value}"));
        named.chain(self.strays.iter().cloned()).collect::<Vec<_>>().join(",")
    }

    /// The first parameter that stands there twice.
    pub fn repeated(&self) -> Option<&str> {
        let names = || self.parameters.iter().map(|(name, _)| name.as_str());
        names()
            .enumerate()
            .find(|(nth, name)| names().take(*nth).any(|at| at == *name))
            .map(|(_, name)| name)
    }

    /// The head with its variant.
    pub fn heap(&self) -> String {
        self.variant
            .as_ref()
            .map_or(self.head.clone(), |variant| format!("{}:{variant}", self.head))
    }
}

/// End of the variant at the start of a first piece; 0: the piece is a parameter. A path is a
/// variant as a whole.
fn end_of_variant(piece: &str) -> usize {
    if piece.starts_with(['/', '.']) {
        return piece.len();
    }
    match piece.find('=') {
        None => piece.find(':').unwrap_or(piece.len()),
        Some(equals) => piece[..equals].find(':').unwrap_or(0),
    }
}

/// The names of a list such as `glibc,jemalloc:narenas=1,dirty_decay_ms=0`: a piece with `=`
/// belongs to the heap before it, unless a colon comes first.
pub fn list(text: &str) -> Vec<Name> {
    let mut names: Vec<String> = Vec::new();
    for piece in text.split(',').map(str::trim).filter(|piece| !piece.is_empty()) {
        let continues = piece.contains('=')
            && !piece.split('=').next().is_some_and(|before| before.contains(':'));
        match names.last_mut().filter(|_| continues) {
            Some(last) => *last = format!("{last},{piece}"),
            None => names.push(piece.into()),
        }
    }
    names.iter().map(|name| Name::parse(name)).collect()
}

/// The word of `known` nearest to a mistyped `word`: at most a third of the letters are wrong.
pub fn closest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // People type no longer words, and the distance takes time in proportion to both lengths.
    const LONGEST: usize = 64;
    if word.len() > LONGEST {
        return None;
    }
    let distances = known.into_iter().map(|known| (distance(word, known), known));
    let (wrong, found) = distances.min_by_key(|(wrong, _)| *wrong)?;
    (wrong > 0 && wrong * 3 <= found.chars().count().max(3)).then_some(found)
}

/// Letters to insert, delete or replace (Levenshtein 1966), and neighbours to swap.
fn distance(from: &str, to: &str) -> usize {
    let (from, to): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
    let mut rows = vec![vec![0; to.len() + 1]; from.len() + 1];
    for (at, row) in rows.iter_mut().enumerate() {
        row[0] = at;
    }
    rows[0] = (0..=to.len()).collect();
    for i in 1..=from.len() {
        for j in 1..=to.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(from[i - 1] != to[j - 1]);
            let mut least = replaced.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
            if i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = least;
        }
    }
    rows[from.len()][to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str) -> String {
        let Name { head, variant, parameters, strays, .. } = Name::parse(text);
        format!("{head}|{}|{parameters:?}|{}", variant.unwrap_or_default(), strays.join(" "))
    }

    #[test]
    fn names_have_one_grammar() {
        for (text, expected) in [
            ("glibc", "glibc||[]|"),
            ("glibc:arena_max=1,mmap_max=0", r#"glibc||[("arena_max", "1"), ("mmap_max", "0")]|"#),
            ("glibc,arena_max=1", r#"glibc||[("arena_max", "1")]|"#),
            ("metaspace:jdk17", "metaspace|jdk17|[]|"),
            ("metaspace:jdk17,limit=64m", r#"metaspace|jdk17|[("limit", "64m")]|"#),
            ("metaspace:jdk17:limit=64m", r#"metaspace|jdk17|[("limit", "64m")]|"#),
            ("lib:/a/libx.so,CONF=a:b", r#"lib|/a/libx.so|[("CONF", "a:b")]|"#),
            ("lib:/a=b:c/libx.so", "lib|/a=b:c/libx.so|[]|"),
            ("lib:libm.so.6", "lib|libm.so.6|[]|"),
            (
                "elastic:growth=class:768+16k/standard",
                r#"elastic||[("growth", "class:768+16k/standard")]|"#,
            ),
            ("metaspace:jdk17,reclaim", "metaspace|jdk17|[]|reclaim"),
            ("", "||[]|"),
            (":,=", "||[(\"\", \"\")]|"),
        ] {
            assert_eq!(parts(text), expected, "{text}");
        }
        assert_eq!(Name::parse("a:b,c=d,e").parameters_text(), "c=d,e");
    }

    #[test]
    fn parameters_belong_to_the_heap_before_them() {
        let heaps =
            |text: &str| list(text).iter().map(|name| name.text.clone()).collect::<Vec<_>>();
        assert_eq!(
            heaps(
                "jemalloc:narenas=1,dirty_decay_ms=0, glibc:arena_max=1,lib:/a/libx.so,CONF=a:b,metaspace:jdk17,limit=1m,bump"
            ),
            [
                "jemalloc:narenas=1,dirty_decay_ms=0",
                "glibc:arena_max=1",
                "lib:/a/libx.so,CONF=a:b",
                "metaspace:jdk17,limit=1m",
                "bump"
            ]
        );
        assert!(list(" , ").is_empty());
    }

    #[test]
    fn a_mistyped_word_is_close_to_one() {
        let known = ["glibc", "jemalloc", "mimalloc", "elastic"];
        assert_eq!(closest("jemaloc", known), Some("jemalloc"));
        assert_eq!(closest("gilbc", known), Some("glibc"));
        assert_eq!(closest("elastik", known), Some("elastic"));
        assert_eq!(
            (
                closest("tcmalloc", ["glibc", "elastic"]),
                closest("", known),
                closest("glibc", ["glibc"])
            ),
            (None, None, None)
        );
    }
}
