//! The log during a recording: checksummed blocks of packed lines, so that the recording can be
//! finished if heaplab is killed (docs/spool-format.md).
//!
//! A block is 16 bytes (magic, packed bytes, unpacked bytes, CRC-32 of the packed bytes) and one
//! zstd frame of whole lines. A line ends in a line feed, or in a zero byte if the log broke off
//! within it.

use crate::error::RecordError;
use crate::spool::{read_facts, write_facts};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The file with the blocks.
const LOG_FILE: &str = "jvm-log";
/// The file with [`Facts`].
const FACTS_FILE: &str = "jvm.json";
/// How a block begins: "hjl1".
const MAGIC: u32 = u32::from_le_bytes(*b"hjl1");
const HEADER_BYTES: usize = 16;
/// Unpacked bytes after which a block is written.
const BLOCK_BYTES: usize = 256 << 10;
/// Most unpacked bytes of a block; a reader refuses more. A block has less than [`BLOCK_BYTES`] of
/// lines, and the line that fills it. A line that would exceed the limit begins a block of its own.
/// The longest block that lines of `pipe.rs` make has 320 KiB.
const BLOCK_BYTES_LIMIT: usize = BLOCK_BYTES + (128 << 10);
/// zstd's level: the least of the usual ones, because a JVM may wait for it.
const LEVEL: i32 = 1;
/// How long a line waits to be written at most, while more come.
const AGE: Duration = Duration::from_millis(100);

/// Facts about the recording, for finishing it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// The command line.
    pub command: Vec<String>,
    /// The program's file.
    pub program: String,
    /// When the recording began, seconds since 1970.
    pub began_unix_s: u64,
    /// The folder of the pipe.
    #[serde(default)]
    pub pipe: PathBuf,
    /// The spool's path in the program's environment; a later heaplab may come by another path.
    #[serde(default)]
    pub named: PathBuf,
}

impl Facts {
    /// Writes them into the spool.
    pub fn write(&self, spool: &Path) -> Result<(), RecordError> {
        write_facts(spool, FACTS_FILE, self)
    }

    /// Reads them.
    pub fn read(spool: &Path) -> Result<Facts, RecordError> {
        read_facts(spool, FACTS_FILE)
    }
}

/// Whether a spool is one of a JVM's metaspace.
pub fn is_spool(spool: &Path) -> bool {
    spool.join(FACTS_FILE).exists()
}

/// Writes lines.
#[derive(Debug)]
pub struct LogWriter {
    file: File,
    path: PathBuf,
    block: Vec<u8>,
    oldest: Option<Instant>,
}

impl LogWriter {
    /// Makes the file in `spool`.
    pub fn create(spool: &Path) -> Result<LogWriter, RecordError> {
        let path = spool.join(LOG_FILE);
        let file = File::options()
            .write(true)
            .create_new(true)
            .open(&path)
            .map_err(RecordError::io("cannot create", &path))?;
        Ok(LogWriter { file, path, block: Vec::with_capacity(BLOCK_BYTES_LIMIT), oldest: None })
    }

    /// Takes a line, cut to what a block can hold.
    pub fn line(&mut self, line: &[u8], whole: bool) -> Result<(), RecordError> {
        let line = &line[..line.len().min(BLOCK_BYTES_LIMIT - 1)];
        if self.block.len() + line.len() + 1 > BLOCK_BYTES_LIMIT {
            self.flush()?;
        }
        self.oldest.get_or_insert_with(Instant::now);
        self.block.extend_from_slice(line);
        self.block.push(if whole { b'\n' } else { 0 });
        if self.block.len() >= BLOCK_BYTES { self.flush() } else { Ok(()) }
    }

    /// Writes lines that have waited long enough.
    pub fn flush_old(&mut self) -> Result<(), RecordError> {
        if self.oldest.is_some_and(|oldest| oldest.elapsed() >= AGE) {
            self.flush()
        } else {
            Ok(())
        }
    }

    /// Writes everything.
    pub fn flush(&mut self) -> Result<(), RecordError> {
        if self.block.is_empty() {
            return Ok(());
        }
        let packed = zstd::bulk::compress(&self.block, LEVEL)
            .map_err(RecordError::io("cannot pack what goes into", &self.path))?;
        let mut bytes = Vec::with_capacity(HEADER_BYTES + packed.len());
        for number in
            [MAGIC, packed.len() as u32, self.block.len() as u32, crc32fast::hash(&packed)]
        {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(&packed);
        self.block.clear();
        self.oldest = None;
        self.file.write_all(&bytes).map_err(RecordError::io("cannot write", &self.path))
    }
}

/// Passes every line of a spool's log to `each`, and whether it is whole. A cut or damaged block
/// ends the log; `Some` says where and how.
///
/// # Errors
/// There is no log, or `each` fails.
pub fn read(
    spool: &Path,
    mut each: impl FnMut(&[u8], bool) -> Result<(), RecordError>,
) -> Result<Option<String>, RecordError> {
    let path = spool.join(LOG_FILE);
    let mut input =
        BufReader::new(File::open(&path).map_err(RecordError::io("cannot open", &path))?);
    let mut at = 0u64;
    loop {
        let block = match block(&mut input) {
            Ok(Some(block)) => block,
            Ok(None) => return Ok(None),
            Err(reason) => {
                return Ok(Some(format!("{}: the block at byte {at} {reason}", path.display())));
            }
        };
        let mut rest = &block.lines[..];
        while let Some(end) = memchr::memchr2(b'\n', 0, rest) {
            each(&rest[..end], rest[end] == b'\n')?;
            rest = &rest[end + 1..];
        }
        at += block.bytes;
    }
}

struct Block {
    lines: Vec<u8>,
    bytes: u64,
}

/// The next block; `None` at the end; the error says what is wrong with the block.
fn block(input: &mut impl Read) -> Result<Option<Block>, String> {
    let mut header = [0; HEADER_BYTES];
    match read_whole(input, &mut header) {
        Ok(0) => return Ok(None),
        Ok(HEADER_BYTES) => {}
        Ok(_) => return Err("is cut".into()),
        Err(error) => return Err(format!("cannot be read: {error}")),
    }
    let number = |index: usize| {
        u32::from_le_bytes([header[index], header[index + 1], header[index + 2], header[index + 3]])
    };
    let (packed_bytes, line_bytes) = (number(4) as usize, number(8) as usize);
    if number(0) != MAGIC
        || line_bytes > BLOCK_BYTES_LIMIT
        || packed_bytes > zstd::zstd_safe::compress_bound(BLOCK_BYTES_LIMIT)
    {
        return Err("does not begin with a block's magic number".into());
    }
    let mut packed = vec![0; packed_bytes];
    match read_whole(input, &mut packed) {
        Ok(length) if length == packed_bytes => {}
        Ok(_) => return Err("is cut".into()),
        Err(error) => return Err(format!("cannot be read: {error}")),
    }
    if crc32fast::hash(&packed) != number(12) {
        return Err("is damaged: its checksum differs".into());
    }
    let lines = zstd::bulk::decompress(&packed, line_bytes)
        .map_err(|error| format!("is damaged: {error}"))?;
    if lines.len() != line_bytes {
        return Err(format!(
            "is damaged: it has {} bytes where its header says {line_bytes}",
            lines.len()
        ));
    }
    Ok(Some(Block { lines, bytes: (HEADER_BYTES + packed_bytes) as u64 }))
}

/// Reads until `out` is full or the input ends.
fn read_whole(input: &mut impl Read, out: &mut [u8]) -> io::Result<usize> {
    let mut length = 0;
    while length < out.len() {
        match input.read(&mut out[length..]) {
            Ok(0) => break,
            Ok(more) => length += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lines(spool: &Path) -> (Vec<(Vec<u8>, bool)>, Option<String>) {
        let mut lines = Vec::new();
        let cut = read(spool, |line, whole| {
            lines.push((line.to_vec(), whole));
            Ok(())
        });
        (lines, cut.unwrap())
    }

    fn written(count: usize) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = LogWriter::create(folder.path()).unwrap();
        (0..count).for_each(|number| {
            writer.line(format!("line {number} of the log").as_bytes(), true).unwrap()
        });
        writer.line(b"the last", false).unwrap();
        writer.flush().unwrap();
        folder
    }

    #[test]
    fn lines_come_back_as_they_were() {
        let folder = written(40_000);
        let (lines, cut) = lines(folder.path());
        assert_eq!((lines.len(), cut), (40_001, None));
        assert_eq!(
            (&lines[39_999], &lines[40_000]),
            (&(b"line 39999 of the log".to_vec(), true), &(b"the last".to_vec(), false))
        );
        let (command, program) = (vec!["java".into()], "/usr/bin/java".into());
        let facts = Facts {
            command,
            program,
            began_unix_s: 7,
            pipe: "/tmp/p".into(),
            named: "/tmp/s".into(),
        };
        assert!(!is_spool(folder.path()));
        facts.write(folder.path()).unwrap();
        assert!(is_spool(folder.path()) && Facts::read(folder.path()).unwrap() == facts);
    }

    /// A line that does not fit the current block does not become a block that a reader refuses.
    #[test]
    fn long_lines_come_back() {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = LogWriter::create(folder.path()).unwrap();
        let lengths: Vec<usize> = [100; 2048]
            .into_iter()
            .chain([300 << 10, 7, 320 << 10, 320 << 10, BLOCK_BYTES_LIMIT - 1, 9])
            .collect();
        lengths.iter().for_each(|length| writer.line(&vec![b'x'; *length], true).unwrap());
        writer.line(&vec![b'y'; 1 << 20], true).unwrap();
        writer.line(b"the last", true).unwrap();
        writer.flush().unwrap();
        let (lines, cut) = lines(folder.path());
        let read: Vec<usize> = lines.iter().map(|(line, _)| line.len()).collect();
        assert_eq!((&read[..lengths.len()], cut), (&lengths[..], None));
        assert_eq!(read[lengths.len()..], [BLOCK_BYTES_LIMIT - 1, 8]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        /// Cut or damaged anywhere, the log is read up to there, and nothing behind.
        #[test]
        fn a_cut_or_damaged_log_is_read_up_to_there(place: prop::sample::Index, change in 0u8..=255) {
            let folder = written(40_000);
            let path = folder.path().join(LOG_FILE);
            let mut bytes = std::fs::read(&path).unwrap();
            let (whole, _) = lines(folder.path());
            let place = place.index(bytes.len());
            if change == 0 {
                bytes.truncate(place);
            } else {
                bytes[place] ^= change;
            }
            std::fs::write(&path, &bytes).unwrap();
            let (read, cut) = lines(folder.path());
            prop_assert!(read.len() < whole.len() && whole.starts_with(&read));
            prop_assert!(cut.is_some() || bytes.is_empty() || change == 0, "{:?}", cut);
        }
    }
}
