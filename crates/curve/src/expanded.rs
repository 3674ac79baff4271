//! Braces without quotes: bash turns `NAME={1,2}` into `NAME=1 NAME=2` before heaplab sees it.

use std::ffi::OsString;

/// The explanation for an unreadable command line with words that a shell made of braces.
pub fn explanation(words: &[OsString]) -> Option<String> {
    let own = words.iter().map(|word| word.to_string_lossy()).take_while(|word| word != "--");
    let own: Vec<_> = own.collect();
    let own: Vec<&str> = own.iter().map(|word| &**word).collect();
    range(&own).or_else(|| list("--on", &own)).or_else(|| list("--compare", &own))
}

/// The same variable twice behind `--vary`.
fn range(words: &[&str]) -> Option<String> {
    let mut values = values_of("--vary", words)?;
    let first = values.next()?;
    let name = &first[..=first.find('=')?];
    let again = values.find(|value| value.starts_with(name))?;
    let before = shared(first, again);
    Some(format!(
        "--vary: the shell has made {first} {again} ... of the range before heaplab saw its braces. Quote it: --vary '{before}{{...}}'"
    ))
}

/// Two words behind an option that takes one, alike up to a colon or an equals sign. The option
/// takes a list with commas instead.
fn list(option: &str, words: &[&str]) -> Option<String> {
    let values: Vec<&str> =
        values_of(option, words)?.take_while(|value| !value.starts_with("--")).collect();
    let [first, again, ..] = values[..] else { return None };
    if !shared(first, again).contains([':', '=']) {
        return None;
    }
    let alike: Vec<&str> = values
        .iter()
        .copied()
        .take_while(|value| shared(first, value).contains([':', '=']))
        .collect();
    Some(format!(
        "{option}: the shell has made {} of one word before heaplab saw its braces. Write {option} {}",
        alike.join(" "),
        alike.join(",")
    ))
}

/// The words from an option's value on.
fn values_of<'a>(option: &str, words: &[&'a str]) -> Option<impl Iterator<Item = &'a str>> {
    let value = |word: &'a str| word.strip_prefix(option)?.strip_prefix('=');
    let at = words.iter().position(|word| *word == option || value(word).is_some())?;
    let rest: Vec<&str> = words[at..]
        .iter()
        .filter(|word| **word != option)
        .map(|word| value(word).unwrap_or(word))
        .collect();
    Some(rest.into_iter())
}

/// The common beginning of both.
fn shared<'a>(one: &'a str, other: &str) -> &'a str {
    let differs = one.char_indices().zip(other.chars()).find(|((_, one), other)| one != other);
    match differs {
        Some(((at, _), _)) => &one[..at],
        None => &one[..one.len().min(other.len())],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Option<String> {
        explanation(&line.split(' ').map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn expanded_braces_are_told_from_other_mistakes() {
        let text = of("heaplab curve --vary A=o=20,x A=o=40,x --reps 3 -- ./app A=1").unwrap();
        assert!(
            text.contains("A=o=20,x A=o=40,x") && text.ends_with("--vary 'A=o={...}'"),
            "{text}"
        );
        assert!(of("heaplab curve --vary=GOGC=1 --vary=GOGC=2 -- ./app").is_some());
        assert_eq!(of("heaplab curve --vary A=1..4x2 app.heaplab -- ./app A=2"), None);
        assert_eq!(of("heaplab curve --vary"), None);
        let text = of("heaplab curve a.heaplab --on ocaml:next-fit ocaml:best-fit --vary o=1..2x2");
        assert!(
            text.as_ref().is_some_and(|text| text.ends_with("--on ocaml:next-fit,ocaml:best-fit")),
            "{text:?}"
        );
        let text = of("heaplab curve --compare=a=0 a=2 --vary O=1..2x2 -- ./app");
        assert!(text.as_ref().is_some_and(|text| text.ends_with("--compare a=0,a=2")), "{text:?}");
        assert_eq!(of("heaplab curve --on ocaml:next-fit app.heaplab --vary o=1"), None);
    }
}
