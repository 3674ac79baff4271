//! Other programs that open heap snapshots. Known ones are found at the place that
//! `studies/heap-snapshots/README.md` names; any other can be given as a command.

use super::Measured;
use crate::measure;
use anyhow::{Context, Result, bail};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// A program that opens a file.
#[derive(Debug)]
pub struct Peer {
    pub name: String,
    /// The program and its arguments; `{}` is the file.
    words: Vec<String>,
}

/// A known program: its name for `--peer`, its name in the table, and its way of starting.
struct Known {
    asked: &'static str,
    name: &'static str,
    start: Start,
}

enum Start {
    /// A script of the study under Node, and its package.
    Node { script: &'static str, package: &'static str, install: &'static str },
    /// A program of its own.
    Program { program: &'static str, arguments: &'static [&'static str], install: &'static str },
}

/// One command for both, because npm removes what an earlier one of these installed. Scripts are
/// switched off because memlab's would download a browser.
const INSTALL_BOTH: &str = "npm install --no-save --omit=dev --ignore-scripts @memlab/core@2.0.5 @vscode/v8-heap-parser@0.1.0";

const KNOWN: [Known; 4] = [
    Known {
        asked: "devtools",
        name: "DevTools' worker",
        start: Start::Node {
            script: "load.mjs",
            package: "chrome-devtools-frontend",
            install: "npm ci --omit=dev",
        },
    },
    Known {
        asked: "memlab",
        name: "memlab",
        start: Start::Node {
            script: "load-memlab.cjs",
            package: "@memlab/core",
            install: INSTALL_BOTH,
        },
    },
    Known {
        asked: "v8-heap-parser",
        name: "v8-heap-parser (VS Code)",
        start: Start::Node {
            script: "load-wasm.cjs",
            package: "@vscode/v8-heap-parser",
            install: INSTALL_BOTH,
        },
    },
    Known {
        asked: "dinfuehr",
        name: "dinfuehr's heap-snapshot",
        start: Start::Program {
            program: "heap-snapshot",
            arguments: &["summary", "{}"],
            install: "cargo install --git https://github.com/dinfuehr/heap-snapshot",
        },
    },
];

/// The programs for `--peer`: `all` or a known name, or `NAME=COMMAND ARGUMENT...`. Known ones that
/// are not installed are left out, with a line that says so.
pub fn find(asked: &[String]) -> Result<Vec<Peer>> {
    let places = Places::of_this_machine();
    let mut peers = Vec::new();
    for asked in asked {
        if let Some((name, command)) = asked.split_once('=') {
            let words: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
            if words.is_empty() {
                bail!("--peer {asked}: expected NAME=COMMAND ARGUMENT..., found no command");
            }
            peers.push(Peer { name: name.to_owned(), words });
            continue;
        }
        let known: Vec<&Known> =
            KNOWN.iter().filter(|known| asked == "all" || asked == known.asked).collect();
        if known.is_empty() {
            let names = KNOWN.map(|known| known.asked).join(", ");
            bail!("--peer {asked}: expected all, {names}, or NAME=COMMAND ARGUMENT...");
        }
        for known in known {
            match places.words(&known.start) {
                Ok(words) => peers.push(Peer { name: known.name.to_owned(), words }),
                Err(absent) => println!("{}: skipped, {absent}", known.name),
            }
        }
    }
    Ok(peers)
}

/// Places where programs and packages are searched.
struct Places {
    study: PathBuf,
    /// Folders of packages.
    packages: Vec<PathBuf>,
    /// Folders of programs.
    programs: Vec<PathBuf>,
}

impl Places {
    fn of_this_machine() -> Places {
        let study = Path::new(env!("CARGO_MANIFEST_DIR")).join("../studies/heap-snapshots");
        let folders = |variable| {
            std::env::var_os(variable)
                .map(|value| std::env::split_paths(&value).collect())
                .unwrap_or_default()
        };
        let mut packages: Vec<PathBuf> = folders("NODE_PATH");
        packages.insert(0, study.join("node_modules"));
        Places { study, packages, programs: folders("PATH") }
    }

    fn words(&self, start: &Start) -> Result<Vec<String>, String> {
        match start {
            Start::Node { script, package, install } => {
                if !self
                    .packages
                    .iter()
                    .any(|folder| folder.join(package).join("package.json").is_file())
                {
                    return Err(format!(
                        "{package} is not installed ({install}, in studies/heap-snapshots)"
                    ));
                }
                let node = self
                    .node()
                    .ok_or("there is no Node (npm ci --omit=dev, in studies/heap-snapshots)")?;
                let script = self.study.join("judge").join(script);
                // More than the largest of them was seen to take.
                let words = [
                    node.as_path(),
                    Path::new("--max-old-space-size=12288"),
                    &script,
                    Path::new("{}"),
                ];
                Ok(words.map(|word| word.display().to_string()).into())
            }
            Start::Program { program, arguments, install } => {
                let program = self
                    .program(program)
                    .ok_or_else(|| format!("{program} is not in PATH ({install})"))?;
                Ok(std::iter::once(program.display().to_string())
                    .chain(arguments.iter().map(|&word| word.to_owned()))
                    .collect())
            }
        }
    }

    /// The study's newest Node, or any available one.
    fn node(&self) -> Option<PathBuf> {
        let of_study = self.study.join("node_modules/node24/bin/node");
        if of_study.is_file() { Some(of_study) } else { self.program("node") }
    }

    fn program(&self, name: &str) -> Option<PathBuf> {
        self.programs.iter().map(|folder| folder.join(name)).find(|path| path.is_file())
    }
}

impl Peer {
    /// Runs it on a file; `None`, with a printed reason: it cannot be started or fails.
    pub fn run(&self, file: &Path) -> Result<Option<Measured>> {
        let file = file.display().to_string();
        let words: Vec<String> = self.words.iter().map(|word| word.replace("{}", &file)).collect();
        let program = words.first().context("a peer without a command")?;
        let from = Instant::now();
        let mut command = Command::new(program);
        // Its output is of interest only if it fails.
        let mut said = tempfile::tempfile().context("a file for what a peer says")?;
        command.args(&words[1..]).stdout(Stdio::null()).stderr(said.try_clone()?);
        match measure::run(&mut command) {
            Ok(used) => Ok(Some(Measured {
                wall_s: from.elapsed().as_secs_f64(),
                cpu_s: used.cpu_s,
                system_s: used.system_s,
                faults: used.faults,
                phases: Vec::new(),
                anonymous_mb: used.resident_kib as f64 * 1024.0 / 1e6,
            })),
            Err(error) => {
                eprintln!(
                    "{}: {error:#}\n{}",
                    self.name,
                    last_lines(&mut said).unwrap_or_default()
                );
                Ok(None)
            }
        }
    }
}

/// The last lines of a file.
fn last_lines(file: &mut File) -> std::io::Result<String> {
    const LINES: usize = 8;
    const BYTES: u64 = 4096;
    let from = file.metadata()?.len().saturating_sub(BYTES);
    file.seek(SeekFrom::Start(from))?;
    let mut end = Vec::new();
    file.take(BYTES).read_to_end(&mut end)?;
    let text = String::from_utf8_lossy(&end).into_owned();
    let lines: Vec<&str> = text.lines().collect();
    Ok(lines[lines.len().saturating_sub(LINES)..].join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_peer_is_found_where_its_package_is_and_left_out_where_it_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let modules = folder.path().join("node_modules");
        let places = Places {
            study: folder.path().into(),
            packages: vec![modules.clone()],
            programs: vec![modules.join("bin")],
        };
        let worker = &KNOWN[0].start;
        assert!(
            places.words(worker).unwrap_err().contains("chrome-devtools-frontend is not installed")
        );
        std::fs::create_dir_all(modules.join("chrome-devtools-frontend")).unwrap();
        std::fs::write(modules.join("chrome-devtools-frontend/package.json"), "{}").unwrap();
        assert!(places.words(worker).unwrap_err().contains("there is no Node"));
        std::fs::create_dir_all(modules.join("bin")).unwrap();
        std::fs::write(modules.join("bin/node"), "").unwrap();
        let words = places.words(worker).unwrap();
        assert!(
            words[0].ends_with("bin/node")
                && words[2].ends_with("judge/load.mjs")
                && words[3] == "{}",
            "{words:?}"
        );
        // The study's own Node comes first.
        std::fs::create_dir_all(modules.join("node24/bin")).unwrap();
        std::fs::write(modules.join("node24/bin/node"), "").unwrap();
        assert!(places.words(worker).unwrap()[0].ends_with("node24/bin/node"));
    }

    #[test]
    fn of_what_a_peer_said_the_end_is_shown() {
        let mut file = tempfile::tempfile().unwrap();
        for line in 0..2000 {
            std::io::Write::write_all(&mut file, format!("line {line}\n").as_bytes()).unwrap();
        }
        let lines = last_lines(&mut file).unwrap();
        assert!(lines.starts_with("line 1992\n") && lines.ends_with("line 1999"), "{lines}");
        assert_eq!(last_lines(&mut tempfile::tempfile().unwrap()).unwrap(), "");
    }

    #[test]
    fn commands_are_taken_as_they_are_and_unknown_names_refused() {
        let peers = find(&["echo=echo one {}".to_owned()]).unwrap();
        assert_eq!(
            (peers[0].name.as_str(), peers[0].words.as_slice()),
            ("echo", &["echo", "one", "{}"].map(str::to_owned)[..])
        );
        assert!(peers[0].run(Path::new("a file")).unwrap().is_some());
        let error = find(&["devtool".to_owned()]).unwrap_err().to_string();
        assert!(
            error.contains("expected all, devtools, memlab, v8-heap-parser, dinfuehr"),
            "{error}"
        );
        assert!(find(&["a=".to_owned()]).is_err());
        assert!(
            find(&["a=/nowhere/program {}".to_owned()]).unwrap()[0]
                .run(Path::new("f"))
                .unwrap()
                .is_none()
        );
    }
}
