//! A headless Chromium with a new profile. The browser ends when the value is dropped or the thread
//! that started it ends, also if that is killed.

use crate::CaptureError;
use rustix::process::{Signal, geteuid, set_parent_process_death_signal};
use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Under which names a Chromium is looked for.
const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];
/// How long it may take to listen.
const START: Duration = Duration::from_secs(60);
/// Between two looks at whether it listens, or has let go of its profile.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// Its processes may write into the profile for a moment when it has been ended.
const REMOVALS: u32 = 40;

/// A browser that runs.
#[derive(Debug)]
pub struct Browser {
    child: Child,
    profile: tempfile::TempDir,
    address: String,
}

impl Browser {
    /// Starts a browser: this one, or the first that there is. Chromium cannot keep its pages in a
    /// sandbox where root runs it, and is told not to.
    ///
    /// # Errors
    /// There is none, or it does not listen.
    pub fn start(command: Option<&Path>) -> Result<Browser, CaptureError> {
        let profile = tempfile::Builder::new().prefix("heaplab-chromium-").tempdir();
        let profile = profile.map_err(|error| {
            CaptureError::Browser(format!("cannot make a folder for its profile: {error}"))
        })?;
        let names = match command {
            Some(command) => vec![command],
            None => NAMES.iter().map(Path::new).collect(),
        };
        let mut why = None;
        for name in names {
            match start(name, profile.path()) {
                Ok(child) => {
                    let mut browser = Browser { child, profile, address: String::new() };
                    browser.address = browser.listens(name)?;
                    return Ok(browser);
                }
                Err(error) => {
                    why.get_or_insert(format!("{} cannot be started: {error}", name.display()));
                }
            }
        }
        Err(CaptureError::Browser(why.unwrap_or_default()))
    }

    /// Where it listens: `127.0.0.1:PORT`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Waits until it has chosen its port.
    fn listens(&mut self, name: &Path) -> Result<String, CaptureError> {
        let began = Instant::now();
        loop {
            // Two lines: the port and the browser's own target.
            let told = fs::read_to_string(self.profile.path().join("DevToolsActivePort"));
            if let Some((port, _)) = told.unwrap_or_default().split_once('\n') {
                return Ok(format!("127.0.0.1:{port}"));
            }
            let name = name.display();
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(CaptureError::Browser(format!("{name} ended by itself ({status})")));
            }
            if began.elapsed() > START {
                let seconds = START.as_secs();
                let why = format!("{name} opened no debugging port within {seconds} s");
                return Err(CaptureError::Browser(why));
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }
}

fn start(name: &Path, profile: &Path) -> io::Result<Child> {
    let mut command = Command::new(name);
    command.args(["--headless=new", "--disable-gpu", "--disable-dev-shm-usage"]);
    command.args(["--no-first-run", "--remote-debugging-port=0", "--window-size=1280,800"]);
    if geteuid().is_root() {
        command.arg("--no-sandbox");
    }
    command.arg(format!("--user-data-dir={}", profile.display())).arg("about:blank");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // SAFETY: between fork and exec only one call of the kernel is made, on a number.
    unsafe {
        command.pre_exec(|| Ok(set_parent_process_death_signal(Some(Signal::KILL))?));
    }
    command.spawn()
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        for _ in 0..REMOVALS {
            match fs::remove_dir_all(self.profile.path()) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    std::thread::sleep(LOOK_AGAIN)
                }
                _ => break,
            }
        }
    }
}
