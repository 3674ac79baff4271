//! Facts of a recording beside its events: ends of processes, samples, cuts, losses.

use super::SpoolContent;
use super::allocator;
use super::merge::Counts;
use crate::clock::Clock;
use crate::control::{ControlFacts, Refused};
use crate::image::Image;
use crate::proc_fs::Memory;
use crate::spool::note::{How, Note};
use crate::spool::reader::Index;
use heaplab_preload::layout;
use heaplab_text::words::so_many;
use heaplab_trace::bundle::Meta;
use heaplab_trace::tables::{Began, Ended, Process, Sample, Tables};
use std::collections::{BTreeSet, HashMap};

/// A row of `processes`, and how and when it ended.
pub type End = (u32, Ended, Option<u64>);

/// Facts from the process files, except those that merging needs.
#[derive(Debug)]
pub struct Facts {
    clock: Clock,
    exits: HashMap<(u32, u32), (i32, u64)>,
    /// Memory at exit(), and its time.
    last_memory: Vec<((u32, u32), u64, Memory)>,
    execs: HashMap<(u32, u32), u64>,
    keys: Vec<(u32, u32)>,
    lost: [u64; layout::LOST_REASONS],
    /// The earliest cut of a process, and its reason.
    cut: Option<(u64, u32)>,
    architecture: Option<u32>,
    refused: Option<Refused>,
}

impl Facts {
    /// From the control page, the notes and the images.
    pub fn new<'a>(
        control: &ControlFacts,
        images: impl Iterator<Item = &'a Image>,
        clock: Clock,
    ) -> Facts {
        let mut facts = Facts {
            clock,
            exits: HashMap::new(),
            last_memory: Vec::new(),
            execs: HashMap::new(),
            keys: Vec::new(),
            lost: [0; layout::LOST_REASONS],
            cut: None,
            architecture: None,
            refused: control.refused,
        };
        for image in images {
            let key = (image.pid, image.seq);
            facts.keys.push(key);
            if let Some(exit) = image.exit {
                facts.exits.insert(key, exit);
                facts.last_memory.extend(image.exit_memory.map(|memory| (key, exit.1, memory)));
            }
            if let (layout::BEGAN_EXEC, Some(before)) = (image.began, image.seq.checked_sub(1)) {
                facts.execs.insert((image.pid, before), image.begin_counter);
            }
            for (sum, lost) in facts.lost.iter_mut().zip(image.lost) {
                *sum = sum.saturating_add(lost);
            }
            // An unreadable process is reported in the others' recording.
            facts.cut = facts
                .cut
                .into_iter()
                .chain(image.cut.filter(|(_, reason)| *reason != layout::CUT_UNREAD))
                .min();
            facts.architecture = facts.architecture.or(Some(image.architecture));
        }
        facts
    }

    /// The samples in order of time: the drainer's, and the processes' own at exit().
    pub fn samples(&self, index: &Index, row: impl Fn(u32, u32) -> Option<u32>) -> Vec<Sample> {
        let sample = |counter, (pid, seq), memory: Memory| {
            let Memory {
                resident_bytes,
                anonymous_bytes: resident_anonymous_bytes,
                resident_peak_bytes,
            } = memory;
            let (time_ns, process) = (self.clock.ns(counter), row(pid, seq)?);
            Some(Sample {
                time_ns,
                process,
                resident_bytes,
                resident_anonymous_bytes,
                resident_peak_bytes,
                committed_bytes: 0,
            })
        };
        let drained = index.notes.iter().filter_map(|note| {
            let Note::Sample {
                counter,
                pid,
                seq,
                resident_bytes,
                resident_anonymous_bytes,
                resident_peak_bytes,
                without_huge_pages: _,
            } = *note
            else {
                return None;
            };
            let memory = Memory {
                resident_bytes,
                anonymous_bytes: resident_anonymous_bytes,
                resident_peak_bytes,
            };
            sample(counter, (pid, seq), memory)
        });
        let last = self
            .last_memory
            .iter()
            .filter_map(|(key, counter, memory)| sample(*counter, *key, *memory));
        let mut samples: Vec<Sample> = drained.chain(last).collect();
        samples.sort_by_key(|sample| sample.time_ns);
        samples
    }

    /// Rows of `processes` that had switched transparent huge pages off.
    pub fn without_huge_pages(index: &Index, row: impl Fn(u32, u32) -> Option<u32>) -> Vec<u32> {
        let rows: BTreeSet<u32> = index
            .notes
            .iter()
            .filter_map(|note| match note {
                Note::Sample { pid, seq, without_huge_pages: true, .. } => row(*pid, *seq),
                _ => None,
            })
            .collect();
        rows.into_iter().collect()
    }

    /// How each image ended. heaplab's observation takes precedence over the process's own note.
    pub fn ends(&self, index: &Index, row: impl Fn(u32, u32) -> Option<u32>) -> Vec<End> {
        let seen: HashMap<(u32, u32), (How, u64)> = index
            .notes
            .iter()
            .filter_map(|note| {
                if let Note::Ended { counter, pid, seq, how } = note {
                    Some(((*pid, *seq), (*how, *counter)))
                } else {
                    None
                }
            })
            .collect();
        let end_of = |key: &(u32, u32)| {
            let said = self.exits.get(key).copied();
            let (how, counter) = match (seen.get(key), self.execs.get(key), said) {
                (Some((How::Exited(status), counter)), ..) => {
                    (Ended::Exited(*status), Some(said.map_or(*counter, |(_, said)| said)))
                }
                (Some((How::Signalled(signal), counter)), ..) => {
                    (Ended::Signalled(*signal), Some(*counter))
                }
                (Some((How::Running, _)), ..) => (Ended::Unknown, None),
                (_, Some(counter), _) => (Ended::Exec, Some(*counter)),
                // exit() and _exit() take an int and keep its low byte.
                (_, None, Some((status, counter))) => (Ended::Exited(status & 0xff), Some(counter)),
                (Some((_, counter)), None, None) => (Ended::Unknown, Some(*counter)),
                (None, None, None) => (Ended::Unknown, None),
            };
            Some((row(key.0, key.1)?, how, counter.map(|counter| self.clock.ns(counter))))
        };
        self.keys.iter().filter_map(end_of).collect()
    }

    /// Writes the ends into the tables, and a row for each process that was seen but not recorded.
    pub fn complete(&self, tables: &mut Tables, ends: Vec<End>, index: &Index) {
        for (row, ended, ended_ns) in ends {
            if let Some(process) = tables.processes.get_mut(row as usize) {
                (process.ended, process.ended_ns) = (ended, ended_ns);
            }
        }
        for note in &index.notes {
            if let Note::Unrecorded { pid, executable, reason, .. } = note {
                let refused = Some(reason.clone());
                tables.processes.push(Process {
                    pid: *pid,
                    executable: executable.clone(),
                    began: Began::Exec,
                    refused,
                    ..Process::default()
                });
            }
        }
    }

    /// `meta.json`.
    pub(super) fn meta(
        &self,
        content: &SpoolContent,
        counts: &Counts,
        unknown_stacks: u64,
        tables: &Tables,
    ) -> Meta {
        let (command, began_unix_s, writer) = content
            .index
            .notes
            .iter()
            .find_map(|note| {
                if let Note::Began { command, unix_s, writer } = note {
                    Some((command.join(" "), *unix_s, writer.clone()))
                } else {
                    None
                }
            })
            .unwrap_or_default();
        let architecture = match self.architecture {
            Some(layout::X86_64) => "x86_64",
            Some(layout::AARCH64) => "aarch64",
            _ => std::env::consts::ARCH,
        };
        let last_seen = content.control.later.map_or(0, |later| self.clock.ns(later.counter));
        Meta {
            writer: if writer.is_empty() {
                format!("heaplab {}", env!("CARGO_PKG_VERSION"))
            } else {
                writer
            },
            program: command,
            allocator: allocator::name(tables),
            death_rule: String::from("freed by the program"),
            stack_depth: content.control.stack_depth,
            cut: self.cut_text(&content.index, counts),
            losses: self.losses(content, counts, unknown_stacks),
            duration_ns: counts.last_ns.max(last_seen),
            began_unix_s,
            architecture: architecture.to_owned(),
            ..Meta::default()
        }
    }

    fn cut_text(&self, index: &Index, counts: &Counts) -> Option<String> {
        let last = counts.last_ns as f64 / 1e9;
        let noted =
            index.notes.iter().rev().find_map(|note| {
                if let Note::Cut { text } = note { Some(text.clone()) } else { None }
            });
        let is_complete = index.notes.iter().any(|note| matches!(note, Note::Complete { .. }));
        match (noted, index.damage, self.cut) {
            (Some(text), ..) => Some(text),
            (None, None, None) if is_complete => None,
            (None, _, Some((counter, reason))) => {
                let at = self.clock.ns(counter) as f64 / 1e9;
                let why = match reason {
                    layout::CUT_DRAINER_DEAD => "heaplab was ended",
                    layout::CUT_NO_SPACE => "no space was left for the program's records",
                    layout::CUT_LEFT => "heaplab took a running process for ended",
                    layout::CUT_TIMELESS => {
                        "the program may not read the processor's counter any more (seccomp's strict mode, or PR_SET_TSC)"
                    }
                    _ => "heaplab stopped the recording",
                };
                Some(format!(
                    "{why}; the program recorded on until {at:.3} s, then ran on unrecorded"
                ))
            }
            (None, Some(damage), None) => Some(format!(
                "the spool is whole up to byte {} only ({damage}); the last event is at {last:.3} s",
                index.sound_bytes
            )),
            (None, None, None) => Some(format!(
                "heaplab was ended before the recording was; the last event is at {last:.3} s"
            )),
        }
    }

    fn losses(&self, content: &SpoolContent, counts: &Counts, unknown_stacks: u64) -> Vec<String> {
        let mut losses: Vec<String> = Vec::new();
        let mut add = |count: u64, text: &str| {
            if count > 0 {
                losses.push(so_many(count, text));
            }
        };
        add(
            self.lost[layout::LOST_NESTED_FULL],
            "[event|events] in a signal handler, inside of another event: the nested ring was full",
        );
        add(
            self.lost[layout::LOST_NESTED_DEEPER],
            "[event|events] inside of events inside of events",
        );
        add(
            self.lost[layout::LOST_NO_RING],
            "[event|events] of threads for which no ring could be made",
        );
        add(
            self.lost[layout::LOST_IN_SANDBOX],
            "[event|events] of threads that began after the program had entered a sandbox (seccomp)",
        );
        add(self.lost[layout::LOST_RECORDS_FULL], "[record|records] of modules");
        add(
            self.lost[layout::LOST_STACK_BOUNDS],
            "[stack|stacks] cut short: the bounds of the stack's memory were unknown",
        );
        add(
            self.lost[layout::LOST_NESTED_STACK],
            "[event|events] in a signal handler, inside of another event, recorded without a stack",
        );
        add(self.lost[layout::LOST_MARK_LONG], "[name of a mark|names of marks], cut at 256 bytes");
        add(
            unknown_stacks,
            "[event|events] recorded without a stack: the stack's definition is missing",
        );
        add(
            counts.unknown_frees,
            "[free|frees] without a recorded allocation (the dynamic linker allocates before recording can begin); left out",
        );
        add(
            counts.unknown_reallocs,
            "[reallocation without a recorded allocation, taken as an allocation|reallocations without a recorded allocation, taken as allocations]",
        );
        add(
            counts.ended_by_reuse,
            "[object without a recorded free; it ends|objects without a recorded free; they end] where the address is handed out again",
        );
        add(counts.after_cut, "[event|events] after the recording was cut; left out");
        if let Some(refused) = self.refused {
            losses.push(format!(
                "{} (the last, of process {}, {})",
                so_many(
                    refused.count.into(),
                    "[process or thread|processes or threads] could not be recorded"
                ),
                refused.pid,
                refused.reason()
            ));
        }
        let noted = content.index.notes.iter().filter_map(|note| {
            if let Note::Loss { text } = note { Some(text.clone()) } else { None }
        });
        losses.extend(noted.chain(content.losses.iter().cloned()));
        losses
    }
}
