//! Images that run: their process files, and the rings that they make.

use crate::discover;
use crate::image::{Image, ImageDamage};
use crate::proc_fs;
use crate::ring::{Part, ProcessFile, Ring};
use crate::spool::block::RingId;
use rustix::fs::FallocateFlags;
use std::collections::HashSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Bytes of a first ring that stay in its process's file, which lives until the recording is
/// finished.
const LEFT_BYTES: u64 = 64 << 10;
/// Time between two looks at all processes' mappings, which are slow to read.
const HOLDERS_EVERY: Duration = Duration::from_secs(1);

/// An image that is followed.
#[derive(Debug)]
pub(super) struct Tracked {
    pub file: ProcessFile,
    pub start_ticks: u64,
    pub rings: Vec<TrackedRing>,
    /// Number of the next ring to open.
    next_ring: u32,
    /// Its count of rings cannot be believed.
    is_misled: bool,
    /// Rings that cannot be opened.
    unread: Vec<u32>,
    /// It has stopped recording.
    cut: bool,
    /// A look has confirmed that its number is its process's.
    pub seen: bool,
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
    pub fn runs(&mut self, key: (u32, u32), holders: &mut Holders) -> bool {
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
    pub fn open(spool: &Path, key: (u32, u32)) -> Result<Option<Tracked>, String> {
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
    pub fn open_rings(&mut self, spool: &Path, key: (u32, u32)) -> Vec<String> {
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
    pub fn newly_cut(&mut self) -> Option<u32> {
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
    pub fn remove_rings(&self, spool: &Path, key: (u32, u32)) {
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

/// A ring of a followed image.
#[derive(Debug)]
pub(super) struct TrackedRing {
    pub id: RingId,
    pub ring: Ring,
    pub waiting_since: Option<Instant>,
    pub damaged: bool,
}

impl TrackedRing {
    pub fn is_waiting(&self) -> bool {
        [Part::Main, Part::Nested].into_iter().any(|part| self.ring.fill(part).0 > 0)
    }
}

/// Images with files that some process has mapped.
#[derive(Debug)]
pub(super) struct Holders {
    spool: PathBuf,
    looked: Option<Instant>,
    found: HashSet<(u32, u32)>,
}

impl Holders {
    /// The images of the folder `spool`; nobody has looked yet.
    pub fn of(spool: &Path) -> Holders {
        Holders { spool: spool.to_owned(), looked: None, found: HashSet::new() }
    }

    /// Whether some process has mapped the image's file. Unknown, and thus true, for an image
    /// opened (`since`) after the last look.
    pub fn may_hold(&mut self, key: (u32, u32), since: Instant) -> bool {
        if self.looked.is_none_or(|at| at.elapsed() >= HOLDERS_EVERY) {
            self.looked = Some(Instant::now());
            self.found = discover::mapped_images(&self.spool);
        }
        self.found.contains(&key) || self.looked.is_some_and(|at| at < since)
    }
}

/// Whether the image's process runs. An emulator may show its program other ticks than the kernel's
/// (qemu does); then only a mapping of the image's own file distinguishes the process from another
/// of its number.
pub(super) fn runs_still(key: (u32, u32), start_ticks: u64) -> bool {
    let has_file =
        || proc_fs::maps(key.0, format!("/{}-{}.process", key.0, key.1).as_bytes()) == Some(true);
    let stat = proc_fs::Stat::read(key.0).filter(proc_fs::Stat::runs);
    stat.is_some_and(|stat| start_ticks == 0 || stat.start_ticks == start_ticks || has_file())
}
