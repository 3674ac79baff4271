//! Empties rings into the spool.
//!
//! A ring is a file, so waiting records are as safe as spooled ones. The drainer empties a ring
//! when an eighth is full, or when a record has waited a while, and not at every turn: blocks
//! become large and the drainer cheap.

mod live_estimate;
mod tracked;

use crate::clock;
use crate::discover::{self, Arrivals};
use crate::mappings::sampler::Sampler;
use crate::proc_fs::{self, Memory};
use crate::ring::{self, Parsed, Part};
use crate::session;
use crate::spool::block::RingId;
use crate::spool::note::{How, Note};
use crate::spool::reader::Index;
use crate::spool::record::Encoder;
use crate::spool::writer::SpoolWriter;
use live_estimate::LiveEstimate;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::{Duration, Instant};
use tracked::{Holders, Tracked, TrackedRing, runs_still};

/// Payload bytes at which a block is written.
const BLOCK_BYTES: usize = 64 * 1024;
/// The drainer empties a ring once this fraction (1 in N) is full.
const FILL_PART: u64 = 8;
/// Words copied out of a ring at a time: few enough to stay in cache while encoded, more than any
/// record has.
const COPY_WORDS: usize = 512;
/// Longest wait of a record in a ring.
const WAIT_MAX: Duration = Duration::from_millis(100);

/// Figures of a running recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Events drained.
    pub events: u64,
    /// Bytes live now, estimated from a sample of the addresses.
    pub live_bytes_estimate: u64,
    /// Bytes written to the spool.
    pub spool_bytes: u64,
    /// Process images seen.
    pub images: u64,
}

/// Follows all images of a spool and empties their rings.
#[derive(Debug)]
pub struct Drainer {
    spool: PathBuf,
    arrivals: Arrivals,
    /// Process files found but not finished.
    unfinished: BTreeSet<(u32, u32)>,
    writer: SpoolWriter,
    encoder: Encoder,
    words: Vec<u64>,
    living: BTreeMap<(u32, u32), Tracked>,
    /// Images with a noted end.
    done: HashSet<(u32, u32)>,
    totals: Totals,
    live: LiveEstimate,
    /// The spool did not take the records of ended images: they are still in their rings.
    left_in_rings: bool,
    /// Processes that stopped recording and why, until taken.
    cut: Vec<(u32, u32)>,
    /// Processes that have images' files mapped.
    holders: Holders,
    /// Images with unreadable files.
    lost: HashSet<(u32, u32)>,
    /// Their reports, until taken.
    losses: Vec<Lost>,
    mappings: Sampler,
}

/// A process image with an unreadable file: nothing of it is recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// Process number.
    pub pid: u32,
    /// The reason; continues "process N".
    pub reason: String,
}

impl Drainer {
    /// Drains the folder `spool` into `writer`.
    pub fn new(spool: &Path, writer: SpoolWriter) -> Drainer {
        Drainer {
            spool: spool.to_owned(),
            arrivals: Arrivals::new(spool),
            unfinished: BTreeSet::new(),
            writer,
            encoder: Encoder::new(BLOCK_BYTES),
            words: Vec::with_capacity(COPY_WORDS),
            living: BTreeMap::new(),
            done: HashSet::new(),
            totals: Totals::default(),
            live: LiveEstimate::default(),
            left_in_rings: false,
            cut: Vec::new(),
            holders: Holders::of(spool),
            lost: HashSet::new(),
            losses: Vec::new(),
            mappings: Sampler::default(),
        }
    }

    /// The figures so far.
    pub fn totals(&self) -> Totals {
        Totals {
            live_bytes_estimate: self.live.bytes,
            spool_bytes: self.writer.bytes(),
            images: (self.living.len() + self.done.len()) as u64,
            ..self.totals
        }
    }

    /// Appends a note. If writing fails, the note still reaches the finisher through
    /// [`Drainer::into_index`], except a note that says that everything was written.
    pub fn note(&mut self, note: &Note) -> io::Result<()> {
        let written = self.writer.note(note);
        if written.is_err() && !matches!(note, Note::Complete { .. }) {
            self.writer.remember(note.clone());
        }
        written
    }

    /// Images being followed, as (pid, seq).
    pub fn living(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.living.keys().copied()
    }

    /// Whether rings of ended images hold records that the spool did not take.
    pub fn has_left(&self) -> bool {
        self.left_in_rings
    }

    /// Processes seen since the last call to have stopped recording, and why (`layout::CUT_...`).
    pub fn take_cut(&mut self) -> Vec<(u32, u32)> {
        std::mem::take(&mut self.cut)
    }

    /// Images with unreadable files found since the last call.
    pub fn take_lost(&mut self) -> Vec<Lost> {
        std::mem::take(&mut self.losses)
    }

    /// Whether an image of `pid` was ever seen.
    pub fn has_seen(&self, pid: u32) -> bool {
        self.living.keys().chain(&self.done).chain(&self.lost).any(|key| key.0 == pid)
    }

    /// Looks for new images and rings. `announced`: see [`Arrivals::take`].
    pub fn discover(&mut self, announced: u64) -> io::Result<()> {
        self.unfinished.extend(self.arrivals.take(announced)?);
        for key in std::mem::take(&mut self.unfinished) {
            if self.living.contains_key(&key)
                || self.done.contains(&key)
                || self.lost.contains(&key)
            {
                continue;
            }
            match Tracked::open(&self.spool, key) {
                Ok(Some(tracked)) => drop(self.living.insert(key, tracked)),
                Ok(None) => drop(self.unfinished.insert(key)),
                Err(why) => {
                    discover::leave_unread(&self.spool, key);
                    self.lost.insert(key);
                    self.losses
                        .push(Lost { pid: key.0, reason: discover::unread_reason(key, &why) });
                }
            }
        }
        let mut losses = Vec::new();
        for (key, tracked) in &mut self.living {
            self.cut.extend(tracked.newly_cut().map(|reason| (key.0, reason)));
            losses.extend(tracked.open_rings(&self.spool, *key));
        }
        all(losses, |text| self.note(&Note::Loss { text }))
    }

    /// Empties the rings that are full enough. Returns the fill of the fullest ring before, in
    /// thousandths.
    pub fn turn(&mut self) -> io::Result<u64> {
        let now = Instant::now();
        let mut fullest = 0;
        let mut living = std::mem::take(&mut self.living);
        let mut outcome = Ok(());
        'all: for tracked in living.values_mut() {
            for ring in &mut tracked.rings {
                let (main, room) = ring.ring.fill(Part::Main);
                let (nested, _) = ring.ring.fill(Part::Nested);
                if main == 0 && nested == 0 {
                    ring.waiting_since = None;
                    continue;
                }
                fullest = fullest.max(main.saturating_mul(1000) / room);
                let since = *ring.waiting_since.get_or_insert(now);
                if main >= room / FILL_PART || nested > 0 || now.duration_since(since) >= WAIT_MAX {
                    ring.waiting_since = None;
                    outcome = self.empty(ring);
                    if outcome.is_err() {
                        break 'all;
                    }
                }
            }
        }
        self.living = living;
        outcome.map(|()| fullest)
    }

    /// Empties both parts of a ring.
    fn empty(&mut self, tracked: &mut TrackedRing) -> io::Result<()> {
        for part in [Part::Main, Part::Nested] {
            if tracked.damaged {
                // The content is unreadable, but the program must not wait for room.
                let waiting = tracked.ring.fill(part).0;
                tracked.ring.release(part, tracked.ring.position(part).wrapping_add(waiting));
            }
            while !tracked.damaged {
                let begin = tracked.ring.position(part);
                let (used, parsed) = self.spool_block(tracked, part, begin)?;
                tracked.ring.release(part, begin + used);
                if parsed == Parsed::Damaged {
                    tracked.damaged = true;
                    let RingId { pid, seq, ring, .. } = tracked.id;
                    let text = format!(
                        "the program overwrote ring {ring} of process {pid} (image {seq}); the ring's further records are lost"
                    );
                    self.note(&Note::Loss { text })?;
                }
                if parsed == Parsed::Whole {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Writes one block with as many of the ring's records as fit; returns their words.
    fn spool_block(
        &mut self,
        tracked: &TrackedRing,
        part: Part,
        begin: u64,
    ) -> io::Result<(u64, Parsed)> {
        let (ring, id) = (&tracked.ring, RingId { nested: part == Part::Nested, ..tracked.id });
        let (mut used, mut base, mut events) = (0, 0, 0);
        self.live.begin_block();
        let parsed = loop {
            let Some(more) = ring.copy(part, begin + used, COPY_WORDS, &mut self.words) else {
                break Parsed::Damaged;
            };
            let Some(first) = self.words.first() else { break Parsed::Whole };
            if used == 0 {
                base = heaplab_preload::layout::stamp(*first).1;
                self.encoder.begin(base);
            }
            ring.prefetch(
                part,
                begin + used + self.words.len() as u64,
                more.min(COPY_WORDS as u64),
            );
            let live = &mut self.live;
            let (taken, parsed) = ring::encode(&self.words, &mut self.encoder, |change| {
                events += 1;
                live.see(change);
            });
            used += taken as u64;
            // Later records wait for the next turn: following a busy program closely would make
            // small blocks.
            if parsed != Parsed::Whole || more == 0 || taken == 0 {
                break parsed;
            }
        };
        if used > 0 {
            self.writer.records(&self.encoder, id, begin, begin + used, base)?;
        }
        // Only after writing: records that a full disk refused stay in the ring and are read again.
        self.totals.events += events;
        self.live.apply_block(id.pid);
        Ok((used, parsed))
    }

    /// Notes the ends of images and empties their rings for the last time. `status_of` knows the
    /// end of the started process. A failure with one image does not keep the others from being
    /// noted.
    pub fn reap(&mut self, status_of: impl Fn(u32) -> Option<How>) -> io::Result<()> {
        let keys: Vec<(u32, u32)> = self.living.keys().copied().collect();
        all(keys.iter().enumerate(), |(place, key)| {
            let ticks = |key: &(u32, u32)| self.living.get(key).map(|tracked| tracked.start_ticks);
            // Two images with one number and different starts belong to two namespaces, or the
            // first has ended.
            let replaced = keys
                .get(place + 1)
                .is_some_and(|next| next.0 == key.0 && ticks(next) == ticks(key));
            let Some(tracked) = self.living.get_mut(key) else { return Ok(()) };
            let how = if replaced {
                Some(How::Exec)
            } else if let Some(how) = status_of(key.0) {
                Some(how)
            } else {
                (!tracked.runs(*key, &mut self.holders))
                    .then(|| how_gone(key.0, tracked.start_ticks))
            };
            how.map_or(Ok(()), |how| self.end(*key, how))
        })
    }

    /// Stops following all images, which run on.
    pub fn leave(&mut self) -> io::Result<()> {
        let keys: Vec<(u32, u32)> = self.living().collect();
        all(keys, |key| self.end(key, How::Running))
    }

    /// Ends the image `key` (it has ended, or runs on alone): takes the records in its rings and
    /// forgets it. Records that the spool does not take stay in the rings' files, for finishing;
    /// the end is noted all the same.
    fn end(&mut self, key: (u32, u32), how: How) -> io::Result<()> {
        let Some(mut tracked) = self.living.remove(&key) else { return Ok(()) };
        self.mappings.forget(key);
        self.cut.extend(tracked.newly_cut().map(|reason| (key.0, reason)));
        let discovered =
            all(tracked.open_rings(&self.spool, key), |text| self.note(&Note::Loss { text }));
        let emptied = all(&mut tracked.rings, |ring| self.empty(ring));
        self.left_in_rings |= tracked.rings.iter().any(TrackedRing::is_waiting);
        if how != How::Running {
            tracked.file.leave();
        }
        self.done.insert(key);
        let noted =
            self.note(&Note::Ended { counter: clock::counter(), pid: key.0, seq: key.1, how });
        if emptied.is_ok() && how != How::Running {
            tracked.remove_rings(&self.spool, key);
        }
        discovered.and(emptied).and(noted)
    }

    /// Whether to ask JVMs for the purposes of their memory from now on.
    pub fn ask_jvms(&mut self, asks: bool) {
        self.mappings.asks_jvms = asks;
    }

    /// See [`Sampler::silence`].
    pub fn silence_of_jvms(&self) -> Option<String> {
        self.mappings.silence()
    }

    /// Notes the memory of every living image, and now and then its mappings.
    pub fn sample(&mut self) -> io::Result<()> {
        // Leave out images with a number that is another process's, or unconfirmed.
        let is_own = |(key, tracked): (&(u32, u32), &mut Tracked)| {
            tracked.seen = tracked.seen || runs_still(*key, tracked.start_ticks);
            tracked.seen.then_some(*key)
        };
        let keys: Vec<(u32, u32)> = self.living.iter_mut().filter_map(is_own).collect();
        for (pid, seq) in keys {
            if let Some(Memory {
                resident_bytes,
                anonymous_bytes: resident_anonymous_bytes,
                resident_peak_bytes,
            }) = proc_fs::memory(pid)
            {
                let counter = clock::counter();
                let without_huge_pages = proc_fs::without_huge_pages(pid);
                self.note(&Note::Sample {
                    counter,
                    pid,
                    seq,
                    resident_bytes,
                    resident_anonymous_bytes,
                    resident_peak_bytes,
                    without_huge_pages,
                })?;
                if let Some(note) = self.mappings.read((pid, seq), resident_bytes, &self.spool) {
                    self.note(&note)?;
                }
            }
        }
        Ok(())
    }

    /// The spool's index.
    pub fn into_index(self) -> Index {
        self.writer.into_index()
    }

    /// Acts as if the disk were full once the spool has this many bytes; for tests.
    pub fn limit(&mut self, bytes: u64) {
        self.writer.limit(bytes);
    }
}

/// Applies `each` to all despite failures; returns the first failure.
fn all<T>(
    items: impl IntoIterator<Item = T>,
    mut act: impl FnMut(T) -> io::Result<()>,
) -> io::Result<()> {
    let mut first = Ok(());
    for item in items {
        let outcome = act(item);
        first = first.and(outcome);
    }
    first
}

/// The end of a process that is not our child: the kernel's status, until its parent has waited for
/// it.
fn how_gone(pid: u32, start_ticks: u64) -> How {
    match proc_fs::wait_status(pid, start_ticks).map(ExitStatus::from_raw) {
        Some(status) => session::how_of(status),
        None => How::Gone,
    }
}

#[cfg(test)]
mod tests;
