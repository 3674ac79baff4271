//! Empties rings into the spool.
//!
//! A ring is a file, so waiting records are as safe as spooled ones. The drainer empties a ring
//! when an eighth is full, or when a record has waited a while, and not at every turn: blocks
//! become large and the drainer cheap.

use crate::clock;
use crate::discover::{self, Arrivals};
use crate::image::{Image, ImageDamage};
use crate::mappings::sampler::Sampler;
use crate::proc_fs::{self, Memory};
use crate::ring::{self, Change, Parsed, Part, ProcessFile, Ring};
use crate::session;
use crate::spool::block::RingId;
use crate::spool::note::{How, Note};
use crate::spool::reader::Index;
use crate::spool::record::Encoder;
use crate::spool::writer::SpoolWriter;
use hashbrown::HashMap;
use rustix::fs::FallocateFlags;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs::{self, File};
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::{Duration, Instant};

/// Payload bytes at which a block is written.
const BLOCK_BYTES: usize = 64 * 1024;
/// The drainer empties a ring once this fraction (1 in N) is full.
const FILL_PART: u64 = 8;
/// Words copied out of a ring at a time: few enough to stay in cache while encoded, more than any
/// record has.
const COPY_WORDS: usize = 512;
/// Longest wait of a record in a ring.
const WAIT_MAX: Duration = Duration::from_millis(100);
/// Bytes of a first ring that stay in its process's file, which lives until the recording is
/// finished.
const LEFT_BYTES: u64 = 64 << 10;
/// Live bytes are estimated from one address in this many.
const LIVE_SAMPLE: u64 = 64;

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

#[derive(Debug)]
struct TrackedRing {
    id: RingId,
    ring: Ring,
    waiting_since: Option<Instant>,
    damaged: bool,
}

impl TrackedRing {
    fn is_waiting(&self) -> bool {
        [Part::Main, Part::Nested].into_iter().any(|part| self.ring.fill(part).0 > 0)
    }
}

#[derive(Debug)]
struct Tracked {
    file: ProcessFile,
    start_ticks: u64,
    rings: Vec<TrackedRing>,
    /// Number of the next ring to open.
    next_ring: u32,
    /// Its count of rings cannot be believed.
    is_misled: bool,
    /// Rings that cannot be opened.
    unread: Vec<u32>,
    /// It has stopped recording.
    cut: bool,
    /// A look has confirmed that its number is its process's.
    seen: bool,
    /// Time of opening its file.
    since: Instant,
}

impl Tracked {
    fn new(file: ProcessFile, start_ticks: u64) -> Tracked {
        Tracked {
            file,
            start_ticks,
            rings: Vec::new(),
            next_ring: 0,
            is_misled: false,
            unread: Vec::new(),
            cut: false,
            seen: false,
            since: Instant::now(),
        }
    }

    /// Whether the image's process runs. An unconfirmed number may mean that the process ended
    /// before anybody looked. But the process may also live in a namespace where it has another
    /// number (a container's), or be invisible (hidepid).
    fn runs(&mut self, key: (u32, u32), holders: &mut Holders) -> bool {
        if runs_still(key, self.start_ticks) {
            self.seen = true;
            return true;
        }
        if proc_fs::Stat::read(key.0).is_none() && proc_fs::exists(key.0) {
            return true;
        }
        !self.seen && !self.file.exited() && holders.may_hold(key, self.since)
    }

    /// Opens the image's process file; `None` while the target is making it. The error says why
    /// nothing of it can be read.
    fn open(spool: &Path, key: (u32, u32)) -> Result<Option<Tracked>, String> {
        let opened = ProcessFile::open(&discover::process_path(spool, key))
            .map_err(|error| error.to_string())?;
        let Some(file) = opened else { return Ok(None) };
        match Image::parse(&file.header(), &[]) {
            Ok(image) => Ok(Some(Tracked::new(file, image.start_ticks))),
            Err(ImageDamage::Unfinished) => Ok(None),
            Err(damage) => Err(damage.to_string()),
        }
    }

    /// Opens the rings that the image has made since; returns the failures. The count of rings lies
    /// where the program can write. A missing ring proves the count wrong; from then on the folder
    /// is listed, so that no thread waits for ever for a ring that nobody empties.
    fn open_rings(&mut self, spool: &Path, key: (u32, u32)) -> Vec<String> {
        let (mut losses, count) = (Vec::new(), self.file.ring_count().min(discover::RINGS_MAX));
        while self.next_ring < count && !self.is_misled {
            let (path, at) = discover::ring_place(spool, key, self.next_ring);
            let opened =
                if self.next_ring == 0 { self.file.first_ring() } else { Ring::open(&path, at) };
            match opened {
                Ok(None) => return losses,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    let (pid, seq) = key;
                    losses.push(format!(
                        "the program overwrote the number of rings of process {pid} (image {seq}) with {count}"
                    ));
                    self.is_misled = true;
                }
                opened => {
                    losses.extend(self.follow(spool, key, self.next_ring, opened));
                    self.next_ring += 1;
                }
            }
        }
        let numbers = if self.is_misled {
            discover::ring_numbers(spool, key).unwrap_or_default()
        } else {
            Vec::new()
        };
        for number in
            numbers.into_iter().filter(|number| *number >= self.next_ring).collect::<Vec<u32>>()
        {
            if self.rings.iter().all(|ring| ring.id.ring != number)
                && !self.unread.contains(&number)
            {
                let (path, at) = discover::ring_place(spool, key, number);
                let opened = Ring::open(&path, at);
                losses.extend(self.follow(spool, key, number, opened));
            }
        }
        losses
    }

    /// Why it stopped recording; only the first time.
    fn newly_cut(&mut self) -> Option<u32> {
        let cut = self.file.cut();
        cut.filter(|_| !std::mem::replace(&mut self.cut, true))
    }

    /// Empties the ring from now on, or reports that it cannot.
    fn follow(
        &mut self,
        spool: &Path,
        (pid, seq): (u32, u32),
        number: u32,
        opened: io::Result<Option<Ring>>,
    ) -> Option<String> {
        match opened {
            Ok(None) => None,
            Ok(Some(ring)) => {
                let id = RingId { pid, seq, ring: number, nested: false };
                self.rings.push(TrackedRing { id, ring, waiting_since: None, damaged: false });
                None
            }
            Err(error) => {
                self.unread.push(number);
                discover::leave_unread(spool, (pid, seq));
                let path = discover::ring_place(spool, (pid, seq), number).0;
                Some(format!(
                    "the ring {} cannot be read: {error}; the recording of process {pid} ends when this ring is full",
                    path.display()
                ))
            }
        }
    }

    /// Gives the disk space of its rings back; they are empty and stay empty.
    fn remove_rings(&self, spool: &Path, key: (u32, u32)) {
        let of_others = self
            .rings
            .iter()
            .map(|ring| ring.id.ring)
            .filter(|ring| *ring >= self.next_ring.max(1));
        for number in (1..self.next_ring).chain(of_others) {
            let _ = fs::remove_file(discover::ring_place(spool, key, number).0);
        }
        let Some(TrackedRing { ring, .. }) = self.rings.iter().find(|ring| ring.id.ring == 0)
        else {
            return;
        };
        let used = |part| (ring.position(part).saturating_mul(8)).min(ring.data(part).1);
        if used(Part::Main) + used(Part::Nested) <= LEFT_BYTES {
            return;
        }
        // A hole instead of a shorter file: a child of vfork may still write for its parent.
        let Ok(file) = File::options().write(true).open(discover::process_path(spool, key)) else {
            return;
        };
        for part in [Part::Main, Part::Nested] {
            let (offset, bytes) = ring.data(part);
            let _ = rustix::fs::fallocate(
                &file,
                FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
                offset,
                bytes,
            );
        }
    }
}

/// Time between two looks at all processes' mappings, which are slow to read.
const HOLDERS_EVERY: Duration = Duration::from_secs(1);

/// Images with files that some process has mapped.
#[derive(Debug)]
struct Holders {
    spool: PathBuf,
    looked: Option<Instant>,
    found: HashSet<(u32, u32)>,
}

impl Holders {
    /// Whether some process has mapped the image's file. Unknown, and thus true, for an image
    /// opened (`since`) after the last look.
    fn may_hold(&mut self, key: (u32, u32), since: Instant) -> bool {
        if self.looked.is_none_or(|at| at.elapsed() >= HOLDERS_EVERY) {
            self.looked = Some(Instant::now());
            self.found = discover::mapped_images(&self.spool);
        }
        self.found.contains(&key) || self.looked.is_some_and(|at| at < since)
    }
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
    sampled: HashMap<u64, u64>,
    /// Changes at sampled addresses in the block being written.
    chosen: Vec<Change>,
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
            sampled: HashMap::new(),
            chosen: Vec::new(),
            left_in_rings: false,
            cut: Vec::new(),
            holders: Holders { spool: spool.to_owned(), looked: None, found: HashSet::new() },
            lost: HashSet::new(),
            losses: Vec::new(),
            mappings: Sampler::default(),
        }
    }

    /// The figures so far.
    pub fn totals(&self) -> Totals {
        Totals {
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
        self.chosen.clear();
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
            let chosen = &mut self.chosen;
            let (taken, parsed) = ring::encode(&self.words, &mut self.encoder, |change| {
                events += 1;
                if is_chosen(change.gone) || is_chosen(change.born) {
                    chosen.push(change);
                }
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
        for change in &self.chosen {
            follow(change, id.pid, &mut self.totals, &mut self.sampled);
        }
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

    /// Notes the memory of every living image, and now and then what it lies in.
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

/// Whether the image's process runs. An emulator may show its program other ticks than the kernel's
/// (qemu does); then only a mapping of the image's own file distinguishes the process from another
/// of its number.
fn runs_still(key: (u32, u32), start_ticks: u64) -> bool {
    let has_file =
        || proc_fs::maps(key.0, format!("/{}-{}.process", key.0, key.1).as_bytes()) == Some(true);
    let stat = proc_fs::Stat::read(key.0).filter(proc_fs::Stat::runs);
    stat.is_some_and(|stat| start_ticks == 0 || stat.start_ticks == start_ticks || has_file())
}

/// The end of a process that is not our child: the kernel's status, until its parent has waited for
/// it.
fn how_gone(pid: u32, start_ticks: u64) -> How {
    match proc_fs::wait_status(pid, start_ticks).map(ExitStatus::from_raw) {
        Some(status) => session::how_of(status),
        None => How::Gone,
    }
}

/// Whether this address is sampled: one in [`LIVE_SAMPLE`].
#[inline(always)]
fn is_chosen(address: u64) -> bool {
    const { assert!(LIVE_SAMPLE == 1 << (64 - 58)) };
    (address >> 4).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 58 == 0 && address != 0
}

/// Updates the estimate of live bytes: all changes at sampled addresses, times [`LIVE_SAMPLE`].
fn follow(change: &Change, pid: u32, totals: &mut Totals, sampled: &mut HashMap<u64, u64>) {
    let key = |address: u64| address ^ u64::from(pid) << 48;
    if is_chosen(change.gone)
        && let Some(size) = sampled.remove(&key(change.gone))
    {
        totals.live_bytes_estimate = totals.live_bytes_estimate.saturating_sub(size * LIVE_SAMPLE);
    }
    if is_chosen(change.born) {
        let size = change.size.min(1 << 40);
        let before = sampled.insert(key(change.born), size).unwrap_or(0);
        totals.live_bytes_estimate =
            (totals.live_bytes_estimate + size * LIVE_SAMPLE).saturating_sub(before * LIVE_SAMPLE);
    }
}

#[cfg(test)]
mod tests;
