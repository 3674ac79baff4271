//! The runs to make: variants (each has a curve), settings of the varied value, and blocks of all
//! of them in random order.
//!
//! One rule decides how a variant of `--compare` enters the command, by the variant's own form and
//! the varied variable:
//! 1. The command has `{compare}` in a word: the variant's text stands there.
//! 2. The variant is `NAME=VALUE` with a NAME of two capitals or more: an environment variable of
//!    its own.
//! 3. The varied variable takes parts between commas (`OCAMLRUNPARAM`, `GODEBUG`, `MALLOC_CONF`):
//!    the variant is one more part.
//! 4. The varied variable takes arguments (`*_OPTIONS`, `*OPTS`, `*FLAGS`, `GHCRTS`): the variant
//!    is one more argument.
//!
//! Everything else is refused: its comparison would have no meaning.

use crate::handling::{IgnoredStatuses, Output};
use crate::launch::Launch;
use crate::runtimes::Runtime;
use crate::vary::{Target, Vary};
use heaplab_statistics::Random;
use heaplab_text::shell;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::str::FromStr;
use xxhash_rust::xxh3::xxh3_64;

/// Most variants of one comparison.
pub const VARIANTS_MAX: usize = 20;
/// The place of a variant's text in the command.
pub const COMPARE_PLACE: &str = "{compare}";

/// One command with its own additions; it has a curve of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variant {
    /// Its name: the user's name for it, else its text. No part of an experiment's identity.
    #[serde(skip)]
    pub name: String,
    /// The user's text for it, which replaces `{compare}`.
    pub text: String,
    /// The command's words.
    pub words: Vec<String>,
    /// Environment variables of its own.
    pub environment: Vec<(String, String)>,
    /// The addition to the varied variable's value.
    pub addition: Option<String>,
}

/// Why a comparison is impossible.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompareError {
    /// No rule gives the variant a place.
    #[error(
        "{variant}: nothing says where this goes: {target} takes one value. Write NAME=VALUE for an environment variable, or put \
         {{compare}} into the command where it belongs"
    )]
    NoPlace {
        /// The variant.
        variant: String,
        /// The varied variable or word.
        target: String,
    },
    /// Twice the same.
    #[error("{0} is named twice: every variant has a curve of its own")]
    Twice(String),
    /// Fewer than two, or too many.
    #[error("{0} variants: a comparison has from 2 to {VARIANTS_MAX}")]
    Count(usize),
}

/// The way to join parts of a variable's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Join {
    /// `a=0,o=80`
    Comma,
    /// `-Xmx64m -XX:+UseSerialGC`
    Space,
    /// The variable holds one value.
    Single,
}

impl Join {
    /// The way for a variable of this name.
    pub fn of(name: &str) -> Join {
        match name {
            "OCAMLRUNPARAM" | "CAMLRUNPARAM" | "GODEBUG" => Join::Comma,
            _ if name.ends_with("MALLOC_CONF") => Join::Comma,
            _ if ["_OPTIONS", "OPTS", "FLAGS", "RUBYOPT", "GHCRTS"]
                .iter()
                .any(|end| name.ends_with(end)) =>
            {
                Join::Space
            }
            _ => Join::Single,
        }
    }

    /// The character between two parts.
    pub fn separator(self) -> Option<char> {
        match self {
            Join::Comma => Some(','),
            Join::Space => Some(' '),
            Join::Single => None,
        }
    }
}

/// Commands as variants, each named as typed.
///
/// # Errors
/// A command occurs twice; in words.
pub fn commands_as_variants(commands: Vec<Vec<String>>) -> Result<Vec<Variant>, String> {
    let mut variants: Vec<Variant> = Vec::new();
    for words in commands {
        let name = shell::line(&words);
        if variants.iter().any(|known| known.name == name) {
            return Err(format!("{name} is there twice"));
        }
        variants.push(Variant { name, words, ..Variant::default() });
    }
    Ok(variants)
}

/// The variants of one command.
///
/// # Errors
/// A variant without a place by any rule, or named twice.
pub fn variants(
    words: &[String],
    vary: &Vary,
    texts: &[String],
) -> Result<Vec<Variant>, CompareError> {
    if texts.is_empty() {
        return Ok(vec![Variant { words: words.to_vec(), ..Variant::default() }]);
    }
    if !(2..=VARIANTS_MAX).contains(&texts.len()) {
        return Err(CompareError::Count(texts.len()));
    }
    let has_place = words.iter().any(|word| word.contains(COMPARE_PLACE));
    let mut variants: Vec<Variant> = Vec::new();
    for text in texts {
        let name = if text.is_empty() { String::from("(as it is)") } else { text.clone() };
        if variants.iter().any(|known| known.name == name) {
            return Err(CompareError::Twice(name));
        }
        let mut variant =
            Variant { name, text: text.clone(), words: words.to_vec(), ..Variant::default() };
        match own_variable(text) {
            _ if has_place => {
                variant.words.iter_mut().for_each(|word| *word = word.replace(COMPARE_PLACE, text))
            }
            _ if text.is_empty() => {}
            Some((name, value)) => variant.environment.push((name.into(), value.into())),
            None => variant.addition = Some(added(words, vary, text)?),
        }
        variants.push(variant);
    }
    Ok(variants)
}

/// Splits `NAME=VALUE` with a NAME of two capitals or more: `a=0` and `O=500` are OCaml's
/// parameters.
fn own_variable(text: &str) -> Option<(&str, &str)> {
    let (name, value) = text.split_once('=')?;
    let is_name = name.len() >= 2
        && name.starts_with(|letter: char| letter == '_' || letter.is_ascii_uppercase())
        && name
            .bytes()
            .all(|byte| byte == b'_' || byte.is_ascii_uppercase() || byte.is_ascii_digit());
    is_name.then_some((name, value))
}

fn added(words: &[String], vary: &Vary, text: &str) -> Result<String, CompareError> {
    let target = match &vary.target {
        Target::Name(name) if place_of(words, name).is_none() && Join::of(name) != Join::Single => {
            return Ok(text.into());
        }
        Target::Name(name) => name.clone(),
        Target::Word(index) => words.get(*index).cloned().unwrap_or_default(),
    };
    Err(CompareError::NoPlace { variant: text.into(), target })
}

/// The index of the word with `{NAME}`.
pub fn place_of(words: &[String], name: &str) -> Option<usize> {
    let place = format!("{{{name}}}");
    words.iter().position(|word| word.contains(&place))
}

/// A measure of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimeMeasure {
    /// Elapsed time.
    #[default]
    Wall,
    /// User and system time of all processes.
    Cpu,
}

impl FromStr for TimeMeasure {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<TimeMeasure, &'static str> {
        match text {
            "wall" => Ok(TimeMeasure::Wall),
            "cpu" => Ok(TimeMeasure::Cpu),
            _ => Err("wall or cpu"),
        }
    }
}

/// A measure of space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SpaceMeasure {
    /// The largest resident set.
    #[default]
    Peak,
    /// The most anonymous memory.
    Anonymous,
    /// Mean anonymous bytes over the run.
    Mean,
    /// Most committed bytes, by the account of a heap of the lab.
    Committed,
}

impl FromStr for SpaceMeasure {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<SpaceMeasure, &'static str> {
        match text {
            "peak" => Ok(SpaceMeasure::Peak),
            "anonymous" => Ok(SpaceMeasure::Anonymous),
            "mean" => Ok(SpaceMeasure::Mean),
            "committed" => Ok(SpaceMeasure::Committed),
            _ => Err("peak, anonymous, mean or committed"),
        }
    }
}

/// The settings of a measurement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Blocks.
    pub reps: u32,
    /// Runs of each cell before the first block, not measured.
    pub warmup: u32,
    /// Seed of the order of cells and of resampling.
    pub seed: u64,
    /// Share of intervals that must hold the true value.
    pub confidence: f64,
    /// The measure of time.
    pub time: TimeMeasure,
    /// The measure of space.
    pub space: SpaceMeasure,
    /// Whether to measure each variant without the varied value too.
    pub default: bool,
    /// Milliseconds after which a run is ended.
    pub timeout_ms: u64,
    /// Milliseconds between two samples of memory.
    pub interval_ms: u64,
    /// Processors that the command may run on; empty: all.
    pub cores: Vec<u32>,
    /// Exit statuses that count as success.
    pub ignore_failure: IgnoredStatuses,
    /// The destination of runs' standard output.
    pub output: Output,
    /// Through a shell.
    pub shell: bool,
}

/// One run: a variant with one of the settings, or without any (`None`, the default).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CellId {
    /// Index of the variant.
    pub variant: usize,
    /// Index of the value.
    pub setting: Option<usize>,
}

/// An experiment.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The varied value.
    pub vary: Vary,
    /// The variants, each with a curve.
    pub variants: Vec<Variant>,
    /// The settings of the measurement.
    pub settings: Settings,
    /// The runtime asked to report its collections.
    pub runtime: Option<Runtime>,
    /// This machine's part: blocks whose number modulo `.1` is `.0`.
    pub shard: (u32, u32),
    /// The folder of block files.
    pub results: Option<PathBuf>,
    /// Identifies the programs that run.
    pub code_version: String,
}

impl Plan {
    /// A remark if the varied variable has a value in the environment: this value does not count.
    pub fn inherited(&self, command: &[String]) -> Option<String> {
        let Target::Name(name) = &self.vary.target else { return None };
        let in_words = command.iter().any(|word| word.contains(&format!("{{{name}}}")));
        let value = std::env::var(name).ok().filter(|value| !value.is_empty() && !in_words)?;
        Some(format!(
            "{name}={value} of the environment is not used: --vary and --compare state the whole value"
        ))
    }

    /// Must be equal for results of one experiment: covers everything but the number of blocks, the
    /// machine's part, and the choice among what each run measures.
    pub fn identity(&self) -> String {
        let settings = Settings {
            reps: 0,
            warmup: 0,
            time: TimeMeasure::Wall,
            space: SpaceMeasure::Peak,
            confidence: 0.0,
            ..self.settings.clone()
        };
        let parts = (&self.vary, &self.variants, settings, &self.code_version);
        format!("{:016x}", xxh3_64(&serde_json::to_vec(&parts).unwrap_or_default()))
    }

    /// All cells: each variant's settings in order, then its default if it is measured.
    pub fn cells(&self) -> Vec<CellId> {
        let mut cells = Vec::new();
        for variant in 0..self.variants.len() {
            cells.extend(
                (0..self.vary.values.len())
                    .map(|setting| CellId { variant, setting: Some(setting) }),
            );
            if self.settings.default
                && Launch::of(self, CellId { variant, setting: None }).is_some()
            {
                cells.push(CellId { variant, setting: None });
            }
        }
        cells
    }

    /// The cells of a block in their order.
    pub fn order(&self, block: u32) -> Vec<CellId> {
        let mut cells = self.cells();
        Random(self.settings.seed ^ (u64::from(block) << 32)).shuffle(&mut cells);
        cells
    }

    /// The blocks of this machine's part.
    pub fn blocks(&self) -> impl Iterator<Item = u32> + '_ {
        let (part, parts) = self.shard;
        (0..self.settings.reps).filter(move |block| block % parts.max(1) == part)
    }

    /// The name of a cell: `a=2 o=80`.
    pub fn label(&self, cell: CellId) -> String {
        let setting = self.setting_label(cell);
        match self.variants.get(cell.variant).map(|variant| variant.name.as_str()) {
            None | Some("") => setting,
            Some(name) => format!("{name} {setting}"),
        }
    }

    /// The name of its setting: `o=80`, `default`.
    pub fn setting_label(&self, cell: CellId) -> String {
        match cell.setting.and_then(|index| self.vary.values.get(index)) {
            Some(value) => self.vary.label(value),
            None => "default".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(String::from).collect()
    }

    fn of(line: &str, vary: &str, compare: &[&str]) -> Result<Vec<Variant>, CompareError> {
        let texts: Vec<String> = compare.iter().map(|text| String::from(*text)).collect();
        variants(&words(line), &Vary::of_variable(vary).unwrap(), &texts)
    }

    #[test]
    fn a_variant_goes_where_its_rule_says() {
        let ocaml = of("./bench 50000", "OCAMLRUNPARAM=o={20..320x10}", &["a=0", "a=2"]).unwrap();
        assert_eq!(ocaml[1].addition.as_deref(), Some("a=2"));
        let java = of(
            "java -jar a.jar",
            "JAVA_TOOL_OPTIONS=-Xmx{64..1024x8}m",
            &["-XX:+UseSerialGC", "-XX:+UseParallelGC"],
        )
        .unwrap();
        assert_eq!(java[0].addition.as_deref(), Some("-XX:+UseSerialGC"));
        let go = of("./server", "GOGC=25..800x8", &["GOMAXPROCS=1", ""]).unwrap();
        assert_eq!(go[0].environment, [(String::from("GOMAXPROCS"), String::from("1"))]);
        assert_eq!((go[1].name.as_str(), go[1].environment.len()), ("(as it is)", 0));
        let builds = of("{compare}/bench", "GOGC=25..800x8", &["old", "new"]).unwrap();
        assert_eq!(builds[1].words, ["new/bench"]);
    }

    #[test]
    fn what_has_no_place_is_refused() {
        let said =
            |compare: &[&str]| of("./server", "GOGC=25..800x8", compare).unwrap_err().to_string();
        assert!(
            said(&["a=0", "a=2"])
                .starts_with("a=0: nothing says where this goes: GOGC takes one value")
        );
        assert_eq!(
            said(&["AB=1", "AB=1"]),
            "AB=1 is named twice: every variant has a curve of its own"
        );
        assert!(said(&["AB=1"]).starts_with("1 variants"));
        assert!(
            of("./b {o}", "o=1..5x3", &["a=0", "a=2"]).is_err(),
            "a placeholder takes one value"
        );
    }
}
