//! The model in a terminal: amounts, percentages and the tree, the largest first.

use crate::tree::nearest;
use crate::{Mark, Model, Node, Process};
use heaplab_reporter::Units;
use heaplab_text::lines::{cut, one_line};
use heaplab_text::paint::Paint;
use heaplab_text::words;

/// Parts of the whole below this are counted and not shown (about:memory's bound).
const SHOWN_SHARE: f64 = 0.01;
/// Warnings and errors that are shown.
const SENTENCES: usize = 10;

/// How it is shown.
#[derive(Clone, Copy, Debug)]
pub struct Shown {
    /// Columns of a line.
    pub width: usize,
    /// Whether to colour.
    pub colour: bool,
    /// Also what is below 1 % of its tree.
    pub all: bool,
}

/// The model as text.
pub fn render(model: &Model, shown: Shown) -> String {
    let mut out = Paint::new(shown.width, shown.colour);
    for process in &model.processes {
        out.title(&cut(&process.name, shown.width));
        render_process(&mut out, model, process, shown);
    }
    if model.processes.is_empty() {
        out.line(if model.is_difference { "Nothing differs." } else { "There are no reports." });
    }
    sentences(&mut out, &model.errors);
    if !model.has_usable_size {
        out.wrapped_dim(
            "",
            "Usable sizes could not be asked: bytes on the heap are what was asked for, and slop is in \
             heap-unclassified.",
        );
    }
    if !model.marks.is_empty() {
        let ago = |mark: &Mark| {
            let since = words::duration((mark.seconds_ago * 1e9) as u64);
            format!("{} ({since} ago)", one_line(&mark.name))
        };
        let marks: Vec<String> = model.marks.iter().map(ago).collect();
        let marks = marks.join(", ");
        out.wrapped_dim("", &format!("Marks for --at and --since: {marks}."));
    }
    out.finish()
}

fn render_process(out: &mut Paint, model: &Model, process: &Process, shown: Shown) {
    if let Some(explicit) = &process.explicit {
        out.heading("Explicit allocations");
        if model.readings > 1 {
            let columns = format!("{:>11} {:>7}  {:>10} {:>10}", "now", "", "least", "most");
            out.dim(&columns);
        }
        tree(out, model, explicit, shown);
    }
    sentences(out, &process.warnings);
    if process.other.is_empty() {
        return;
    }
    out.heading("Other measurements");
    for root in process.other.iter().filter(|root| !root.children.is_empty()) {
        tree(out, model, root, shown);
    }
    for single in process.other.iter().filter(|root| root.children.is_empty()) {
        out.line(&line(model, single, None, "", shown.width));
    }
}

fn sentences(out: &mut Paint, all: &[String]) {
    for sentence in all.iter().take(SENTENCES) {
        out.warning(&one_line(sentence));
    }
    if all.len() > SENTENCES {
        out.line(&format!("({} more are in --json)", all.len() - SENTENCES));
    }
}

/// A tree: the root, then what is below it behind branches.
fn tree(out: &mut Paint, model: &Model, root: &Node, shown: Shown) {
    let whole = root.weight();
    out.bold(&line(model, root, Some(whole), "", shown.width));
    below(out, model, root, whole, "", shown);
}

fn below(out: &mut Paint, model: &Model, node: &Node, whole: u64, indent: &str, shown: Shown) {
    let is_large = |child: &&Node| shown.all || child.weight() as f64 >= whole as f64 * SHOWN_SHARE;
    let mut large: Vec<&Node> = node.children.iter().filter(is_large).collect();
    let mut tiny = node.children.len() - large.len();
    // One line for one line says less.
    if tiny == 1 {
        large = node.children.iter().collect();
        tiny = 0;
    }
    for (index, child) in large.iter().enumerate() {
        let is_last = index + 1 == large.len() && tiny == 0;
        let branch = format!("{indent}{}", if is_last { "└─" } else { "├─" });
        out.line(&line(model, child, Some(whole), &branch, shown.width));
        let deeper = format!("{indent}{}", if is_last { "  " } else { "│ " });
        below(out, model, child, whole, &deeper, shown);
    }
    if tiny > 0 {
        let rest = node.children.iter().filter(|child| !is_large(child));
        let amount = nearest(rest.map(|child| i128::from(child.amount)).sum());
        let node = Node {
            name: format!("({tiny} tiny)"),
            amount,
            min: amount,
            max: amount,
            units: node.units,
            ..Node::default()
        };
        out.line(&line(model, &node, Some(whole), &format!("{indent}└─"), shown.width));
    }
}

fn line(model: &Model, node: &Node, whole: Option<u64>, branch: &str, width: usize) -> String {
    let share = share(model, node, whole);
    let range = if model.readings > 1 {
        format!("  {:>10} {:>10}", amount(node, node.min, false), amount(node, node.max, false))
    } else {
        String::new()
    };
    let merged = if node.reports > 1 { format!(" [{}]", node.reports) } else { String::new() };
    let presence = match node.presence {
        Some(1) => " [-]",
        Some(2) => " [+]",
        _ => "",
    };
    let now = amount(node, node.amount, model.is_difference);
    let line = format!("{now:>11} {share:>7}{range}  {branch}{}{merged}{presence}", node.name);
    cut(&line, width)
}

/// A node's share of its tree; empty for a value without a tree, and in a difference.
pub(crate) fn share(model: &Model, node: &Node, whole: Option<u64>) -> String {
    let Some(whole) = whole.filter(|whole| *whole > 0 && !model.is_difference) else {
        return String::new();
    };
    let share = words::percent(node.amount.unsigned_abs() as f64 / whole as f64);
    if node.amount < 0 { format!("-{share}") } else { share }
}

/// An amount of a node as words, with its sign where it is a difference.
pub(crate) fn amount(node: &Node, amount: i64, is_difference: bool) -> String {
    let size = amount.unsigned_abs();
    let text = match node.counts() {
        Units::Bytes => words::bytes(size),
        Units::Count | Units::CountCumulative => words::count(size),
        Units::Percentage => format!("{:.2} %", size as f64 / 100.0),
    };
    let sign = match amount.signum() {
        -1 => "-",
        1 if is_difference => "+",
        _ => "",
    };
    format!("{sign}{text}")
}
