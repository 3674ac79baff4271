//! A cell as a fresh process: the same executable again, with its request on standard input.
//!
//! Its environment has only the variables that the heap's parameters need and the path of
//! libraries: allocators read a dozen variables, and even the environment's length moves the stack.
//! It gets the replay program as an open file. A path's length would move glibc's heap, which the
//! cell itself uses too, and a workload in a folder with a longer name would need another page.
//! The same holds for the executable's path, which the kernel puts above the stack: a cell is
//! started by a descriptor. What differs between the cells of two heaps is padded to whole pages.
//! Space cells run without address space randomisation, so that two of them lay out memory alike.
//! Time cells run with it, so that no single layout's luck decides.

use heaplab_replay::{CellKind, CellReport, CellRequest};
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use xxhash_rust::xxh3::Xxh3;

/// Runs cells. Tests have runners of their own.
pub trait CellRunner {
    /// Runs one cell; the error describes the failure in words.
    fn run(
        &self,
        request: &CellRequest,
        environment: &[(String, String)],
    ) -> Result<CellReport, String>;

    /// Whether no further cell may run.
    fn is_stopped(&self) -> bool {
        false
    }
}

/// Runs each cell in a process of its own.
#[derive(Clone, Debug)]
pub struct Processes<'a> {
    /// The executable, usually this one.
    pub executable: PathBuf,
    /// Arguments that make the executable serve a cell.
    pub arguments: Vec<String>,
    /// A cell that runs longer is ended and counts as failed.
    pub limit: Duration,
    /// Set: ends the running cell.
    pub stop: Option<&'a AtomicBool>,
}

/// Variables of this process's environment that a cell keeps.
pub const KEPT: [&str; 1] = ["LD_LIBRARY_PATH"];
/// Number of the open replay program in a cell's process: higher than heaplab's own descriptors.
const PROGRAM_DESCRIPTOR: i32 = 63;
/// Number of the open executable.
const EXECUTABLE_DESCRIPTOR: i32 = 62;
/// The variable that fills the page of arguments and environment.
const PADDING: &str = "HEAPLAB_LAYOUT";
/// Longest kept text of a cell's standard error.
const ERROR_BYTES_MAX: u64 = 64 * 1024;

impl CellRunner for Processes<'_> {
    fn run(
        &self,
        request: &CellRequest,
        environment: &[(String, String)],
    ) -> Result<CellReport, String> {
        let not_started =
            |error| format!("{} cannot be started: {error}", self.executable.display());
        let executable = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_PATH)
            .open(&self.executable)
            .map_err(not_started)?;
        let mut command = Command::new(format!("/proc/self/fd/{EXECUTABLE_DESCRIPTOR}"));
        command
            .arg0(self.executable.file_name().unwrap_or(self.executable.as_os_str()))
            .args(&self.arguments)
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command.envs(KEPT.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        command.env(PADDING, padding(&self.executable, &command));
        let program = File::open(&request.program)
            .map_err(|error| format!("{} cannot be opened: {error}", request.program.display()))?;
        let is_laid_out_alike = matches!(request.kind, CellKind::Space | CellKind::Verify);
        let (descriptor, own) = (program.as_raw_fd(), executable.as_raw_fd());
        // SAFETY: fcntl, dup2 and personality are system calls and nothing else, which is allowed
        // between fork and exec; both files are open until after the spawn.
        unsafe {
            command.pre_exec(move || {
                // Either may have the other's number.
                let above = PROGRAM_DESCRIPTOR + 1;
                let own = libc::fcntl(own, libc::F_DUPFD_CLOEXEC, above);
                let descriptor = libc::fcntl(descriptor, libc::F_DUPFD_CLOEXEC, above);
                if own < 0
                    || descriptor < 0
                    || libc::dup2(descriptor, PROGRAM_DESCRIPTOR) < 0
                    || libc::dup2(own, EXECUTABLE_DESCRIPTOR) < 0
                {
                    return Err(std::io::Error::last_os_error());
                }
                if is_laid_out_alike {
                    // If the system refuses, layouts differ from run to run; that costs only
                    // precision.
                    libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong);
                }
                Ok(())
            });
        }
        let request = CellRequest {
            program: format!("/proc/self/fd/{PROGRAM_DESCRIPTOR}").into(),
            ..request.clone()
        };
        let child = command.spawn().map_err(not_started)?;
        drop((program, executable));
        let question = serde_json::to_vec(&request).map_err(|error| error.to_string())?;
        let (status, output, errors) = self.converse(child, &question)?;
        match serde_json::from_slice::<CellReport>(&output) {
            Ok(CellReport::Failed { reason }) => Err(reason),
            Ok(report) if status.success() => Ok(report),
            _ => Err(describe(status, &errors)),
        }
    }

    fn is_stopped(&self) -> bool {
        self.stop.is_some_and(|stop| stop.load(Ordering::Relaxed))
    }
}

/// So many letters that arguments and environment fill whole pages, pointers to them included.
fn padding(executable: &Path, command: &Command) -> String {
    const PAGE: usize = 4096;
    let name = executable.file_name().map_or(0, OsStr::len);
    let arguments = command.get_args().map(|argument| argument.len() + 1);
    let variables = command.get_envs().filter_map(|(name, value)| Some((name, value?)));
    let variables = variables.map(|(name, value)| name.len() + value.len() + 2);
    let bytes: usize = arguments.chain(variables).map(|bytes| bytes + size_of::<*const u8>()).sum();
    let all = name + bytes + PADDING.len() + 2;
    "x".repeat(all.next_multiple_of(PAGE) - all)
}

impl Processes<'_> {
    /// Asks, reads the answer and the errors to their ends, and waits; ends the process when its
    /// time is over.
    fn converse(
        &self,
        mut child: Child,
        question: &[u8],
    ) -> Result<(ExitStatus, Vec<u8>, String), String> {
        if let Some(mut input) = child.stdin.take() {
            // A process that died before it read its question is described by its status.
            let _ = input.write_all(question);
        }
        let (output, errors) = (child.stdout.take(), child.stderr.take());
        let output = std::thread::spawn(move || read_all(output));
        let errors =
            std::thread::spawn(move || read_all(errors.map(|errors| errors.take(ERROR_BYTES_MAX))));
        let began = Instant::now();
        let status = loop {
            match child.try_wait() {
                Ok(Some(status)) => break status,
                Ok(None) if began.elapsed() > self.limit || self.is_stopped() => {
                    // The cell may end by itself at this moment; waiting for it is right in both
                    // cases.
                    let _ = child.kill();
                    let _ = child.wait();
                    return Err(if self.is_stopped() {
                        "it was interrupted".into()
                    } else {
                        format!("it did not end within {} s", self.limit.as_secs())
                    });
                }
                Ok(None) => std::thread::sleep(Duration::from_millis(2)),
                Err(error) => return Err(format!("its process was lost: {error}")),
            }
        };
        let (output, errors) =
            (output.join().unwrap_or_default(), errors.join().unwrap_or_default());
        Ok((status, output, String::from_utf8_lossy(&errors).into_owned()))
    }
}

fn read_all(stream: Option<impl Read>) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(mut stream) = stream {
        // The part read before an error still tells something.
        let _ = stream.read_to_end(&mut bytes);
    }
    bytes
}

/// The end of a process: its status or the name of its signal, and its last line.
pub fn describe(status: ExitStatus, errors: &str) -> String {
    let said = errors
        .lines()
        .rev()
        .find(|line| !line.trim().is_empty())
        .map(|line| format!(": {}", line.trim()))
        .unwrap_or_default();
    match (status.signal(), status.code()) {
        (Some(signal), _) => format!("it was ended by {}{said}", signal_name(signal)),
        (None, Some(0)) => format!("it gave no report{said}"),
        (None, code) => format!("it ended with status {}{said}", code.unwrap_or(-1)),
    }
}

fn signal_name(signal: i32) -> String {
    let name = match signal {
        libc::SIGSEGV => "SIGSEGV (invalid memory reference)",
        libc::SIGABRT => "SIGABRT (the allocator or the program gave up)",
        libc::SIGBUS => "SIGBUS (memory that is not there)",
        libc::SIGKILL => "SIGKILL (by the system where memory ran out, or by somebody)",
        libc::SIGILL => "SIGILL (illegal instruction)",
        libc::SIGTRAP => "SIGTRAP",
        libc::SIGFPE => "SIGFPE",
        libc::SIGTERM => "SIGTERM",
        libc::SIGINT => "SIGINT",
        other => return format!("signal {other}"),
    };
    name.into()
}

/// The last processor that this process may run on; the first ones serve most interrupts. `None`
/// where the system does not say.
pub fn last_processor() -> Option<u32> {
    // SAFETY: all-zero bytes are an empty set, it may be written, and indices stay below its size.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        if libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set) != 0 {
            return None;
        }
        (0..libc::CPU_SETSIZE as usize)
            .rev()
            .find(|core| libc::CPU_ISSET(*core, &set))
            .map(|core| core as u32)
    }
}

/// Identifies the content of `files`: the program that runs cells, its replay program, and the
/// libraries that it loads.
pub fn content_version<'a>(files: impl Iterator<Item = &'a Path>) -> std::io::Result<String> {
    let mut hash = Xxh3::new();
    let mut buffer = vec![0; 1 << 18];
    for path in files {
        let Ok(mut file) = File::open(path) else {
            // A library found along the loader's path has no content here; its name stands for it.
            hash.update(path.as_os_str().as_encoded_bytes());
            continue;
        };
        let mut length = 0_u64;
        loop {
            let read = file.read(&mut buffer)?;
            if read == 0 {
                break;
            }
            hash.update(&buffer[..read]);
            length += read as u64;
        }
        // Marks the end of this file.
        hash.update(&length.to_le_bytes());
    }
    Ok(format!("{:016x}", hash.digest()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use heaplab_replay::Touch;

    fn ask(script: &str, limit: u64) -> Result<CellReport, String> {
        let arguments = vec![String::from("-c"), script.into()];
        let processes = Processes {
            executable: "/bin/sh".into(),
            arguments,
            limit: Duration::from_secs(limit),
            stop: None,
        };
        let request = CellRequest {
            heap: "glibc".into(),
            kind: CellKind::Canary,
            program: std::env::current_exe().unwrap(),
            touch: Touch::Known,
            threads: false,
            passes: 1,
            core: None,
            huge_pages: true,
        };
        processes.run(&request, &[("KNOB".into(), "3".into())])
    }

    #[test]
    fn a_report_is_read_and_the_environment_is_clean() {
        let report =
            ask(r#"cat >/dev/null; [ -z "$HOME" ] && echo "{\"canary\":{\"ns\":$KNOB}}""#, 600);
        assert_eq!(report, Ok(CellReport::Canary { ns: 3 }));
    }

    #[test]
    fn arguments_and_environment_fill_pages() {
        let all = |executable: &str, value: &str| {
            let mut command = Command::new(executable);
            command.arg("--cell").env_clear().env("KNOB", value);
            let padding = padding(Path::new(executable), &command).len();
            let name = executable.rsplit('/').next().unwrap().len();
            name + "--cell".len() + value.len() + padding
        };
        let short = all("/a/heaplab", "1");
        assert_eq!(short, all("/a/longer/folder/heaplab", "1"));
        assert_eq!(short, all("/a/another-name", "a longer value"));
        assert_eq!(short + 4096, all("/a/heaplab", &"x".repeat(4096)));
    }

    #[test]
    fn failures_are_said_in_words() {
        assert_eq!(
            ask("kill -SEGV $$", 600).unwrap_err(),
            "it was ended by SIGSEGV (invalid memory reference)"
        );
        assert_eq!(ask("echo boom >&2; exit 3", 600).unwrap_err(), "it ended with status 3: boom");
        assert_eq!(ask(r#"echo '{"failed":{"reason":"NULL"}}'; exit 1"#, 600).unwrap_err(), "NULL");
        assert_eq!(ask("exit 0", 600).unwrap_err(), "it gave no report");
        assert_eq!(ask("exec sleep 30", 0).unwrap_err(), "it did not end within 0 s");
    }
}
