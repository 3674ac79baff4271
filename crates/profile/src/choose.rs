//! What of a recording to look at: which process (`--process`), and which moment (`--at`). One way
//! to say it for all commands.

use crate::{At, process_peaks};
use heaplab_text::words;
use heaplab_trace::{
    TraceError,
    bundle::{Bundle, Selection},
    tables::{Process, Tables, process_label, recorded_first},
};
use thiserror::Error;

/// Choices that a message lists.
const CHOICES_MAX: usize = 30;

/// Why nothing was chosen.
#[derive(Debug, Error)]
pub enum ChooseError {
    /// The recording has no such process or moment, or has several; the message lists what there
    /// is.
    #[error("{0}")]
    NotThere(String),
    /// The events cannot be read.
    #[error(transparent)]
    Unread(#[from] TraceError),
}

/// Gives [`ChooseError::NotThere`] with these words.
macro_rules! not_there {
    ($($text:tt)*) => { return Err(ChooseError::NotThere(format!($($text)*))) };
}

/// The events of the process that `wanted` names: a pid, the name of its program, or `all`. Without
/// a wish, the process with the largest peak of live bytes. A process that became other programs is
/// one of several of its pid: `PID#2` is the second.
///
/// # Errors
/// No process is so called, or several are (the message lists what can be chosen), or the events
/// cannot be read.
pub fn process(bundle: &Bundle, wanted: Option<&str>) -> Result<Selection, ChooseError> {
    let processes = &bundle.tables().processes;
    let Some(wanted) = wanted else {
        if processes.len() < 2 {
            return Ok(Selection::default());
        }
        let peaks = process_peaks(&mut bundle.events(Selection::default())?)?;
        return Ok(Selection { process: peaks.first().map(|peak| peak.process) });
    };
    if wanted == "all" {
        return Ok(Selection::default());
    }
    let rows = processes_called(processes, wanted);
    match rows[..] {
        [row] => Ok(Selection { process: Some(row as u32) }),
        [] => not_there!(
            "no process is called {wanted:?}; there are: {}",
            process_choices(processes, 0..processes.len())
        ),
        _ => {
            not_there!(
                "{} processes are called {wanted:?}; choose one of: {}",
                rows.len(),
                process_choices(processes, rows.iter().copied())
            )
        }
    }
}

/// The rows that `wanted` may mean: a pid, a program's name, or the n-th of these where it ends in
/// `#n`.
fn processes_called(processes: &[Process], wanted: &str) -> Vec<usize> {
    let pid = wanted.parse::<u32>().ok();
    let rows = recorded_first(processes, |process| {
        Some(process.pid) == pid || process.program_name() == wanted
    });
    if !rows.is_empty() {
        return rows;
    }
    let nth = wanted.rsplit_once('#').and_then(|(name, number)| {
        let number = number.parse::<usize>().ok()?.checked_sub(1)?;
        processes_called(processes, name).get(number).copied()
    });
    nth.into_iter().collect()
}

fn process_choices(processes: &[Process], rows: impl ExactSizeIterator<Item = usize>) -> String {
    let more = rows.len().saturating_sub(CHOICES_MAX);
    let shown = rows
        .take(CHOICES_MAX)
        .map(|row| format!("{} {}", process_label(processes, row), processes[row].program_name()));
    let shown = shown.collect::<Vec<_>>().join(", ");
    if more == 0 { shown } else { format!("{shown} and {more} more") }
}

/// The same error with the recording's name: a pass over events does not know whose they are.
pub fn of_recording(bundle: &Bundle) -> impl FnOnce(TraceError) -> TraceError {
    let path = bundle.path().join(heaplab_trace::bundle::EVENTS_FILE);
    move |error| match error {
        TraceError::Order { row, what, .. } => TraceError::Order { path, row, what },
        other => other,
    }
}

/// A moment of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chosen {
    /// When the most requested bytes were live.
    Peak,
    /// After the last event.
    End,
    /// Any other.
    At(At),
}

/// The moment that `text` names: `peak`, `end`, the name of a mark (the first of that name;
/// `NAME#2` is the second), or a time since the beginning such as `1.5s`.
///
/// # Errors
/// It is none of these (the message lists the marks there are).
pub fn moment(tables: &Tables, selection: Selection, text: &str) -> Result<Chosen, ChooseError> {
    match text {
        "peak" => return Ok(Chosen::Peak),
        "end" => return Ok(Chosen::End),
        _ => {}
    }
    if let Some(row) = mark_row(tables, text) {
        let mark = &tables.marks[row];
        // The mark's own event may belong to another process; its time is the same for all.
        let is_selected = selection.process.is_none() || selection.process == mark.process;
        return Ok(Chosen::At(if is_selected {
            At::Mark(row as u32)
        } else {
            At::Time(mark.time_ns)
        }));
    }
    let marks: Vec<String> = (0..tables.marks.len()).map(|row| mark_label(tables, row)).collect();
    let marks = if marks.is_empty() {
        "this recording has no marks".into()
    } else {
        format!("the marks are: {}", marks.join(", "))
    };
    match nanoseconds(text) {
        Some(time_ns) => Ok(Chosen::At(At::Time(time_ns))),
        None if text.starts_with("collection:") => not_there!(
            "{text:?} is a moment of a heap: name the heap with --on, such as --on v8:many"
        ),
        None => not_there!(
            "{text:?} is no moment: write peak, end, a mark, or a time such as 1.5s or 300ms ({marks})"
        ),
    }
}

/// The mark of that name, or the n-th of it where `text` ends in `#n`.
fn mark_row(tables: &Tables, text: &str) -> Option<usize> {
    let nth = |name: &str, nth: usize| {
        let mut rows = tables.marks.iter().enumerate().filter(|(_, mark)| mark.name == name);
        rows.nth(nth.checked_sub(1)?).map(|(row, _)| row)
    };
    nth(text, 1).or_else(|| {
        let (name, number) = text.rsplit_once('#')?;
        nth(name, number.parse().ok()?)
    })
}

/// What names this mark alone, and its time.
fn mark_label(tables: &Tables, row: usize) -> String {
    format!("{} ({})", tables.mark_name(row), words::duration(tables.marks[row].time_ns))
}

/// Whether a text is a moment of every recording: a mark of this name would be mistaken for it.
pub fn is_of_every_recording(text: &str) -> bool {
    matches!(text, "peak" | "end") || nanoseconds(text).is_some()
}

/// A time such as `2min`, `1.5s`, `300ms`, `20us` or `7ns`, in nanoseconds.
pub fn nanoseconds(text: &str) -> Option<u64> {
    let units = [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9), ("min", 60e9)];
    let (number, factor) =
        units.iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, factor)))?;
    let nanoseconds = number.trim().parse::<f64>().ok()? * factor;
    (nanoseconds >= 0.0 && nanoseconds < u64::MAX as f64).then(|| nanoseconds.round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use heaplab_trace::tables::Mark;

    #[test]
    fn times_have_units() {
        assert_eq!(nanoseconds("1.5s"), Some(1_500_000_000));
        assert_eq!(nanoseconds("300ms"), Some(300_000_000));
        assert_eq!(nanoseconds("2us"), Some(2_000));
        assert_eq!(nanoseconds("7ns"), Some(7));
        assert_eq!(nanoseconds("2min"), Some(120_000_000_000));
        for text in ["", "5", "s", "-1s", "nans", "infs", "1e30s", "1 m"] {
            assert_eq!(nanoseconds(text), None, "{text}");
        }
    }

    #[test]
    fn programs_of_one_pid_are_told_apart() {
        let process = |pid, name: &str| Process {
            pid,
            executable: format!("/bin/{name}"),
            ..Process::default()
        };
        let refused = |pid, name: &str| Process {
            refused: Some("no dynamic linker".into()),
            ..process(pid, name)
        };
        let all = [
            process(7, "env"),
            process(8, "sh"),
            process(7, "bash"),
            refused(8, "busybox"),
            process(7, "python3"),
            process(9, "sh"),
        ];
        for (text, rows) in [
            ("7", &[0, 2, 4][..]),
            ("7#1", &[0]),
            ("7#2", &[2]),
            ("7#3", &[4]),
            ("8", &[1]),
            ("8#1", &[1]),
            ("busybox", &[3]),
            ("python3", &[4]),
            ("sh", &[1, 5]),
            ("sh#2", &[5]),
            ("7#4", &[]),
            ("7#0", &[]),
            ("7#", &[]),
            ("#1", &[]),
        ] {
            assert_eq!(processes_called(&all, text), rows, "{text}");
        }
        let labels: Vec<String> = (0..all.len()).map(|row| process_label(&all, row)).collect();
        assert_eq!(labels, ["7#1", "8", "7#2", "8", "7#3", "9"]);
        assert_eq!(process_choices(&all, [0, 2, 4].into_iter()), "7#1 env, 7#2 bash, 7#3 python3");
        let many: Vec<Process> = (1..=40).map(|pid| process(pid, "sh")).collect();
        assert!(process_choices(&many, 0..40).ends_with("30 sh and 10 more"));
    }

    #[test]
    fn a_mark_comes_before_a_time_and_the_first_of_its_name_counts() {
        let mark = |name: &str, time_ns, process| Mark { name: name.into(), time_ns, process };
        let marks =
            vec![mark("1s", 5, None), mark("loaded", 7, Some(1)), mark("loaded", 9, Some(0))];
        let tables = Tables { marks, ..Tables::default() };
        let all = Selection::default();
        let one = Selection { process: Some(0) };
        assert_eq!(moment(&tables, all, "peak").unwrap(), Chosen::Peak);
        assert_eq!(moment(&tables, all, "1s").unwrap(), Chosen::At(At::Mark(0)));
        assert_eq!(moment(&tables, all, "2s").unwrap(), Chosen::At(At::Time(2_000_000_000)));
        assert_eq!(moment(&tables, all, "loaded").unwrap(), Chosen::At(At::Mark(1)));
        assert_eq!(moment(&tables, one, "loaded").unwrap(), Chosen::At(At::Time(7)));
        let error = moment(&tables, all, "never").unwrap_err().to_string();
        assert!(
            error.contains("\"never\"")
                && error.contains("1s (5 ns), loaded (7 ns), loaded#2 (9 ns)"),
            "{error}"
        );
    }

    #[test]
    fn marks_of_one_name_are_told_apart() {
        let mark = |name: &str, time_ns| Mark { name: name.into(), time_ns, process: None };
        let tables = Tables {
            marks: vec![mark("signal", 5), mark("a#2", 6), mark("signal", 7_000_000)],
            ..Tables::default()
        };
        let at = |text| moment(&tables, Selection::default(), text);
        for (text, row) in
            [("signal", 0), ("signal#1", 0), ("signal#2", 2), ("a#2", 1), ("a#2#1", 1)]
        {
            assert_eq!(at(text).unwrap(), Chosen::At(At::Mark(row)), "{text}");
        }
        for text in ["signal#3", "signal#0", "signal#", "a", "#1"] {
            let error = at(text).unwrap_err().to_string();
            assert!(error.contains("signal (5 ns), a#2 (6 ns), signal#2 (7.0 ms)"), "{error}");
        }
    }
}
