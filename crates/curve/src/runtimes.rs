//! Runtimes that report the number of their collections and the garbage found. With the garbage of
//! one collection, G, known, two straight lines fit the curve and no guess is needed.
//!
//! A runtime is asked only if its report cannot be mistaken for the program's output: on a standard
//! error that nobody reads (OCaml's `v=0x400`, Go's `gctrace`), in a file (JVM `-Xlog:gc`), on a
//! discarded standard output (Node's `--trace-gc`, which has no other place).
//!
//! Formats as printed by OCaml 4.13 and 5.x, Go 1.19 to 1.26, JDK 11 to 21, Node 12 to 20.

use crate::launch::Launch;
use crate::plan::place_of;
use crate::vary::{Target, Vary};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

/// Bytes of a word of OCaml's heap.
const WORD_BYTES: u64 = 8;
/// A JVM's log is read so far.
const LOG_BYTES_MAX: u64 = 256 << 20;
/// Longest line that is parsed.
pub const LINE_BYTES_MAX: usize = 4096;

/// Fewest cycles whose mean says something.
const CYCLES_MIN: u64 = 3;

/// A runtime that can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Runtime {
    /// OCaml: one summary at the program's end.
    Ocaml,
    /// Go: a line for each cycle.
    Go,
    /// A JVM: a line for each pause.
    Jvm,
    /// Node: a line for each collection.
    Node,
}

/// A runtime's report of its collections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Collections {
    /// Cycles: major ones for OCaml, all for the others.
    pub cycles: u64,
    /// Garbage found. OCaml does not report it; its figure is the bytes allocated in the major
    /// heap, which include the bytes live at the end.
    pub collected_bytes: u64,
}

impl Collections {
    /// Garbage a cycle; `None`: there are too few cycles for a mean. The first ones find what a
    /// program leaves while it begins.
    pub fn garbage_a_cycle(&self) -> Option<f64> {
        (self.cycles >= CYCLES_MIN && self.collected_bytes > 0)
            .then(|| self.collected_bytes as f64 / self.cycles as f64)
    }

    /// The same, and infinitely much if there are too few cycles: more than any mean. `None`: no
    /// garbage is known.
    pub fn garbage_or_more(&self) -> Option<f64> {
        let is_few = self.cycles < CYCLES_MIN;
        if is_few { Some(f64::INFINITY) } else { self.garbage_a_cycle() }
    }

    fn add(&mut self, collected_bytes: u64) {
        self.cycles += 1;
        self.collected_bytes = self.collected_bytes.saturating_add(collected_bytes);
    }
}

impl Runtime {
    /// The runtime of a command, by the varied variable or by the program's name.
    pub fn of(vary: &Vary, words: &[String]) -> Option<Runtime> {
        let program = words.first().map(|word| word.rsplit('/').next().unwrap_or(word));
        match (&vary.target, program) {
            (Target::Name(name), _) if place_of(words, name).is_none() => match name.as_str() {
                "OCAMLRUNPARAM" | "CAMLRUNPARAM" => Some(Runtime::Ocaml),
                "GOGC" | "GOMEMLIMIT" | "GODEBUG" => Some(Runtime::Go),
                "JAVA_TOOL_OPTIONS" | "JDK_JAVA_OPTIONS" => Some(Runtime::Jvm),
                "NODE_OPTIONS" if program == Some("node") => Some(Runtime::Node),
                _ => None,
            },
            (_, Some("java")) => Some(Runtime::Jvm),
            (_, Some("node")) => Some(Runtime::Node),
            _ => None,
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Runtime::Ocaml => "OCaml",
            Runtime::Go => "Go",
            Runtime::Jvm => "JVM",
            Runtime::Node => "Node",
        }
    }

    /// The way of asking it, for readers of results.
    pub fn question(self) -> &'static str {
        match self {
            Runtime::Ocaml => "OCAMLRUNPARAM v=0x400",
            Runtime::Go => "GODEBUG gctrace=1",
            Runtime::Jvm => "-Xlog:gc",
            Runtime::Node => "--trace-gc",
        }
    }

    /// Whether it reports on standard output.
    pub fn tells_on_output(self) -> bool {
        self == Runtime::Node
    }

    /// Puts the request into a command line; a JVM writes into `folder`.
    pub fn ask(self, launch: &mut Launch, folder: &Path) {
        match self {
            Runtime::Ocaml => {
                let name = if launch.set.iter().any(|(name, _)| name == "CAMLRUNPARAM") {
                    "CAMLRUNPARAM"
                } else {
                    "OCAMLRUNPARAM"
                };
                launch.add(name, "v=0x400");
            }
            Runtime::Go => launch.add("GODEBUG", "gctrace=1"),
            Runtime::Jvm => {
                let question = format!("-Xlog:gc:file={}/%p.log::filecount=0", folder.display());
                let is_java = launch
                    .words
                    .first()
                    .is_some_and(|word| word.rsplit('/').next() == Some("java"));
                if is_java {
                    launch.words.insert(1, question);
                } else {
                    let name = if launch.set.iter().any(|(name, _)| name == "JDK_JAVA_OPTIONS") {
                        "JDK_JAVA_OPTIONS"
                    } else {
                        "JAVA_TOOL_OPTIONS"
                    };
                    launch.add(name, &question);
                }
            }
            Runtime::Node => launch.words.insert(1, "--trace-gc".into()),
        }
    }
}

/// Collects a runtime's report, line by line.
#[derive(Clone, Debug)]
pub struct Teller {
    runtime: Runtime,
    told: Collections,
    is_heard: bool,
    /// OCaml's words in all, of the minor heap, promoted, and of the major heap, as far as its
    /// summary has come.
    words: Vec<u64>,
}

impl Teller {
    /// A listener for `runtime`.
    pub fn new(runtime: Runtime) -> Teller {
        Teller { runtime, told: Collections::default(), is_heard: false, words: Vec::new() }
    }

    /// Takes a line; returns whether the line is the runtime's.
    pub fn line(&mut self, line: &str) -> bool {
        let is_told = match self.runtime {
            Runtime::Ocaml => return self.ocaml(line),
            Runtime::Go => go(line).map(|collected| self.told.add(collected)).is_some(),
            Runtime::Jvm => jvm(line).map(|collected| self.told.add(collected)).is_some(),
            Runtime::Node => node(line).map(|collected| self.told.add(collected)).is_some(),
        };
        self.is_heard |= is_told;
        is_told
    }

    /// A summary begins with words, in this order, and says later how often it collected. A program
    /// may print such lines of its own (`Gc.print_stat`): they count only if the words add up.
    fn ocaml(&mut self, line: &str) -> bool {
        const WORDS: [&str; 4] =
            ["allocated_words", "minor_words", "promoted_words", "major_words"];
        let Some((name, value)) = line.split_once(": ") else { return false };
        let Some(value) = value.trim().split('.').next().and_then(|digits| digits.parse().ok())
        else {
            return false;
        };
        if name == WORDS[0] {
            self.words.clear();
        }
        if WORDS.get(self.words.len()) == Some(&name) {
            self.words.push(value);
            return true;
        }
        let [all, minor, promoted, major] = self.words[..] else { return false };
        if name == "major_collections" {
            self.words.clear();
            if all.checked_add(promoted) != minor.checked_add(major) {
                return false;
            }
            let bytes = major.saturating_mul(WORD_BYTES);
            self.told.collected_bytes = self.told.collected_bytes.saturating_add(bytes);
            self.told.cycles = self.told.cycles.saturating_add(value);
            self.is_heard = true;
        }
        name.ends_with("_collections")
    }

    /// Reads the logs that JVMs left in `folder`.
    pub fn read_logs(&mut self, folder: &Path) {
        let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
        for file in files.filter_map(|entry| File::open(entry.path()).ok()) {
            // A log shows that a JVM got the request, even if the JVM never collected.
            self.is_heard = true;
            let lines = BufReader::new(file.take(LOG_BYTES_MAX)).split(b'\n').map_while(Result::ok);
            lines.filter(|line| line.len() <= LINE_BYTES_MAX).for_each(|line| {
                self.line(&String::from_utf8_lossy(&line));
            });
        }
    }

    /// The report; `None`: the runtime reported nothing. Go is silent if it never collected.
    pub fn collections(&self) -> Option<Collections> {
        self.is_heard.then_some(self.told)
    }
}

/// `gc 88 @1.878s 6%: ... ms cpu, 26->35->21 MB, 29 MB goal, ...`: the heap at the end of marking,
/// less its live bytes.
fn go(line: &str) -> Option<u64> {
    let rest = line.strip_prefix("gc ")?;
    let sizes = rest
        .split(", ")
        .find_map(|part| part.strip_suffix(" MB").filter(|part| part.contains("->")))?;
    let mut sizes = sizes.split("->").map(|size| size.parse::<u64>().ok());
    let (_, marked, live) = (sizes.next()??, sizes.next()??, sizes.next()??);
    marked.saturating_sub(live).checked_mul(1 << 20)
}

/// `[0.512s][info][gc] GC(3) Pause Young (Normal) (G1 Evacuation Pause) 23M->5M(256M) 2.5ms`
fn jvm(line: &str) -> Option<u64> {
    let (_, rest) = line.split_once("] GC(")?;
    let (before, after) = rest.split(' ').find_map(|word| word.split_once("->"))?;
    let size = |text: &str| {
        let digits = text.find(|letter: char| !letter.is_ascii_digit())?;
        let unit = match text.as_bytes()[digits] {
            b'B' => 1,
            b'K' => 1 << 10,
            b'M' => 1 << 20,
            b'G' => 1 << 30,
            _ => return None,
        };
        text[..digits].parse::<u64>().ok()?.checked_mul(unit)
    };
    Some(size(before)?.saturating_sub(size(after)?))
}

/// `[24574:0x21d13d90]  46 ms: Scavenge 3.9 (4.0) -> 3.6 (5.0) MB, ...`
fn node(line: &str) -> Option<u64> {
    let (_, rest) = line.strip_prefix('[')?.split_once(" ms: ")?;
    let (before, after) = rest.split_once(" -> ")?;
    let before = before
        .split(" (")
        .filter_map(|part| part.rsplit(' ').next()?.parse::<f64>().ok())
        .last()?;
    let (after, unit) = after.split_once(" (")?;
    if !unit.contains(") MB") {
        return None;
    }
    let collected = before - after.parse::<f64>().ok()?;
    Some((collected.max(0.0) * (1 << 20) as f64) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(runtime: Runtime, text: &str) -> Option<Collections> {
        let mut teller = Teller::new(runtime);
        text.lines().for_each(|line| {
            teller.line(line);
        });
        teller.collections()
    }

    const MIB: u64 = 1 << 20;

    #[test]
    fn each_runtime_is_understood() {
        let ocaml = "warning: odd\nallocated_words: 42402987\nminor_words: 200000\npromoted_words: 100000\nmajor_words: 42302987\nminor_collections: 3\nmajor_collections: 37\nheap_words: 7132160\n";
        assert_eq!(
            told(Runtime::Ocaml, ocaml),
            Some(Collections { cycles: 37, collected_bytes: 42302987 * 8 })
        );
        let go = "gc 88 @1.878s 6%: 0.14+12+0.008 ms clock, 0.29+0.91/0.40/0.079+0.017 ms cpu, 26->35->21 MB, 29 MB goal, 0 MB stacks, 2 P\n\
                  gc 89 @1.9s 6%: 0.14+12+0.008 ms clock, 0.2+0.9/0.4/0.07+0.01 ms cpu, 30->30->30 MB, 29 MB goal, 2 P (forced)\nhello\n";
        assert_eq!(
            told(Runtime::Go, go),
            Some(Collections { cycles: 2, collected_bytes: 14 * MIB })
        );
        let jvm = "[0.009s][info][gc] Using G1\n[0.5s][info][gc] GC(3) Pause Young (Normal) (G1 Evacuation Pause) 23M->5M(256M) 2.5ms\n\
                   [0.6s][info][gc] GC(4) Concurrent Mark Cycle\n[0.7s][info][gc] GC(5) Pause Full (G1 Compaction Pause) 9216K->1024K(16384K) 9ms\n";
        assert_eq!(
            told(Runtime::Jvm, jvm),
            Some(Collections { cycles: 2, collected_bytes: 26 * MIB })
        );
        let node = "[24574:0x21d13d90]       46 ms: Scavenge 3.9 (4.0) -> 3.4 (5.0) MB, 2.69 / 0.00 ms  (average mu = 1.000) allocation failure; \n\
                    [1:0x2]     1046 ms: Mark-Compact (reduce) 30.0 (40.0) -> 10.0 (35.0) MB, 2.69 / 0.00 ms\n[1] done\n";
        assert_eq!(
            told(Runtime::Node, node),
            Some(Collections { cycles: 2, collected_bytes: 20 * MIB + MIB / 2 })
        );
    }

    #[test]
    fn silence_is_no_answer() {
        for runtime in [Runtime::Ocaml, Runtime::Go, Runtime::Jvm, Runtime::Node] {
            assert_eq!(
                told(
                    runtime,
                    "42\nGC(\n] GC(1) x->y\ngc 1 a->b->c MB\n[x ms: -> (\nmajor_words: -\n"
                ),
                None,
                "{runtime:?}"
            );
        }
    }

    #[test]
    fn a_programs_own_statistics_are_not_the_runtimes() {
        // As Gc.print_stat prints them, and lines alike whose words do not add up.
        let printed =
            "minor_collections:   5\nmajor_collections:   3\nminor_words:  10\nmajor_words: 7\n";
        assert_eq!(told(Runtime::Ocaml, printed), None);
        let wrong = "allocated_words: 9\nminor_words: 5\npromoted_words: 1\nmajor_words: 6\nmajor_collections: 4\n";
        assert_eq!(told(Runtime::Ocaml, wrong), None);
        let right = wrong.replace("words: 9", "words: 10");
        let both = [printed, &right, printed].concat();
        assert_eq!(
            told(Runtime::Ocaml, &both),
            Some(Collections { cycles: 4, collected_bytes: 48 })
        );
    }

    #[test]
    fn a_question_changes_the_command_and_nothing_else() {
        let ask = |runtime: Runtime, line: &str, set: &[(&str, &str)]| {
            let words = line.split(' ').map(String::from).collect();
            let set = set
                .iter()
                .map(|(name, value)| (String::from(*name), String::from(*value)))
                .collect();
            let mut launch = Launch { words, set, unset: Vec::new() };
            runtime.ask(&mut launch, Path::new("/logs"));
            (
                launch.words.join(" "),
                launch
                    .set
                    .iter()
                    .map(|(name, value)| format!("{name}={value}"))
                    .collect::<Vec<_>>()
                    .join(";"),
            )
        };
        assert_eq!(
            ask(Runtime::Ocaml, "./b", &[("OCAMLRUNPARAM", "o=80")]).1,
            "OCAMLRUNPARAM=o=80,v=0x400"
        );
        assert_eq!(
            ask(Runtime::Go, "./b", &[("GODEBUG", "madvdontneed=1")]).1,
            "GODEBUG=madvdontneed=1,gctrace=1"
        );
        assert_eq!(
            ask(Runtime::Jvm, "java A", &[]).0,
            "java -Xlog:gc:file=/logs/%p.log::filecount=0 A"
        );
        assert_eq!(
            ask(Runtime::Jvm, "./x.sh", &[("JDK_JAVA_OPTIONS", "-Xmx1g")]).1,
            "JDK_JAVA_OPTIONS=-Xmx1g -Xlog:gc:file=/logs/%p.log::filecount=0"
        );
        assert_eq!(ask(Runtime::Node, "node a.js", &[]).0, "node --trace-gc a.js");
    }

    #[test]
    fn runtimes_are_known_by_their_variables_and_names() {
        let of = |vary: &str, line: &str| {
            let words: Vec<String> = line.split(' ').map(String::from).collect();
            Runtime::of(&Vary::of_variable(vary).unwrap(), &words)
        };
        assert_eq!(of("OCAMLRUNPARAM=o={1,2}", "./b"), Some(Runtime::Ocaml));
        assert_eq!(of("GOGC=1..5x2", "./b"), Some(Runtime::Go));
        assert_eq!(
            of("NODE_OPTIONS=--max-semi-space-size={1,2}", "/usr/bin/node a.js"),
            Some(Runtime::Node)
        );
        assert_eq!(
            of("NODE_OPTIONS=--max-semi-space-size={1,2}", "npm test"),
            None,
            "its output may be somebody's input"
        );
        assert_eq!(of("heap=1..5x2", "java -Xmx{heap}m A"), Some(Runtime::Jvm));
        assert_eq!(of("HEAP=1..5x2", "./b"), None);
    }
}
