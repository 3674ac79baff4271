//! Empties rings into the spool.
//!
//! A ring is a file, so that what waits in it is as safe as what was spooled: rings are emptied when they fill (an eighth),
//! or when something has waited a while, and not at every turn. That makes blocks large and the drainer cheap.

use crate::clock;
use crate::discover::{self, Arrivals};
use crate::image::Image;
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

/// Bytes of payload at which a block is written.
const BLOCK_BYTES: usize = 64 * 1024;
/// A ring is emptied when it is filled to one part in this many.
const FILL_PART: u64 = 8;
/// Words copied out of a ring at a time: few enough to stay near while they are encoded, more than any record has.
const COPY_WORDS: usize = 512;
/// Longest that a record waits in a ring.
const WAIT_MAX: Duration = Duration::from_millis(100);
/// Bytes of a first ring that are left in its process's file, which stays until the recording is finished.
const LEFT_BYTES: u64 = 64 << 10;
/// Live bytes are estimated from one address in this many.
const LIVE_SAMPLE: u64 = 64;

/// What is known of a recording while it runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Events taken.
    pub events: u64,
    /// Bytes live now, estimated from a sample of the addresses.
    pub live_bytes_estimate: u64,
    /// Bytes of the spool.
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
    /// The number of rings that it states is not to be believed.
    is_misled: bool,
    /// Rings that cannot be opened.
    unread: Vec<u32>,
    /// It was seen to have stopped recording.
    cut: bool,
}

impl Tracked {
    fn new(file: ProcessFile, start_ticks: u64) -> Tracked {
        Tracked { file, start_ticks, rings: Vec::new(), next_ring: 0, is_misled: false, unread: Vec::new(), cut: false }
    }

    /// Opens the rings that the image has made since; gives what went wrong. Their number stands where the program can write: a ring that is not there
    /// shows that it is not true, and from then on the folder is asked, so that no thread waits for ever for a ring that nobody empties.
    fn open_rings(&mut self, spool: &Path, key: (u32, u32)) -> Vec<String> {
        let (mut losses, count) = (Vec::new(), self.file.ring_count().min(discover::RINGS_MAX));
        while self.next_ring < count && !self.is_misled {
            let (path, at) = discover::ring_place(spool, key, self.next_ring);
            let opened = if self.next_ring == 0 { self.file.first_ring() } else { Ring::open(&path, at) };
            match opened {
                Ok(None) => return losses,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    let (pid, seq) = key;
                    losses.push(format!(
                        "the number of rings of process {pid} (image {seq}) was overwritten by the program: it is said to be {count}"
                    ));
                    self.is_misled = true;
                }
                opened => {
                    losses.extend(self.follow(spool, key, self.next_ring, opened));
                    self.next_ring += 1;
                }
            }
        }
        let numbers = if self.is_misled { discover::ring_numbers(spool, key).unwrap_or_default() } else { Vec::new() };
        for number in numbers.into_iter().filter(|number| *number >= self.next_ring).collect::<Vec<u32>>() {
            if self.rings.iter().all(|ring| ring.id.ring != number) && !self.unread.contains(&number) {
                let (path, at) = discover::ring_place(spool, key, number);
                let opened = Ring::open(&path, at);
                losses.extend(self.follow(spool, key, number, opened));
            }
        }
        losses
    }

    /// Why it stopped recording, the first time that this is seen.
    fn newly_cut(&mut self) -> Option<u32> {
        let cut = self.file.cut();
        cut.filter(|_| !std::mem::replace(&mut self.cut, true))
    }

    /// The ring is emptied from now on, or said not to be.
    fn follow(&mut self, spool: &Path, (pid, seq): (u32, u32), number: u32, opened: io::Result<Option<Ring>>) -> Option<String> {
        match opened {
            Ok(None) => None,
            Ok(Some(ring)) => {
                let id = RingId { pid, seq, ring: number, nested: false };
                self.rings.push(TrackedRing { id, ring, waiting_since: None, damaged: false });
                None
            }
            Err(error) => {
                self.unread.push(number);
                Some(format!("the ring {} cannot be read: {error}", discover::ring_place(spool, (pid, seq), number).0.display()))
            }
        }
    }

    /// Gives the disk back what the rings took, which are empty and will stay so.
    fn remove_rings(&self, spool: &Path, key: (u32, u32)) {
        let of_others = self.rings.iter().map(|ring| ring.id.ring).filter(|ring| *ring >= self.next_ring.max(1));
        for number in (1..self.next_ring).chain(of_others) {
            let _ = fs::remove_file(discover::ring_place(spool, key, number).0);
        }
        let Some(TrackedRing { ring, .. }) = self.rings.iter().find(|ring| ring.id.ring == 0) else { return };
        let used = |part| (ring.position(part).saturating_mul(8)).min(ring.data(part).1);
        if used(Part::Main) + used(Part::Nested) <= LEFT_BYTES {
            return;
        }
        // A hole and not a shorter file: a child of vfork may write on for its parent.
        let Ok(file) = File::options().write(true).open(discover::process_path(spool, key)) else { return };
        for part in [Part::Main, Part::Nested] {
            let (offset, bytes) = ring.data(part);
            let _ = rustix::fs::fallocate(&file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, offset, bytes);
        }
    }
}

/// Follows all images of a spool and empties their rings.
#[derive(Debug)]
pub struct Drainer {
    spool: PathBuf,
    arrivals: Arrivals,
    /// Process files that were found and are not finished.
    unfinished: BTreeSet<(u32, u32)>,
    writer: SpoolWriter,
    encoder: Encoder,
    words: Vec<u64>,
    living: BTreeMap<(u32, u32), Tracked>,
    /// Images whose end is noted, or which could not be opened.
    done: HashSet<(u32, u32)>,
    totals: Totals,
    sampled: HashMap<u64, u64>,
    /// Of the block that is being written, what concerns addresses that are followed.
    chosen: Vec<Change>,
    /// Records of images that have ended are in their rings still: the spool did not take them.
    left_in_rings: bool,
    /// Processes that stopped recording, and why, not yet taken.
    cut: Vec<(u32, u32)>,
}

impl Drainer {
    /// For the folder `spool`, writing to `writer`.
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
        }
    }

    /// What is known so far.
    pub fn totals(&self) -> Totals {
        Totals { spool_bytes: self.writer.bytes(), images: (self.living.len() + self.done.len()) as u64, ..self.totals }
    }

    /// Appends a note. One that cannot be written is known to who finishes the spool now ([`Drainer::into_index`]), unless it says that
    /// everything was written.
    pub fn note(&mut self, note: &Note) -> io::Result<()> {
        let written = self.writer.note(note);
        if written.is_err() && !matches!(note, Note::Complete { .. }) {
            self.writer.remember(note.clone());
        }
        written
    }

    /// Images that are followed, as (pid, seq).
    pub fn living(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.living.keys().copied()
    }

    /// Whether records that the spool did not take are in the rings of images that have ended.
    pub fn has_left(&self) -> bool {
        self.left_in_rings
    }

    /// Processes that were seen since the last call to have stopped recording, and why (`layout::CUT_...`).
    pub fn take_cut(&mut self) -> Vec<(u32, u32)> {
        std::mem::take(&mut self.cut)
    }

    /// Whether an image of `pid` was ever seen.
    pub fn has_seen(&self, pid: u32) -> bool {
        self.living.keys().chain(&self.done).any(|key| key.0 == pid)
    }

    /// Looks for new images and rings.
    pub fn discover(&mut self) -> io::Result<()> {
        self.unfinished.extend(self.arrivals.take()?);
        for key in std::mem::take(&mut self.unfinished) {
            if self.living.contains_key(&key) || self.done.contains(&key) {
                continue;
            }
            let file = ProcessFile::open(&discover::process_path(&self.spool, key))?;
            match file.and_then(|file| Some((Image::parse(&file.header(), &[]).ok()?.start_ticks, file))) {
                Some((start_ticks, file)) => drop(self.living.insert(key, Tracked::new(file, start_ticks))),
                None => drop(self.unfinished.insert(key)),
            }
        }
        let mut losses = Vec::new();
        for (key, tracked) in &mut self.living {
            self.cut.extend(tracked.newly_cut().map(|reason| (key.0, reason)));
            losses.extend(tracked.open_rings(&self.spool, *key));
        }
        all(losses, |text| self.note(&Note::Loss { text }))
    }

    /// Empties the rings that are worth it. Returns the fill of the fullest ring before, in thousandths.
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
                // What it holds cannot be read, but the program must not wait for room in it.
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
                        "ring {ring} of process {pid} (image {seq}) was overwritten by the program; what it held from there on is lost"
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

    /// Writes one block with as many of the ring's records as fit, and says how many words they were.
    fn spool_block(&mut self, tracked: &TrackedRing, part: Part, begin: u64) -> io::Result<(u64, Parsed)> {
        let (ring, id) = (&tracked.ring, RingId { nested: part == Part::Nested, ..tracked.id });
        let (mut used, mut base, mut events) = (0, 0, 0);
        self.chosen.clear();
        let parsed = loop {
            let Some(more) = ring.copy(part, begin + used, COPY_WORDS, &mut self.words) else { break Parsed::Damaged };
            let Some(first) = self.words.first() else { break Parsed::Whole };
            if used == 0 {
                base = heaplab_recorder::layout::stamp(*first).1;
                self.encoder.begin(base);
            }
            ring.prefetch(part, begin + used + self.words.len() as u64, more.min(COPY_WORDS as u64));
            let chosen = &mut self.chosen;
            let (taken, parsed) = ring::encode(&self.words, &mut self.encoder, |change| {
                events += 1;
                if is_chosen(change.gone) || is_chosen(change.born) {
                    chosen.push(change);
                }
            });
            used += taken as u64;
            // What came since is taken next time: who follows a busy program closely would write small blocks.
            if parsed != Parsed::Whole || more == 0 || taken == 0 {
                break parsed;
            }
        };
        if used > 0 {
            self.writer.records(&self.encoder, id, begin, begin + used, base)?;
        }
        // Not before it is written: what a full disk refused stays in the ring and is read again.
        self.totals.events += events;
        for change in &self.chosen {
            follow(change, id.pid, &mut self.totals, &mut self.sampled);
        }
        Ok((used, parsed))
    }

    /// Notes the images that have ended and empties their rings for the last time. `status_of` knows how the started process ended.
    /// What fails of one keeps no other from being noted.
    pub fn reap(&mut self, status_of: impl Fn(u32) -> Option<How>) -> io::Result<()> {
        let keys: Vec<(u32, u32)> = self.living.keys().copied().collect();
        all(keys.iter().enumerate(), |(place, key)| {
            let replaced = keys.get(place + 1).is_some_and(|next| next.0 == key.0);
            let Some(tracked) = self.living.get(key) else { return Ok(()) };
            let how = if replaced {
                Some(How::Exec)
            } else if let Some(how) = status_of(key.0) {
                Some(how)
            } else {
                (!runs_still(*key, tracked.start_ticks)).then(|| how_gone(key.0, tracked.start_ticks))
            };
            how.map_or(Ok(()), |how| self.end(*key, how))
        })
    }

    /// The images that are followed run on, and are left to themselves.
    pub fn leave(&mut self) -> io::Result<()> {
        let keys: Vec<(u32, u32)> = self.living().collect();
        all(keys, |key| self.end(key, How::Running))
    }

    /// The image `key` has ended, or is left to itself: takes what is in its rings, and forgets it. What the spool does not take stays in the
    /// rings' files, for finishing; the end is known all the same.
    fn end(&mut self, key: (u32, u32), how: How) -> io::Result<()> {
        let Some(mut tracked) = self.living.remove(&key) else { return Ok(()) };
        self.cut.extend(tracked.newly_cut().map(|reason| (key.0, reason)));
        let discovered = all(tracked.open_rings(&self.spool, key), |text| self.note(&Note::Loss { text }));
        let emptied = all(&mut tracked.rings, |ring| self.empty(ring));
        self.left_in_rings |= tracked.rings.iter().any(TrackedRing::is_waiting);
        self.done.insert(key);
        let noted = self.note(&Note::Ended { counter: clock::counter(), pid: key.0, seq: key.1, how });
        if emptied.is_ok() && how != How::Running {
            tracked.remove_rings(&self.spool, key);
        }
        discovered.and(emptied).and(noted)
    }

    /// Notes the memory of every living image.
    pub fn sample(&mut self) -> io::Result<()> {
        let keys: Vec<(u32, u32)> = self.living.keys().copied().collect();
        for (pid, seq) in keys {
            if let Some(Memory { resident_bytes, anonymous_bytes: resident_anonymous_bytes, resident_peak_bytes }) = proc_fs::memory(pid) {
                let counter = clock::counter();
                self.note(&Note::Sample { counter, pid, seq, resident_bytes, resident_anonymous_bytes, resident_peak_bytes })?;
            }
        }
        Ok(())
    }

    /// Where everything is in the spool.
    pub fn into_index(self) -> Index {
        self.writer.into_index()
    }

    /// Pretend that the disk is full once the spool has this many bytes; for tests.
    pub fn limit(&mut self, bytes: u64) {
        self.writer.limit(bytes);
    }
}

/// Does it to all, whatever fails; the first failure.
fn all<T>(items: impl IntoIterator<Item = T>, mut act: impl FnMut(T) -> io::Result<()>) -> io::Result<()> {
    let mut first = Ok(());
    for item in items {
        let outcome = act(item);
        first = first.and(outcome);
    }
    first
}

/// Whether the image's process runs. An emulator may tell its program other ticks than the kernel has (qemu does); then whether the process has
/// the image's own file mapped is what tells it from another of its number.
fn runs_still(key: (u32, u32), start_ticks: u64) -> bool {
    let has_file = || proc_fs::maps(key.0, format!("/{}-{}.process", key.0, key.1).as_bytes()) == Some(true);
    proc_fs::runs(key.0, start_ticks) || (proc_fs::runs(key.0, 0) && has_file())
}

/// How a process ended that is not ours to wait for: as the kernel has it while its parent has not waited for it either.
fn how_gone(pid: u32, start_ticks: u64) -> How {
    match proc_fs::wait_status(pid, start_ticks).map(ExitStatus::from_raw) {
        Some(status) => session::how_of(status),
        None => How::Gone,
    }
}

/// Whether what happens to this address is followed: of one in [`LIVE_SAMPLE`].
#[inline(always)]
fn is_chosen(address: u64) -> bool {
    const { assert!(LIVE_SAMPLE == 1 << (64 - 58)) };
    (address >> 4).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 58 == 0 && address != 0
}

/// Keeps the estimate of live bytes: all that happens to the followed addresses, times [`LIVE_SAMPLE`].
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
        totals.live_bytes_estimate = (totals.live_bytes_estimate + size * LIVE_SAMPLE).saturating_sub(before * LIVE_SAMPLE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use heaplab_recorder::layout::{self, ProcessHeader, RingHeader};
    use std::mem::{offset_of, size_of};
    use std::os::unix::fs::FileExt;

    const WORDS: u64 = 512;

    const FIRST_RING: usize = offset_of!(ProcessHeader, first_ring);

    fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
        bytes[at..at + value.len()].copy_from_slice(value);
    }

    /// Describes a ring at `at` whose data begin at the end of `bytes`, with these words and this head.
    fn add_ring(bytes: &mut Vec<u8>, at: usize, words: &[u64], head: u64) {
        let (data, length) = (bytes.len() as u64, WORDS * 8);
        put(bytes, at + offset_of!(RingHeader, magic), &layout::RING_MAGIC.to_le_bytes());
        put(bytes, at + offset_of!(RingHeader, version), &layout::VERSION.to_le_bytes());
        let areas = [(offset_of!(RingHeader, data_offset), data), (offset_of!(RingHeader, data_bytes), length)];
        let nested = [(offset_of!(RingHeader, nested_offset), data + length), (offset_of!(RingHeader, nested_bytes), length)];
        for (field, value) in areas.into_iter().chain(nested).chain([(offset_of!(RingHeader, head), head)]) {
            put(bytes, at + field, &value.to_le_bytes());
        }
        bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        bytes.resize((data + 2 * length) as usize, 0);
    }

    /// A ring in a file.
    struct Place {
        file: File,
        at: usize,
    }

    impl Place {
        fn of(spool: &Path, number: u32) -> Place {
            let (path, at) = discover::ring_place(spool, (7, 0), number);
            Place { file: File::options().read(true).write(true).open(path).unwrap(), at }
        }

        fn set(&self, field: usize, value: u64) {
            self.file.write_all_at(&value.to_le_bytes(), (self.at + field) as u64).unwrap();
        }

        fn tail(&self) -> u64 {
            let mut tail = [0; 8];
            self.file.read_exact_at(&mut tail, (self.at + offset_of!(RingHeader, tail)) as u64).unwrap();
            u64::from_le_bytes(tail)
        }
    }

    /// A spool with one process whose only ring has these words and this head.
    fn drainer(folder: &Path, words: &[u64], head: u64) -> (Drainer, Place) {
        let mut process = vec![0; size_of::<ProcessHeader>()];
        put(&mut process, offset_of!(ProcessHeader, magic), &layout::PROCESS_MAGIC.to_le_bytes());
        put(&mut process, offset_of!(ProcessHeader, version), &layout::VERSION.to_le_bytes());
        put(&mut process, offset_of!(ProcessHeader, pid), &7_u32.to_le_bytes());
        put(&mut process, offset_of!(ProcessHeader, ring_count), &1_u32.to_le_bytes());
        add_ring(&mut process, FIRST_RING, words, head);
        fs::write(discover::process_path(folder, (7, 0)), process).unwrap();
        let mut drainer = Drainer::new(folder, SpoolWriter::create(&folder.join("events.spool")).unwrap());
        drainer.discover().unwrap();
        (drainer, Place::of(folder, 0))
    }

    #[test]
    fn a_million_rings_that_are_not_there_are_one_loss_and_the_others_are_emptied() {
        let folder = tempfile::tempdir().unwrap();
        let record = [100 << 4 | u64::from(layout::FREE), 0x7000];
        let words: Vec<u64> = std::iter::repeat_n(record, WORDS as usize / 2).flatten().collect();
        let (mut drainer, first) = drainer(folder.path(), &words, WORDS);
        let process = File::options().write(true).open(discover::process_path(folder.path(), (7, 0))).unwrap();
        for count in [1_000_000_u32, u32::MAX] {
            process.write_all_at(&count.to_le_bytes(), offset_of!(ProcessHeader, ring_count) as u64).unwrap();
            drainer.discover().unwrap();
        }
        // The program takes its next ring's number from the same place.
        let mut last = vec![0; size_of::<RingHeader>()];
        add_ring(&mut last, 0, &words, WORDS);
        fs::write(discover::ring_place(folder.path(), (7, 0), u32::MAX).0, last).unwrap();
        drainer.discover().unwrap();
        let last = Place::of(folder.path(), u32::MAX);
        for _ in 0..2 {
            drainer.turn().unwrap();
        }
        assert!((first.tail(), last.tail()) == (WORDS, WORDS), "nobody waits for room for ever");
        let index = drainer.into_index();
        let [Note::Loss { text }] = &index.notes[..] else { panic!("told once: {:?}", index.notes) };
        assert!(text.starts_with("the number of rings of process 7 (image 0) was overwritten"), "{text}");
    }

    /// A first ring's room on the disk is given back when its process has ended, and what it says stays; a small one is not worth it.
    #[test]
    fn what_an_ended_process_wrote_leaves_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let (mut drainer, _) = drainer(folder.path(), &[], 0);
        let blocks = |key| std::os::unix::fs::MetadataExt::blocks(&fs::metadata(discover::process_path(folder.path(), key)).unwrap());
        let mut process = fs::read(discover::process_path(folder.path(), (7, 0))).unwrap();
        process.truncate(size_of::<ProcessHeader>());
        let words = vec![100 << 4 | u64::from(layout::PAD); 1 << 16];
        process.resize(4096, 1);
        let data = process.len();
        add_ring(&mut process, FIRST_RING, &words[..WORDS as usize], words.len() as u64);
        process.truncate(data);
        put(&mut process, FIRST_RING + offset_of!(RingHeader, data_bytes), &(8 * words.len() as u64).to_le_bytes());
        put(&mut process, FIRST_RING + offset_of!(RingHeader, nested_offset), &((data + 8 * words.len()) as u64).to_le_bytes());
        process.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        process.resize(process.len() + WORDS as usize * 8, 0);
        fs::write(discover::process_path(folder.path(), (7, 1)), process).unwrap();
        let before = [blocks((7, 0)), blocks((7, 1))];
        drainer.discover().unwrap();
        drainer.reap(|_| Some(How::Exited(0))).unwrap();
        assert_eq!((blocks((7, 0)), drainer.has_left()), (before[0], false));
        assert!(blocks((7, 1)) < before[1] / 8, "{} blocks of {}", blocks((7, 1)), before[1]);
        let image = discover::read_image(folder.path(), (7, 1)).unwrap().unwrap();
        assert_eq!((image.ring_count, image.first_ring_waits), (1, [false; 2]));
    }

    /// Of a full ring: until nothing waits in it, at every head it is given.
    fn is_emptied(drainer: &mut Drainer, ring: &Place, heads: impl IntoIterator<Item = u64>) {
        for head in heads {
            ring.set(offset_of!(RingHeader, head), head);
            for _ in 0..2 {
                drainer.turn().unwrap();
            }
            assert_eq!(ring.tail(), head, "the program would wait for room for ever");
        }
    }

    #[test]
    fn a_ring_that_was_overwritten_is_emptied_unread_so_that_its_program_runs_on() {
        let folder = tempfile::tempdir().unwrap();
        let no_record = 15;
        let mut words = vec![no_record; WORDS as usize];
        words[..2].copy_from_slice(&[100 << 4 | u64::from(layout::FREE), 0x7000]);
        let (mut drainer, ring) = drainer(folder.path(), &words, WORDS);
        is_emptied(&mut drainer, &ring, [WORDS, WORDS + 100, 2 * WORDS + 100]);
        assert_eq!(drainer.totals().events, 1, "what stood before the damage is kept");
        let index = drainer.into_index();
        let [block] = index.rings.values().next().unwrap()[..] else { panic!("{index:?}") };
        assert_eq!((block.records, block.begin_position, block.end_position), (1, 0, 2));
        let [Note::Loss { text }] = &index.notes[..] else { panic!("told once: {:?}", index.notes) };
        assert!(text.starts_with("ring 0 of process 7 (image 0) was overwritten"), "{text}");
    }

    #[test]
    fn a_ring_whose_head_cannot_be_is_given_up_once() {
        let folder = tempfile::tempdir().unwrap();
        let (mut drainer, ring) = drainer(folder.path(), &[], 1 << 40);
        is_emptied(&mut drainer, &ring, [1 << 40, (1 << 40) + WORDS, u64::MAX, WORDS - 1]);
        let index = drainer.into_index();
        assert!(index.rings.is_empty() && index.notes.len() == 1, "{index:?}");
    }

    /// Where the drainer has got to stands in memory that the program can write.
    #[test]
    fn a_ring_whose_tail_cannot_be_is_given_up_and_its_blocks_go_forward() {
        let folder = tempfile::tempdir().unwrap();
        let record = [100 << 4 | u64::from(layout::FREE), 0x7000];
        let words: Vec<u64> = std::iter::repeat_n(record, WORDS as usize / 2).flatten().collect();
        let (mut drainer, ring) = drainer(folder.path(), &words, WORDS);
        is_emptied(&mut drainer, &ring, [WORDS]);
        ring.set(offset_of!(RingHeader, tail), u64::MAX - 399);
        is_emptied(&mut drainer, &ring, [100, 100 + WORDS]);
        let index = drainer.into_index();
        let blocks = index.rings.values().next().unwrap();
        assert!(blocks.len() == 1 && blocks[0].end_position == WORDS, "{index:?}");
        assert_eq!(index.notes.len(), 1, "{index:?}");
    }

    #[test]
    fn what_a_full_disk_refused_counts_once_when_it_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let record = [100 << 4 | u64::from(layout::FREE), 0x7000];
        let words: Vec<u64> = std::iter::repeat_n(record, WORDS as usize / 2).flatten().collect();
        let (mut drainer, ring) = drainer(folder.path(), &words, WORDS);
        drainer.limit(0);
        for _ in 0..3 {
            assert!(drainer.turn().is_err());
        }
        assert_eq!((drainer.totals().events, ring.tail()), (0, 0), "nothing is written, and nothing is lost");
        drainer.limit(u64::MAX);
        drainer.turn().unwrap();
        assert_eq!((drainer.totals().events, ring.tail()), (WORDS / 2, WORDS));
    }

    #[test]
    fn an_end_that_a_full_disk_does_not_take_is_known_and_its_records_stay() {
        let folder = tempfile::tempdir().unwrap();
        let record = [100 << 4 | u64::from(layout::FREE), 0x7000];
        let words: Vec<u64> = std::iter::repeat_n(record, WORDS as usize / 2).flatten().collect();
        let (mut drainer, ring) = drainer(folder.path(), &words, WORDS);
        drainer.limit(0);
        assert!(drainer.reap(|_| Some(How::Exited(3))).is_err());
        assert!(drainer.has_left() && drainer.living().next().is_none());
        assert!(ring.tail() == 0);
        assert_eq!(discover::read_image(folder.path(), (7, 0)).unwrap().unwrap().first_ring_waits, [true, false]);
        let notes = drainer.into_index().notes;
        assert!(matches!(notes[..], [Note::Ended { pid: 7, seq: 0, how: How::Exited(3), .. }]), "{notes:?}");
    }
}
