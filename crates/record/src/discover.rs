//! Finds what targets have made in the spool folder: process files and their rings.

use crate::image::{Image, ImageDamage};
use heaplab_recorder::layout::ProcessHeader;
use rustix::fd::OwnedFd;
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom};
use std::mem::{MaybeUninit, offset_of};
use std::path::{Path, PathBuf};

/// Largest process file that is read; what lies beyond is left out (the parser then says `damaged`).
const PROCESS_FILE_BYTES_MAX: u64 = 256 << 20;
/// What is read of a process file at first: all that there is of most.
const FIRST_BYTES: usize = 4 << 10;
/// Rings of one image that are believed.
pub const RINGS_MAX: u32 = 1 << 20;

/// (pid, seq) of every process file in the folder, finished or not.
pub fn process_files(spool: &Path) -> io::Result<Vec<(u32, u32)>> {
    let mut found: Vec<(u32, u32)> = fs::read_dir(spool)?.flatten().filter_map(|entry| key_of(entry.file_name().to_str()?)).collect();
    found.sort_unstable();
    Ok(found)
}

fn key_of(name: &str) -> Option<(u32, u32)> {
    let (pid, seq) = name.strip_suffix(".process")?.split_once('-')?;
    Some((pid.parse().ok()?, seq.parse().ok()?))
}

/// Numbers of the image's rings that are there, whatever its process file says.
pub fn ring_numbers(spool: &Path, (pid, seq): (u32, u32)) -> io::Result<Vec<u32>> {
    let prefix = format!("{pid}-{seq}-");
    let number_of = |name: &str| name.strip_prefix(&prefix)?.strip_suffix(".ring")?.parse().ok();
    let mut found: Vec<u32> = fs::read_dir(spool)?.flatten().filter_map(|entry| number_of(entry.file_name().to_str()?)).collect();
    found.sort_unstable();
    Ok(found)
}

/// Path of an image's process file.
pub fn process_path(spool: &Path, (pid, seq): (u32, u32)) -> PathBuf {
    spool.join(format!("{pid}-{seq}.process"))
}

/// Path of the file that one of an image's rings lies in, and where it is described there: the first one in the process file, each other in
/// its own.
pub fn ring_place(spool: &Path, (pid, seq): (u32, u32), ring: u32) -> (PathBuf, usize) {
    match ring {
        0 => (process_path(spool, (pid, seq)), offset_of!(ProcessHeader, first_ring)),
        _ => (spool.join(format!("{pid}-{seq}-{ring}.ring")), 0),
    }
}

/// Reads the process file `key`.
pub fn read_image(spool: &Path, key: (u32, u32)) -> io::Result<Result<Image, ImageDamage>> {
    let file = File::open(process_path(spool, key))?;
    let mut bytes = Vec::with_capacity(FIRST_BYTES);
    io::Read::read_to_end(&mut io::Read::take(&file, FIRST_BYTES as u64), &mut bytes)?;
    // Most of the file is room for records that never came: reading it would take longer than the process ran.
    let used_bytes = Image::used_bytes(&bytes).min(PROCESS_FILE_BYTES_MAX).saturating_sub(bytes.len() as u64);
    io::Read::read_to_end(&mut io::Read::take(&file, used_bytes), &mut bytes)?;
    let (more_offset, more_bytes) = Image::more_records(&bytes);
    let mut more = Vec::new();
    if more_bytes > 0 && (&file).seek(SeekFrom::Start(more_offset)).is_ok() {
        io::Read::read_to_end(&mut io::Read::take(&file, more_bytes.min(PROCESS_FILE_BYTES_MAX)), &mut more)?;
    }
    Ok(Image::parse(&bytes, &more).map(|mut image| {
        // The name is what rings and notes refer to; a file that says otherwise is not believed.
        image.damaged |= (image.pid, image.seq) != key;
        (image.pid, image.seq) = key;
        image
    }))
}

/// Process files as they come, without listing the folder for each: a list grows with the recording, and processes start all the time.
#[derive(Debug)]
pub struct Arrivals {
    spool: PathBuf,
    /// Tells what is made in the folder; none where the system has no more of them, and the folder is listed then.
    notices: Option<OwnedFd>,
    is_listed: bool,
}

impl Arrivals {
    /// Those of the folder `spool`, what is there already included.
    pub fn new(spool: &Path) -> Arrivals {
        let notices = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).ok();
        let notices = notices.filter(|notices| inotify::add_watch(notices, spool, WatchFlags::CREATE).is_ok());
        Arrivals { spool: spool.to_owned(), notices, is_listed: false }
    }

    /// As [`Arrivals::new`], where the folder is to be listed each time.
    #[cfg(test)]
    fn by_listing(spool: &Path) -> Arrivals {
        Arrivals { spool: spool.to_owned(), notices: None, is_listed: false }
    }

    /// (pid, seq) of the process files made since the last call, finished or not, sorted; some may have been given before.
    pub fn take(&mut self) -> io::Result<Vec<(u32, u32)>> {
        let noticed = self.notices.as_ref().map(noticed);
        match noticed {
            Some(Ok(Some(mut keys))) if self.is_listed => {
                keys.sort_unstable();
                Ok(keys)
            }
            _ => {
                let keys = process_files(&self.spool)?;
                self.is_listed = true;
                Ok(keys)
            }
        }
    }
}

/// What was noticed since it was last asked; `None`: not all of it.
fn noticed(notices: &OwnedFd) -> io::Result<Option<Vec<(u32, u32)>>> {
    let mut buffer = [MaybeUninit::uninit(); 8 << 10];
    let mut reader = inotify::Reader::new(notices, &mut buffer);
    let (mut keys, mut is_whole) = (Vec::new(), true);
    loop {
        match reader.next() {
            Ok(event) => {
                is_whole &= !event.events().contains(ReadFlags::QUEUE_OVERFLOW);
                keys.extend(event.file_name().and_then(|name| key_of(name.to_str().ok()?)));
            }
            Err(Errno::INTR) => {}
            Err(Errno::WOULDBLOCK) => return Ok(is_whole.then_some(keys)),
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_as_they_come_and_those_that_were_there_too() {
        let folder = tempfile::tempdir().unwrap();
        let make = |name: &str| fs::write(folder.path().join(name), b"").unwrap();
        make("12-0.process");
        let mut arrivals = [Arrivals::new(folder.path()), Arrivals::by_listing(folder.path())];
        make("13-0.process");
        for arrivals in &mut arrivals {
            assert_eq!(arrivals.take().unwrap(), [(12, 0), (13, 0)]);
        }
        make("12-1.process");
        make("12-0-3.ring");
        make("9-0.process");
        assert_eq!(arrivals[0].take().unwrap(), [(9, 0), (12, 1)], "only what is new");
        assert_eq!(arrivals[1].take().unwrap(), [(9, 0), (12, 0), (12, 1), (13, 0)]);
        assert_eq!(arrivals[0].take().unwrap(), []);
    }

    /// The system keeps so many notices and drops the others, which it says.
    #[test]
    fn files_that_were_not_noticed_are_found_by_listing() {
        let most = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").ok().and_then(|text| text.trim().parse::<u32>().ok());
        let Some(most) = most.filter(|most| *most <= 1 << 16) else {
            eprintln!("skipped: too many files would have to be made for one not to be noticed");
            return;
        };
        let folder = tempfile::tempdir().unwrap();
        let mut arrivals = Arrivals::new(folder.path());
        assert_eq!(arrivals.take().unwrap(), []);
        for pid in 0..most + 10 {
            fs::write(folder.path().join(format!("{pid}-0.process")), b"").unwrap();
        }
        let found = arrivals.take().unwrap();
        assert_eq!((found.len(), found.last()), (most as usize + 10, Some(&(most + 9, 0))));
        fs::write(folder.path().join("0-1.process"), b"").unwrap();
        assert_eq!(arrivals.take().unwrap(), [(0, 1)]);
    }

    #[test]
    fn only_process_files_are_found() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["12-0.process", "12-1.process", "12-0-3.ring", "x-1.process", "control", "12-.process"] {
            fs::write(folder.path().join(name), b"").unwrap();
        }
        assert_eq!(process_files(folder.path()).unwrap(), [(12, 0), (12, 1)]);
        assert_eq!(read_image(folder.path(), (12, 0)).unwrap(), Err(ImageDamage::Short));
    }
}
