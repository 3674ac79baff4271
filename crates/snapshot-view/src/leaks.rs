//! Leaks of an action, grouped by the path that holds them, with the references to cut.

use crate::attachment::Attachment;
use crate::path::{step_line, write_step};
use crate::rows::{edge_json, label, label_within, node_json, share, step};
use heaplab_snapshot::analysis::Analysis;
use heaplab_snapshot::leaks::{Cut, Grown, Holder, Leak, Leaks};
use heaplab_snapshot::shortest_paths::is_numbered;
use heaplab_snapshot::{Edge, Node};
use heaplab_text::lines::{self, cut as cut_text};
use heaplab_text::words::{bytes, count as number, plural};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::fmt::Write;

/// Characters of a class's name: plain objects are named by all that they have.
const CLASS_CHARACTERS: usize = 60;

/// Most grown objects that are shown with their ways.
const GROWN_SHOWN: usize = 5;

/// Leaks on their way to a reader.
pub struct Told<'t, 's, 'a> {
    /// The heap in which they are.
    pub analysis: &'t Analysis<'s, 'a>,
    /// All of them.
    pub leaks: &'t Leaks<'t, 's, 'a>,
    /// Older objects that take more themselves.
    pub grown: &'t [Grown],
    /// Whether no condition chose objects.
    pub is_all: bool,
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

/// `500 Page, 20 Dialog, ...`: of so many classes.
fn counted(classes: Vec<(String, u64)>, most: usize) -> String {
    let more = if classes.len() > most { ", ..." } else { "" };
    let name = |(class, count): &(String, u64)| {
        format!("{} {}", number(*count), cut_text(class, CLASS_CHARACTERS))
    };
    let named: Vec<String> = classes.iter().take(most).map(name).collect();
    format!("{}{more}", named.join(", "))
}

/// By how much an object grew.
fn grew(grown: &Grown) -> String {
    let before =
        if grown.before_bytes == 0 { "almost nothing".into() } else { bytes(grown.before_bytes) };
    format!("{} more: {} instead of {before}", bytes(grown.growth_bytes()), bytes(grown.bytes))
}

impl Told<'_, '_, '_> {
    /// The first `cuts.len()` leaks as text; `born`: objects born between the first two snapshots.
    pub fn text(&self, cuts: &[Cut], born: usize) -> String {
        let leaks = self.leaks;
        let mut text = lines::paragraph(&self.lead(born), "", 0, self.columns);
        if leaks.groups.is_empty() && self.grown.is_empty() {
            text.push_str(if self.is_all {
                "Nothing leaked.\n"
            } else {
                "No leaked object meets the condition.\n"
            });
        }
        let inside = leaks.inside(cuts.len());
        for (place, (leak, cut)) in leaks.groups.iter().zip(cuts).enumerate() {
            self.write_leak(place + 1, leak, &inside[place], cut, &mut text);
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
        self.write_grown(&mut text);
        text
    }

    /// Older objects that take more, the first of them with their ways.
    fn write_grown(&self, text: &mut String) {
        if self.grown.is_empty() {
            return;
        }
        let _ = write!(text, "\n{}", lines::paragraph(&self.grown_lead(), "", 0, self.columns));
        for grown in &self.grown[..self.grown.len().min(GROWN_SHOWN)] {
            let _ = writeln!(text, "\n   {}", grew(grown));
            let first = text.len();
            self.write_way(grown.node, None, false, text);
            if text.len() == first {
                let label = label_within(self.analysis, grown.node, self.columns - 5);
                let _ = writeln!(text, "     {label}");
            }
        }
        if self.grown.len() > GROWN_SHOWN {
            let rest = &self.grown[GROWN_SHOWN..];
            let more = plural(rest.len() as u64, "object");
            let grew = rest.iter().map(Grown::growth_bytes).sum();
            let _ = writeln!(text, "\n   ... and {more} more with {}", bytes(grew));
        }
    }

    fn grown_lead(&self) -> String {
        let growth: u64 = self.grown.iter().map(Grown::growth_bytes).sum();
        let objects = plural(self.grown.len() as u64, "older object");
        let (take, what) = match self.grown.len() {
            1 => ("takes", "more itself than in the first (numbers, a table, a buffer)"),
            _ => ("take", "more themselves than in the first (numbers, tables, buffers)"),
        };
        format!("{objects} {take} {} {what}.", bytes(growth))
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
        let inside = self.leaks.inside(cuts.len());
        for (place, (leak, cut)) in self.leaks.groups.iter().zip(cuts).enumerate() {
            page.heading(&format!("{}. {}", place + 1, self.what(leak, &inside[place])));
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
            let way: Vec<_> = self.way_lines(leak.entry, leak.step).into_iter().map(step).collect();
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
        if !self.grown.is_empty() {
            page.heading(&self.grown_lead());
        }
        for grown in &self.grown[..self.grown.len().min(GROWN_SHOWN)] {
            page.paragraph(&grew(grown));
            let way = self.leaks.way(grown.node);
            let step = |edge: &Edge| (step_line(self.analysis, *edge, false), false);
            page.steps(&way.iter().map(step).collect::<Vec<_>>());
        }
        page.html()
    }

    /// Objects that a leak holds: `5.21 MiB 30 % of the heap: 500 Page; in them 500 Array, ...`.
    fn what(&self, leak: &Leak, inside: &[(u32, u64)]) -> String {
        let share = share(leak.retained_bytes, self.analysis.total_bytes());
        let classes = self.classes(leak).into_iter().map(|(class, count, _)| (class, count));
        let what = format!("{share} of the heap: {}", counted(classes.collect(), 3));
        if inside.is_empty() {
            return what;
        }
        format!("{what}; in them {}", counted(self.named(inside), 5))
    }

    fn named(&self, classes: &[(u32, u64)]) -> Vec<(String, u64)> {
        let text = |class: u32| self.analysis.classes()[class as usize].text();
        classes.iter().map(|(class, count)| (text(*class), *count)).collect()
    }

    /// Another object that still holds the leak after a cut, `columns` wide.
    fn holder(&self, holder: &Holder, columns: usize) -> String {
        let references = if holder.references == 1 {
            String::new()
        } else {
            format!("  ({} such references)", number(holder.references))
        };
        let object = self.leaks.holder(holder.from);
        let mut from = label_within(self.analysis, object, columns);
        if object != holder.from {
            let _ = write!(from, ", {}", label_within(self.analysis, holder.from, columns / 2));
        }
        format!("{from} {}{references}", step(self.analysis, holder.edge))
    }

    fn write_leak(
        &self,
        place: usize,
        leak: &Leak,
        inside: &[(u32, u64)],
        cut: &Cut,
        text: &mut String,
    ) {
        let (first, what) = (format!("{place}. "), self.what(leak, inside));
        let _ = write!(text, "\n{}", lines::paragraph(&what, &first, 3, self.columns));
        self.write_way(leak.entry, leak.step, cut.references > 1, text);
        let _ =
            write!(text, "{}", lines::paragraph(&self.verdict(leak, cut), "   ", 3, self.columns));
        for holder in cut.others.iter().take(3) {
            let _ = writeln!(text, "     {}", self.holder(holder, self.columns - 30));
        }
    }

    /// The effect of the cut.
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

    fn write_way(&self, node: Node, cut: Option<Edge>, several: bool, text: &mut String) {
        for line in self.way_lines(node, cut) {
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

    /// The way to an object from a root, as lines; `cut` is the step to cut.
    fn way_lines(&self, node: Node, cut: Option<Edge>) -> Vec<WayLine> {
        let graph = &self.analysis.snapshot().graph;
        let way = self.leaks.way(node);
        let Some(first) = way.first() else { return Vec::new() };
        let mut lines = Vec::new();
        let from = graph.source(*first);
        if from != graph.root() {
            lines.push(WayLine::From(from));
        }
        let shown = self.alike(&way, cut);
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
            lines.push(WayLine::Step { edge: *edge, is_cut: Some(*edge) == cut });
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
        let inside = self.leaks.inside(cuts.len());
        let leaks = self.leaks.groups.iter().zip(cuts).zip(&inside);
        let leaks: Vec<Value> = leaks
            .map(|((leak, cut), inside)| {
                let mut told = self.leak_json(leak, cut);
                let named = self.named(inside).into_iter();
                told["inside"] =
                    named.map(|(name, count)| json!({"name": name, "count": count})).collect();
                told
            })
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
            "grown": self.grown.iter().map(|grown| self.grown_json(grown)).collect::<Vec<_>>(),
        })
    }

    fn edge_from(&self, edge: &Edge) -> Value {
        let from = self.analysis.snapshot().graph.source(*edge);
        json!({"from": node_json(self.analysis, from), "edge": edge_json(self.analysis, *edge)})
    }

    /// The way to an object with a number of its steps left out.
    fn way_json(&self, node: Node) -> Value {
        let way = self.way(node);
        let steps = way.head.iter().chain(&way.tail).map(|edge| self.edge_from(edge));
        json!({
            "length": way.head.len() + way.left_out + way.tail.len(),
            "left_out": {"after": way.head.len(), "steps": way.left_out},
            "steps": steps.collect::<Vec<_>>(),
        })
    }

    fn grown_json(&self, grown: &Grown) -> Value {
        let mut told = self.way_json(grown.node);
        told["object"] = node_json(self.analysis, grown.node);
        told["before_bytes"] = grown.before_bytes.into();
        told["bytes"] = grown.bytes.into();
        told
    }

    fn leak_json(&self, leak: &Leak, cut: &Cut) -> Value {
        let analysis = self.analysis;
        let mut told = self.way_json(leak.entry);
        let classes: Vec<Value> = self
            .classes(leak)
            .into_iter()
            .map(|(name, count, retained)| json!({"name": name, "count": count, "retained_bytes": retained}))
            .collect();
        let others: Vec<Value> = cut
            .others
            .iter()
            .map(|holder| json!({"from": node_json(analysis, holder.from), "object": node_json(analysis, self.leaks.holder(holder.from)), "edge": edge_json(analysis, holder.edge), "references": holder.references}))
            .collect();
        told["objects"] = leak.heads.len().into();
        told["retained_bytes"] = leak.retained_bytes.into();
        told["classes"] = classes.into();
        told["example"] = node_json(analysis, leak.entry);
        told["cut"] = json!({
            "step": leak.step.as_ref().map(|edge| self.edge_from(edge)),
            "references": cut.references,
            "holders": cut.holders,
            "freed_bytes": cut.freed_bytes,
            "freed_with_others_bytes": cut.freed_with_others_bytes,
            "others": others,
        });
        told
    }
}
