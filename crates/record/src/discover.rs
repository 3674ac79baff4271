//! Finds the files that targets make in the spool folder: process files and rings.

use crate::image::{Image, ImageDamage};
use crate::proc_fs;
use heaplab_preload::layout::ProcessHeader;
use rustix::fd::OwnedFd;
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;
use std::collections::HashSet;
use std::fs::{self, File, Permissions};
use std::io::{self, Seek, SeekFrom};
use std::mem::{MaybeUninit, offset_of};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Most bytes read of a process file; the rest is left out (the parser then sets `damaged`).
const PROCESS_FILE_BYTES_MAX: u64 = 256 << 20;
/// Bytes of a process file read at first: the whole of most.
const FIRST_BYTES: usize = 4 << 10;
/// Most rings of one image that are believed.
pub const RINGS_MAX: u32 = 1 << 20;

/// (pid, seq) of every process file in the folder, finished or not.
pub fn process_files(spool: &Path) -> io::Result<Vec<(u32, u32)>> {
    let mut found: Vec<(u32, u32)> = fs::read_dir(spool)?
        .flatten()
        .filter_map(|entry| key_of(entry.file_name().to_str()?))
        .collect();
    found.sort_unstable();
    Ok(found)
}

fn key_of(name: &str) -> Option<(u32, u32)> {
    let (pid, seq) = name.strip_suffix(".process")?.split_once('-')?;
    Some((pid.parse().ok()?, seq.parse().ok()?))
}

/// Images with a process file that some process has mapped, whatever its number in its own
/// namespace.
pub fn mapped_images(spool: &Path) -> HashSet<(u32, u32)> {
    let folder = [b"/", spool.file_name().unwrap_or_default().as_bytes(), b"/"].concat();
    let image_of = |line: &[u8]| {
        let at = line.windows(folder.len()).rposition(|part| part == folder)?;
        key_of(std::str::from_utf8(&line[at + folder.len()..]).ok()?)
    };
    proc_fs::all_maps()
        .flat_map(|maps| maps.split(|byte| *byte == b'\n').filter_map(image_of).collect::<Vec<_>>())
        .collect()
}

/// Numbers of the image's rings in the folder, whatever its process file says.
pub fn ring_numbers(spool: &Path, (pid, seq): (u32, u32)) -> io::Result<Vec<u32>> {
    let prefix = format!("{pid}-{seq}-");
    let number_of = |name: &str| name.strip_prefix(&prefix)?.strip_suffix(".ring")?.parse().ok();
    let mut found: Vec<u32> = fs::read_dir(spool)?
        .flatten()
        .filter_map(|entry| number_of(entry.file_name().to_str()?))
        .collect();
    found.sort_unstable();
    Ok(found)
}

/// Path of an image's process file.
pub fn process_path(spool: &Path, (pid, seq): (u32, u32)) -> PathBuf {
    spool.join(format!("{pid}-{seq}.process"))
}

/// Path of the file of one of an image's rings, and the offset of the ring's header: the first ring
/// lies in the process file, each other in its own.
pub fn ring_place(spool: &Path, (pid, seq): (u32, u32), ring: u32) -> (PathBuf, usize) {
    match ring {
        0 => (process_path(spool, (pid, seq)), offset_of!(ProcessHeader, first_ring)),
        _ => (spool.join(format!("{pid}-{seq}-{ring}.ring")), 0),
    }
}

/// Opens a file that a target made in the spool, to read or to map it shared. A target's umask may
/// have removed the owner's rights; this restores them. Never waits on a special file, such as a
/// fifo.
pub fn open_file(path: &Path, shares: bool) -> io::Result<File> {
    let metadata = fs::symlink_metadata(path)?;
    if !metadata.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"));
    }
    let open = || {
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
        File::options().read(true).write(shares).custom_flags(flags).open(path)
    };
    let may_give = || fs::set_permissions(path, Permissions::from_mode(0o600)).is_ok();
    match open() {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied && may_give() => open(),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            let text = format!(
                "{error}; it belongs to user number {}: record as that user",
                metadata.uid()
            );
            Err(io::Error::new(error.kind(), text))
        }
        opened => opened,
    }
}

/// Start of the reason for a process with an unreadable file.
pub const UNREAD: &str = "left a file in the spool that heaplab cannot read";

/// Why the process of image `key` is not recorded; `why` its file cannot be read.
pub fn unread_reason((pid, seq): (u32, u32), why: &str) -> String {
    format!("{UNREAD} ({pid}-{seq}.process: {why})")
}

/// Tells the image `key` that heaplab does not read its files: it then does not wait for ever for
/// room in a ring.
pub fn leave_unread(spool: &Path, (pid, seq): (u32, u32)) {
    // If this fails, every other file fails too, and the recording ends for all processes.
    let _ = File::create(spool.join(format!("{pid}-{seq}.unread")));
}

/// Reads the process file `key`.
pub fn read_image(spool: &Path, key: (u32, u32)) -> io::Result<Result<Image, ImageDamage>> {
    let file = open_file(&process_path(spool, key), false)?;
    let mut bytes = Vec::with_capacity(FIRST_BYTES);
    io::Read::read_to_end(&mut io::Read::take(&file, FIRST_BYTES as u64), &mut bytes)?;
    // Most of the file is room for records that never came: reading all of it would take longer
    // than the process ran.
    let used_bytes =
        Image::used_bytes(&bytes).min(PROCESS_FILE_BYTES_MAX).saturating_sub(bytes.len() as u64);
    io::Read::read_to_end(&mut io::Read::take(&file, used_bytes), &mut bytes)?;
    let (more_offset, more_bytes) = Image::more_records(&bytes);
    let mut more = Vec::new();
    if more_bytes > 0 && (&file).seek(SeekFrom::Start(more_offset)).is_ok() {
        io::Read::read_to_end(
            &mut io::Read::take(&file, more_bytes.min(PROCESS_FILE_BYTES_MAX)),
            &mut more,
        )?;
    }
    Ok(Image::parse(&bytes, &more).map(|mut image| {
        // Rings and notes refer to the name; a file that contradicts its name is not believed.
        image.damaged |= (image.pid, image.seq) != key;
        (image.pid, image.seq) = key;
        image
    }))
}

/// Process files as they appear, without listing the folder for each: the list grows with the
/// recording, and processes start all the time.
///
/// A target announces a file after making it (`layout.h`): a visible announcement means that the
/// notice has arrived. If more files were announced than noticed, the folder is listed: some file
/// systems (shared into virtual machines, network ones) accept the watch and send no notices.
#[derive(Debug)]
pub struct Arrivals {
    spool: PathBuf,
    /// Notices of new files in the folder; `None` if the system has no more watches: the folder is
    /// then listed.
    notices: Option<OwnedFd>,
    is_listed: bool,
    /// Files announced at the last listing.
    announced: u64,
    /// Files noticed since the last listing.
    noticed: u64,
}

impl Arrivals {
    /// Watches the folder `spool`; existing files count as new.
    pub fn new(spool: &Path) -> Arrivals {
        let notices = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).ok();
        let notices = notices
            .filter(|notices| inotify::add_watch(notices, spool, WatchFlags::CREATE).is_ok());
        Arrivals::told_by(notices, spool)
    }

    fn told_by(notices: Option<OwnedFd>, spool: &Path) -> Arrivals {
        Arrivals { spool: spool.to_owned(), notices, is_listed: false, announced: 0, noticed: 0 }
    }

    /// As [`Arrivals::new`], but lists the folder each time.
    #[cfg(test)]
    fn by_listing(spool: &Path) -> Arrivals {
        Arrivals::told_by(None, spool)
    }

    /// As [`Arrivals::new`] for a folder that never sends a notice.
    #[cfg(test)]
    pub(crate) fn unnoticed(spool: &Path) -> Arrivals {
        Arrivals::told_by(
            Some(inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).unwrap()),
            spool,
        )
    }

    /// (pid, seq) of the process files made since the last call, finished or not, sorted; some may
    /// have been returned before. `announced`: files that targets have announced, read before this
    /// call.
    pub fn take(&mut self, announced: u64) -> io::Result<Vec<(u32, u32)>> {
        if let Some(Ok(Some(Noticed { mut keys, files }))) = self.notices.as_ref().map(noticed) {
            self.noticed = self.noticed.saturating_add(files);
            if self.is_listed && announced.wrapping_sub(self.announced) <= self.noticed {
                keys.sort_unstable();
                return Ok(keys);
            }
        }
        let keys = process_files(&self.spool)?;
        (self.is_listed, self.announced, self.noticed) = (true, announced, 0);
        Ok(keys)
    }
}

/// The new files since the last look.
struct Noticed {
    /// (pid, seq) of their process files.
    keys: Vec<(u32, u32)>,
    /// Number of files of the announced kinds.
    files: u64,
}

/// The notices since the last call; `None`: some were lost.
fn noticed(notices: &OwnedFd) -> io::Result<Option<Noticed>> {
    let mut buffer = [MaybeUninit::uninit(); 8 << 10];
    let mut reader = inotify::Reader::new(notices, &mut buffer);
    let (mut all, mut is_whole) = (Noticed { keys: Vec::new(), files: 0 }, true);
    loop {
        match reader.next() {
            Ok(event) => {
                is_whole &= !event.events().contains(ReadFlags::QUEUE_OVERFLOW);
                let name =
                    event.file_name().and_then(|name| name.to_str().ok()).unwrap_or_default();
                all.keys.extend(key_of(name));
                all.files += u64::from(name.ends_with(".process") || name.ends_with(".ring"));
            }
            Err(Errno::INTR) => {}
            Err(Errno::WOULDBLOCK) => return Ok(is_whole.then_some(all)),
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use heaplab_preload::layout;

    #[test]
    fn files_are_found_as_they_come_and_those_that_were_there_too() {
        let folder = tempfile::tempdir().unwrap();
        let make = |name: &str| fs::write(folder.path().join(name), b"").unwrap();
        make("12-0.process");
        let mut arrivals = [Arrivals::new(folder.path()), Arrivals::by_listing(folder.path())];
        make("13-0.process");
        for arrivals in &mut arrivals {
            assert_eq!(arrivals.take(0).unwrap(), [(12, 0), (13, 0)]);
        }
        make("12-1.process");
        make("12-0-3.ring");
        make("9-0.process");
        assert_eq!(arrivals[0].take(0).unwrap(), [(9, 0), (12, 1)], "only what is new");
        assert_eq!(arrivals[1].take(0).unwrap(), [(9, 0), (12, 0), (12, 1), (13, 0)]);
        assert_eq!(arrivals[0].take(0).unwrap(), []);
    }

    /// One listing each time a file is announced without a notice; with notices there is no
    /// listing.
    #[test]
    fn files_that_are_announced_and_never_noticed_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let make = |name: &str| fs::write(folder.path().join(name), b"").unwrap();
        let mut arrivals = [Arrivals::unnoticed(folder.path()), Arrivals::new(folder.path())];
        assert_eq!(arrivals.each_mut().map(|arrivals| arrivals.take(0).unwrap()), [vec![], vec![]]);
        make("12-0.process");
        assert_eq!(
            arrivals.each_mut().map(|arrivals| arrivals.take(0).unwrap()),
            [vec![], vec![(12, 0)]],
            "not announced yet"
        );
        assert_eq!(
            arrivals.each_mut().map(|arrivals| arrivals.take(1).unwrap()),
            [vec![(12, 0)], vec![]]
        );
        assert_eq!(
            arrivals.each_mut().map(|arrivals| arrivals.take(1).unwrap()),
            [vec![], vec![]],
            "nothing is new"
        );
        make("12-0-1.ring");
        make("13-0.process");
        assert_eq!(
            arrivals.each_mut().map(|arrivals| arrivals.take(3).unwrap()),
            [vec![(12, 0), (13, 0)], vec![(13, 0)]]
        );
        // The program may have overwritten the count of announcements.
        make("14-0.process");
        let announced = arrivals.each_mut().map(|arrivals| arrivals.take(2).unwrap());
        assert_eq!(announced, [vec![(12, 0), (13, 0), (14, 0)], vec![(14, 0)]]);
        assert_eq!(arrivals.each_mut().map(|arrivals| arrivals.take(2).unwrap()), [vec![], vec![]]);
    }

    /// The system keeps a limited number of notices, drops the others, and says so.
    #[test]
    fn files_that_were_not_noticed_are_found_by_listing() {
        let most = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events")
            .ok()
            .and_then(|text| text.trim().parse::<u32>().ok());
        let Some(most) = most.filter(|most| *most <= 1 << 16) else {
            eprintln!("skipped: too many files would have to be made for one not to be noticed");
            return;
        };
        let folder = tempfile::tempdir().unwrap();
        let mut arrivals = Arrivals::new(folder.path());
        assert_eq!(arrivals.take(0).unwrap(), []);
        for pid in 0..most + 10 {
            fs::write(folder.path().join(format!("{pid}-0.process")), b"").unwrap();
        }
        let found = arrivals.take(0).unwrap();
        assert_eq!((found.len(), found.last()), (most as usize + 10, Some(&(most + 9, 0))));
        fs::write(folder.path().join("0-1.process"), b"").unwrap();
        assert_eq!(arrivals.take(0).unwrap(), [(0, 1)]);
    }

    #[test]
    fn only_process_files_are_found() {
        let folder = tempfile::tempdir().unwrap();
        for name in
            ["12-0.process", "12-1.process", "12-0-3.ring", "x-1.process", "control", "12-.process"]
        {
            fs::write(folder.path().join(name), b"").unwrap();
        }
        assert_eq!(process_files(folder.path()).unwrap(), [(12, 0), (12, 1)]);
        let damage = |bytes: &[u8]| {
            fs::write(folder.path().join("12-0.process"), bytes).unwrap();
            read_image(folder.path(), (12, 0)).unwrap().unwrap_err()
        };
        let other = [&layout::PROCESS_MAGIC.to_le_bytes()[..], &[9; 4092]].concat();
        let damages = [
            damage(b""),
            damage(&[0; 4096]),
            damage(b"HLPROC01"),
            damage(&[9; 4096]),
            damage(&other),
        ];
        let version = ImageDamage::Version(0x0909_0909);
        assert_eq!(
            damages,
            [
                ImageDamage::Unfinished,
                ImageDamage::Unfinished,
                ImageDamage::Short,
                ImageDamage::Magic,
                version
            ]
        );
    }
}
