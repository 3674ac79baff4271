//! A range without quotes: bash makes `NAME=1 NAME=2` of `NAME={1,2}` before heaplab sees it.

use std::ffi::OsString;

/// What to say where a command line that cannot be read has the same variable again behind
/// `--vary`.
pub fn explanation(words: &[OsString]) -> Option<String> {
    let own = words.iter().map(|word| word.to_string_lossy()).take_while(|word| word != "--");
    let own: Vec<_> = own.collect();
    let at = own.iter().position(|word| word == "--vary" || word.starts_with("--vary="))?;
    let values = own[at..].iter().filter(|word| *word != "--vary");
    let mut values = values.map(|word| word.strip_prefix("--vary=").unwrap_or(word));
    let first = values.next()?;
    let name = &first[..=first.find('=')?];
    let again = values.find(|value| value.starts_with(name))?;
    let same = first.chars().zip(again.chars()).take_while(|(one, other)| one == other);
    let before: String = same.map(|(letter, _)| letter).collect();
    Some(format!(
        "--vary: the shell has made {first} {again} ... of the range before heaplab saw its braces. Quote it: --vary '{before}{{...}}'"
    ))
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
    }
}
