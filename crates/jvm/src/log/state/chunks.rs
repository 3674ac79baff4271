//! The log's messages about chunks and committed memory, as rows of the table of chunks and
//! samples.

use super::jvm::Jvm;
use super::{At, Importer, ROOT_BYTES, WORD};
use crate::ChunkOp;
use crate::Reclaim;
use crate::log::message::Message;
use heaplab_trace::import::lines::shown;
use heaplab_trace::tables::{ChunkEvent, Sample};

/// Most nodes of unknown space: a JVM tells each node's space within some lines.
const NODES_LIMIT: usize = 64;

impl Importer {
    /// A line about chunks, nodes or settings.
    pub(super) fn about_chunks(&mut self, message: Message, at: &At) {
        match message {
            Message::ChunkRequest { level, max_level } => {
                if let Some(request) = self.thread(at).request {
                    self.first_chunk(request.arena, level, max_level);
                }
            }
            Message::ChunkOut { base, level } => {
                self.chunk_out(base, at);
                let arena = self.thread(at).request.map_or(0, |request| request.row);
                self.chunk(ChunkOp::Take, base, chunk_bytes(level), arena);
            }
            Message::ChunkBack { base, level } => {
                self.chunk_back(base, at);
                self.chunk(ChunkOp::Return, base, chunk_bytes(level), 0);
            }
            Message::ChunkRefused { base, level } => {
                self.chunk(ChunkOp::Refused, base, chunk_bytes(level), 0)
            }
            Message::Enlarged { base, level } => {
                let arena = self.thread(at).request.map_or(0, |request| request.row);
                self.chunk(ChunkOp::Enlarge, base, chunk_bytes(level), arena);
            }
            Message::Line { base, words } => self.thread(at).line = Some((base, words)),
            Message::Committing { from, to } => self.thread(at).commit = Some((from, to)),
            Message::Committed { words } => self.committed(words, at),
            Message::Left { until_max_words, until_threshold_words } => {
                self.thread(at).left = Some((until_max_words, until_threshold_words));
            }
            Message::CommitRefused => {
                let thread = self.thread(at);
                (thread.line, thread.commit) = (None, None);
                if let Some((until_max, until_threshold)) = thread.left.take() {
                    self.chunk(
                        ChunkOp::Limit,
                        until_threshold.saturating_mul(WORD),
                        until_max.saturating_mul(WORD),
                        0,
                    );
                }
            }
            Message::Uncommitting { from, to } => self.chunk(ChunkOp::Uncommit, from, to - from, 0),
            Message::Uncommitted { words } => {
                self.sample(self.jvm.committed_bytes.saturating_sub(words.saturating_mul(WORD)))
            }
            Message::Node { base, words } => {
                if self.jvm.nodes.len() >= NODES_LIMIT {
                    self.jvm.nodes.remove(0);
                }
                self.jvm.nodes.push((base, words.saturating_mul(WORD)));
            }
            Message::NodeAdded => self.space(ChunkOp::Node, None),
            Message::Root { base } => self.thread(at).root = Some(base),
            Message::RootSpace { class } => {
                if let Some(base) = self.thread(at).root.take() {
                    self.space(if class { ChunkOp::NodeApart } else { ChunkOp::Node }, Some(base));
                    self.chunk(ChunkOp::Root, base, ROOT_BYTES, 0);
                }
            }
            Message::Purge => self.chunk(ChunkOp::Purge, 0, 0, 0),
            Message::Granule { .. } | Message::Policy(_) | Message::Old => {
                self.about_settings(message)
            }
            Message::Memory { resident_bytes, anonymous_bytes } => {
                (self.jvm.resident_bytes, self.jvm.resident_anonymous_bytes) =
                    (resident_bytes, anonymous_bytes);
                self.sample(self.jvm.committed_bytes);
            }
            Message::Ended => {
                self.out.tables.processes[self.jvm.row as usize].ended_ns = Some(self.time_ns);
                let committed_bytes = std::mem::take(&mut self.jvm.committed_bytes);
                self.counts.committed_bytes =
                    self.counts.committed_bytes.saturating_sub(committed_bytes);
            }
            Message::Process(_)
            | Message::Arena { .. }
            | Message::Loader { .. }
            | Message::Returned { .. }
            | Message::Failed
            | Message::Other
            | Message::Unknown => {}
        }
    }

    /// Notes that a thread's announced commit succeeded.
    fn committed(&mut self, words: u64, at: &At) {
        let thread = self.thread(at);
        let (line, range) = (thread.line.take(), thread.commit.take());
        if let (Some((from, to)), true) = (range, words > 0) {
            self.chunk(ChunkOp::Commit, from, to - from, 0);
            self.sample(self.jvm.committed_bytes.saturating_add(words.saturating_mul(WORD)));
        }
        if let Some((base, words)) = line {
            self.chunk(ChunkOp::Line, base, words.saturating_mul(WORD), 0);
        }
    }

    /// Handles a JVM's settings, printed at its beginning.
    fn about_settings(&mut self, message: Message) {
        match message {
            Message::Granule { bytes } => {
                (self.jvm.began, self.jvm.settled) = (true, true);
                // A JVM with the setting prints it before its granule (`Settings::print_on` comes
                // after `ergo_initialize`).
                let said = self.jvm.reclaim;
                let reclaim = if said == Reclaim::Unknown { Reclaim::Removed } else { said };
                self.chunk(ChunkOp::Granule, reclaim.code(), bytes, 0);
            }
            Message::Policy(name) => {
                self.jvm.began = true;
                self.jvm.reclaim = match name {
                    b"balanced" => Reclaim::Balanced,
                    b"aggressive" => Reclaim::Aggressive,
                    b"none" => Reclaim::None,
                    _ => Reclaim::Unknown,
                };
                self.out.meta.allocator = format!("HotSpot metaspace, {} reclaim", shown(name));
            }
            Message::Old => self.jvm.old = true,
            _ => {}
        }
    }

    /// Notes the space of the node that holds `base` (without `base`: of the youngest).
    fn space(&mut self, op: ChunkOp, base: Option<u64>) {
        let holds = |(from, bytes): &(u64, u64)| {
            base.is_none_or(|base| base >= *from && base - *from < *bytes)
        };
        if let Some(index) = self.jvm.nodes.iter().rposition(holds) {
            let (from, bytes) = self.jvm.nodes.swap_remove(index);
            self.chunk(op, from, bytes, 0);
        }
    }

    pub(super) fn chunk(&mut self, op: ChunkOp, address: u64, bytes: u64, arena: u32) {
        let process = self.jvm.row;
        self.out.tables.chunks.push(ChunkEvent {
            op: op.into(),
            row: self.rows,
            time_ns: self.time_ns,
            address,
            bytes,
            arena,
            process,
        });
    }

    /// At most one sample a millisecond and JVM.
    pub(super) fn sample(&mut self, committed_bytes: u64) {
        let others_bytes = self.counts.committed_bytes.saturating_sub(self.jvm.committed_bytes);
        self.counts.committed_bytes = others_bytes.saturating_add(committed_bytes);
        self.counts.committed_peak_bytes =
            self.counts.committed_peak_bytes.max(self.counts.committed_bytes);
        self.jvm.committed_bytes = committed_bytes;
        let Jvm { row: process, resident_bytes, resident_anonymous_bytes, .. } = self.jvm;
        let sample = Sample {
            time_ns: self.time_ns,
            process,
            resident_bytes,
            resident_anonymous_bytes,
            committed_bytes,
            ..Sample::default()
        };
        match self.out.tables.samples.last_mut() {
            Some(last)
                if last.time_ns / 1_000_000 == self.time_ns / 1_000_000
                    && last.process == process =>
            {
                *last = sample
            }
            _ => self.out.tables.samples.push(sample),
        }
    }
}

fn chunk_bytes(level: u8) -> u64 {
    ROOT_BYTES.checked_shr(level.into()).unwrap_or(0)
}
