//! Text within HTML, SVG and XML.

/// Text in which nothing is markup: as content, and as an attribute between double quotes.
///
/// What XML 1.0 forbids (controls, U+FFFE, U+FFFF) becomes U+FFFD, and so does what turns the
/// direction of text; tabs become spaces.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' => out.push('\n'),
            '\t' => out.push(' '),
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            other if crate::lines::misleads(other) => out.push('\u{fffd}'),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_markup_or_forbidden() {
        assert_eq!(
            escaped("a<b>&\"c\"\n\td\u{1b}\u{ffff}é"),
            "a&lt;b&gt;&amp;&quot;c&quot;\n d\u{fffd}\u{fffd}é"
        );
    }
}
