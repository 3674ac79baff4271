//! Sources of measurements: a command in a process of its own, or any other implementation of
//! [`CellSource`] (tests have programs with exactly known space and time).

use crate::cell::{Canary, CellReport, CellRequest};
use crate::handling::Output;
use crate::launch::Launch;
use crate::plan::{COMPARE_PLACE, CellId, Plan};
use crate::vary::Target;
use heaplab_experiment::process;
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Carries out the cells of a plan.
pub trait CellSource {
    /// Runs one cell.
    ///
    /// # Errors
    /// [`Stopped`]: no further cell can or should run.
    fn run(&self, plan: &Plan, cell: CellId) -> Result<CellReport, Stopped>;

    /// Runs the canary.
    ///
    /// # Errors
    /// As [`CellSource::run`].
    fn canary(&self, plan: &Plan) -> Result<Canary, Stopped>;
}

/// Why no further cell is run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Stopped {
    /// The user ended the run.
    #[error("interrupted")]
    Interrupted,
    /// A cause that no other cell changes: a missing program, a failed hook.
    #[error("{0}")]
    Impossible(String),
}

/// Commands that a shell runs around the measured one.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
pub struct Hooks {
    /// Command that a shell runs once for each variant, before all runs.
    #[cfg_attr(feature = "clap", arg(long, value_name = "COMMAND"))]
    pub setup: Option<String>,
    /// Command that a shell runs before each run.
    #[cfg_attr(feature = "clap", arg(short, long, value_name = "COMMAND"))]
    pub prepare: Option<String>,
    /// Command that a shell runs after each run.
    #[cfg_attr(feature = "clap", arg(long, value_name = "COMMAND"))]
    pub conclude: Option<String>,
    /// Command that a shell runs once for each variant, after all runs.
    #[cfg_attr(feature = "clap", arg(short, long, value_name = "COMMAND"))]
    pub cleanup: Option<String>,
}

/// Runs each cell as a process, measured by another process (see [`crate::measure`]).
#[derive(Debug)]
pub struct Commands<'a> {
    /// The executable that measures, usually this one.
    pub executable: PathBuf,
    /// Arguments that make the executable measure.
    pub arguments: Vec<String>,
    /// Commands around cells.
    pub hooks: Hooks,
    /// The file on the command's standard input.
    pub input: Option<PathBuf>,
    /// Set when everything must end.
    pub stop: &'a AtomicBool,
}

/// Time for a measuring process to end its command, after it was told to end.
const END_WITHIN: Duration = Duration::from_secs(10);
/// Longest report of a cell.
const REPORT_BYTES_MAX: u64 = 16 << 20;
/// Most bytes kept of the errors of a hook or of the measuring process.
const ERROR_BYTES_MAX: u64 = 64 << 10;

impl Commands<'_> {
    /// Identifies the programs that run, if they are files.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn code_version(&self, plan: &Plan) -> io::Result<String> {
        let programs: Vec<PathBuf> = plan
            .variants
            .iter()
            .filter_map(|variant| variant.words.first())
            .map(|word| found(word))
            .collect();
        process::content_version(programs.iter().map(PathBuf::as_path))
    }

    /// Asks the runtime once before everything. A runtime that does not know the request (a JVM
    /// before 9) fails because of it, and is not asked again.
    ///
    /// # Errors
    /// The command cannot be run.
    pub fn check_runtime(&self, plan: &mut Plan) -> Result<(), Stopped> {
        if plan.runtime.is_none() {
            return Ok(());
        }
        let Some(cell) =
            plan.cells().into_iter().find(|cell| cell.setting == Some(plan.vary.values.len() - 1))
        else {
            return Ok(());
        };
        if let CellReport::Failed(failure) = self.run(plan, cell)?
            && !failure.timed_out
        {
            let untold = Plan { runtime: None, ..plan.clone() };
            if self.run(&untold, cell)?.measure().is_some() {
                *plan = untold;
            }
        }
        Ok(())
    }
}

/// A program's file, as a shell finds it.
fn found(program: &str) -> PathBuf {
    let in_path = || {
        let path = std::env::var_os("PATH")?;
        std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
    };
    if program.contains('/') { program.into() } else { in_path().unwrap_or_else(|| program.into()) }
}

impl CellSource for Commands<'_> {
    fn run(&self, plan: &Plan, cell: CellId) -> Result<CellReport, Stopped> {
        let Some(mut launch) = Launch::of(plan, cell) else {
            return Err(Stopped::Impossible(format!(
                "{}: there is no such cell",
                plan.label(cell)
            )));
        };
        self.hook("prepare", self.hooks.prepare.as_deref(), plan, cell)?;
        let logs = tempfile::tempdir().map_err(|error| {
            Stopped::Impossible(format!("no folder for logs can be made: {error}"))
        })?;
        if let Some(runtime) = plan.runtime {
            runtime.ask(&mut launch, logs.path());
        }
        if plan.settings.shell {
            launch = launch.through_shell();
        }
        let request = CellRequest {
            launch: Some(launch),
            input: self.input.clone(),
            timeout_ms: plan.settings.timeout_ms,
            interval_ms: plan.settings.interval_ms,
            cores: plan.settings.cores.clone(),
            runtime: plan.runtime,
            logs: Some(logs.path().into()),
            ignore_failure: plan.settings.ignore_failure.clone(),
            output: output(plan, cell),
        };
        let report = self.converse(&request)?;
        self.hook("conclude", self.hooks.conclude.as_deref(), plan, cell)?;
        match report {
            CellReport::Failed(failure) if failure.not_started => {
                Err(Stopped::Impossible(failure.reason))
            }
            report => Ok(report),
        }
    }

    fn canary(&self, plan: &Plan) -> Result<Canary, Stopped> {
        self.converse(&CellRequest { cores: plan.settings.cores.clone(), ..CellRequest::default() })
    }
}

impl Commands<'_> {
    /// Runs the hook for each variant, once, before everything.
    ///
    /// # Errors
    /// The hook fails.
    pub fn set_up(&self, plan: &Plan) -> Result<(), Stopped> {
        (0..plan.variants.len()).try_for_each(|variant| {
            self.hook("setup", self.hooks.setup.as_deref(), plan, CellId { variant, setting: None })
        })
    }

    /// Runs the hook for each variant, once, after everything.
    ///
    /// # Errors
    /// The hook fails.
    pub fn clean_up(&self, plan: &Plan) -> Result<(), Stopped> {
        (0..plan.variants.len()).try_for_each(|variant| {
            self.hook(
                "cleanup",
                self.hooks.cleanup.as_deref(),
                plan,
                CellId { variant, setting: None },
            )
        })
    }

    fn check(&self) -> Result<(), Stopped> {
        if self.stop.load(Ordering::Relaxed) { Err(Stopped::Interrupted) } else { Ok(()) }
    }

    /// Sends a question to a measuring process and reads its answer.
    fn converse<T: serde::de::DeserializeOwned>(
        &self,
        request: &CellRequest,
    ) -> Result<T, Stopped> {
        self.check()?;
        let impossible = |text: String| Stopped::Impossible(text);
        let shown = request.output == Output::Inherit;
        let mut command = Command::new(&self.executable);
        command
            .args(&self.arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(if shown { Stdio::inherit() } else { Stdio::piped() })
            .process_group(0);
        let mut child = command.spawn().map_err(|error| {
            impossible(format!("{} cannot be started: {error}", self.executable.display()))
        })?;
        let mut input = child.stdin.take();
        let question =
            serde_json::to_string(request).map_err(|error| impossible(error.to_string()))?;
        if let Some(input) = &mut input {
            // A process that died before it read its question is explained by its answer.
            let _ = input.write_all(format!("{question}\n").as_bytes());
        }
        let answer = child
            .stdout
            .take()
            .map(|stream| std::thread::spawn(move || read_all(stream, REPORT_BYTES_MAX)));
        let errors = child
            .stderr
            .take()
            .map(|stream| std::thread::spawn(move || read_all(stream, ERROR_BYTES_MAX)));
        self.wait(&mut child, || drop(input.take()))?;
        let text = |thread: Option<std::thread::JoinHandle<String>>| {
            thread.and_then(|thread| thread.join().ok()).unwrap_or_default()
        };
        let (answer, errors) = (text(answer), text(errors));
        serde_json::from_str(&answer).map_err(|error| {
            impossible(format!("the measuring process gave no report ({error}): {}", errors.trim()))
        })
    }

    /// Waits for a child. If everything must end, tells the child to end, and kills it if that does
    /// not help.
    fn wait(
        &self,
        child: &mut Child,
        tell: impl FnOnce(),
    ) -> Result<std::process::ExitStatus, Stopped> {
        let mut tell = Some(tell);
        let mut end: Option<Instant> = None;
        loop {
            if let Some(status) = child
                .try_wait()
                .map_err(|error| Stopped::Impossible(format!("a process was lost: {error}")))?
            {
                return self.check().map(|()| status);
            }
            if self.stop.load(Ordering::Relaxed) {
                if let Some(tell) = tell.take() {
                    tell();
                }
                if Instant::now() > *end.get_or_insert_with(|| Instant::now() + END_WITHIN) {
                    // The child may just end by itself; waiting is right in both cases.
                    let _ = child.kill();
                }
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn hook(
        &self,
        which: &str,
        hook: Option<&str>,
        plan: &Plan,
        cell: CellId,
    ) -> Result<(), Stopped> {
        let Some(hook) = hook else { return Ok(()) };
        self.check()?;
        let line = filled(hook, plan, cell);
        let mut command = Command::new("/bin/sh");
        command
            .arg("-c")
            .arg(&line)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .process_group(0);
        let failed = |reason: String| Stopped::Impossible(format!("--{which}: {line}: {reason}"));
        let mut child = command.spawn().map_err(|error| failed(error.to_string()))?;
        // A server that a hook starts may keep its standard error open as long as it runs: nothing
        // waits for this stream's end.
        let errors = child
            .stderr
            .take()
            .map(|stream| std::thread::spawn(move || read_all(stream, ERROR_BYTES_MAX)));
        let pid = child.id();
        let status = self.wait(&mut child, || {
            if let Some(group) = rustix::process::Pid::from_raw(pid as i32) {
                // A group that no longer exists is no error.
                let _ = rustix::process::kill_process_group(group, rustix::process::Signal::TERM);
            }
        })?;
        if status.success() {
            return Ok(());
        }
        let said = errors.and_then(|thread| thread.join().ok()).unwrap_or_default();
        Err(failed(heaplab_experiment::process::describe(status, &said)))
    }
}

/// `text` with the cell's variant and value in their places.
fn filled(text: &str, plan: &Plan, cell: CellId) -> String {
    let variant = plan.variants.get(cell.variant).map_or("", |variant| variant.text.as_str());
    let text = text.replace(COMPARE_PLACE, variant);
    match (&plan.vary.target, cell.setting.and_then(|index| plan.vary.values.get(index))) {
        (Target::Name(name), Some(value)) => {
            text.replace(&format!("{{{name}}}"), &plan.vary.with(value))
        }
        _ => text,
    }
}

/// The destination of the cell's output.
fn output(plan: &Plan, cell: CellId) -> Output {
    match &plan.settings.output {
        Output::File(name) => Output::File(filled(name, plan, cell)),
        other => other.clone(),
    }
}

/// Reads a stream to its end and keeps the beginning: a writer must not fail for lack of a reader.
fn read_all(mut stream: impl Read, limit: u64) -> String {
    let mut bytes = Vec::new();
    // Bytes before an error are still useful.
    let _ = stream.by_ref().take(limit).read_to_end(&mut bytes);
    let _ = std::io::copy(&mut stream, &mut std::io::sink());
    String::from_utf8_lossy(&bytes).into_owned()
}
