//! `--at` and `--between`: moments as a user names them, and what was live there.

use anyhow::{Result, bail};
use heaplab_profile::{Amount, At, Moment, MomentRequest, MomentStack, Profile};
use heaplab_trace::tables::Tables;
use serde::Serialize;

/// What the user asked to see of moments.
#[derive(Debug, Serialize)]
#[serde(tag = "view", rename_all = "snake_case")]
pub enum Shown {
    /// Nothing.
    Nothing,
    /// What was live at one moment.
    At {
        /// The moment.
        moment: Moment,
    },
    /// What changed between two.
    Between {
        /// The earlier.
        from: Moment,
        /// The later.
        to: Moment,
        /// By stack, the largest growth of live bytes first.
        stacks: Vec<Change>,
    },
}

/// What one stack did between two moments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// Row of the `stacks` table.
    pub stack: u32,
    /// Live bytes now less live bytes then.
    pub live_bytes: i64,
    /// Live objects likewise.
    pub live_objects: i64,
    /// What was requested in between.
    pub requested: Amount,
}

/// The moments to note while reading.
///
/// # Errors
/// A sentence that names the moment nobody knows, and those that are known.
pub fn requests(wanted: &[String], tables: &Tables) -> Result<Vec<MomentRequest>, String> {
    let mut requests = Vec::new();
    for name in wanted {
        let mark = tables.marks.iter().position(|mark| mark.name == *name);
        let at = match (mark, name.as_str()) {
            (Some(mark), _) => At::Mark(mark as u32),
            (None, "peak" | "end") => continue,
            (None, _) => At::Time(time_ns(name).ok_or_else(|| unknown(name, tables))?),
        };
        requests.push(MomentRequest { name: name.clone(), at });
    }
    Ok(requests)
}

fn unknown(name: &str, tables: &Tables) -> String {
    let marks: Vec<&str> = tables.marks.iter().take(20).map(|mark| mark.name.as_str()).collect();
    let known =
        if marks.is_empty() { "the recording has no marks".into() } else { format!("the recording's marks are {}", marks.join(", ")) };
    format!("`{name}` is neither a mark nor a time such as 1.5s, 20ms, `peak` or `end`; {known}")
}

/// A time such as `1.5s` in nanoseconds.
fn time_ns(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let scale = match &text[digits.len()..] {
        "ns" => 1.0,
        "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "min" => 6e10,
        "h" => 3.6e12,
        _ => return None,
    };
    let value: f64 = digits.trim().parse().ok()?;
    (value.is_finite() && value >= 0.0 && value * scale < 1e19).then_some((value * scale) as u64)
}

/// The moments that were asked for, out of the profile.
///
/// # Errors
/// A mark that never passed in the process looked at, and moments in the wrong order.
pub fn shown(wanted: &[String], between: bool, profile: &Profile) -> Result<Shown> {
    let find = |name: &String| -> Result<Moment> {
        match profile.moments.iter().find(|moment| moment.name == *name) {
            Some(moment) => Ok(moment.clone()),
            None if name == "peak" => Ok(from_rows(profile, &profile.peak, |row| row.at_peak)),
            None if name == "end" => Ok(from_rows(profile, &profile.end, |row| row.at_end)),
            None => bail!("the mark `{name}` did not pass in this process; try --process all"),
        }
    };
    match wanted {
        [from, to] if between => {
            let (from, to) = (find(from)?, find(to)?);
            if from.row > to.row {
                bail!("`{}` comes after `{}`; name the earlier moment first", from.name, to.name);
            }
            if from.name == "peak" || to.name == "peak" {
                // What was requested by then is not kept for the peak: it moves while the recording is read.
                bail!("--between takes marks and times; name the time of the peak instead: {}ns", profile.peak.time_ns);
            }
            let stacks = changes(&from, &to);
            Ok(Shown::Between { from, to, stacks })
        }
        [at, ..] => Ok(Shown::At { moment: find(at)? }),
        [] => Ok(Shown::Nothing),
    }
}

/// The peak and the end keep their rows with the stacks; here they become a moment like any other.
fn from_rows(profile: &Profile, moment: &Moment, live: impl Fn(&heaplab_profile::StackRow) -> Amount) -> Moment {
    let stacks = profile.stacks.iter().map(|row| MomentStack { stack: row.stack, live: live(row), requested: row.requested });
    Moment { stacks: stacks.collect(), ..moment.clone() }
}

fn changes(from: &Moment, to: &Moment) -> Vec<Change> {
    let before =
        |stack: u32| from.stacks.binary_search_by_key(&stack, |row| row.stack).ok().map(|index| from.stacks[index]).unwrap_or_default();
    let less = |a: u64, b: u64| a as i64 - b as i64;
    let mut changes: Vec<Change> = to
        .stacks
        .iter()
        .map(|row| {
            let before = before(row.stack);
            Change {
                stack: row.stack,
                live_bytes: less(row.live.bytes, before.live.bytes),
                live_objects: less(row.live.objects, before.live.objects),
                requested: Amount {
                    objects: row.requested.objects - before.requested.objects,
                    bytes: row.requested.bytes - before.requested.bytes,
                    usable_bytes: row.requested.usable_bytes - before.requested.usable_bytes,
                },
            }
        })
        .filter(|change| change.live_bytes != 0 || change.requested.objects > 0)
        .collect();
    changes.sort_by_key(|change| (std::cmp::Reverse(change.live_bytes), change.stack));
    changes
}

#[cfg(test)]
mod tests {
    use super::*;
    use heaplab_trace::tables::Mark;

    #[test]
    fn times_and_marks_are_told_apart() {
        assert_eq!(time_ns("1.5s"), Some(1_500_000_000));
        assert_eq!(time_ns("20ms"), Some(20_000_000));
        assert_eq!(time_ns("2min"), Some(120_000_000_000));
        for wrong in ["", "s", "-1s", "1", "1 parsec", "nans", "infs", "1e300h"] {
            assert_eq!(time_ns(wrong), None, "{wrong}");
        }
        let tables = Tables { marks: vec![Mark { name: "loaded".into(), ..Mark::default() }], ..Tables::default() };
        let requests = requests(&["loaded".into(), "1s".into(), "peak".into()], &tables).unwrap();
        assert_eq!(requests.iter().map(|request| request.at).collect::<Vec<_>>(), [At::Mark(0), At::Time(1_000_000_000)]);
        let problem = super::requests(&["laoded".into()], &tables).unwrap_err();
        assert!(problem.contains("`laoded` is neither") && problem.contains("marks are loaded"), "{problem}");
    }
}
