//! The model as a page: trees that open and close, percentages, descriptions on hovering.
//!
//! One file with style and script inside, or the same parts for a page that is served and asks for
//! the next reading itself ([`script`]).

use crate::text::{amount, share};
use crate::{Model, Node, Process};
use heaplab_text::lines::one_line;
use heaplab_text::markup::escaped;
use heaplab_text::words;
use std::fmt::Write;

/// The style.
pub const STYLE: &str = include_str!("../assets/about.css");
const SCRIPT: &str = include_str!("../assets/about.js");
/// Nodes below this share of their tree are closed at first.
const OPEN_SHARE: f64 = 0.01;
/// And so is what lies deeper. There, folders with nothing beside them are one row: a page of deep
/// paths has no more than some rows for each report.
const OPEN_DEPTH: usize = 6;

/// The script of a served page.
pub fn script() -> &'static str {
    SCRIPT
}

/// One file that needs no other. `title` says what it is of.
pub fn file(model: &Model, title: &str) -> String {
    let head = format!(
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src \
         'nonce-heaplab'; base-uri 'none'; form-action 'none'\">\n\
         <style nonce=\"heaplab\">\n{STYLE}</style>"
    );
    whole(&head, title, &body(model))
}

/// The page that `heaplab about --serve` shows: it loads `about.css` and `about.js`, and these load
/// the `body`.
pub fn served(title: &str) -> String {
    let head =
        "<link rel=\"stylesheet\" href=\"about.css\">\n<script src=\"about.js\" defer></script>";
    whole(head, title, "<p>Measuring …</p>")
}

fn whole(head: &str, title: &str, body: &str) -> String {
    let title = escaped(&one_line(title));
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" \
         content=\"width=device-width\">\n{head}\n<title>{title}</title>\n<header><h1>{title}</h1>\
         <p id=\"state\"></p></header>\n<main>{body}</main>\n</html>\n"
    )
}

/// Buttons that choose a mark of the running program: its tree then (`at`), or the changes since
/// (`since`); empty texts: now. Nothing if the program has set no mark.
pub fn marks(model: &Model, at: &str, since: &str) -> String {
    if model.marks.is_empty() {
        return String::new();
    }
    let mut out = String::from("<nav>");
    for (name, title, nothing, chosen) in
        [("at", "Memory", "now", at), ("since", "Changes since", "nothing", since)]
    {
        push(&mut out, format_args!("<span>{title}</span>"));
        let marks = model.marks.iter().map(|mark| mark.name.as_str());
        for mark in std::iter::once("").chain(marks) {
            let (label, value) = (if mark.is_empty() { nothing } else { mark }, escaped(mark));
            let (label, pressed) = (escaped(&one_line(label)), mark == chosen);
            push(
                &mut out,
                format_args!(
                    "<button name=\"{name}\" value=\"{value}\" \
                     aria-pressed=\"{pressed}\">{label}</button>"
                ),
            );
        }
    }
    out.push_str("</nav>");
    out
}

/// All processes of the model.
pub fn body(model: &Model) -> String {
    let mut out = String::new();
    index(&mut out, model);
    for (at, process) in model.processes.iter().enumerate() {
        section(&mut out, model, process, at);
    }
    if model.processes.is_empty() {
        out.push_str(if model.is_difference {
            "<p>Nothing differs.</p>"
        } else {
            "<p>There is nothing to show.</p>"
        });
    }
    sentences(&mut out, &model.errors);
    if !model.has_usable_size {
        out.push_str(
            "<p>Usable sizes could not be asked: bytes on the heap are what was asked for, and slop \
             is in heap-unclassified.</p>",
        );
    }
    out
}

/// Links to the processes, if there are several.
fn index(out: &mut String, model: &Model) {
    if model.processes.len() < 2 {
        return;
    }
    out.push_str("<ul>");
    for (at, process) in model.processes.iter().enumerate() {
        let name = escaped(&one_line(&process.name));
        let explicit = process.explicit.as_ref().map_or_else(String::new, |root| {
            format!(": {}", amount(root, root.amount, model.is_difference))
        });
        push(out, format_args!("<li><a href=\"#process-{at}\">{name}</a>{explicit}</li>"));
    }
    out.push_str("</ul>");
}

fn section(out: &mut String, model: &Model, process: &Process, at: usize) {
    let name = escaped(&one_line(&process.name));
    push(out, format_args!("<section id=\"process-{at}\"><h2>{name}</h2>"));
    sentences(out, &process.warnings);
    if let Some(explicit) = &process.explicit {
        out.push_str("<h3>Explicit allocations</h3>");
        tree(out, model, explicit);
    }
    if !process.other.is_empty() {
        out.push_str("<h3>Other measurements</h3>");
        for root in &process.other {
            tree(out, model, root);
        }
    }
    out.push_str("</section>");
}

fn sentences(out: &mut String, all: &[String]) {
    for sentence in all {
        push(out, format_args!("<p class=\"warning\">{}</p>", escaped(&one_line(sentence))));
    }
}

fn tree(out: &mut String, model: &Model, root: &Node) {
    out.push_str("<div class=\"tree\">");
    node(out, model, root, root.weight(), 0);
    out.push_str("</div>");
}

fn node(out: &mut String, model: &Model, of: &Node, whole: u64, depth: usize) {
    let (name, of) = if depth < OPEN_DEPTH { (of.name.clone(), of) } else { folded(of) };
    if of.children.is_empty() {
        let row = row(model, &name, of, (depth > 0).then_some(whole));
        push(out, format_args!("<div class=\"row\">{row}</div>"));
        return;
    }
    let is_open = depth < OPEN_DEPTH && of.weight() as f64 >= whole as f64 * OPEN_SHARE;
    push(
        out,
        format_args!(
            "<details{}><summary class=\"row\">{}</summary><div class=\"below\">",
            if is_open { " open" } else { "" },
            row(model, &name, of, Some(whole))
        ),
    );
    for child in &of.children {
        node(out, model, child, whole, depth + 1);
    }
    out.push_str("</div></details>");
}

/// The next node that is no folder with a single child, and the names up to it.
fn folded(mut of: &Node) -> (String, &Node) {
    let mut name = of.name.clone();
    while let (0, [only]) = (of.reports, of.children.as_slice()) {
        of = only;
        name.push('/');
        name.push_str(&of.name);
    }
    (name, of)
}

fn row(model: &Model, name: &str, node: &Node, whole: Option<u64>) -> String {
    let mut row = format!(
        "<span class=\"amount\">{}</span><span class=\"share\">{}</span>",
        amount(node, node.amount, model.is_difference),
        share(model, node, whole)
    );
    if model.readings > 1 {
        let (min, max) = (amount(node, node.min, false), amount(node, node.max, false));
        push(&mut row, format_args!("<span class=\"range\">{min} to {max}</span>"));
    }
    let (name, description) = (escaped(&one_line(name)), escaped(&one_line(&node.description)));
    push(&mut row, format_args!("<span class=\"name\" title=\"{description}\">{name}</span>"));
    if node.reports > 1 {
        let reports = words::plural(node.reports, "report");
        push(&mut row, format_args!("<span class=\"note\">{reports} added up</span>"));
    }
    match node.presence {
        Some(1) => row.push_str("<span class=\"note\">gone</span>"),
        Some(2) => row.push_str("<span class=\"note\">new</span>"),
        _ => {}
    }
    row
}

fn push(out: &mut String, arguments: std::fmt::Arguments<'_>) {
    // A string takes whatever is written.
    let _ = out.write_fmt(arguments);
}
