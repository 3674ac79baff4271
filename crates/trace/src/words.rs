//! Counts in sentences: losses of a recording in correct grammar, singular and plural.

/// The sentence `text` behind its count. `text` has both forms of words that depend on the number:
/// `[block was|blocks were] given back`.
///
/// ```
/// use heaplab_trace::words::so_many;
/// assert_eq!(so_many(1, "[block was|blocks were] given back"), "1 block was given back");
/// assert_eq!(so_many(20, "[block was|blocks were] given back"), "20 blocks were given back");
/// ```
pub fn so_many(count: u64, text: &str) -> String {
    let mut sentence = format!("{count} ");
    let mut rest = text;
    while let Some((before, choice, after)) = choice(rest) {
        sentence.push_str(before);
        sentence.push_str(if count == 1 { choice.0 } else { choice.1 });
        rest = after;
    }
    sentence.push_str(rest);
    sentence
}

/// The text before the first choice, the choice, and the text behind it.
fn choice(text: &str) -> Option<(&str, (&str, &str), &str)> {
    let (before, behind) = text.split_once('[')?;
    let (choice, after) = behind.split_once(']')?;
    Some((before, choice.split_once('|')?, after))
}

#[cfg(test)]
mod tests {
    use super::so_many;

    #[test]
    fn one_is_one_and_what_is_no_choice_stays() {
        assert_eq!(
            so_many(1, "[free|frees] of what [was|were] not there"),
            "1 free of what was not there"
        );
        assert_eq!(
            so_many(0, "[free|frees] of what [was|were] not there"),
            "0 frees of what were not there"
        );
        for plain in ["lines", "a [b", "a ] b [", "[x] y", ""] {
            assert_eq!(so_many(1, plain), format!("1 {plain}"));
        }
    }
}
