//! Puts the page together: template, style, scripts and data in one file.
//!
//! The data holds names from elsewhere (functions, paths, arguments), so three things keep them
//! from becoming markup: JSON is written without `<`, `>` and `&` and without the two line
//! separators that scripts end lines at; the scripts build every element by hand and put names in
//! as text; and the page's own policy forbids scripts without its nonce and every request to
//! anywhere.

use crate::page::model::Page;
use heaplab_text::markup::escaped;

const TEMPLATE: &str = include_str!("../../assets/page.html");
/// How pages look.
pub const STYLE: &str = include_str!("../../assets/page.css");
/// Scripts that pages share, in the order of joining them to one module; each may use those before
/// it: numbers, elements, choices in the address, colours, the timeline, names, trees, the flame
/// graph.
pub const SHARED_SCRIPTS: [&str; 8] = [
    include_str!("../../assets/format.js"),
    include_str!("../../assets/names.js"),
    include_str!("../../assets/dom.js"),
    include_str!("../../assets/choices.js"),
    include_str!("../../assets/theme.js"),
    include_str!("../../assets/timeline.js"),
    include_str!("../../assets/tree.js"),
    include_str!("../../assets/flame.js"),
];
/// Scripts of a report alone, behind the shared ones.
const SCRIPTS: [&str; 12] = [
    include_str!("../../assets/ranges.js"),
    include_str!("../../assets/lens.js"),
    include_str!("../../assets/stacks.js"),
    include_str!("../../assets/findings.js"),
    include_str!("../../assets/tables.js"),
    include_str!("../../assets/heap-map.js"),
    include_str!("../../assets/collections.js"),
    include_str!("../../assets/resident.js"),
    include_str!("../../assets/dark-matter.js"),
    include_str!("../../assets/replay.js"),
    include_str!("../../assets/metaspace.js"),
    include_str!("../../assets/main.js"),
];

/// The whole page as one HTML file.
///
/// ```
/// let html = heaplab_report::page::html(&heaplab_report::page::model::Page::default());
/// assert!(html.starts_with("<!doctype html>"));
/// ```
pub fn html(page: &Page) -> String {
    let data = serde_json::to_string(page).expect("numbers, strings and lists always become JSON");
    let name =
        if page.recording.program.is_empty() { "unnamed program" } else { &page.recording.program };
    composed(TEMPLATE, name, &[STYLE], &[&SHARED_SCRIPTS[..], &SCRIPTS[..]].concat(), &data)
}

/// Ways of writing text as markup, of running it, or of loading something. No script has them:
/// names from a recording stay data, and a page is whole by itself.
const FORBIDDEN: [&str; 10] = [
    "innerHTML",
    "outerHTML",
    "insertAdjacentHTML",
    "document.write",
    "eval(",
    "new Function",
    "fetch(",
    "XMLHttpRequest",
    "import(",
    "</script",
];

/// A page of a template with places named `{{title}}`, `{{css}}`, `{{js}}` and `{{data}}`.
pub fn composed(
    template: &str,
    name: &str,
    styles: &[&str],
    scripts: &[&str],
    data: &str,
) -> String {
    for way in FORBIDDEN {
        assert!(!scripts.iter().any(|script| script.contains(way)), "a script has {way}");
    }
    let parts = styles.iter().chain(scripts).map(|part| part.len()).sum::<usize>();
    let mut out = String::with_capacity(template.len() + data.len() + parts);
    let mut rest = template;
    // One pass over the template alone: inserted text is never searched for places to fill.
    while let Some((before, after)) = rest.split_once("{{") {
        let (place, after) = after.split_once("}}").expect("the template closes what it opens");
        out.push_str(before);
        match place {
            "title" => out.push_str(&escaped(&format!("{} - heaplab", shorten(name, 80)))),
            "css" => styles.iter().for_each(|style| out.push_str(style)),
            "js" => scripts.iter().for_each(|script| push_script(&mut out, script)),
            "data" => push_json(&mut out, data),
            other => unreachable!("the template names {other}, which nothing fills"),
        }
        rest = after;
    }
    out.push_str(rest);
    out
}

/// Writes a script without its lines of comment, which are a tenth of a page.
fn push_script(out: &mut String, script: &str) {
    let code = script.split_inclusive('\n').filter(|line| !line.trim_start().starts_with("//"));
    code.for_each(|line| out.push_str(line));
}

/// Writes JSON so that no part of it can end the element that holds it.
fn push_json(out: &mut String, json: &str) {
    for character in json.chars() {
        match character {
            '<' => out.push_str("\\u003c"),
            '>' => out.push_str("\\u003e"),
            '&' => out.push_str("\\u0026"),
            '\u{2028}' => out.push_str("\\u2028"),
            '\u{2029}' => out.push_str("\\u2029"),
            other => out.push(other),
        }
    }
}

/// At most `characters` characters; a longer text ends in an ellipsis.
pub fn shorten(text: &str, characters: usize) -> String {
    match text.char_indices().nth(characters) {
        None => text.to_owned(),
        Some(_) => text.chars().take(characters - 1).chain(['…']).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::model::{Frame, Recording};

    const HOSTILE: &str = "</script><img src=x onerror=alert(1)><!--<script>{{data}}\u{2028}&amp;";

    fn hostile() -> Page {
        Page {
            recording: Recording { program: HOSTILE.into(), ..Recording::default() },
            frames: vec![Frame {
                label: HOSTILE.into(),
                module: HOSTILE.into(),
                place: HOSTILE.into(),
                ..Frame::default()
            }],
            ..Page::default()
        }
    }

    #[test]
    fn hostile_names_cannot_leave_the_data() {
        let html = html(&hostile());
        let (before, data) =
            html.split_once(r#"<script type="application/json" id="data">"#).unwrap();
        let (data, after) = data.split_once("</script>").unwrap();
        let read: serde_json::Value = serde_json::from_str(data).unwrap();
        assert_eq!(read["frames"][0]["label"], HOSTILE);
        assert!(!data.contains('<') && !data.contains('\u{2028}'));
        assert!(!before.contains("<img") && !after.contains("<img"));
        assert_eq!(
            html.matches("{{").count(),
            2 + 3,
            "only the names themselves (title and data) hold braces"
        );
    }

    #[test]
    fn the_page_is_small_before_its_data() {
        let size = html(&Page::default()).len();
        assert!(size < 180_000, "{size} bytes");
    }

    #[test]
    fn the_only_addresses_are_names_of_a_namespace() {
        let html = html(&Page::default());
        assert!(!html.contains("https://"));
        let namespaces = html.matches("http://www.w3.org/2000/svg").count();
        assert_eq!(html.matches("http://").count(), namespaces);
    }

    #[test]
    fn shortening_counts_characters() {
        assert_eq!(shorten("äöü", 3), "äöü");
        assert_eq!(shorten("äöüß", 3), "äö…");
    }
}
