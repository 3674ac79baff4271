//! A small drainer for the recorder's own tests: runs a program under the preload object and keeps
//! the whole recording in memory. The real one (crates/record) spools; this one judges the object
//! without the real one.

#![allow(dead_code)]

use heaplab_preload::layout::{self, *};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering::*};
use std::time::Duration;

/// One ring record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub kind: u8,
    pub counter: u64,
    pub tid: u32,
    pub nested: bool,
    /// The words after the first.
    pub words: Vec<u64>,
}

impl Event {
    pub fn block(&self) -> Block {
        Block::from_word(self.words[0])
    }
    pub fn size(&self) -> u64 {
        self.words[1]
    }
    pub fn node(&self) -> u32 {
        node_and_slack(self.words[2]).0
    }
    pub fn slack(&self) -> Option<u32> {
        node_and_slack(self.words[2]).1
    }
    pub fn text(&self) -> String {
        let bytes: Vec<u8> = self.words[1..].iter().flat_map(|w| w.to_le_bytes()).collect();
        let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
        String::from_utf8_lossy(&bytes[..end]).into_owned()
    }
}

/// One frame of a stack: the outermost has parent 0; node 0 means no stack.
#[derive(Clone, Copy, Debug, Default)]
pub struct Node {
    pub ip: u64,
    pub parent: u32,
    /// Counter at its definition.
    pub counter: u64,
}

/// A module record.
#[derive(Clone, Debug)]
pub struct LoadedModule {
    pub path: String,
    pub build_id: Vec<u8>,
    pub head: layout::Module,
    pub unloaded: Option<u64>,
}

/// Everything recorded of one process image.
#[derive(Debug, Default)]
pub struct Image {
    pub pid: u32,
    pub seq: u32,
    pub ppid: u32,
    pub began: u32,
    pub parent: (u32, u32),
    pub state: u32,
    pub cut_reason: u32,
    pub cut_counter: u64,
    pub exit: Option<i32>,
    pub lost: Vec<u64>,
    pub executable: String,
    pub command_line: Vec<u8>,
    pub modules: Vec<LoadedModule>,
    /// In the order of their definition as emptied; events name nodes by their index here.
    pub nodes: Vec<Node>,
    pub rings: u32,
    /// Bytes of each ring's data, by its number.
    pub ring_bytes: HashMap<u32, u64>,
    /// In the order in which the rings were emptied; in order within a thread.
    pub events: Vec<Event>,
    pub event_count: u64,
}

impl Image {
    /// The return addresses of a stack, innermost first.
    pub fn stack(&self, mut node: u32) -> Vec<u64> {
        let mut ips = Vec::new();
        while node != 0 {
            let n = self.nodes[node as usize];
            assert!(n.parent < node && n.ip != 0, "node {node} is not whole: {n:?}");
            ips.push(n.ip);
            node = n.parent;
        }
        ips
    }

    /// The module that holds a node's address.
    pub fn module_of(&self, node: u32, ip: u64) -> Option<&LoadedModule> {
        let defined = self.nodes[node as usize].counter;
        self.modules
            .iter()
            .filter(|m| m.head.head.counter <= defined && (m.head.start..=m.head.end).contains(&ip))
            .filter(|m| m.unloaded.is_none_or(|end| defined < end))
            .max_by_key(|m| m.head.head.counter)
    }

    pub fn of_kind(&self, kind: u8) -> impl Iterator<Item = &Event> {
        self.events.iter().filter(move |e| e.kind == kind)
    }
}

/// The settings of a recording.
#[derive(Clone, Copy)]
pub struct Options {
    pub stack_depth: u32,
    pub ring_bytes: u32,
    /// Ring bytes of each process's first ring; `None`: the same as the others.
    pub first_ring_bytes: Option<u32>,
    pub mark_signal: u32,
    /// Keep the events, or only count them.
    pub keep: bool,
    /// Record what memory reporters name.
    pub reports: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            stack_depth: 64,
            ring_bytes: 512 << 10,
            first_ring_bytes: None,
            mark_signal: 0,
            keep: true,
            reports: false,
        }
    }
}

struct Mapped {
    start: *mut u8,
    bytes: usize,
}

impl Mapped {
    fn open(path: &Path) -> Option<Mapped> {
        let file = OpenOptions::new().read(true).write(true).open(path).ok()?;
        Mapped::of(&file, file.metadata().ok()?.len() as usize)
    }
    fn of(file: &File, bytes: usize) -> Option<Mapped> {
        if bytes == 0 {
            return None;
        }
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a fresh shared mapping of an open file; only Drop unmaps it.
        let start = unsafe {
            libc::mmap(std::ptr::null_mut(), bytes, prot, libc::MAP_SHARED, file.as_raw_fd(), 0)
        };
        (start != libc::MAP_FAILED).then_some(Mapped { start: start.cast(), bytes })
    }
    fn at<T>(&self, offset: usize) -> &T {
        assert!(offset + size_of::<T>() <= self.bytes);
        // SAFETY: inside of the mapping; the layout's structs are plain integers and atomics, valid
        // for any bytes.
        unsafe { &*self.start.add(offset).cast() }
    }
    fn bytes(&self, offset: usize, count: usize) -> &[u8] {
        assert!(offset + count <= self.bytes);
        // SAFETY: inside of the mapping, in a part that the target has published and no longer
        // writes.
        unsafe { std::slice::from_raw_parts(self.start.add(offset), count) }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: `of` made this mapping, and no reference to it outlives self.
        unsafe { libc::munmap(self.start.cast(), self.bytes) };
    }
}

/// Offset of a process's first ring header in its file.
const FIRST_RING: usize = std::mem::offset_of!(ProcessHeader, first_ring);

struct Ring {
    map: Rc<Mapped>,
    /// Offset of the ring's header in its file.
    at: usize,
    tid: [u32; 2],
    /// Index in the image's nodes of each number's current node, for the main and the nested ring.
    nodes: [HashMap<u32, u32>; 2],
}

/// A drainer at work on a spool folder.
pub struct Drainer {
    pub folder: tempfile::TempDir,
    pub preload: PathBuf,
    control: Mapped,
    control_file: File,
    options: Options,
    rings: HashMap<(u32, u32, u32), Ring>,
    images: HashMap<(u32, u32), (Rc<Mapped>, Image)>,
}

fn now_ns() -> u64 {
    static BEGAN: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    BEGAN.get_or_init(std::time::Instant::now).elapsed().as_nanos() as u64
}

/// The counter that stamps the records of this machine's programs.
fn counter() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: reads a register that every such processor has.
    return unsafe { std::arch::x86_64::_rdtsc() };
    #[cfg(target_arch = "aarch64")]
    {
        let value: u64;
        // SAFETY: reads a register that every such processor has and lets programs read.
        unsafe { std::arch::asm!("mrs {}, cntvct_el0", out(reg) value) };
        value
    }
}

/// A drainer with the crate's preload object.
pub fn drainer(options: Options) -> Drainer {
    Drainer::with_preload(options, heaplab_preload::PRELOAD)
}

impl Drainer {
    pub fn with_preload(options: Options, preload_bytes: &[u8]) -> Drainer {
        let folder = tempfile::tempdir().unwrap();
        let preload = folder.path().join("preload.so");
        fs::write(&preload, preload_bytes).unwrap();
        let path = folder.path().join("control");
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path).unwrap();
        file.set_len(4096).unwrap();
        let control = Mapped::of(&file, 4096).unwrap();
        let filled = Control {
            magic: CONTROL_MAGIC.into(),
            version: VERSION,
            state: CONTROL_RECORDING.into(),
            stack_depth: options.stack_depth,
            ring_bytes: options.ring_bytes,
            first_ring_bytes: options.first_ring_bytes.unwrap_or(options.ring_bytes),
            nested_bytes: (options.ring_bytes / 4).max(16 << 10),
            mark_signal: options.mark_signal,
            flags: if options.reports { CONTROL_REPORTS.into() } else { 0.into() },
            drainer_pid: std::process::id(),
            origin_counter: counter(),
            origin_ns: now_ns(),
            ..Control::default()
        };
        // SAFETY: the mapping is a page, larger than the struct, and nobody else knows of it yet.
        unsafe { std::ptr::write(control.start.cast(), filled) };
        let drainer = Drainer {
            folder,
            preload,
            control,
            control_file: file,
            options,
            rings: HashMap::new(),
            images: HashMap::new(),
        };
        drainer.lock(libc::F_WRLCK);
        drainer
    }

    fn lock(&self, kind: i32) {
        // SAFETY: a flock of zeros is valid: the whole file.
        let mut whole: libc::flock = unsafe { std::mem::zeroed() };
        whole.l_type = kind as libc::c_short;
        // SAFETY: the descriptor is open, and the struct lives through the call.
        let status =
            unsafe { libc::fcntl(self.control_file.as_raw_fd(), libc::F_OFD_SETLK, &whole) };
        assert_eq!(status, 0);
    }

    /// Acts as a dead drainer: stops emptying rings and drops the lock.
    pub fn die(&self) {
        self.lock(libc::F_UNLCK);
    }

    pub fn control(&self) -> &Control {
        self.control.at(0)
    }

    /// The environment that loads the recorder.
    pub fn variables(&self) -> [(&'static str, &OsStr); 2] {
        [
            ("LD_PRELOAD", self.preload.as_os_str()),
            (heaplab_preload::SPOOL_VARIABLE, self.folder.path().as_os_str()),
        ]
    }

    /// Starts a command of this machine, recorded.
    pub fn spawn(&self, command: &mut Command) -> Child {
        start(command.envs(self.variables()))
    }

    /// Runs the command to its end and returns its recording.
    pub fn run(mut self, command: &mut Command) -> (ExitStatus, Vec<Image>) {
        let mut child = self.spawn(command);
        let status = self.drain_until_exit(&mut child);
        (status, self.finish())
    }

    pub fn drain_until_exit(&mut self, child: &mut Child) -> ExitStatus {
        loop {
            let status = child.try_wait().unwrap();
            let busy = self.turn();
            if let Some(status) = status {
                return status;
            }
            if !busy {
                std::thread::sleep(Duration::from_micros(300));
            }
        }
    }

    /// Whether some ring has room for a few records at most, so that its thread waits or soon will.
    pub fn has_full_ring(&self) -> bool {
        const FEW_BYTES: u64 = 512;
        let paths = fs::read_dir(self.folder.path()).unwrap().flatten().map(|entry| entry.path());
        let rings = paths.filter_map(|path| match path.extension()?.to_str()? {
            "ring" => Some((path, 0)),
            "process" => Some((path, FIRST_RING)),
            _ => None,
        });
        rings.filter_map(|(path, at)| Some((Mapped::open(&path)?, at))).any(|(map, at)| {
            // The file appears in one step with its whole length; the magic is stored last, when
            // all other fields are there.
            let header: &RingHeader = map.at(at);
            let held = || 8 * (header.head.words.load(Acquire) - header.tail.words.load(Acquire));
            header.magic.load(Acquire) == RING_MAGIC && held() + FEW_BYTES > header.data_bytes
        })
    }

    pub fn tell_the_time(&self) {
        self.control().end_ns.store(now_ns(), Release);
        self.control().end_counter.store(counter(), Release);
    }

    /// Empties all rings once and tells the time. Returns whether a ring had records.
    pub fn turn(&mut self) -> bool {
        self.tell_the_time();
        for entry in fs::read_dir(self.folder.path()).unwrap().flatten() {
            let name = entry.file_name().into_string().unwrap();
            if let Some(stem) = name.strip_suffix(".process") {
                let numbers: Vec<u32> = stem.split('-').map(|n| n.parse().unwrap()).collect();
                let key = (numbers[0], numbers[1]);
                if !self.images.contains_key(&key)
                    && let Some(map) = Mapped::open(&entry.path())
                    && map.at::<AtomicU64>(0).load(Acquire) == PROCESS_MAGIC
                {
                    self.images.insert(key, (Rc::new(map), Image::default()));
                }
            }
        }
        let mut busy = false;
        for (&(pid, seq), (map, image)) in &mut self.images {
            let header: &ProcessHeader = map.at(0);
            for n in 0..header.ring_count.load(Acquire) {
                let path = self.folder.path().join(format!("{pid}-{seq}-{n}.ring"));
                let ring = match self.rings.entry((pid, seq, n)) {
                    std::collections::hash_map::Entry::Occupied(e) => e.into_mut(),
                    std::collections::hash_map::Entry::Vacant(e) => {
                        let (map, at) = if n == 0 {
                            (map.clone(), FIRST_RING)
                        } else {
                            (Rc::new(Mapped::open(&path).unwrap()), 0)
                        };
                        e.insert(Ring {
                            map,
                            at,
                            tid: [0, 0],
                            nodes: [(); 2].map(|()| HashMap::from([(0, 0)])),
                        })
                    }
                };
                busy |= empty(ring, image, self.options.keep);
            }
        }
        busy
    }

    /// Reads the remaining records and everything outside of rings.
    pub fn finish(mut self) -> Vec<Image> {
        while self.turn() {}
        let mut all: Vec<Image> = Vec::new();
        for (_, (map, mut image)) in self.images.drain() {
            read_header(&map, &mut image);
            read_records(&map, &mut image);
            all.push(image);
        }
        all.sort_by_key(|i| (i.began != BEGAN_STARTED, i.pid, i.seq));
        all
    }
}

/// Starts a command as it is.
pub fn start(command: &mut Command) -> Child {
    command.spawn().unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"))
}

fn empty(ring: &mut Ring, image: &mut Image, keep: bool) -> bool {
    let header: &RingHeader = ring.map.at(ring.at);
    assert_eq!(header.magic.load(Acquire), RING_MAGIC);
    let parts = [
        (&header.head.words, &header.tail.words, header.data_offset, header.data_bytes),
        (
            &header.nested_head.words,
            &header.nested_tail.words,
            header.nested_offset,
            header.nested_bytes,
        ),
    ];
    image.ring_bytes.insert(header.number, header.data_bytes);
    let mut any = false;
    for (nested, (head, tail, offset, bytes)) in parts.into_iter().enumerate() {
        let (until, mut at) = (head.load(Acquire), tail.load(Relaxed));
        any |= at != until;
        assert!(
            until - at <= bytes / 8,
            "{} words were overwritten before they were read",
            until - at - bytes / 8
        );
        let word = |i: u64| {
            ring.map.at::<AtomicU64>(offset as usize + (i % (bytes / 8)) as usize * 8).load(Relaxed)
        };
        while at < until {
            let (kind, counter) = stamp(word(at));
            let words = record_words(kind, word(at + 1))
                .unwrap_or_else(|| panic!("no record at {at} of {until}: kind {kind}"));
            assert!(
                at % (bytes / 8) + words <= bytes / 8,
                "a record of kind {kind} lies across the end of the data"
            );
            image.event_count += u64::from(matches!(kind, ALLOC..=REALLOC_FAILED));
            if kind == THREAD_BEGIN {
                ring.tid[nested] = word(at + 1) as u32;
            }
            if kind == NODE {
                let (node, parent) = node_and_parent(word(at + 2));
                assert!((1..NODES_MAX).contains(&node), "node {node} in ring part {nested}");
                if image.nodes.is_empty() {
                    image.nodes.push(Node::default());
                }
                ring.nodes[nested].insert(node, image.nodes.len() as u32);
                image.nodes.push(Node {
                    ip: word(at + 1),
                    parent: ring.nodes[nested][&parent],
                    counter,
                });
            } else if keep && kind != PAD {
                let mut words: Vec<u64> = (1..words).map(|i| word(at + i)).collect();
                if matches!(kind, ALLOC..=REALLOC_FAILED | MAP) && kind != FREE {
                    words[2] = words[2] >> 32 << 32
                        | u64::from(ring.nodes[nested][&node_and_slack(words[2]).0]);
                }
                image.events.push(Event {
                    kind,
                    counter,
                    tid: ring.tid[nested],
                    nested: nested == 1,
                    words,
                });
            }
            at += words;
        }
        assert_eq!(at, until, "a record lies across the head");
        tail.store(at, Release);
    }
    any
}

fn read_header(map: &Mapped, image: &mut Image) {
    let h: &ProcessHeader = map.at(0);
    assert_eq!(h.version, VERSION);
    *image = Image {
        pid: h.pid,
        seq: h.seq,
        ppid: h.ppid,
        began: h.began,
        parent: (h.parent_pid, h.parent_seq),
        state: h.state.load(Acquire),
        cut_reason: h.cut_reason.load(Relaxed),
        cut_counter: h.cut_counter.load(Relaxed),
        exit: (h.exited.load(Acquire) == 1).then(|| h.exit_status.load(Relaxed) as i32),
        lost: h.lost.iter().map(|l| l.load(Relaxed)).collect(),
        rings: h.ring_count.load(Acquire),
        ..std::mem::take(image)
    };
}

fn read_records(map: &Mapped, image: &mut Image) {
    let h: &ProcessHeader = map.at(0);
    for (at, capacity, used) in [
        (h.records_offset, h.records_capacity, &h.records_used),
        (h.more_offset, h.more_capacity, &h.more_used),
    ] {
        let used = used.load(Acquire);
        assert!(
            used <= capacity,
            "{used} bytes of records: who reads them takes no more than {capacity}"
        );
        read_area(map, image, at as usize, (at + used) as usize);
    }
}

fn read_area(map: &Mapped, image: &mut Image, mut at: usize, end: usize) {
    let h: &ProcessHeader = map.at(0);
    while at < end {
        let record: Record = *map.at(at);
        let text = |offset: usize, bytes: u32| map.bytes(at + offset, bytes as usize).to_vec();
        match record.kind {
            RECORD_EXECUTABLE => {
                image.executable =
                    String::from_utf8(text(size_of::<Text>(), map.at::<Text>(at).text_bytes))
                        .unwrap();
            }
            RECORD_COMMAND_LINE => {
                image.command_line = text(size_of::<Text>(), map.at::<Text>(at).text_bytes)
            }
            RECORD_MODULE => {
                let head: layout::Module = *map.at(at);
                let build_id = text(size_of::<layout::Module>(), head.build_id_bytes);
                let path = text(
                    size_of::<layout::Module>() + head.build_id_bytes as usize,
                    head.path_bytes,
                );
                image.modules.push(LoadedModule {
                    path: String::from_utf8(path).unwrap(),
                    build_id,
                    head,
                    unloaded: None,
                });
            }
            RECORD_MODULE_UNLOADED => {
                let head: Unloaded = *map.at(at);
                let module = image.modules.iter_mut().find(|m| m.head.index == head.index);
                // No room for a larger record, then none for this one.
                assert!(
                    module.is_some() || h.lost[LOST_RECORDS_FULL].load(Relaxed) > 0,
                    "module {}",
                    head.index
                );
                module.into_iter().for_each(|module| module.unloaded = Some(head.head.counter));
            }
            kind => panic!("record kind {kind}"),
        }
        assert!(record.bytes >= 16 && record.bytes.is_multiple_of(8));
        at += record.bytes as usize;
    }
}
