//! The driver's output: a line of JSON with the names of the spaces, then a record for each
//! collection; the first is that of the start.
//!
//! A record holds the number of births so far, then the state of all spaces before the collection
//! and after it. A space is four little-endian doubles with the names of
//! `v8.getHeapSpaceStatistics()`: committed, used, available and physical bytes. Text instead of
//! doubles would be garbage in the measured heap.

use crate::known;
use heaplab_heap::SpaceState;
use serde::Deserialize;

const FIELDS: usize = 4;
const STATE_BYTES: usize = FIELDS * 8;
/// Longest accepted first line.
pub const HEAD_BYTES_MAX: usize = 4096;
/// Most spaces that a V8 has.
const SPACES_MAX: usize = 32;

/// The first line of the results.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Head {
    /// Node's version.
    pub node: String,
    /// V8's version.
    pub v8: String,
    /// The spaces, in the order of the records.
    pub spaces: Vec<String>,
}

/// All spaces at one moment.
pub type Spaces = Vec<SpaceState>;

/// A collection: the spaces before and after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Births complete when it began.
    pub births: u64,
    /// The spaces at its start.
    pub before: Spaces,
    /// The spaces at its end.
    pub after: Spaces,
}

/// A parse error: what was expected and what was found.
pub type Wrong = (String, String);

/// Most bytes of results with `records` records.
pub fn bytes_max(records: usize) -> usize {
    records.saturating_mul(record_bytes(SPACES_MAX)).saturating_add(HEAD_BYTES_MAX)
}

const fn record_bytes(spaces: usize) -> usize {
    8 + 2 * spaces * STATE_BYTES
}

/// Number of whole records.
pub fn count(bytes: &[u8]) -> usize {
    split(bytes).map_or(0, |(head, rest)| rest.len() / record_bytes(head.spaces.len()))
}

/// Parses results of `least` to `most` records.
///
/// # Errors
/// The number of records is out of range, or a record is damaged.
pub fn parse(bytes: &[u8], least: usize, most: usize) -> Result<(Head, Vec<Record>), Wrong> {
    let (head, rest) = split(bytes)?;
    let record_bytes = record_bytes(head.spaces.len());
    let count = rest.len() / record_bytes;
    if !rest.len().is_multiple_of(record_bytes) || !(least..=most).contains(&count) {
        let expected =
            if least == most { format!("{least}") } else { format!("{least} to {most}") };
        return Err((
            format!("{expected} records of {record_bytes} bytes"),
            format!("{} bytes", rest.len()),
        ));
    }
    let records = rest.chunks_exact(record_bytes).enumerate().map(|(index, bytes)| {
        let others = || ("bytes as whole numbers".into(), format!("record {index} with others"));
        let (births, states) = bytes.split_at(8);
        let births = number(births).ok_or_else(others)?;
        let states = states.chunks_exact(STATE_BYTES).map(state).collect::<Option<Vec<_>>>();
        let mut before = states.ok_or_else(others)?;
        let after = before.split_off(head.spaces.len());
        Ok(Record { births, before, after })
    });
    let records = records.collect::<Result<_, Wrong>>()?;
    Ok((head, records))
}

fn split(bytes: &[u8]) -> Result<(Head, &[u8]), Wrong> {
    let expected = "a first line that names the spaces";
    let end = bytes.iter().take(HEAD_BYTES_MAX).position(|byte| *byte == b'\n');
    let end = end.ok_or_else(|| (expected.into(), format!("{} bytes without one", bytes.len())))?;
    let head: Head = serde_json::from_slice(&bytes[..end])
        .map_err(|error| (expected.into(), error.to_string()))?;
    if !head.spaces.iter().any(|space| space == OLD_SPACE) || head.spaces.len() > SPACES_MAX {
        return Err((
            format!("up to {SPACES_MAX} spaces, {OLD_SPACE} among them"),
            format!("{:?}", head.spaces),
        ));
    }
    Ok((head, &bytes[end + 1..]))
}

/// V8's name of old space.
pub const OLD_SPACE: &str = "old_space";
/// V8's name of new space, which counts as empty at the start.
pub const NEW_SPACE: &str = "new_space";

fn state(bytes: &[u8]) -> Option<SpaceState> {
    let field = |index: usize| number(&bytes[index * 8..index * 8 + 8]);
    Some(SpaceState {
        committed_bytes: field(0)?,
        used_bytes: field(1)?,
        available_bytes: field(2)?,
        waste_bytes: None,
    })
}

/// A double as a whole number; `None` above 2^53, where doubles are not exact.
fn number(bytes: &[u8]) -> Option<u64> {
    let value = f64::from_le_bytes(bytes.try_into().ok()?);
    ((0.0..9_007_199_254_740_992.0).contains(&value) && value.fract() == 0.0)
        .then_some(value as u64)
}

/// The workload's part of a space: the state minus that at the start. Pages of old space that were
/// empty at the start are the workload's; all others were full.
pub fn relative(name: &str, now: SpaceState, start: SpaceState) -> SpaceState {
    if name == NEW_SPACE {
        return now;
    }
    let free_bytes = start.committed_bytes.saturating_sub(start.used_bytes);
    let empty_pages = if name == OLD_SPACE { free_bytes / known::PAGE_AREA_BYTES } else { 0 };
    let own_bytes = start.committed_bytes.saturating_sub(empty_pages * known::PAGE_BYTES);
    SpaceState {
        committed_bytes: now.committed_bytes.saturating_sub(own_bytes),
        used_bytes: now.used_bytes.saturating_sub(start.used_bytes),
        ..now
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn results(spaces: &str, numbers: &[f64]) -> Vec<u8> {
        let mut bytes =
            format!("{{\"node\":\"13.14.0\",\"v8\":\"7.9\",\"spaces\":{spaces}}}\n").into_bytes();
        bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
        bytes
    }

    #[test]
    fn records_are_read_as_the_driver_writes_them() {
        let numbers: Vec<f64> = (0..=16).map(f64::from).collect();
        let bytes = results("[\"new_space\",\"old_space\"]", &numbers);
        let (head, records) = parse(&bytes, 1, 1).unwrap();
        assert_eq!((head.node.as_str(), count(&bytes), records.len()), ("13.14.0", 1, 1));
        let old = SpaceState {
            committed_bytes: 13,
            used_bytes: 14,
            available_bytes: 15,
            waste_bytes: None,
        };
        assert_eq!((records[0].after[1], records[0].before[0].committed_bytes), (old, 1));
    }

    #[test]
    fn other_bytes_are_refused_with_what_was_expected() {
        let said = |bytes: &[u8], records| parse(bytes, records, records).unwrap_err();
        assert_eq!(said(b"", 1).1, "0 bytes without one");
        assert_eq!(said(&[b'x'; 10_000], 1).1, "10000 bytes without one");
        assert!(said(b"{}\n", 1).1.contains("missing field"));
        assert!(said(&results("[\"new_space\"]", &[]), 0).0.contains("old_space among them"));
        let old = "[\"old_space\"]";
        assert_eq!(
            said(&results(old, &[0.0; 7]), 1),
            ("1 records of 72 bytes".into(), "56 bytes".into())
        );
        for wrong in [-1.0, 0.5, f64::NAN, f64::INFINITY, 1e300] {
            assert_eq!(said(&results(old, &[wrong; 9]), 1).1, "record 0 with others");
        }
    }

    #[test]
    fn node_s_own_objects_are_taken_off() {
        let state = |committed_bytes, used_bytes| SpaceState {
            committed_bytes,
            used_bytes,
            ..SpaceState::default()
        };
        assert_eq!(
            relative(OLD_SPACE, state(2 << 20, 5000), state(1 << 20, 1000)),
            state((1 << 20) + 4 * known::PAGE_BYTES, 4000)
        );
        assert_eq!(relative("map_space", state(10, 5), state(8, 5)), state(2, 0));
        assert_eq!(relative(NEW_SPACE, state(8, 5), state(8, 5)), state(8, 5));
    }

    proptest! {
        #[test]
        fn any_bytes_are_results_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..300), records in 0usize..5) {
            let mut framed = b"{\"node\":\"\",\"v8\":\"\",\"spaces\":[\"old_space\"]}\n".to_vec();
            framed.extend(&bytes);
            let _ = (parse(&bytes, records, 5), parse(&framed, 0, records), count(&framed));
        }
    }
}
