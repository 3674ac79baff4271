//! Leaks of an action, grouped by the path that holds them, with the references to cut.

use crate::attachment::Attachment;
use crate::path::{step_line, write_step};
use crate::rows::{edge_json, label, label_within, node_json, share, step};
use heaplab_snapshot::analysis::Analysis;
use heaplab_snapshot::leaks::{Cut, Holder, Leak, Leaks};
use heaplab_snapshot::shortest_paths::is_numbered;
use heaplab_snapshot::{Edge, Node};
use heaplab_text::lines::{self, cut as cut_text};
use heaplab_text::words::{bytes, count as number, plural};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::fmt::Write;

/// Characters of a class's name: plain objects are named by all that they have.
const CLASS_CHARACTERS: usize = 60;

/// Leaks on their way to a reader.
pub struct Told<'t, 's, 'a> {
    /// The heap in which they are.
    pub analysis: &'t Analysis<'s, 'a>,
    /// All of them.
    pub leaks: &'t Leaks<'t, 's, 'a>,
    /// Most steps shown of a path; 0: all.
    pub steps_max: usize,
    /// Columns of the text.
    pub columns: usize,
}

/// A line about a way.
enum WayLine {
    /// The path's first object, unless it is the root of all.
    From(Node),
    /// A reference; the one to cut is marked.
    Step { edge: Edge, is_cut: bool },
    /// This many more steps like the one before.
    Alike(u64),
    /// This many steps are not shown.
    LeftOut(u64),
}

/// A path; the middle of a long path is left out.
struct Way {
    head: Vec<Edge>,
    left_out: usize,
    tail: Vec<Edge>,
}

impl Told<'_, '_, '_> {
    /// The first `cuts.len()` leaks as text; `born`: objects born between the first two snapshots.
    pub fn text(&self, cuts: &[Cut], born: usize) -> String {
        let leaks = self.leaks;
        let mut text = lines::paragraph(&self.lead(born), "", 0, self.columns);
        if leaks.groups.is_empty() {
            text.push_str("Nothing leaked.\n");
        }
        for (place, (leak, cut)) in leaks.groups.iter().zip(cuts).enumerate() {
            self.write_leak(place + 1, leak, cut, &mut text);
        }
        if cuts.len() < leaks.groups.len() {
            let rest = &leaks.groups[cuts.len()..];
            let retained: u64 = rest.iter().map(|leak| leak.retained_bytes).sum();
            let _ = writeln!(
                text,
                "\n... and {} more with {} (--top 0 shows all)",
                plural(rest.len() as u64, "way"),
                bytes(retained)
            );
        }
        text
    }

    fn lead(&self, born: usize) -> String {
        let leaks = self.leaks;
        format!(
            "Of {} born between the first two, {} of the program live in the third: {} retained, held in {}.",
            plural(born as u64, "object"),
            number(leaks.objects),
            bytes(leaks.retained_bytes()),
            plural(leaks.groups.len() as u64, "way"),
        )
    }

    /// The same as an HTML file; `files` are the three snapshots.
    pub fn html(&self, cuts: &[Cut], born: usize, files: &str) -> String {
        let mut page = Attachment::new("What an action leaked", &[files.into(), self.lead(born)]);
        for (place, (leak, cut)) in self.leaks.groups.iter().zip(cuts).enumerate() {
            page.heading(&format!("{}. {}", place + 1, self.what(leak)));
            let several = cut.references > 1;
            let step = |line: WayLine| match line {
                WayLine::From(node) => (label(self.analysis, node), false),
                WayLine::Step { edge, is_cut } => {
                    (step_line(self.analysis, edge, several && is_cut), is_cut)
                }
                WayLine::Alike(steps) => {
                    (format!("... and {} like it ...", plural(steps, "step")), false)
                }
                WayLine::LeftOut(steps) => (format!("... {} steps more ...", number(steps)), false),
            };
            let way: Vec<_> = self.way_lines(leak).into_iter().map(step).collect();
            page.steps(&way);
            page.paragraph(&self.verdict(leak, cut));
            let others: Vec<_> =
                cut.others.iter().map(|holder| (self.holder(holder, usize::MAX), false)).collect();
            if !others.is_empty() {
                page.steps(&others);
            }
        }
        if cuts.len() < self.leaks.groups.len() {
            let more = plural((self.leaks.groups.len() - cuts.len()) as u64, "way");
            page.paragraph(&format!("... and {more} more (--top 0 writes all)"));
        }
        page.html()
    }

    /// What a leak holds: `5.21 MiB 30 % of the heap: 500 Page, ...`.
    fn what(&self, leak: &Leak) -> String {
        let share = share(leak.retained_bytes, self.analysis.total_bytes());
        let classes = self.classes(leak);
        let named: Vec<String> = classes
            .iter()
            .take(3)
            .map(|(class, count, _)| {
                format!("{} {}", number(*count), cut_text(class, CLASS_CHARACTERS))
            })
            .collect();
        let more = if classes.len() > named.len() { ", ..." } else { "" };
        format!("{share} of the heap: {}{more}", named.join(", "))
    }

    /// Another object that still holds the leak after a cut, `columns` wide.
    fn holder(&self, holder: &Holder, columns: usize) -> String {
        let references = if holder.references == 1 {
            String::new()
        } else {
            format!("  ({} such references)", number(holder.references))
        };
        let from = label_within(self.analysis, holder.from, columns);
        format!("{from} {}{references}", step(self.analysis, holder.edge))
    }

    fn write_leak(&self, place: usize, leak: &Leak, cut: &Cut, text: &mut String) {
        let first = format!("{place}. ");
        let _ = write!(text, "\n{}", lines::paragraph(&self.what(leak), &first, 3, self.columns));
        self.write_way(leak, cut.references > 1, text);
        let _ =
            write!(text, "{}", lines::paragraph(&self.verdict(leak, cut), "   ", 3, self.columns));
        for holder in cut.others.iter().take(3) {
            let _ = writeln!(text, "     {}", self.holder(holder, self.columns - 30));
        }
    }

    /// What cutting does.
    fn verdict(&self, leak: &Leak, cut: &Cut) -> String {
        let references = match (cut.references, cut.holders) {
            (0, _) => return "Nothing that the snapshot knows holds it.".into(),
            (1, _) => "cut this reference".into(),
            (references, 1) => format!("cut {} like this one", plural(references, "reference")),
            (references, holders) => format!(
                "cut {} like this one, from {}",
                plural(references, "reference"),
                plural(holders, "object")
            ),
        };
        let goes = if cut.freed_bytes == leak.retained_bytes {
            "all of it goes".into()
        } else if cut.freed_bytes == 0 {
            "nothing goes yet".into()
        } else {
            format!("{} of it goes", bytes(cut.freed_bytes))
        };
        let all = leak.retained_bytes;
        let others = match (cut.freed_bytes == all, cut.others.len() as u64) {
            (true, _) => String::new(),
            (false, 0) => "; other leaks lead to the rest".into(),
            (false, count) if cut.freed_with_others_bytes == all => {
                format!("; all of it goes with {} too:", plural(count, "other kind"))
            }
            (false, count) => format!(
                "; {} of it with {} too:",
                bytes(cut.freed_with_others_bytes),
                plural(count, "other kind")
            ),
        };
        format!("{references}: {goes}{others}")
    }

    /// The classes of a leak's heads with counts and retained bytes, by retained bytes.
    fn classes(&self, leak: &Leak) -> Vec<(String, u64, u64)> {
        let mut found: HashMap<u32, (u64, u64)> = HashMap::new();
        for head in &leak.heads {
            let class = found.entry(self.analysis.class_of(*head)).or_default();
            class.0 += 1;
            class.1 += self.analysis.retained_size(*head);
        }
        let named = |(class, (count, retained)): (u32, (u64, u64))| {
            (self.analysis.classes()[class as usize].text(), count, retained)
        };
        let mut classes: Vec<_> = found.into_iter().map(named).collect();
        classes.sort_by(|a, b| b.2.cmp(&a.2).then_with(|| a.0.cmp(&b.0)));
        classes
    }

    fn way(&self, node: Node) -> Way {
        let mut head = self.leaks.way(node);
        if self.steps_max == 0 || head.len() <= self.steps_max {
            return Way { head, left_out: 0, tail: Vec::new() };
        }
        let tail = head.split_off(head.len() - self.steps_max.div_ceil(2));
        let left_out = head.len() - self.steps_max / 2;
        head.truncate(self.steps_max / 2);
        Way { head, left_out, tail }
    }

    fn write_way(&self, leak: &Leak, several: bool, text: &mut String) {
        for line in self.way_lines(leak) {
            match line {
                WayLine::From(node) => {
                    let label = label_within(self.analysis, node, self.columns - 5);
                    let _ = writeln!(text, "     {label}");
                }
                WayLine::Step { edge, is_cut } => {
                    let before = if is_cut { "   > " } else { "     " };
                    let room = (before, self.columns);
                    write_step(self.analysis, edge, several && is_cut, room, text);
                }
                WayLine::Alike(steps) => {
                    let _ = writeln!(text, "     ... and {} like it ...", plural(steps, "step"));
                }
                WayLine::LeftOut(steps) => {
                    let steps = number(steps);
                    let _ = writeln!(text, "     ... {steps} steps more (--steps 0 shows all) ...");
                }
            }
        }
    }

    /// The way to a leak from a root, as lines.
    fn way_lines(&self, leak: &Leak) -> Vec<WayLine> {
        let graph = &self.analysis.snapshot().graph;
        let way = self.leaks.way(leak.entry);
        let Some(first) = way.first() else { return Vec::new() };
        let mut lines = Vec::new();
        let from = graph.source(*first);
        if from != graph.root() {
            lines.push(WayLine::From(from));
        }
        let shown = self.alike(&way, leak.step);
        let (head, tail) = match self.steps_max {
            0 => (&shown[..], &shown[..0]),
            most if shown.len() <= most => (&shown[..], &shown[..0]),
            most => (&shown[..most / 2], &shown[shown.len() - most.div_ceil(2)..]),
        };
        let left_out = shown.len() - head.len() - tail.len();
        for (place, (edge, alike)) in head.iter().chain(tail).enumerate() {
            if place == head.len() && left_out > 0 {
                lines.push(WayLine::LeftOut(left_out as u64));
            }
            lines.push(WayLine::Step { edge: *edge, is_cut: Some(*edge) == leak.step });
            if *alike > 0 {
                lines.push(WayLine::Alike(*alike));
            }
        }
        lines
    }

    /// The steps of a path, each with the number of like steps that follow: a chain appears once.
    fn alike(&self, way: &[Edge], last: Option<Edge>) -> Vec<(Edge, u64)> {
        let graph = &self.analysis.snapshot().graph;
        let kind = |edge: Edge| {
            let (from, to) = (graph.source(edge), graph.target(edge));
            let name =
                if is_numbered(self.analysis, edge) { u32::MAX } else { graph.edge_name(edge) };
            let names = (graph.node_name(from), graph.node_name(to));
            (graph.edge_type(edge), name, graph.node_type(from), graph.node_type(to), names)
        };
        let mut lines: Vec<(Edge, u64)> = Vec::new();
        for edge in way {
            match lines.last_mut() {
                Some((before, alike)) if Some(*edge) != last && kind(*before) == kind(*edge) => {
                    *alike += 1
                }
                _ => lines.push((*edge, 0)),
            }
        }
        lines
    }

    /// The same as JSON.
    pub fn json(&self, cuts: &[Cut], born: usize) -> Value {
        let leaks: Vec<Value> = self
            .leaks
            .groups
            .iter()
            .zip(cuts)
            .map(|(leak, cut)| self.leak_json(leak, cut))
            .collect();
        json!({
            "format": "heaplab-snapshot-leaks",
            "version": 1,
            "born": born,
            "objects": self.leaks.objects,
            "retained_bytes": self.leaks.retained_bytes(),
            "total_bytes": self.analysis.total_bytes(),
            "ways": self.leaks.groups.len(),
            "leaks": leaks,
        })
    }

    fn leak_json(&self, leak: &Leak, cut: &Cut) -> Value {
        let analysis = self.analysis;
        let graph = &analysis.snapshot().graph;
        let way = self.way(leak.entry);
        let edge_from = |edge: &Edge| json!({"from": node_json(analysis, graph.source(*edge)), "edge": edge_json(analysis, *edge)});
        let steps: Vec<Value> = way.head.iter().chain(&way.tail).map(edge_from).collect();
        let classes: Vec<Value> = self
            .classes(leak)
            .into_iter()
            .map(|(name, count, retained)| json!({"name": name, "count": count, "retained_bytes": retained}))
            .collect();
        let others: Vec<Value> = cut
            .others
            .iter()
            .map(|holder| json!({"from": node_json(analysis, holder.from), "edge": edge_json(analysis, holder.edge), "references": holder.references}))
            .collect();
        json!({
            "objects": leak.heads.len(),
            "retained_bytes": leak.retained_bytes,
            "classes": classes,
            "example": node_json(analysis, leak.entry),
            "length": way.head.len() + way.left_out + way.tail.len(),
            "left_out": {"after": way.head.len(), "steps": way.left_out},
            "steps": steps,
            "cut": {
                "step": leak.step.as_ref().map(edge_from),
                "references": cut.references,
                "holders": cut.holders,
                "freed_bytes": cut.freed_bytes,
                "freed_with_others_bytes": cut.freed_with_others_bytes,
                "others": others,
            },
        })
    }
}
