//! What the tests of real JVMs share: the test program compiled, and a recording under way.

use heaplab_trace::bundle::Bundle;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

pub fn heaplab() -> Command {
    Command::new(env!("CARGO_BIN_EXE_heaplab"))
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The compiled test program's folder; `None`, with a line, where there is no JDK of 17 or later.
pub fn compiled(folder: &Path) -> Option<PathBuf> {
    let version = Command::new("javac")
        .arg("-version")
        .output()
        .ok()
        .map(|output| text(&output.stdout) + &text(&output.stderr));
    let feature = version.as_deref().and_then(|version| {
        version.trim().strip_prefix("javac ")?.split('.').next()?.parse::<u32>().ok()
    });
    let is_there = feature.is_some_and(|feature| feature >= 17)
        && Command::new("jcmd").arg("-h").output().is_ok();
    if !is_there {
        heaplab_oracle::skip("there is no JDK of 17 or later");
        return None;
    }
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/java");
    let [loaders, starter] = ["Loaders.java", "Starter.java"].map(|name| sources.join(name));
    let status =
        Command::new("javac").arg("-d").arg(folder).arg(loaders).arg(starter).status().unwrap();
    assert!(status.success());
    Some(folder.to_owned())
}

/// A recording under way, up to the line that the program writes when it is ready.
pub struct UnderWay {
    pub heaplab: Child,
    pub out: BufReader<std::process::ChildStdout>,
    pub jvm: u32,
}

/// heaplab's own folder for temporary files is the bundle's, so that a test finds the pipe.
pub fn start(bundle: &Path, java: &[&str], arguments: [&str; 3]) -> UnderWay {
    start_recording(bundle, &["--jvm-metaspace"], java, arguments)
}

/// The same with other options of `heaplab record`.
pub fn start_recording(
    bundle: &Path,
    options: &[&str],
    java: &[&str],
    arguments: [&str; 3],
) -> UnderWay {
    let mut command = heaplab();
    command.env("TMPDIR", bundle.parent().unwrap());
    command
        .arg("record")
        .args(options)
        .arg("-o")
        .arg(bundle)
        .arg("--")
        .args(java)
        .arg("Loaders")
        .args(arguments);
    let mut heaplab = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(heaplab.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    let jvm = line
        .split(' ')
        .next()
        .and_then(|pid| pid.parse().ok())
        .unwrap_or_else(|| panic!("{line:?}"));
    UnderWay { heaplab, out, jvm }
}

impl UnderWay {
    /// Its standard input ends, and so does it.
    pub fn end(mut self) -> Output {
        drop(self.heaplab.stdin.take());
        let output = self.heaplab.wait_with_output().unwrap();
        let mut rest = String::new();
        self.out.read_line(&mut rest).unwrap();
        assert_eq!(rest, "", "nothing but the program writes to standard output");
        output
    }
}

/// The link or pipe that JVMs log into, of the only recording that was started for a bundle in
/// `folder`.
pub fn log_of(folder: &Path) -> PathBuf {
    let mut entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let found =
        entries.find(|entry| entry.file_name().to_string_lossy().starts_with("heaplab-jvm-"));
    found.expect("the pipe's folder").path().join("log")
}

/// Waits for something that comes sooner or later, on a busy machine too.
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..6000 {
        if is_so() {
            return;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("it never came: {what}");
}

/// Arenas of the standard kind that a bundle names.
pub fn standard_arenas(bundle: &Bundle) -> usize {
    bundle.tables().arenas.iter().filter(|arena| arena.growth_policy == "standard").count()
}

/// Waits until what heaplab has written of a recording holds so many standard arenas, by recovering
/// copies of its spool.
pub fn wait_until_spooled(spool: &Path, arenas: usize) {
    wait_until("the log is in the spool", || {
        let folder = tempfile::tempdir().unwrap();
        let (copy, bundle) = (folder.path().join("x.spool"), folder.path().join("x.heaplab"));
        std::fs::create_dir(&copy).unwrap();
        for entry in std::fs::read_dir(spool).unwrap() {
            let entry = entry.unwrap();
            std::fs::copy(entry.path(), copy.join(entry.file_name())).unwrap();
        }
        let recovered =
            heaplab().arg("recover").arg(&copy).arg("-o").arg(&bundle).output().unwrap();
        recovered.status.success() && standard_arenas(&Bundle::open(&bundle).unwrap()) >= arenas
    });
}

pub fn classes(folder: &Path) -> String {
    folder.display().to_string()
}
