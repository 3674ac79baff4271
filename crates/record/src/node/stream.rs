//! Reads the stream of one heap's addon: checksummed blocks of records. The file is untrusted and
//! may end anywhere.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

/// Magic of a block: "hns1".
const MAGIC: u32 = u32::from_le_bytes(*b"hns1");
const HEADER_BYTES: usize = 12;
const BLOCK_BYTES_LIMIT: usize = 256 << 10;
/// Longest text of a record.
const TEXT_BYTES_MAX: u64 = 4096;
/// Version of the records.
const FORMAT: u64 = 1;

/// A record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// The first record.
    Head(Head),
    /// Why this heap is not recorded.
    Refused(String),
    /// A function on a stack.
    Node(Node),
    /// An object was born.
    Birth { bytes: u64, node: u64 },
    /// Number of births of the recording's own.
    Own(u64),
    /// Number of births of objects that died unseen.
    Unseen(u64),
    /// A collection begins; `kind` is V8's number.
    Collection { time_ns: u64, kind: u64 },
    /// The last collection found an object dead; holds its number less the number of the death
    /// before.
    Death(u64),
    /// The recording of this heap ended. A non-empty `why`: it ended before the program did.
    End { time_ns: u64, why: String },
}

/// The heap's identity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// Time of the head, on CLOCK_MONOTONIC.
    pub time_ns: u64,
    /// Process number.
    pub pid: u32,
    /// Parent's process number.
    pub parent: u32,
    /// Thread number; equals the process number in the main thread.
    pub tid: u32,
    /// "20.20.2".
    pub node: String,
    /// "11.3.244.8-node.38".
    pub v8: String,
    /// The executable's path.
    pub executable: String,
    /// The command line.
    pub arguments: Vec<String>,
}

/// A function in a stack of functions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// Its unique number.
    pub id: u64,
    /// Its caller; 0 for the root.
    pub parent: u64,
    /// Line of its beginning, from 1; 0: unknown.
    pub line: u64,
    /// Column of its beginning, from 1; 0: unknown.
    pub column: u64,
    /// Its name.
    pub function: String,
    /// The script's path or address.
    pub script: String,
}

/// One heap's stream.
#[derive(Debug)]
pub struct Stream {
    path: PathBuf,
    input: BufReader<File>,
    payload: Vec<u8>,
    at: usize,
    /// Bytes of the blocks before.
    read_bytes: u64,
}

impl Stream {
    /// Opens it.
    pub fn open(path: &Path) -> std::io::Result<Stream> {
        Ok(Stream {
            path: path.into(),
            input: BufReader::new(File::open(path)?),
            payload: Vec::new(),
            at: 0,
            read_bytes: 0,
        })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The next record; `None` at the end. The error names the fault and its place; nothing comes
    /// after it.
    pub fn next(&mut self) -> Result<Option<Record>, String> {
        while self.at == self.payload.len() {
            if !self.block().map_err(|reason| {
                format!("{}: the block at byte {} {reason}", self.path.display(), self.read_bytes)
            })? {
                return Ok(None);
            }
        }
        let mut rest = &self.payload[self.at..];
        let record = record(&mut rest).ok_or_else(|| {
            let place = self.payload.len() - rest.len();
            format!(
                "{}: no record as this heaplab knows them before byte {place} of the block at byte {}",
                self.path.display(),
                self.read_bytes
            )
        })?;
        self.at = self.payload.len() - rest.len();
        Ok(Some(record))
    }

    fn block(&mut self) -> Result<bool, String> {
        self.read_bytes +=
            if self.payload.is_empty() { 0 } else { (HEADER_BYTES + self.payload.len()) as u64 };
        (self.at, self.payload) = (0, Vec::new());
        let mut header = [0; HEADER_BYTES];
        match read_whole(&mut self.input, &mut header)? {
            0 => return Ok(false),
            HEADER_BYTES => {}
            _ => return Err("is cut".into()),
        }
        let number = |at: usize| {
            u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
        };
        let length = number(4) as usize;
        if number(0) != MAGIC || length == 0 || length > BLOCK_BYTES_LIMIT {
            return Err("does not begin with a block's magic number".into());
        }
        let mut payload = vec![0; length];
        if read_whole(&mut self.input, &mut payload)? != length {
            return Err("is cut".into());
        }
        if crc32fast::hash(&payload) != number(8) {
            return Err("is damaged: its checksum differs".into());
        }
        self.payload = payload;
        Ok(true)
    }
}

fn read_whole(input: &mut impl Read, out: &mut [u8]) -> Result<usize, String> {
    let mut length = 0;
    while length < out.len() {
        match input.read(&mut out[length..]) {
            Ok(0) => break,
            Ok(more) => length += more,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(format!("cannot be read: {error}")),
        }
    }
    Ok(length)
}

fn record(rest: &mut &[u8]) -> Option<Record> {
    let kind = take(rest, 1)?[0];
    Some(match kind {
        b'H' => Record::Head(head(rest)?),
        b'R' => Record::Refused(text(rest)?),
        b'N' => Record::Node(Node {
            id: number(rest)?,
            parent: number(rest)?,
            line: number(rest)?,
            column: number(rest)?,
            function: text(rest)?,
            script: text(rest)?,
        }),
        b'B' => Record::Birth { bytes: number(rest)?, node: number(rest)? },
        b'O' => Record::Own(number(rest)?),
        b'U' => Record::Unseen(number(rest)?),
        b'C' => Record::Collection { time_ns: number(rest)?, kind: number(rest)? },
        b'D' => Record::Death(number(rest)?),
        b'E' => Record::End { time_ns: number(rest)?, why: text(rest)? },
        _ => return None,
    })
}

fn head(rest: &mut &[u8]) -> Option<Head> {
    if number(rest)? != FORMAT {
        return None;
    }
    let (time_ns, mut id) = (number(rest)?, || u32::try_from(number(rest)?).ok());
    let (pid, parent, tid) = (id()?, id()?, id()?);
    let (node, v8, executable, arguments) = (text(rest)?, text(rest)?, text(rest)?, text(rest)?);
    Some(Head {
        time_ns,
        pid,
        parent,
        tid,
        node,
        v8,
        executable,
        arguments: arguments.split('\x1f').map(String::from).collect(),
    })
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(length)?;
    *rest = left;
    Some(taken)
}

/// Seven bits a byte, the lowest first; the last byte has no high bit.
fn number(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0u64;
    for shift in (0..64).step_by(7) {
        let byte = take(rest, 1)?[0];
        if shift == 63 && byte > 1 {
            return None;
        }
        number |= u64::from(byte & 127) << shift;
        if byte < 128 {
            return Some(number);
        }
    }
    None
}

fn text(rest: &mut &[u8]) -> Option<String> {
    let length = number(rest).filter(|length| *length <= TEXT_BYTES_MAX)?;
    Some(String::from_utf8_lossy(take(rest, length as usize)?).into_owned())
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use proptest::prelude::*;

    pub fn block(payload: &[u8]) -> Vec<u8> {
        let head = [MAGIC, payload.len() as u32, crc32fast::hash(payload)];
        head.into_iter().flat_map(u32::to_le_bytes).chain(payload.iter().copied()).collect()
    }

    fn read(bytes: &[u8]) -> (Vec<Record>, Option<String>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("node-1-1-0");
        std::fs::write(&path, bytes).unwrap();
        let (mut stream, mut records) = (Stream::open(&path).unwrap(), Vec::new());
        loop {
            match stream.next() {
                Ok(Some(record)) => records.push(record),
                Ok(None) => return (records, None),
                Err(what) => return (records, Some(what)),
            }
        }
    }

    #[test]
    fn records_come_back() {
        let whole =
            [block(b"B\x18\x03O\x05"), block(b"C\xff\x01\x04D\x07N\x01\x00\x02\x03\x01f\x00")]
                .concat();
        let node = Node {
            id: 1,
            parent: 0,
            line: 2,
            column: 3,
            function: "f".into(),
            script: String::new(),
        };
        let expected = [
            Record::Birth { bytes: 24, node: 3 },
            Record::Own(5),
            Record::Collection { time_ns: 255, kind: 4 },
            Record::Death(7),
            Record::Node(node),
        ];
        assert_eq!(read(&whole), (expected.to_vec(), None));
        assert!(read(&block(b"?")).1.unwrap().contains("no record"));
        assert!(
            read(&block(b"R\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"))
                .1
                .unwrap()
                .contains("no record"),
            "no such length is believed"
        );
    }

    proptest! {
        /// Cut or changed anywhere, a stream still gives all blocks before the damage.
        #[test]
        fn a_damaged_stream_is_read_up_to_there(place: prop::sample::Index, change: u8) {
            let whole: Vec<u8> = (0..50).flat_map(|_| block(b"B\x18\x03D\x01")).collect();
            let place = place.index(whole.len());
            let mut bytes = whole.clone();
            if change == 0 { bytes.truncate(place) } else { bytes[place] ^= change }
            let (records, wrong) = read(&bytes);
            prop_assert_eq!(records.len(), place / 17 * 2);
            prop_assert!(wrong.is_some() || place % 17 == 0);
        }

        #[test]
        fn any_payload_is_read_without_a_panic(payload: Vec<u8>) {
            if !payload.is_empty() {
                read(&block(&payload));
            }
        }
    }
}
