//! What the tests of real JVMs share: the test program compiled, and a recording under way.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

pub fn heaplab() -> Command {
    Command::new(env!("CARGO_BIN_EXE_heaplab"))
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The compiled test program's folder; `None`, with a line, where there is no JDK of 17 or later.
pub fn compiled(folder: &Path) -> Option<PathBuf> {
    let version = Command::new("javac").arg("-version").output().ok().map(|output| text(&output.stdout) + &text(&output.stderr));
    let feature = version.as_deref().and_then(|version| version.trim().strip_prefix("javac ")?.split('.').next()?.parse::<u32>().ok());
    let is_there = feature.is_some_and(|feature| feature >= 17) && Command::new("jcmd").arg("-h").output().is_ok();
    if !is_there {
        assert!(std::env::var_os("HEAPLAB_REQUIRE_ORACLES").is_none(), "a JDK of 17 or later is required (java, javac, jcmd)");
        eprintln!("skipped: there is no JDK of 17 or later");
        return None;
    }
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/java");
    let [loaders, starter] = ["Loaders.java", "Starter.java"].map(|name| sources.join(name));
    let status = Command::new("javac").arg("-d").arg(folder).arg(loaders).arg(starter).status().unwrap();
    assert!(status.success());
    Some(folder.to_owned())
}

/// A recording under way, up to the line that the program writes when it is ready.
pub struct UnderWay {
    pub heaplab: Child,
    pub out: BufReader<std::process::ChildStdout>,
    pub jvm: u32,
}

pub fn start(bundle: &Path, java: &[&str], arguments: [&str; 3]) -> UnderWay {
    let mut command = heaplab();
    command.args(["record", "--jvm-metaspace", "-o"]).arg(bundle).arg("--").args(java).arg("Loaders").args(arguments);
    let mut heaplab = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(heaplab.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    let jvm = line.split(' ').next().and_then(|pid| pid.parse().ok()).unwrap_or_else(|| panic!("{line:?}"));
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

pub fn classes(folder: &Path) -> String {
    folder.display().to_string()
}
