//! Paths and processes without the numbers that differ from run to run.
//!
//! Source: the rules of Firefox's aboutMemory.js (153). Deviation: an address loses its digits
//! wherever it stands, not only in the paths that Firefox has it in.

/// The text with `NNN` for process and thread ids, addresses, and what else Firefox numbers anew.
pub(crate) fn steady(text: &str) -> String {
    let mut text = without_numbers(text);
    text = without(&text, "#", " (tid=NNN)", "N", is_number);
    if text.contains("window-objects/top(") {
        text = without(&text, ", id=", ")", "NNN", is_number);
    }
    text = without(&text, "moz-nullprincipal:{", "}", UUID, |name| name.len() == UUID.len());
    without(&text, r"jar:file:\\\", r"\omni.ja!", "...", |_| true)
}

const UUID: &str = "NNNNNNNN-NNNN-NNNN-NNNN-NNNNNNNNNNNN";

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// The text without numbers that a word announces.
fn without_numbers(text: &str) -> String {
    /// What stands before the number, and the number's base.
    const BEFORE: [(&str, u32); 7] = [
        ("pid ", 10),
        ("pid=", 10),
        ("pid: ", 10),
        ("tid=", 10),
        ("(segments=", 10),
        ("(scripts=", 10),
        ("0x", 16),
    ];
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        // In an image's size (480x16) no address begins.
        let is_within = out.ends_with(|before: char| before.is_ascii_alphanumeric());
        let found = BEFORE.iter().find_map(|(word, base)| {
            let behind = rest.strip_prefix(word)?;
            let after = behind.trim_start_matches(|letter: char| letter.is_digit(*base));
            let is_number = after.len() < behind.len() && !(is_within && *word == "0x");
            is_number.then_some((*word, after))
        });
        match found {
            Some((word, after)) => {
                out.push_str(word);
                out.push_str("NNN");
                rest = after;
            }
            None => {
                out.push(letter);
                rest = &rest[letter.len_utf8()..];
            }
        }
    }
    out
}

/// The text with `by` for what stands between `before` and the next `after`, wherever it `is` such.
fn without(text: &str, before: &str, after: &str, by: &str, is: impl Fn(&str) -> bool) -> String {
    let mut parts = text.split(before);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        out.push_str(before);
        match part.split_once(after).filter(|(name, _)| is(name)) {
            Some((_, rest)) => out.extend([by, after, rest]),
            None => out.push_str(part),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::steady;

    #[test]
    fn texts_of_two_runs_are_equal() {
        for (text, equal) in [
            ("app (pid 7)", "app (pid NNN)"),
            ("a(0x7f3a)/zone(0xFFee)", "a(0xNNN)/zone(0xNNN)"),
            ("image(480x16, a.svg)/surface(16x16)", "image(480x16, a.svg)/surface(16x16)"),
            (
                "explicit/window-objects/top(https:\\\\a\\b, id=12)/active",
                "explicit/window-objects/top(https:\\\\a\\b, id=NNN)/active",
            ),
            ("explicit/users/all, id=12)", "explicit/users/all, id=12)"),
            ("threads/a #3 b #12 (tid=345)", "threads/a #3 b #N (tid=NNN)"),
            (
                "top(moz-nullprincipal:{01234567-89ab-cdef-0123-456789abcdef}, x)",
                "top(moz-nullprincipal:{NNNNNNNN-NNNN-NNNN-NNNN-NNNNNNNNNNNN}, x)",
            ),
            (
                r"source(jar:file:\\\usr\lib\omni.ja!\a.js)",
                r"source(jar:file:\\\...\omni.ja!\a.js)",
            ),
            ("source(scripts=7, a.js)", "source(scripts=NNN, a.js)"),
            ("address-space/heap(segments=9)", "address-space/heap(segments=NNN)"),
            ("pid é 0x", "pid é 0x"),
        ] {
            assert_eq!(steady(text), equal);
        }
    }
}
