//! The processes of the recording, and the threads of the shown ones.

use super::words;
use crate::Report;
use crate::page::{compose::shorten, limits, model};
use heaplab_trace::tables::{Began, Ended, Process, Tables, process_label};
use std::cmp::Reverse;

pub(crate) fn processes(sources: &Report<'_>, left_out: &mut Vec<String>) -> Vec<model::Process> {
    let processes = &sources.tables.processes;
    if processes.len() > limits::PROCESSES {
        left_out.push(format!(
            "Processes: the last {} of {}.",
            words::count((processes.len() - limits::PROCESSES) as u64),
            words::count(processes.len() as u64)
        ));
    }
    let row = |(row, process): (usize, &Process)| model::Process {
        label: process_label(processes, row),
        name: shorten(process.program_name(), limits::NAME_CHARS),
        life: life(process),
        shown: sources.process.is_none_or(|shown| shown as usize == row),
        refused: process.refused.clone(),
    };
    processes.iter().enumerate().take(limits::PROCESSES).map(row).collect()
}

/// A process in words: "7#2 (bash)".
pub(crate) fn process_name(tables: &Tables, row: u32) -> String {
    let name = tables.processes.get(row as usize).map_or("", Process::program_name);
    format!(
        "{} ({})",
        process_label(&tables.processes, row as usize),
        shorten(name, limits::NAME_CHARS)
    )
}

fn life(process: &Process) -> String {
    let began = match process.began {
        Began::Started => "started",
        Began::Fork => "forked",
        Began::Exec => "became this program by exec",
    };
    match process.ended {
        Ended::Unknown if process.ended_ns.is_some() => format!("{began}, ended"),
        Ended::Unknown => format!("{began}, its end was not seen"),
        Ended::Exited(status) => format!("{began}, exited with {status}"),
        Ended::Signalled(signal) => format!("{began}, ended by signal {signal}"),
        Ended::Exec => format!("{began}, became another program"),
    }
}

pub(crate) fn threads(sources: &Report<'_>, left_out: &mut Vec<String>) -> Vec<model::Thread> {
    let mut rows: Vec<_> = sources.profile.threads.iter().collect();
    rows.sort_by_key(|row| (Reverse(row.requested.bytes), row.thread));
    if rows.len() > limits::THREADS {
        left_out.push(format!(
            "Threads: the {} that asked for least.",
            words::count((rows.len() - limits::THREADS) as u64)
        ));
    }
    let rows = rows.into_iter().take(limits::THREADS);
    rows.map(|row| model::Thread {
        name: thread_name(sources, row.thread),
        requests: row.requested.objects,
        requested_bytes: row.requested.bytes,
        frees: row.frees,
        cross_thread_frees: row.cross_thread_frees,
    })
    .collect()
}

/// A thread's name and number.
pub(super) fn thread_name(sources: &Report<'_>, thread: u32) -> String {
    match sources.tables.threads.get(thread as usize) {
        Some(thread) if !thread.name.is_empty() => {
            format!("{} ({})", shorten(&thread.name, limits::NAME_CHARS), thread.tid)
        }
        Some(thread) => thread.tid.to_string(),
        None => format!("thread {thread}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_without_a_status_is_an_end() {
        assert_eq!(life(&Process::default()), "started, its end was not seen");
        let worker = Process { ended_ns: Some(9), ..Process::default() };
        assert_eq!(life(&worker), "started, ended");
    }
}
