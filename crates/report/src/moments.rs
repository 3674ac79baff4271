//! `--at` and `--between`: moments as a user names them, and the live objects there.

use heaplab_profile::choose::{self, ChooseError};
use heaplab_profile::{Amount, At, Moment, MomentRequest, MomentStack, Profile};
use heaplab_text::words;
use heaplab_trace::bundle::Selection;
use heaplab_trace::tables::Tables;
use serde::Serialize;

macro_rules! not_there {
    ($($text:tt)*) => { return Err(ChooseError::NotThere(format!($($text)*))) };
}

/// The requested moments.
#[derive(Debug, Serialize)]
#[serde(tag = "view", rename_all = "snake_case")]
pub enum Shown {
    /// Nothing.
    Nothing,
    /// The live objects at one moment.
    At {
        /// The moment.
        moment: Moment,
    },
    /// Changes between two moments.
    Between {
        /// The earlier.
        from: Moment,
        /// The later.
        to: Moment,
        /// By stack, the largest growth of live bytes first.
        stacks: Vec<Change>,
    },
}

/// The changes of one stack between two moments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// Row of the `stacks` table.
    pub stack: u32,
    /// Live bytes now less live bytes then.
    pub live_bytes: i64,
    /// Live objects likewise.
    pub live_objects: i64,
    /// Requested between the two.
    pub requested: Amount,
}

/// The moments to note in a pass over a recording of `duration_ns`, and remarks on them, each a
/// sentence.
///
/// # Errors
/// The moment is unknown (the message lists the marks), or a time in a recording without times.
pub fn requests(
    wanted: &[String],
    tables: &Tables,
    duration_ns: u64,
    selection: Selection,
) -> Result<(Vec<MomentRequest>, Vec<String>), ChooseError> {
    let (mut requests, mut notes) = (Vec::new(), Vec::new());
    for name in wanted {
        if let choose::Chosen::At(at) = choose::moment(tables, selection, name)? {
            if matches!(at, At::Time(time) if time > 0) && duration_ns == 0 {
                not_there!(
                    "`{name}` is a time, and this workload has no time stamps: name peak, end or a mark"
                );
            }
            if let At::Time(time) = at
                && time > duration_ns
            {
                let end = words::duration(duration_ns);
                notes.push(format!("`{name}` lies after the end of the recording ({end}): the report shows the end instead"));
            }
            requests.push(MomentRequest { name: name.clone(), at });
        }
    }
    Ok((requests, notes))
}

/// The requested moments, out of the profile.
///
/// # Errors
/// A mark that never passed in the process looked at, and moments in the wrong order.
pub fn shown(wanted: &[String], between: bool, profile: &Profile) -> Result<Shown, ChooseError> {
    let find = |name: &String| -> Result<Moment, ChooseError> {
        match profile.moments.iter().find(|moment| moment.name == *name) {
            Some(moment) => Ok(moment.clone()),
            None if name == "peak" => Ok(from_rows(profile, &profile.peak, |row| row.at_peak)),
            None if name == "end" => Ok(from_rows(profile, &profile.end, |row| row.at_end)),
            None => not_there!("the mark `{name}` did not pass in this process; try --process all"),
        }
    };
    match wanted {
        [from, to] if between => {
            let (from, to) = (find(from)?, find(to)?);
            if from.row > to.row {
                not_there!(
                    "`{}` comes after `{}`; name the earlier moment first",
                    from.name,
                    to.name
                );
            }
            if from.row == to.row && from.name != "peak" && to.name != "peak" {
                let time = words::duration(from.time_ns);
                not_there!(
                    "`{}` and `{}` are the same moment ({time}): no event lies between them",
                    wanted[0],
                    wanted[1]
                );
            }
            if from.name == "peak" || to.name == "peak" {
                // The requests up to the peak are not kept, because the peak moves during the pass.
                not_there!(
                    "--between takes marks and times; name the time of the peak instead: {}ns",
                    profile.peak.time_ns
                );
            }
            let stacks = changes(&from, &to);
            Ok(Shown::Between { from, to, stacks })
        }
        [at, ..] => Ok(Shown::At { moment: find(at)? }),
        [] => Ok(Shown::Nothing),
    }
}

/// The peak and the end keep their rows with the stacks; here they become a moment like any other.
fn from_rows(
    profile: &Profile,
    moment: &Moment,
    live: impl Fn(&heaplab_profile::StackRow) -> Amount,
) -> Moment {
    let stacks = profile.stacks.iter().map(|row| MomentStack {
        stack: row.stack,
        live: live(row),
        requested: row.requested,
    });
    Moment { stacks: stacks.collect(), ..moment.clone() }
}

fn changes(from: &Moment, to: &Moment) -> Vec<Change> {
    let before = |stack: u32| {
        from.stacks
            .binary_search_by_key(&stack, |row| row.stack)
            .ok()
            .map(|index| from.stacks[index])
            .unwrap_or_default()
    };
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
