//! A Firefox without a window, driven over Marionette, its remote protocol: messages of JSON, each
//! behind its length, on a socket of the loopback address.

use anyhow::{Context, Result, bail, ensure};
use heaplab_about::Saved;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// One process for all pages of files, as a browser of 2011 had one for everything; nothing asked
/// of the network.
const PREFERENCES: &str = r#"
user_pref("marionette.port", 0);
user_pref("fission.autostart", false);
user_pref("dom.ipc.processCount", 1);
user_pref("dom.ipc.processPrelaunch.enabled", false);
user_pref("browser.shell.checkDefaultBrowser", false);
user_pref("browser.startup.homepage_override.mstone", "ignore");
user_pref("datareporting.policy.dataSubmissionEnabled", false);
user_pref("app.normandy.enabled", false);
user_pref("services.settings.server", "data:,");
user_pref("network.captive-portal-service.enabled", false);
user_pref("network.connectivity-service.enabled", false);
"#;
const START_MAX: Duration = Duration::from_secs(60);
const SCRIPT_MS_MAX: u64 = 300_000;
const QUIT_MAX: Duration = Duration::from_secs(20);
const MESSAGE_BYTES_MAX: usize = 64 << 20;
const SAVE: &str = r#"
const [path, done] = arguments;
Cc["@mozilla.org/memory-info-dumper;1"].getService(Ci.nsIMemoryInfoDumper)
  .dumpMemoryReportsToNamedFile(path, () => done(true), null, false, false);
"#;

/// The Firefox that `HEAPLAB_FIREFOX` names, or the one on the path.
pub fn find() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("HEAPLAB_FIREFOX") {
        return Some(named.into());
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .flat_map(|folder| ["firefox-esr", "firefox"].map(|name| folder.join(name)))
        .find(|program| program.is_file())
}

/// A running Firefox; dropped, it ends.
pub struct Firefox {
    child: Child,
    stream: BufReader<TcpStream>,
    asked: u64,
    /// "153.8.0".
    pub version: String,
    folder: tempfile::TempDir,
}

impl Firefox {
    /// Starts `program` with a new profile; `preload` is an object for the dynamic linker.
    ///
    /// # Errors
    /// It does not start, or does not answer.
    pub fn start(program: &Path, preload: Option<&Path>) -> Result<Firefox> {
        let folder = tempfile::tempdir()?;
        std::fs::write(folder.path().join("user.js"), PREFERENCES)?;
        let log = std::fs::File::create(folder.path().join("log"))?;
        let mut command = Command::new(program);
        command
            .args(["--headless", "-marionette", "--remote-allow-system-access", "--no-remote"])
            .arg("--profile")
            .arg(folder.path())
            .env("HOME", folder.path())
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        if let Some(preload) = preload {
            command.env("LD_PRELOAD", preload);
        }
        let mut child =
            command.spawn().with_context(|| format!("cannot start {}", program.display()))?;
        let stream = match connect(&mut child, folder.path()) {
            Ok(stream) => stream,
            Err(error) => {
                end(&mut child);
                let log = std::fs::read_to_string(folder.path().join("log")).unwrap_or_default();
                let said = format!("{} {}", program.display(), log.trim());
                return Err(error.context(said.trim_end().to_owned()));
            }
        };
        let mut firefox = Firefox {
            child,
            stream: BufReader::new(stream),
            asked: 0,
            version: String::new(),
            folder,
        };
        firefox.message()?;
        let session = firefox.ask("WebDriver:NewSession", &json!({ "capabilities": {} }))?;
        firefox.version =
            session["capabilities"]["browserVersion"].as_str().unwrap_or("unknown").to_owned();
        firefox.ask("WebDriver:SetTimeouts", &json!({ "script": SCRIPT_MS_MAX }))?;
        firefox.ask("Marionette:SetContext", &json!({ "value": "chrome" }))?;
        Ok(firefox)
    }

    /// Runs a script with the browser's own rights. The last of its `arguments` is the function to
    /// call with the result.
    ///
    /// # Errors
    /// The script throws, or takes longer than five minutes.
    pub fn run(&mut self, script: &str, arguments: Value) -> Result<Value> {
        let command = json!({ "script": script, "args": arguments });
        Ok(self.ask("WebDriver:ExecuteAsyncScript", &command)?["value"].take())
    }

    /// The memory reports of all its processes, by the file that about:memory saves.
    ///
    /// # Errors
    /// Firefox does not write the file, or heaplab does not read it.
    pub fn reports(&mut self) -> Result<Saved> {
        let file = self.folder.path().join("reports.json.gz");
        self.run(SAVE, json!([file]))?;
        Ok(Saved::read(&std::fs::read(&file)?)?)
    }

    /// What its processes have printed.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn log(&self) -> Result<String> {
        Ok(String::from_utf8_lossy(&std::fs::read(self.folder.path().join("log"))?).into_owned())
    }

    fn ask(&mut self, command: &str, parameters: &Value) -> Result<Value> {
        self.asked += 1;
        let message = json!([0, self.asked, command, parameters]).to_string();
        write!(self.stream.get_mut(), "{}:{message}", message.len())?;
        let mut answer = self.message()?;
        ensure!(answer[2].is_null(), "Firefox's answer to {command}: {}", answer[2]);
        Ok(answer[3].take())
    }

    fn message(&mut self) -> Result<Value> {
        let mut length = Vec::new();
        self.stream.by_ref().take(16).read_until(b':', &mut length)?;
        let length = std::str::from_utf8(&length)?.trim_end_matches(':');
        let length: usize =
            length.parse().with_context(|| format!("{length:?}: no length from Firefox"))?;
        ensure!(length <= MESSAGE_BYTES_MAX, "a message of {length} bytes from Firefox");
        let mut message = vec![0; length];
        self.stream.read_exact(&mut message)?;
        serde_json::from_slice(&message).context("reading a message of Firefox")
    }
}

impl Drop for Firefox {
    fn drop(&mut self) {
        // If it cannot be asked to quit, it is killed.
        let _ = self.ask("Marionette:Quit", &json!({ "flags": ["eForceQuit"] }));
        end(&mut self.child);
    }
}

/// Waits until Firefox has written its port into the profile, and connects.
fn connect(child: &mut Child, profile: &Path) -> Result<TcpStream> {
    let started = Instant::now();
    loop {
        let port = std::fs::read_to_string(profile.join("MarionetteActivePort"));
        if let Some(port) = port.ok().and_then(|port| port.trim().parse::<u16>().ok()) {
            return Ok(TcpStream::connect((Ipv4Addr::LOCALHOST, port))?);
        }
        if let Some(status) = child.try_wait()? {
            bail!("Firefox ended before it could be driven ({status})");
        }
        ensure!(started.elapsed() < START_MAX, "Firefox does not listen for Marionette");
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn end(child: &mut Child) {
    let started = Instant::now();
    while started.elapsed() < QUIT_MAX {
        if !matches!(child.try_wait(), Ok(None)) {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let _ = child.kill();
    let _ = child.wait();
}
