//! Functions as a person names them: without arguments; `*` stands for any letters, and what stands
//! before a `::` may be left out. A name that a report has cut ends in `...`, and may be copied so.

use super::{Tables, bare_name};

/// Names listed when a function is not found.
const NEAR_MAX: usize = 8;

impl Tables {
    /// For each row of `stacks`, whether a function called `name` stands on it, or is inlined
    /// there.
    pub fn stacks_through(&self, name: &str) -> Vec<bool> {
        let mut rows = vec![false; self.stacks.len().max(1)];
        let frames = frames_called(self, name);
        for (row, node) in self.stacks.iter().enumerate().skip(1) {
            let parent = node.parent as usize;
            rows[row] = (parent < row && rows[parent])
                || frames.get(node.frame as usize).copied().unwrap_or(false);
        }
        rows
    }

    /// Functions with a part of the name, in order: what may have been meant.
    pub fn functions_like(&self, name: &str) -> Vec<String> {
        let part = name.trim_matches('*').rsplit("::").next().unwrap_or(name).to_ascii_lowercase();
        let stem: String = part.chars().take(4).collect();
        let named = || self.frames.iter().filter_map(|frame| frame.function.as_deref());
        let with = |part: &str| {
            let mut found: Vec<String> = named()
                .map(bare_name)
                .filter(|label| label.to_ascii_lowercase().contains(part))
                .map(|label| label.chars().take(60).collect())
                .collect();
            found.sort();
            found.dedup();
            found.truncate(NEAR_MAX);
            found
        };
        let found = with(&part);
        if found.is_empty() && !stem.is_empty() { with(&stem) } else { found }
    }
}

/// For each row of `frames`, whether it or what it was inlined into is called so.
fn frames_called(tables: &Tables, name: &str) -> Vec<bool> {
    let mut called: Vec<bool> = (0..tables.frames.len())
        .map(|row| is_called(&tables.frame_label(row as u32), name))
        .collect();
    // The outer frame is a later row.
    for row in (0..called.len()).rev() {
        if let Some(outer) = tables.frames[row].inlined_into.filter(|outer| *outer as usize > row) {
            called[row] |= called.get(outer as usize).copied().unwrap_or(false);
        }
    }
    called
}

/// Whether the function `label` is meant by `name`.
fn is_called(label: &str, name: &str) -> bool {
    let pattern = match name.strip_suffix("...") {
        Some(cut) => format!("{cut}*"),
        None => name.to_owned(),
    };
    let bare = bare_name(label);
    let is_whole = |text: &str| matches(text.as_bytes(), pattern.as_bytes());
    is_whole(bare)
        || is_whole(label)
        || bare.match_indices("::").any(|(at, _)| is_whole(&bare[at + 2..]))
}

/// Whether `text` is `pattern`, in which `*` stands for any letters.
fn matches(text: &[u8], pattern: &[u8]) -> bool {
    let (mut at, mut of) = (0, 0);
    // Where the last star was, and how much of the text it stands for.
    let mut star: Option<(usize, usize)> = None;
    while at < text.len() {
        match pattern.get(of) {
            Some(b'*') => {
                star = Some((of, at));
                of += 1;
            }
            Some(letter) if *letter == text[at] => {
                at += 1;
                of += 1;
            }
            _ => {
                let Some((star_at, from)) = star else { return false };
                star = Some((star_at, from + 1));
                (at, of) = (from + 1, star_at + 1);
            }
        }
    }
    pattern[of..].iter().all(|letter| *letter == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_match_as_reports_write_them() {
        for (label, name, is) in [
            ("pcache1Alloc", "pcache1Alloc", true),
            ("pcache1Alloc", "pcache1", false),
            ("pcache1Alloc", "pcache*", true),
            ("a::b::load(char const*)", "load", true),
            ("a::b::load(char const*)", "b::load", true),
            ("a::b::load(char const*)", "a::b::load(char const*)", true),
            ("a::reload", "load", false),
            ("a::reload", "*load", true),
            ("abcabc", "a*c*c", true),
            ("abcab", "a*c*c", false),
            ("very::long::name", "very::lo...", true),
            ("", "*", true),
        ] {
            assert_eq!(is_called(label, name), is, "{label} {name}");
        }
    }
}
