//! The workloads: sizes drawn from a recording's histogram, and the recordings themselves
//! (traces/metaspace).

use anyhow::{Context, Result, bail};
use flate2::read::GzDecoder;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Bytes of a word of the recordings.
const WORD_BYTES: usize = 8;

/// Numbers that depend on the seed alone: splitmix64 (Steele, Lea and Flood 2014).
pub struct Random(pub u64);

impl Random {
    /// The next one.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// `0..count` in random order.
    pub fn order(&mut self, count: usize) -> Vec<u32> {
        let mut order: Vec<u32> = (0..count as u32).collect();
        for left in (1..count).rev() {
            order.swap(left, self.below(left + 1));
        }
        order
    }
}

/// The folder of the recordings.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../traces/metaspace")
}

/// The text of a recording's file.
pub fn gunzipped(name: &str) -> Result<String> {
    let path = folder().join(name);
    let file = std::fs::File::open(&path).with_context(|| path.display().to_string())?;
    let mut text = String::new();
    GzDecoder::new(file).read_to_string(&mut text).with_context(|| path.display().to_string())?;
    Ok(text)
}

/// `count` sizes in bytes, up to `words_max` words, drawn with the frequencies of jruby's non-class
/// arenas.
pub fn sizes(count: usize, words_max: usize, seed: u64) -> Result<Vec<u32>> {
    let path = folder().join("jruby.hist.csv");
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let mut cumulated: Vec<(u64, u32)> = Vec::new();
    let mut all = 0;
    for line in text.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let [words, space, allocations, _] = fields[..] else {
            bail!("{}: {line:?} has not four fields", path.display())
        };
        let (words, allocations): (usize, u64) = (words.parse()?, allocations.parse()?);
        if space == "n" && words <= words_max && allocations > 0 {
            all += allocations;
            cumulated.push((all, (words * WORD_BYTES) as u32));
        }
    }
    let mut random = Random(seed);
    let draw = |_| {
        let at = random.next() % all;
        cumulated[cumulated.partition_point(|(end, _)| *end <= at)].1
    };
    Ok((0..count).map(draw).collect())
}

/// A step of a recording; blocks and arenas are numbered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// An arena begins.
    Begin(u32),
    /// A block of this many bytes in an arena; blocks are numbered in order.
    Allocate(u32, u32),
    /// A block dies before its arena.
    Free(u32),
    /// An arena ends.
    End(u32),
    /// Gives unused memory back, as HotSpot does after a collection that unloaded classes.
    Purge,
}

/// A recording.
pub struct Recording {
    /// In order.
    pub steps: Vec<Step>,
    /// By block: its arena and bytes.
    pub blocks: Vec<(u32, u32)>,
    /// By arena: the blocks that die with it, in order of birth.
    pub dying: Vec<Vec<u32>>,
    /// Number of arenas.
    pub arenas: usize,
    /// By arena: whether it lies in class space. A JVM knows this when it makes an arena.
    pub class: Vec<bool>,
}

/// Reads a recording of this repository, with or without its class arenas; or a bundle, by its
/// folder, with all of its arenas.
pub fn recording(name: &str, class: bool) -> Result<Recording> {
    if Path::new(name).join("meta.json").exists() {
        return super::bundle::read(Path::new(name));
    }
    let text = gunzipped(&format!("{name}.trace.gz"))?;
    let mut recording = Recording {
        steps: Vec::new(),
        blocks: Vec::new(),
        dying: Vec::new(),
        arenas: 0,
        class: Vec::new(),
    };
    // Allocation numbers of the file, which also count the allocations left out.
    let mut numbers: Vec<Option<u32>> = Vec::new();
    let mut left_out: Vec<bool> = Vec::new();
    let mut freed: Vec<bool> = Vec::new();
    for line in text.lines().skip(1) {
        let fields: Vec<&str> = line.split(' ').collect();
        let number = |at: usize| -> Result<i64> {
            fields.get(at).and_then(|field| field.parse().ok()).with_context(|| line.to_string())
        };
        match *fields.get(1).with_context(|| line.to_string())? {
            "p" => recording.steps.push(Step::Purge),
            "x" => {}
            "d" => {
                let allocation = number(4)?;
                let block = usize::try_from(allocation)
                    .ok()
                    .and_then(|allocation| numbers.get(allocation).copied().flatten());
                if let Some(block) = block {
                    freed[block as usize] = true;
                    recording.steps.push(Step::Free(block));
                }
            }
            op => {
                let arena = number(2)? as usize;
                if op == "b" {
                    left_out.resize(arena + 1, false);
                    let of_class_space = fields.get(3) == Some(&"c");
                    left_out[arena] = !class && of_class_space;
                    recording.arenas = recording.arenas.max(arena + 1);
                    recording.class.resize(recording.arenas, false);
                    recording.class[arena] = of_class_space;
                }
                let counted = !left_out[arena];
                match op {
                    "b" if counted => recording.steps.push(Step::Begin(arena as u32)),
                    "k" if counted => recording.steps.push(Step::End(arena as u32)),
                    "a" | "f" => {
                        numbers.push(counted.then_some(recording.blocks.len() as u32));
                        if counted {
                            let bytes = number(3)? as u32 * WORD_BYTES as u32;
                            recording.blocks.push((arena as u32, bytes));
                            freed.push(false);
                            recording.steps.push(Step::Allocate(arena as u32, bytes));
                        }
                    }
                    _ => {}
                }
            }
        }
    }
    recording.dying = vec![Vec::new(); recording.arenas];
    for (block, (arena, _)) in
        recording.blocks.iter().enumerate().filter(|(block, _)| !freed[*block])
    {
        recording.dying[*arena as usize].push(block as u32);
    }
    Ok(recording)
}
