//! A user's names for a recording's processes: the pid, and a number if the pid ran several
//! programs.

use super::Process;

/// The rows that satisfy `is_so`; rows without a recording only if there are no others.
pub fn recorded_first(processes: &[Process], is_so: impl Fn(&Process) -> bool) -> Vec<usize> {
    let rows = |refused: bool| -> Vec<usize> {
        let fits = |(_, process): &(usize, &Process)| {
            process.refused.is_some() == refused && is_so(process)
        };
        processes.iter().enumerate().filter(fits).map(|(row, _)| row).collect()
    };
    let recorded = rows(false);
    if recorded.is_empty() { rows(true) } else { recorded }
}

/// The pid of this row, or `PID#2` for the second program of this pid (after an exec).
pub fn process_label(processes: &[Process], row: usize) -> String {
    let Some(pid) = processes.get(row).map(|process| process.pid) else {
        return format!("process {row}");
    };
    let rows = recorded_first(processes, |process| process.pid == pid);
    match rows.iter().position(|other| *other == row) {
        Some(before) if rows.len() > 1 => format!("{pid}#{}", before + 1),
        _ => pid.to_string(),
    }
}

impl Process {
    /// The last part of the path of its program.
    pub fn program_name(&self) -> &str {
        self.executable.rsplit('/').next().unwrap_or(&self.executable)
    }

    /// Whether it ran at this time, as far as known.
    pub fn ran_at(&self, time_ns: u64) -> bool {
        self.began_ns <= time_ns && self.ended_ns.is_none_or(|ended| time_ns <= ended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_pid_that_ran_several_programs_needs_a_number() {
        let process = |pid, name: &str| Process {
            pid,
            executable: format!("/bin/{name}"),
            ..Process::default()
        };
        let refused =
            Process { refused: Some("no dynamic linker".into()), ..process(8, "busybox") };
        let all = [process(7, "env"), process(8, "sh"), process(7, "bash"), refused];
        let labels: Vec<String> = (0..5).map(|row| process_label(&all, row)).collect();
        assert_eq!(labels, ["7#1", "8", "7#2", "8", "process 4"]);
        assert_eq!(all[2].program_name(), "bash");
    }
}
