//! Turns a user's question into a [`Plan`]: the varied value, the compared variants, and their
//! names. An impossible question is refused before the first run, with the option to change.

use crate::plan::{
    CompareError, Plan, Settings, SpaceMeasure, TimeMeasure, VARIANTS_MAX, Variant,
    commands_as_variants, variants,
};
use crate::runtimes::Runtime;
use crate::vary::Vary;
use heaplab_heap::name;
use heaplab_replay::Selected;
use heaplab_text::words::plural;
use std::path::PathBuf;

/// Contradicting options, or words without meaning; names the remedy.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct AskedWrongly(pub String);

/// A user's question.
#[derive(Clone, Debug, Default)]
pub struct Question {
    /// The command's words; empty for the lab's heaps.
    pub command: Vec<String>,
    /// `NAME=RANGE`; `None`: the range in the command's words.
    pub vary: Option<String>,
    /// Variants: one text with commas, or several texts.
    pub compare: Vec<String>,
    /// Other commands, in a shell's syntax.
    pub compare_commands: Vec<String>,
    /// Names of variants, in their order.
    pub names: Vec<String>,
    /// The measure of time; `None`: elapsed time for commands, CPU time for heaps.
    pub time: Option<TimeMeasure>,
    /// The settings of the measurement; `time` above replaces theirs.
    pub settings: Settings,
    /// This machine's part.
    pub shard: Option<(u32, u32)>,
    /// The folder of block files.
    pub results: Option<PathBuf>,
}

macro_rules! wrongly {
    ($($text:tt)*) => { return Err(AskedWrongly(format!($($text)*))) };
}

impl Question {
    /// A plan of commands. Its code version is empty.
    ///
    /// # Errors
    /// No range, a variant without a place, or a space that commands do not report.
    pub fn of_commands(self) -> Result<Plan, AskedWrongly> {
        let vary = match &self.vary {
            Some(text) => {
                Vary::of_variable(text).map_err(|error| AskedWrongly(format!("--vary: {error}")))?
            }
            None => match Vary::of_words(&self.command)
                .map_err(|error| AskedWrongly(format!("the command: {error}")))?
            {
                Some(vary) => vary,
                None => wrongly!(
                    "nothing is varied: name a range with --vary NAME=20..320x10, or put one in braces into the command, between quotes, because a shell expands {{1,2}} and {{1..4}}"
                ),
            },
        };
        if self.settings.space == SpaceMeasure::Committed {
            wrongly!(
                "--space committed: heaps of the lab say it, commands do not: peak, anonymous or mean"
            );
        }
        let variants = named(self.variants(&vary)?, &self.names)?;
        // A shell's line may start other programs than the runtime's, and nobody knows the use of
        // its output.
        let is_shell = self.settings.shell;
        let runtime = Runtime::of(&vary, &variants[0].words)
            .filter(|runtime| !(is_shell && matches!(runtime, Runtime::Node)));
        let time = self.time.unwrap_or_default();
        self.plan(vary, variants, runtime, time)
    }

    /// A plan of the lab's own heaps: variants of one word each, with the parameter as their
    /// variable. `on` is the list as typed.
    ///
    /// # Errors
    /// No parameter is varied, a heap already has a value for it, or there are too many heaps.
    pub fn of_heaps(self, heaps: &[Box<dyn Selected>], on: &str) -> Result<Plan, AskedWrongly> {
        let Some(text) = &self.vary else {
            wrongly!("nothing is varied: name a parameter of the heaps, --vary overhead=20..320x10")
        };
        let vary =
            Vary::of_variable(text).map_err(|error| AskedWrongly(format!("--vary: {error}")))?;
        if self.time == Some(TimeMeasure::Wall) {
            wrongly!("--time wall: of heaps the time is the processor's (cpu)");
        }
        if heaps.len() > VARIANTS_MAX {
            wrongly!("--on: {} heaps: a comparison has at most {VARIANTS_MAX}", heaps.len());
        }
        let parameter = vary.name().unwrap_or("");
        for name in name::list(on) {
            if name.parameters.iter().any(|(key, _)| key == parameter) {
                wrongly!("--on: {}: {parameter} is varied and cannot be given, too", name.text);
            }
        }
        let variants = heaps.iter().map(|heap| {
            let name = heap.to_string();
            Variant { name: name.clone(), words: vec![name], ..Variant::default() }
        });
        let variants = named(variants.collect(), &self.names)?;
        self.plan(vary, variants, None, TimeMeasure::Cpu)
    }

    /// The range as typed, for the results.
    pub fn varied(&self) -> String {
        let has_range =
            |word: &&String| word.contains('{') && (word.contains("..") || word.contains(','));
        let in_words = || self.command.iter().find(has_range).cloned();
        self.vary.clone().or_else(in_words).unwrap_or_default()
    }

    fn plan(
        self,
        vary: Vary,
        variants: Vec<Variant>,
        runtime: Option<Runtime>,
        time: TimeMeasure,
    ) -> Result<Plan, AskedWrongly> {
        let shard = self.shard.unwrap_or((0, 1));
        if shard.0 > 0 && shard.0 >= self.settings.reps {
            let (nth, of) = shard;
            wrongly!(
                "--shard {nth}/{of} has none of {} blocks: take more --reps",
                self.settings.reps
            );
        }
        Ok(Plan {
            vary,
            variants,
            settings: Settings { time, ..self.settings },
            runtime,
            shard,
            results: self.results,
            code_version: String::new(),
        })
    }

    fn variants(&self, vary: &Vary) -> Result<Vec<Variant>, AskedWrongly> {
        if self.compare_commands.is_empty() {
            let texts: Vec<String> = match &self.compare[..] {
                [one] => one.split(',').map(String::from).collect(),
                several => several.to_vec(),
            };
            return variants(&self.command, vary, &texts)
                .map_err(|error: CompareError| AskedWrongly(format!("--compare: {error}")));
        }
        if self.compare_commands.len() >= VARIANTS_MAX {
            wrongly!("--compare-command: a comparison has at most {VARIANTS_MAX} variants");
        }
        if self.vary.is_none() {
            wrongly!(
                "--compare-command needs --vary: a range in the words of one command is none in another's"
            );
        }
        let mut all = vec![self.command.clone()];
        for command in &self.compare_commands {
            let words = shlex::split(command).filter(|words| !words.is_empty());
            let Some(words) = words else {
                wrongly!(
                    "--compare-command: {command}: this is no command, or a quote in it is not closed"
                )
            };
            all.push(words);
        }
        commands_as_variants(all)
            .map_err(|error| AskedWrongly(format!("--compare-command: {error}")))
    }
}

/// Variants under the user's names.
fn named(mut variants: Vec<Variant>, names: &[String]) -> Result<Vec<Variant>, AskedWrongly> {
    if names.len() > variants.len() {
        wrongly!(
            "--command-name: {} for {}",
            plural(names.len() as u64, "name"),
            plural(variants.len() as u64, "variant")
        );
    }
    for (variant, name) in variants.iter_mut().zip(names) {
        variant.name.clone_from(name);
    }
    for (at, variant) in variants.iter().enumerate() {
        if variants[..at].iter().any(|known| known.name == variant.name) {
            wrongly!("--command-name: {} is there twice", variant.name);
        }
    }
    Ok(variants)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_refused_with_the_option_to_change() {
        let asked = Question {
            command: vec!["./app".into()],
            vary: Some("GOGC=20..40x2".into()),
            ..Question::default()
        };
        let refused = |asked: Question| asked.of_commands().unwrap_err().to_string();
        assert_eq!(asked.clone().of_commands().unwrap().variants.len(), 1);
        assert!(refused(Question { vary: None, ..asked.clone() }).starts_with("nothing is varied"));
        let one = |text: &str| vec![String::from(text)];
        let compared = Question { compare_commands: one("./other 1"), ..asked.clone() };
        assert_eq!(compared.clone().of_commands().unwrap().variants[1].words, ["./other", "1"]);
        let names = vec![String::from("a"), "a".into()];
        assert!(refused(Question { names, ..compared.clone() }).contains("is there twice"));
        let open = Question { compare_commands: one("'./other"), ..asked.clone() };
        assert!(refused(open).contains("a quote in it is not closed"));
        let settings = Settings { space: SpaceMeasure::Committed, ..Settings::default() };
        assert!(refused(Question { settings, ..asked }).starts_with("--space committed"));
    }
}
