//! Drains spools made by hand, and spools that a program has overwritten.

use super::*;
use heaplab_preload::layout::{self, ProcessHeader, RingHeader};
use std::fs::{self, File};
use std::mem::{offset_of, size_of};
use std::os::unix::fs::FileExt;

const WORDS: u64 = 512;

const FIRST_RING: usize = offset_of!(ProcessHeader, first_ring);

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

/// Writes a ring header at `at`; the ring's data begin at the end of `bytes`, with these words and
/// this head.
fn add_ring(bytes: &mut Vec<u8>, at: usize, words: &[u64], head: u64) {
    let (data, length) = (bytes.len() as u64, WORDS * 8);
    put(bytes, at + offset_of!(RingHeader, magic), &layout::RING_MAGIC.to_le_bytes());
    put(bytes, at + offset_of!(RingHeader, version), &layout::VERSION.to_le_bytes());
    let areas =
        [(offset_of!(RingHeader, data_offset), data), (offset_of!(RingHeader, data_bytes), length)];
    let nested = [
        (offset_of!(RingHeader, nested_offset), data + length),
        (offset_of!(RingHeader, nested_bytes), length),
    ];
    for (field, value) in
        areas.into_iter().chain(nested).chain([(offset_of!(RingHeader, head), head)])
    {
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
        self.file
            .read_exact_at(&mut tail, (self.at + offset_of!(RingHeader, tail)) as u64)
            .unwrap();
        u64::from_le_bytes(tail)
    }
}

/// The file of process 7 with a single ring of these words and this head.
fn process_file(words: &[u64], head: u64) -> Vec<u8> {
    let mut process = vec![0; size_of::<ProcessHeader>()];
    put(&mut process, offset_of!(ProcessHeader, magic), &layout::PROCESS_MAGIC.to_le_bytes());
    put(&mut process, offset_of!(ProcessHeader, version), &layout::VERSION.to_le_bytes());
    put(&mut process, offset_of!(ProcessHeader, pid), &7_u32.to_le_bytes());
    put(&mut process, offset_of!(ProcessHeader, ring_count), &1_u32.to_le_bytes());
    add_ring(&mut process, FIRST_RING, words, head);
    process
}

fn full_of_records() -> Vec<u64> {
    let record = [100 << 4 | u64::from(layout::FREE), 0x7000];
    std::iter::repeat_n(record, WORDS as usize / 2).flatten().collect()
}

/// A spool with one process and a single ring of these words and this head.
fn drainer(folder: &Path, words: &[u64], head: u64) -> (Drainer, Place) {
    fs::write(discover::process_path(folder, (7, 0)), process_file(words, head)).unwrap();
    let mut drainer =
        Drainer::new(folder, SpoolWriter::create(&folder.join("events.spool")).unwrap());
    drainer.discover(0).unwrap();
    (drainer, Place::of(folder, 0))
}

#[test]
fn a_million_rings_that_are_not_there_are_one_loss_and_the_others_are_emptied() {
    let folder = tempfile::tempdir().unwrap();
    let words = full_of_records();
    let (mut drainer, first) = drainer(folder.path(), &words, WORDS);
    let process =
        File::options().write(true).open(discover::process_path(folder.path(), (7, 0))).unwrap();
    for count in [1_000_000_u32, u32::MAX] {
        process
            .write_all_at(&count.to_le_bytes(), offset_of!(ProcessHeader, ring_count) as u64)
            .unwrap();
        drainer.discover(0).unwrap();
    }
    // From then on rings are found by name, whatever their number.
    let mut last = vec![0; size_of::<RingHeader>()];
    add_ring(&mut last, 0, &words, WORDS);
    fs::write(discover::ring_place(folder.path(), (7, 0), u32::MAX).0, last).unwrap();
    drainer.discover(0).unwrap();
    let last = Place::of(folder.path(), u32::MAX);
    for _ in 0..2 {
        drainer.turn().unwrap();
    }
    assert!((first.tail(), last.tail()) == (WORDS, WORDS), "nobody waits for room for ever");
    let index = drainer.into_index();
    let [Note::Loss { text }] = &index.notes[..] else { panic!("told once: {:?}", index.notes) };
    assert!(
        text.starts_with("the program overwrote the number of rings of process 7 (image 0)"),
        "{text}"
    );
}

/// Ending a process frees its first ring's disk space but keeps the records; a small ring is left
/// alone.
#[test]
fn what_an_ended_process_wrote_leaves_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let (mut drainer, _) = drainer(folder.path(), &[], 0);
    let blocks = |key| {
        std::os::unix::fs::MetadataExt::blocks(
            &fs::metadata(discover::process_path(folder.path(), key)).unwrap(),
        )
    };
    let mut process = fs::read(discover::process_path(folder.path(), (7, 0))).unwrap();
    process.truncate(size_of::<ProcessHeader>());
    let words = vec![100 << 4 | u64::from(layout::PAD); 1 << 16];
    process.resize(4096, 1);
    let data = process.len();
    add_ring(&mut process, FIRST_RING, &words[..WORDS as usize], words.len() as u64);
    process.truncate(data);
    put(
        &mut process,
        FIRST_RING + offset_of!(RingHeader, data_bytes),
        &(8 * words.len() as u64).to_le_bytes(),
    );
    put(
        &mut process,
        FIRST_RING + offset_of!(RingHeader, nested_offset),
        &((data + 8 * words.len()) as u64).to_le_bytes(),
    );
    process.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    process.resize(process.len() + WORDS as usize * 8, 0);
    fs::write(discover::process_path(folder.path(), (7, 1)), process).unwrap();
    let before = [blocks((7, 0)), blocks((7, 1))];
    drainer.discover(0).unwrap();
    drainer.reap(|_| Some(How::Exited(0))).unwrap();
    assert_eq!((blocks((7, 0)), drainer.has_left()), (before[0], false));
    assert!(blocks((7, 1)) < before[1] / 8, "{} blocks of {}", blocks((7, 1)), before[1]);
    let image = discover::read_image(folder.path(), (7, 1)).unwrap().unwrap();
    assert_eq!((image.ring_count, image.first_ring_waits), (1, [false; 2]));
}

/// Empties a full ring at every given head until nothing waits in it.
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
    assert!(text.starts_with("the program overwrote ring 0 of process 7 (image 0)"), "{text}");
}

#[test]
fn a_ring_whose_head_cannot_be_is_given_up_once() {
    let folder = tempfile::tempdir().unwrap();
    let (mut drainer, ring) = drainer(folder.path(), &[], 1 << 40);
    is_emptied(&mut drainer, &ring, [1 << 40, (1 << 40) + WORDS, u64::MAX, WORDS - 1]);
    let index = drainer.into_index();
    assert!(index.rings.is_empty() && index.notes.len() == 1, "{index:?}");
}

/// The drainer's position lies in memory that the program can write.
#[test]
fn a_ring_whose_tail_cannot_be_is_given_up_and_its_blocks_go_forward() {
    let folder = tempfile::tempdir().unwrap();
    let words = full_of_records();
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
    let words = full_of_records();
    let (mut drainer, ring) = drainer(folder.path(), &words, WORDS);
    drainer.limit(0);
    for _ in 0..3 {
        assert!(drainer.turn().is_err());
    }
    assert_eq!(
        (drainer.totals().events, ring.tail()),
        (0, 0),
        "nothing is written, and nothing is lost"
    );
    drainer.limit(u64::MAX);
    drainer.turn().unwrap();
    assert_eq!((drainer.totals().events, ring.tail()), (WORDS / 2, WORDS));
}

#[test]
fn an_end_that_a_full_disk_does_not_take_is_known_and_its_records_stay() {
    let folder = tempfile::tempdir().unwrap();
    let words = full_of_records();
    let (mut drainer, ring) = drainer(folder.path(), &words, WORDS);
    drainer.limit(0);
    assert!(drainer.reap(|_| Some(How::Exited(3))).is_err());
    assert!(drainer.has_left() && drainer.living().next().is_none());
    assert!(ring.tail() == 0);
    assert_eq!(
        discover::read_image(folder.path(), (7, 0)).unwrap().unwrap().first_ring_waits,
        [true, false]
    );
    let notes = drainer.into_index().notes;
    assert!(
        matches!(notes[..], [Note::Ended { pid: 7, seq: 0, how: How::Exited(3), .. }]),
        "{notes:?}"
    );
}

/// Any object may stand in a process file's place: heaplab names the process and tells it that
/// nobody empties its rings, and records the others.
#[test]
fn a_file_that_cannot_be_read_is_one_process_lost() {
    let folder = tempfile::tempdir().unwrap();
    let (mut drainer, ring) = drainer(folder.path(), &full_of_records(), WORDS);
    let path = |pid| discover::process_path(folder.path(), (pid, 0));
    fs::create_dir(path(1)).unwrap();
    std::os::unix::fs::symlink("nowhere", path(2)).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        path(3),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    let version = [&layout::PROCESS_MAGIC.to_le_bytes()[..], &[9; 4092]].concat();
    for (pid, bytes) in
        [(4, &b"HLPROC01"[..]), (5, &[9; 4096]), (6, &version), (8, b""), (9, &[0; 4096])]
    {
        fs::write(path(pid), bytes).unwrap();
    }
    drainer.discover(0).unwrap();
    let lost = drainer.take_lost();
    let no_file = "it is no regular file";
    let whys = [
        no_file,
        no_file,
        no_file,
        "it has 8 bytes, and its header is",
        "it does not begin with",
        "its layout has version 151587081",
    ];
    assert_eq!(
        lost.iter().map(|lost| lost.pid).collect::<Vec<_>>(),
        [1, 2, 3, 4, 5, 6],
        "8 and 9 are being made: {lost:?}"
    );
    for (lost, why) in lost.iter().zip(whys) {
        let begin = format!("{} ({}-0.process: {why}", discover::UNREAD, lost.pid);
        assert!(lost.reason.starts_with(&begin), "{lost:?}");
        assert!(
            drainer.has_seen(lost.pid)
                && folder.path().join(format!("{}-0.unread", lost.pid)).is_file(),
            "{lost:?}"
        );
    }
    drainer.discover(1).unwrap();
    assert_eq!(drainer.take_lost(), [], "each is told once");
    is_emptied(&mut drainer, &ring, [WORDS]);
    assert!(!folder.path().join("7-0.unread").exists());
}

/// Makes the thread act as an ordinary user until dropped.
struct OrdinaryUser {
    is_root: bool,
}

impl OrdinaryUser {
    /// Also gives `folder` to the user.
    fn with(folder: &Path) -> OrdinaryUser {
        let user = OrdinaryUser { is_root: rustix::process::geteuid().is_root() };
        if user.is_root {
            std::os::unix::fs::chown(folder, Some(65534), None).unwrap();
            user.act_as(65534);
        }
        user
    }

    fn act_as(&self, user: u32) {
        if self.is_root {
            // SAFETY: changes the user that the kernel judges this thread's file accesses by, and
            // no memory.
            unsafe { libc::setfsuid(user) };
        }
    }
}

impl Drop for OrdinaryUser {
    fn drop(&mut self) {
        self.act_as(0);
    }
}

/// A umask that removes the owner's rights (0200) makes such files; the owner restores the rights.
#[test]
fn a_file_that_its_owner_may_not_open_is_opened_and_another_users_is_one_process_lost() {
    let folder = tempfile::tempdir().unwrap();
    let user = OrdinaryUser::with(folder.path());
    let words = [100 << 4 | u64::from(layout::FREE), 0x7000];
    let make = |pid: u32, mode: u32| {
        let path = discover::process_path(folder.path(), (pid, 0));
        fs::write(&path, process_file(&words, 2)).unwrap();
        fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    };
    make(7, 0o400);
    make(8, 0);
    user.act_as(0);
    make(9, 0o600);
    user.act_as(65534);
    let mut drainer = Drainer::new(
        folder.path(),
        SpoolWriter::create(&folder.path().join("events.spool")).unwrap(),
    );
    drainer.discover(0).unwrap();
    let lost = drainer.take_lost();
    if user.is_root {
        assert_eq!(lost.len(), 1, "{lost:?}");
        assert!(
            lost[0].pid == 9
                && lost[0].reason.contains("it belongs to user number 0: record as that user"),
            "{lost:?}"
        );
    }
    assert!(
        [(7, 0), (8, 0)].iter().all(|key| drainer.living().any(|living| living == *key)),
        "{drainer:?}"
    );
    drainer.reap(|_| Some(How::Exited(0))).unwrap();
    assert!(drainer.totals().events >= 2 && !drainer.has_left(), "{drainer:?}");
}

/// An unreadable ring is one loss and does not stop the rings behind it.
#[test]
fn a_ring_that_cannot_be_read_is_one_loss_and_the_others_are_emptied() {
    let folder = tempfile::tempdir().unwrap();
    let words = full_of_records();
    let (mut drainer, first) = drainer(folder.path(), &words, WORDS);
    fs::write(discover::ring_place(folder.path(), (7, 0), 1).0, b"HLRING01").unwrap();
    let mut last = vec![0; size_of::<RingHeader>()];
    add_ring(&mut last, 0, &words, WORDS);
    fs::write(discover::ring_place(folder.path(), (7, 0), 2).0, last).unwrap();
    let process =
        File::options().write(true).open(discover::process_path(folder.path(), (7, 0))).unwrap();
    process
        .write_all_at(&3_u32.to_le_bytes(), offset_of!(ProcessHeader, ring_count) as u64)
        .unwrap();
    drainer.discover(3).unwrap();
    let last = Place::of(folder.path(), 2);
    for ring in [&first, &last] {
        is_emptied(&mut drainer, ring, [WORDS]);
    }
    assert!(folder.path().join("7-0.unread").is_file());
    let index = drainer.into_index();
    let [Note::Loss { text }] = &index.notes[..] else { panic!("{:?}", index.notes) };
    assert!(
        text.contains("7-0-1.ring cannot be read: it has 8 bytes")
            && text.ends_with("when this ring is full"),
        "{text}"
    );
}
