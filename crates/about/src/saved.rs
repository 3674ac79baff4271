//! Reports as about:memory saves and loads them: JSON of version 1, in gzip or not.
//!
//! Source: Firefox's toolkit/components/aboutmemory (the loader of saved files). Deviations: a
//! reading of ours may carry a key `heaplab` with errors, which Firefox skips and saving leaves
//! out. What is impossible (an unknown kind, a text of megabytes) is an error that names it.

use crate::AboutError;
use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use heaplab_reporter::{Kind, Units};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::io::{Read, Write};

/// Bytes of a file, unpacked.
pub(crate) const BYTES_MAX: u64 = 512 << 20;
/// Bytes of a path, process or description.
const TEXT_BYTES_MAX: usize = 64 << 10;
const VERSION: u32 = 1;

/// One report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Whose, as `name (pid 4711)`.
    pub process: String,
    /// Names with `/` between them.
    pub path: String,
    #[serde(with = "kind")]
    /// Whose memory it counts.
    pub kind: Kind,
    #[serde(with = "units")]
    /// What it counts.
    pub units: Units,
    /// How much.
    pub amount: i64,
    /// A sentence on what is measured.
    pub description: String,
    /// In a difference: 1 where only the first has this path, 2 where only the second has.
    #[serde(rename = "_presence", default, skip_serializing_if = "Option::is_none")]
    pub presence: Option<u8>,
}

/// A reading, or the difference of two.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Saved {
    version: u32,
    /// Whether bytes on the heap include what the allocator rounds up.
    #[serde(rename = "hasMozMallocUsableSize")]
    pub has_usable_size: bool,
    /// All reports; those of equal process and path add up.
    pub reports: Vec<Report>,
    /// What the program says beside them.
    #[serde(rename = "heaplab", default, skip_serializing)]
    pub said: Said,
}

/// What a program of ours says beside its reports.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Said {
    /// Reporters that failed, as sentences.
    #[serde(default)]
    pub errors: Vec<String>,
    /// After memory pressure: how many callbacks ran.
    #[serde(default)]
    pub callbacks: Option<u64>,
    /// Marks that the program has set and still has the reports of, oldest first.
    #[serde(default)]
    pub marks: Vec<Mark>,
}

/// A moment that the program has named.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mark {
    /// Its name.
    pub name: String,
    /// Seconds between it and the reading.
    pub seconds_ago: f64,
}

/// A file may be a crash report of Firefox, with the reports in it.
#[derive(Deserialize)]
#[serde(untagged)]
enum Wrapped {
    Crash { memory_report: Box<Saved> },
    Plain(Box<Saved>),
}

impl Saved {
    /// Of reports.
    pub fn new(has_usable_size: bool, reports: Vec<Report>) -> Saved {
        Saved { version: VERSION, has_usable_size, reports, said: Said::default() }
    }

    /// Reads a saved file, in gzip or not.
    ///
    /// # Errors
    /// [`AboutError::Json`], [`AboutError::Form`], [`AboutError::Gzip`], [`AboutError::TooLong`].
    pub fn read(bytes: &[u8]) -> Result<Saved, AboutError> {
        let mut unpacked = Vec::new();
        let json = if bytes.starts_with(&[0x1f, 0x8b]) {
            let packed = MultiGzDecoder::new(bytes);
            packed.take(BYTES_MAX + 1).read_to_end(&mut unpacked).map_err(AboutError::Gzip)?;
            &unpacked[..]
        } else {
            bytes
        };
        if json.len() as u64 > BYTES_MAX {
            return Err(AboutError::TooLong(BYTES_MAX));
        }
        // Most files are plain, and their errors then name the line.
        let saved = serde_json::from_slice(json).or_else(|error| {
            match serde_json::from_slice::<Wrapped>(json) {
                Ok(Wrapped::Crash { memory_report }) => Ok(*memory_report),
                Ok(Wrapped::Plain(saved)) => Ok(*saved),
                Err(_) => Err(error),
            }
        })?;
        check(saved)
    }

    /// As about:memory loads it; `packed` in gzip.
    ///
    /// # Errors
    /// None that a vector gives.
    pub fn write(&self, packed: bool) -> Result<Vec<u8>, AboutError> {
        let json = ascii(&serde_json::to_string_pretty(self)?).into_bytes();
        if !packed {
            return Ok(json);
        }
        let mut out = GzEncoder::new(Vec::new(), Compression::default());
        out.write_all(&json).and_then(|()| out.finish()).map_err(AboutError::Gzip)
    }
}

/// With letters beyond ASCII as `\u` and their number: about:memory takes the bytes of a packed
/// file for letters (Firefox 153), so `é` would become two. In JSON such letters stand only in
/// texts.
fn ascii(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for letter in json.chars() {
        if letter.is_ascii() {
            out.push(letter);
        } else {
            let mut units = [0; 2];
            for unit in letter.encode_utf16(&mut units) {
                let _ = write!(out, "\\u{unit:04x}");
            }
        }
    }
    out
}

fn check(saved: Saved) -> Result<Saved, AboutError> {
    if saved.version != VERSION {
        let found = saved.version;
        return Err(AboutError::Form(format!("the version is {found}, known is {VERSION}")));
    }
    for (index, report) in saved.reports.iter().enumerate() {
        let longest = report.path.len().max(report.process.len()).max(report.description.len());
        let wrong = if longest > TEXT_BYTES_MAX {
            format!("has a text of {longest} bytes, at most {TEXT_BYTES_MAX} are read")
        } else if report.path.is_empty() {
            "has no path".into()
        } else if report.path.starts_with("explicit/")
            && (report.kind == Kind::Other || report.units != Units::Bytes)
        {
            format!("{:?}: below explicit/ stand bytes of kind heap or non-heap", report.path)
        } else {
            continue;
        };
        return Err(AboutError::Form(format!("report {index} {wrong}")));
    }
    Ok(saved)
}

macro_rules! numbered {
    ($module:ident, $type:ty, [$($value:expr),*], $what:literal) => {
        /// As Firefox's number.
        mod $module {
            use super::*;
            pub(super) fn serialize<S: serde::Serializer>(value: &$type, to: S) -> Result<S::Ok, S::Error> {
                to.serialize_u8(*value as u8)
            }
            pub(super) fn deserialize<'de, D: serde::Deserializer<'de>>(from: D) -> Result<$type, D::Error> {
                let number = u8::deserialize(from)?;
                let known = [$($value),*].into_iter().find(|known| *known as u8 == number);
                known.ok_or_else(|| serde::de::Error::custom(format!(concat!("unknown ", $what, " {}"), number)))
            }
        }
    };
}
numbered!(kind, Kind, [Kind::NonHeap, Kind::Heap, Kind::Other], "kind");
numbered!(
    units,
    Units,
    [Units::Bytes, Units::Count, Units::CountCumulative, Units::Percentage],
    "units"
);
