//! The program's file: a header, the words, the checkpoints, and the texts
//! (docs/replay-program.md).
//!
//! Everything is little-endian. The header's last field is the checksum of the header, the field
//! before it the checksum of everything else: a truncated or damaged file is refused before any
//! word runs.

use super::encoding::{self, Corrupt, Step};
use crate::TraceError;
use memmap2::Mmap;
use serde::{Deserialize, Serialize};
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

/// Version of the file; part of the cache's key, so old programs are compiled again.
pub const VERSION: u32 = 5;
const MAGIC: u64 = u64::from_le_bytes(*b"hlprogrm");
const HEADER_FIELDS: usize = 8;
const HEADER_BYTES: usize = HEADER_FIELDS * 8;

/// Facts about a program as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// The recorded command.
    pub program: String,
    /// The allocator of the recording; empty: unknown.
    pub allocator: String,
    /// The place and reason of a cut; `None`: the recording is complete.
    pub cut: Option<String>,
    /// Row of the bundle's `processes`; `None`: all of them, as if they shared one heap.
    pub process: Option<u32>,
    /// Allocations, frees and reallocations.
    pub events: u64,
    /// Objects born.
    pub objects: u64,
    /// The bundle's death rule; empty: unknown.
    #[serde(default)]
    pub death_rule: String,
    /// The bundle's granularity of deaths, bytes; 0: unknown.
    #[serde(default)]
    pub granularity_bytes: u64,
    /// Objects left out because their memory is outside of the recorded heap.
    #[serde(default)]
    pub outside_objects: u64,
    /// Objects born in the old generation.
    #[serde(default)]
    pub old_births: u64,
    /// Objects with an alignment above 8 bytes.
    #[serde(default)]
    pub aligned_births: u64,
    /// Collections requested by the program.
    #[serde(default)]
    pub forced_collections: u64,
    /// Rows left out: failed requests, events about forked copies, collections of the recorded
    /// heap.
    pub skipped_events: u64,
    /// Times the program read a usable size.
    pub usable_size_reads: u64,
    /// Threads; a program begins with thread 0.
    pub threads: u32,
    /// Arenas besides malloc's.
    pub regions: u32,
    /// The kinds of arenas that occur, each once.
    pub region_kinds: Vec<RegionKind>,
    /// For each arena, malloc's first, its index in `region_kinds`. Empty without other arenas.
    pub kind_of_region: Vec<u32>,
    /// Slots needed: the maximum of objects live at once.
    pub slots: u32,
    /// Largest block, bytes.
    pub block_size_max: u64,
    /// Maximum of requested bytes live at once.
    pub peak_requested_bytes: u64,
    /// Requested bytes live at the end.
    pub end_requested_bytes: u64,
    /// Names of the marks, in order.
    pub marks: Vec<String>,
}

/// The arenas table's facts of an arena that a heap may use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RegionKind {
    /// Its purpose: "class", "non-class", "request", ...
    pub kind: String,
    /// Its growth policy.
    pub growth_policy: String,
}

impl Facts {
    /// The facts of each arena, malloc's first.
    pub fn regions(&self) -> impl Iterator<Item = &RegionKind> {
        self.kind_of_region.iter().filter_map(|index| self.region_kinds.get(*index as usize))
    }
}

/// A place between two instructions: regularly spaced ones, the first peak of live bytes, the
/// marks, and the end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// Words before it.
    pub word: u64,
    /// Events before it.
    pub event: u64,
    /// Live requested bytes.
    pub requested_bytes: u64,
    /// Live objects.
    pub live_objects: u64,
    /// The mark here, as an index of [`Facts::marks`].
    pub mark: Option<u32>,
}

#[derive(Serialize, Deserialize)]
struct Trailer {
    facts: Facts,
    checkpoints: Vec<Checkpoint>,
}

/// A replay program, mapped from its file or in memory. Opening it checked its checksums; its words
/// are decoded step by step, and any words decode to steps or an error.
pub struct Program {
    path: PathBuf,
    bytes: Backing,
    words: usize,
    facts: Facts,
    checkpoints: Vec<Checkpoint>,
}

enum Backing {
    Mapped(Mmap),
    /// Words, for their alignment.
    Memory(Vec<u64>),
}

impl Backing {
    fn bytes(&self) -> &[u8] {
        match self {
            Backing::Mapped(map) => map,
            // SAFETY: the integers are initialised and any byte is a `u8`; the length is theirs.
            Backing::Memory(words) => unsafe {
                std::slice::from_raw_parts(words.as_ptr().cast(), words.len() * 8)
            },
        }
    }
}

impl std::fmt::Debug for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Program")
            .field("path", &self.path)
            .field("words", &self.words)
            .field("facts", &self.facts)
            .finish_non_exhaustive()
    }
}

impl Program {
    /// Maps the program at `path` and checks its header, bounds and checksums.
    pub fn open(path: &Path) -> Result<Program, TraceError> {
        let file = crate::regular::open(path, "open")?;
        // SAFETY: programs are written under another name, renamed when whole, and never changed
        // afterwards. If another process writes into one nevertheless, decoding stays in bounds,
        // because every word is checked when used.
        let map = unsafe { Mmap::map(&file) }.map_err(TraceError::io(path, "map"))?;
        Program::from_backing(Backing::Mapped(map), path)
    }

    /// A program in memory, as written by [`super::compile`]. `origin` is named in errors.
    pub fn from_bytes(bytes: &[u8], origin: &Path) -> Result<Program, TraceError> {
        let mut words = vec![0_u64; bytes.len().div_ceil(8)];
        for (word, chunk) in words.iter_mut().zip(bytes.chunks(8)) {
            let mut whole = [0; 8];
            whole[..chunk.len()].copy_from_slice(chunk);
            *word = u64::from_ne_bytes(whole);
        }
        Program::from_backing(Backing::Memory(words), origin)
    }

    /// The program at `path`, if whole and compiled for `key`.
    pub(super) fn open_for(path: &Path, key: u64) -> Option<Program> {
        let program = Program::open(path).ok()?;
        (field(program.bytes.bytes(), 2) == key).then_some(program)
    }

    fn from_backing(bytes: Backing, path: &Path) -> Result<Program, TraceError> {
        let (words, trailer) = whole(bytes.bytes(), path)?;
        let trailer: Trailer = serde_json::from_slice(trailer).map_err(|error| {
            let expected = "facts and checkpoints as JSON".into();
            malformed(path, "trailer", expected, error.to_string())
        })?;
        let ordered = trailer.checkpoints.is_sorted_by_key(|checkpoint| checkpoint.word);
        if !ordered || trailer.checkpoints.last().is_none_or(|last| last.word != words) {
            let expected = "checkpoints in order, the last at the end of the words".into();
            return Err(malformed(path, "trailer", expected, "others".into()));
        }
        // A birth takes at least two words, so the table of slots stays in proportion to the file.
        if u64::from(trailer.facts.slots) > words / 2 {
            let (found, limit) = (trailer.facts.slots.into(), words / 2);
            return Err(TraceError::Limit {
                path: path.into(),
                place: "trailer".into(),
                what: "slots",
                found,
                limit,
            });
        }
        let Trailer { facts, checkpoints } = trailer;
        Ok(Program { path: path.into(), bytes, words: words as usize, facts, checkpoints })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Facts about the whole program.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Places between instructions, in order; the last is the end.
    pub fn checkpoints(&self) -> &[Checkpoint] {
        &self.checkpoints
    }

    /// The instructions.
    pub fn words(&self) -> &[u32] {
        let bytes = &self.bytes.bytes()[HEADER_BYTES..HEADER_BYTES + self.words * 4];
        debug_assert!((bytes.as_ptr() as usize).is_multiple_of(4));
        // SAFETY: maps begin at pages and vectors of u64 at eight bytes, the header's length is a
        // multiple of four, and any four bytes are a `u32`.
        unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), self.words) }
    }

    /// The decoded instructions, each with the index of its first word; an error is the last item.
    pub fn steps(&self) -> impl Iterator<Item = Result<(usize, Step), Corrupt>> + '_ {
        let words = self.words();
        let mut at = 0;
        let mut failed = false;
        std::iter::from_fn(move || {
            let here = at;
            if failed {
                return None;
            }
            let step = encoding::decode(words, &mut at).transpose()?;
            failed = step.is_err();
            Some(step.map(|step| (here, step)))
        })
    }
}

/// The number of words and the trailer's bytes of a whole file: its lengths and checksums fit.
fn whole<'a>(content: &'a [u8], path: &Path) -> Result<(u64, &'a [u8]), TraceError> {
    if content.len() < HEADER_BYTES {
        let found = format!("{} bytes", content.len());
        return Err(malformed(
            path,
            "header",
            format!("a replay program's {HEADER_BYTES} bytes"),
            found,
        ));
    }
    if field(content, 0) != MAGIC {
        return Err(malformed(
            path,
            "byte 0",
            "\"hlprogrm\", a replay program".into(),
            format!("{:#x}", field(content, 0)),
        ));
    }
    if field(content, 1) != u64::from(VERSION) {
        return Err(TraceError::Version {
            path: path.into(),
            found: field(content, 1).to_string(),
            supported: VERSION.to_string(),
        });
    }
    let (header_sum, found) = (xxh3_64(&content[..HEADER_BYTES - 8]), field(content, 7));
    if header_sum != found {
        return Err(malformed(
            path,
            "byte 56",
            format!("the header's checksum {header_sum:#x}"),
            format!("{found:#x}"),
        ));
    }
    let (words, trailer) = (field(content, 3), field(content, 4));
    let body = words
        .checked_mul(4)
        .and_then(|bytes| bytes.checked_next_multiple_of(8))
        .and_then(|bytes| bytes.checked_add(trailer));
    let end = body
        .and_then(|body| body.checked_add(HEADER_BYTES as u64))
        .filter(|end| *end <= content.len() as u64);
    let Some(end) = end else {
        return Err(malformed(
            path,
            "header",
            format!("{words} words and a trailer of {trailer} bytes"),
            format!("{} bytes", content.len()),
        ));
    };
    let (body_sum, found) = (xxh3_64(&content[HEADER_BYTES..end as usize]), field(content, 6));
    if body_sum != found {
        return Err(malformed(
            path,
            "byte 48",
            format!("the checksum {found:#x} over the words and the trailer"),
            format!("{body_sum:#x}"),
        ));
    }
    Ok((words, &content[(end - trailer) as usize..end as usize]))
}

fn malformed(path: &Path, place: &str, expected: String, found: String) -> TraceError {
    TraceError::Malformed { path: path.into(), place: place.into(), expected, found }
}

fn field(bytes: &[u8], index: usize) -> u64 {
    let mut value = [0; 8];
    value.copy_from_slice(&bytes[index * 8..index * 8 + 8]);
    u64::from_le_bytes(value)
}

/// Writes the file front to back and the header last.
pub(super) struct Writer<W: Write + Seek> {
    out: BufWriter<W>,
    path: PathBuf,
    words: u64,
    checksum: Xxh3,
}

impl<W: Write + Seek> Writer<W> {
    pub(super) fn new(out: W, path: &Path) -> Result<Self, TraceError> {
        let mut out = BufWriter::with_capacity(1 << 18, out);
        out.write_all(&[0; HEADER_BYTES])
            .map_err(TraceError::io(path, "write the replay program of"))?;
        Ok(Writer { out, path: path.into(), words: 0, checksum: Xxh3::new() })
    }

    fn bytes(&mut self, bytes: &[u8]) -> Result<(), TraceError> {
        self.checksum.update(bytes);
        self.out.write_all(bytes).map_err(TraceError::io(&self.path, "write the replay program of"))
    }

    pub(super) fn words(&mut self, words: &[u32]) -> Result<(), TraceError> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.words += words.len() as u64;
        self.bytes(&bytes)
    }

    pub(super) fn finish(
        mut self,
        facts: &Facts,
        checkpoints: &[Checkpoint],
        key: u64,
    ) -> Result<(), TraceError> {
        if !self.words.is_multiple_of(2) {
            self.bytes(&[0; 4])?;
        }
        let trailer = Trailer { facts: facts.clone(), checkpoints: checkpoints.to_vec() };
        let io = |path: &Path| TraceError::io(path.to_path_buf(), "write the replay program of");
        let trailer = serde_json::to_vec(&trailer).map_err(|error| io(&self.path)(error.into()))?;
        self.bytes(&trailer)?;
        let fields = [
            MAGIC,
            VERSION.into(),
            key,
            self.words,
            trailer.len() as u64,
            0,
            self.checksum.digest(),
        ];
        let mut header: Vec<u8> = fields.iter().flat_map(|field| field.to_le_bytes()).collect();
        header.extend(xxh3_64(&header).to_le_bytes());
        self.out.seek(SeekFrom::Start(0)).map_err(io(&self.path))?;
        self.out.write_all(&header).map_err(io(&self.path))?;
        self.out.flush().map_err(io(&self.path))
    }
}
