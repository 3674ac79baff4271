//! The values that an assertion can use.

use crate::assertion::Largest;
use crate::names::{Takes, known};
use heaplab_profile::{Profile, StackRow, resident_peak};
use heaplab_report::frames::label;
use heaplab_report::{Analysis, numbered};
use heaplab_text::words::percent;
use heaplab_trace::bundle::Bundle;
use heaplab_trace::tables::{Tables, bare_name};
use std::collections::BTreeMap;

/// A function's part of a value.
#[derive(Default)]
struct Share {
    sum: u64,
    /// The largest part of one stack.
    most: u64,
    stack: u32,
}

/// Least depth of a recorder that walks stacks: a JVM's log has two frames, a text trace one.
const DEPTH_OF_RECORDER_MIN: usize = 3;

/// Frames shown of a stack.
const FRAMES: usize = 8;

/// Why a value is unknown, in words; where a mark is unknown, with the marks that exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unmeasured(pub String);

/// A recording that was looked at.
#[derive(Clone, Copy, Debug)]
pub struct Measured<'a> {
    bundle: &'a Bundle,
    analysis: &'a Analysis,
}

impl<'a> Measured<'a> {
    /// Of one look at a recording.
    pub fn of(bundle: &'a Bundle, analysis: &'a Analysis) -> Measured<'a> {
        Measured { bundle, analysis }
    }

    fn tables(&self) -> &'a Tables {
        self.bundle.tables()
    }

    /// The value of a name, with its argument or without.
    ///
    /// # Errors
    /// The value was not measured, or the mark does not exist.
    pub fn value(&self, name: &str, argument: &str) -> Result<u64, Unmeasured> {
        let profile = &self.analysis.profile;
        if argument.is_empty() {
            return self.of_run(name, profile);
        }
        match known(name).map(|name| name.takes) {
            Some(Takes::Mark) => self.at_mark(argument),
            Some(Takes::Kind) => Ok(self.findings(Some(argument))),
            _ => Ok(self.rows(name, argument).map(|(_, value)| value).sum()),
        }
    }

    fn of_run(&self, name: &str, profile: &Profile) -> Result<u64, Unmeasured> {
        let totals = &profile.totals;
        Ok(match name {
            "peak" => profile.peak.live.bytes,
            "objects" => profile.peak.live.objects,
            "end" | "leaked" => profile.end.live.bytes,
            "allocations" => totals.allocations,
            "reallocations" => totals.reallocations,
            "temporary" => totals.temporary,
            "requested" => totals.requested_bytes,
            "copied" => totals.moved_bytes,
            "findings" => self.findings(None),
            "slop" if profile.is_measured() => profile.peak.live.slop_bytes(),
            "slop" => {
                return Err(
                    self.unmeasured("usable sizes were not recorded, so that slop is not known")
                );
            }
            _ => match resident_peak(self.tables(), self.analysis.process) {
                Some(peak) => peak.bytes,
                None => return Err(self.unmeasured("resident memory was not sampled")),
            },
        })
    }

    fn unmeasured(&self, what: &str) -> Unmeasured {
        Unmeasured(format!("{}: {what}", self.bundle.path().display()))
    }

    fn at_mark(&self, mark: &str) -> Result<u64, Unmeasured> {
        let marks = &self.analysis.profile.marks;
        let name = |row: &heaplab_profile::MarkRow| self.tables().mark_name(row.mark as usize);
        if let Some(row) = marks.iter().find(|row| name(row) == mark) {
            return match self.tables().ran_at_mark(row.mark as usize, self.analysis.process) {
                true => Ok(row.live.bytes),
                false => Err(self.unmeasured(&format!(
                    "{mark:?} is a moment at which the process did not run (--process chooses another)"
                ))),
            };
        }
        let there: Vec<String> = marks.iter().take(30).map(name).collect();
        let there = if there.is_empty() {
            "it has no marks (heaplab mark, or HEAPLAB_MARK in C, sets one)".into()
        } else {
            format!("its marks are {}", there.join(", "))
        };
        Err(self.unmeasured(&format!("{mark:?} is no mark; {there}")))
    }

    fn findings(&self, kind: Option<&str>) -> u64 {
        let is_meant =
            |found: &&heaplab_findings::Found| kind.is_none_or(|kind| found.kind.name == kind);
        numbered(&self.analysis.findings).into_iter().filter(|found| is_meant(found)).count() as u64
    }

    /// The stacks through a function with their shares of a name's value; an empty function means
    /// all stacks.
    fn rows(&self, name: &str, function: &str) -> impl Iterator<Item = (u32, u64)> + use<'a> {
        let through = (!function.is_empty()).then(|| self.tables().stacks_through(function));
        let value: fn(&StackRow) -> u64 = match name {
            "peak" => |row| row.at_peak.bytes,
            "objects" => |row| row.at_peak.objects,
            "end" | "leaked" => |row| row.at_end.bytes,
            "allocations" => |row| row.allocations,
            "reallocations" => |row| row.reallocations,
            "temporary" => |row| row.temporary,
            "requested" => |row| row.requested.bytes,
            "copied" => |row| row.moved_bytes,
            _ => |_| 0,
        };
        let is_meant = move |row: &&StackRow| {
            through.as_ref().is_none_or(|rows| rows.get(row.stack as usize) == Some(&true))
        };
        self.analysis.profile.stacks.iter().filter(is_meant).map(move |row| (row.stack, value(row)))
    }

    /// The functions that have most of a name's value, the innermost of each stack.
    pub(crate) fn largest(&self, name: &str, argument: &str, most: usize) -> Vec<Largest> {
        let tables = self.tables();
        if known(name).is_none_or(|name| name.takes != Takes::Function) {
            return Vec::new();
        }
        let mut functions: BTreeMap<String, Share> = BTreeMap::new();
        for (stack, value) in
            self.rows(name, argument).filter(|(stack, value)| *stack > 0 && *value > 0)
        {
            let frames: Vec<u32> = tables.frames_of(stack).collect();
            let Some(frame) = frames.get(tables.site(&frames)) else { continue };
            let function = bare_name(&tables.frame_label(*frame)).to_owned();
            let share = functions.entry(function).or_default();
            share.sum += value;
            if value > share.most {
                (share.most, share.stack) = (value, stack);
            }
        }
        let mut functions: Vec<_> = functions.into_iter().collect();
        functions.sort_by(|a, b| b.1.sum.cmp(&a.1.sum).then_with(|| a.0.cmp(&b.0)));
        functions.truncate(most);
        let largest = |(function, Share { sum, stack, .. })| Largest {
            function,
            value: sum,
            stack: self.frames(stack),
        };
        functions.into_iter().map(largest).collect()
    }

    /// The innermost frames of a stack with their places, at most to `main`.
    fn frames(&self, stack: u32) -> Vec<String> {
        let tables = self.tables();
        let frames: Vec<u32> = tables.frames_of(stack).collect();
        let frames: Vec<u32> =
            frames.iter().copied().skip(tables.wrappers(&frames)).take(FRAMES).collect();
        let main = frames.iter().position(|row| bare_name(&tables.frame_label(*row)) == "main");
        let shown = main.map_or(&frames[..], |main| &frames[..=main]);
        shown.iter().map(|row| label(tables, *row)).collect()
    }

    /// A sentence about stacks that were cut before a function could stand in them, if they have a
    /// hundredth of a value or more.
    pub(crate) fn cut(&self, name: &str, function: &str) -> Option<String> {
        let (tables, meta) = (self.tables(), self.bundle.meta());
        let depth = meta.stack_depth as usize;
        // Of an import and of a runtime's recording the depth is that of the deepest stack.
        if depth < DEPTH_OF_RECORDER_MIN || meta.began_unix_s == 0 || tables.modules.is_empty() {
            return None;
        }
        let through = tables.stacks_through(function);
        let is_cut = |stack: u32| {
            through.get(stack as usize) == Some(&false)
                && tables.physical_frames_of(stack).count() >= depth
        };
        let (mut cut, mut all) = (0u64, 0u64);
        for (stack, value) in self.rows(name, "").filter(|(stack, value)| *stack > 0 && *value > 0)
        {
            all = all.saturating_add(value);
            cut = cut.saturating_add(if is_cut(stack) { value } else { 0 });
        }
        (cut > 0 && cut >= all / 100).then(|| {
            format!(
                "{}: stacks of {depth} frames, where recording stopped, have {} of {name}: {function:?} may stand further out (heaplab record --stack-depth)",
                self.bundle.path().display(),
                percent(cut as f64 / all as f64),
            )
        })
    }

    /// A sentence about a function that no stack of the recording has, with similar names of
    /// functions; `None`: a stack has it.
    pub fn unknown(&self, function: &str) -> Option<String> {
        if self.tables().stacks_through(function).contains(&true) {
            return None;
        }
        let path = self.bundle.path().display();
        if self.bundle.meta().stack_depth == 0 {
            return Some(format!("{path} has no stacks: nothing is known of {function:?}"));
        }
        let near = self.tables().functions_like(function);
        let near = if near.is_empty() {
            String::new()
        } else {
            format!("; there are {}", near.join(", "))
        };
        Some(format!("{path}: no stack has a function called {function:?}{near}"))
    }
}
