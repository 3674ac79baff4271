//! From a cell to a command line: words, variables to set, variables to remove.

use crate::plan::{CellId, Join, Plan, Variant, place_of};
use crate::vary::{Target, Vary};
use serde::{Deserialize, Serialize};

/// The command line of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launch {
    /// The program and its arguments.
    pub words: Vec<String>,
    /// Variables set in addition to this process's.
    pub set: Vec<(String, String)>,
    /// Variables of this process that are removed.
    pub unset: Vec<String>,
}

impl Launch {
    /// The command of a cell. `None`: a default for a value that cannot be left out, because it is
    /// a word of its own and no option.
    pub fn of(plan: &Plan, cell: CellId) -> Option<Launch> {
        let variant = plan.variants.get(cell.variant)?;
        let value = match cell.setting {
            Some(index) => Some(plan.vary.values.get(index)?.as_str()),
            None => None,
        };
        Launch::with(&plan.vary, variant, value)
    }

    /// The same for any value.
    pub fn with(vary: &Vary, variant: &Variant, value: Option<&str>) -> Option<Launch> {
        let mut launch = Launch {
            words: variant.words.clone(),
            set: variant.environment.clone(),
            unset: Vec::new(),
        };
        match &vary.target {
            Target::Word(index) => launch.put_word(*index, value.map(|value| vary.with(value)))?,
            Target::Name(name) => match place_of(&variant.words, name) {
                Some(index) => {
                    let place = format!("{{{name}}}");
                    let word =
                        value.map(|value| variant.words[index].replace(&place, &vary.with(value)));
                    launch.put_word(index, word)?;
                    let rest = launch.words.iter_mut().filter(|word| word.contains(&place));
                    rest.for_each(|word| {
                        *word = word
                            .replace(&place, &value.map_or(String::new(), |value| vary.with(value)))
                    });
                }
                None => launch.put_variable(name, vary, variant, value),
            },
        }
        Some(launch)
    }

    /// Puts a word in its place. Without a word removes the old one, if that is an option, and the
    /// program uses its own default.
    fn put_word(&mut self, index: usize, word: Option<String>) -> Option<()> {
        match word {
            Some(word) => *self.words.get_mut(index)? = word,
            None if index > 0 && self.words.get(index)?.starts_with('-') => {
                drop(self.words.remove(index))
            }
            None => return None,
        }
        Some(())
    }

    fn put_variable(&mut self, name: &str, vary: &Vary, variant: &Variant, value: Option<&str>) {
        let separator = Join::of(name).separator();
        let text = match (value, separator) {
            (Some(value), _) => vary.with(value),
            (None, None) => String::new(),
            // Leaves out the part with the value; other parts stay.
            (None, Some(separator)) => {
                let before = vary.before.rsplit_once(separator).map_or("", |(before, _)| before);
                let after = vary.after.split_once(separator).map_or("", |(_, after)| after);
                joined(separator, [before, after])
            }
        };
        let text = joined(
            separator.unwrap_or(' '),
            [text.as_str(), variant.addition.as_deref().unwrap_or("")],
        );
        if text.is_empty() {
            self.unset.push(name.into());
        } else {
            self.set.push((name.into(), text));
        }
    }

    /// Adds a part to a variable that takes several. Keeps this process's value of the variable
    /// unless another one is set.
    pub fn add(&mut self, name: &str, part: &str) {
        let separator = Join::of(name).separator().unwrap_or(' ');
        let is_unset = self.unset.iter().any(|unset| unset == name);
        self.unset.retain(|unset| unset != name);
        match self.set.iter_mut().find(|(known, _)| known == name) {
            Some((_, value)) => *value = joined(separator, [value.as_str(), part]),
            None => {
                let inherited =
                    if is_unset { String::new() } else { std::env::var(name).unwrap_or_default() };
                self.set.push((name.into(), joined(separator, [inherited.as_str(), part])));
            }
        }
    }

    /// Makes the words one line of a shell.
    pub fn through_shell(mut self) -> Launch {
        self.words = vec!["/bin/sh".into(), "-c".into(), self.words.join(" ")];
        self
    }
}

fn joined(separator: char, parts: [&str; 2]) -> String {
    let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join(separator.encode_utf8(&mut [0; 4]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch(
        line: &str,
        vary: &str,
        addition: Option<&str>,
        value: Option<&str>,
    ) -> Option<Launch> {
        let words: Vec<String> = line.split(' ').map(String::from).collect();
        let vary = if vary.is_empty() {
            Vary::of_words(&words).unwrap().unwrap()
        } else {
            Vary::of_variable(vary).unwrap()
        };
        let variant = Variant { words, addition: addition.map(String::from), ..Variant::default() };
        Launch::with(&vary, &variant, value)
    }

    fn variable(launch: Option<Launch>) -> String {
        launch
            .unwrap()
            .set
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect::<Vec<_>>()
            .join(";")
    }

    #[test]
    fn additions_and_values_are_joined_as_the_variable_wants() {
        let ocaml = |value| {
            variable(launch("./b", "OCAMLRUNPARAM=s=32k,o={20..320x10}", Some("a=2"), value))
        };
        assert_eq!(ocaml(Some("80")), "OCAMLRUNPARAM=s=32k,o=80,a=2");
        assert_eq!(
            ocaml(None),
            "OCAMLRUNPARAM=s=32k,a=2",
            "the default has everything but the varied part"
        );
        let java = |value| {
            variable(launch(
                "java",
                "JAVA_TOOL_OPTIONS=-Xmx{64..1024x8}m",
                Some("-XX:+UseSerialGC"),
                value,
            ))
        };
        assert_eq!(java(Some("64")), "JAVA_TOOL_OPTIONS=-Xmx64m -XX:+UseSerialGC");
        assert_eq!(java(None), "JAVA_TOOL_OPTIONS=-XX:+UseSerialGC");
        let go = launch("./s", "GOGC=25..800x8", None, None).unwrap();
        assert_eq!((go.set.len(), go.unset), (0, vec![String::from("GOGC")]));
    }

    #[test]
    fn words_are_replaced_or_left_out() {
        let words = |launch: Option<Launch>| launch.map(|launch| launch.words.join(" "));
        assert_eq!(
            words(launch("java -Xmx{64..128x3}m A", "", None, Some("64"))).as_deref(),
            Some("java -Xmx64m A")
        );
        assert_eq!(
            words(launch("java -Xmx{64..128x3}m A", "", None, None)).as_deref(),
            Some("java A")
        );
        assert_eq!(
            words(launch("./b {1,2}", "", None, None)),
            None,
            "an argument that is no option cannot be left out"
        );
        assert_eq!(
            words(launch("./b --h={o}m", "o=1..5x3", None, Some("5"))).as_deref(),
            Some("./b --h=5m")
        );
    }

    #[test]
    fn a_part_is_added_to_what_is_there() {
        let mut launch = launch("./b", "OCAMLRUNPARAM=o={20..320x10}", None, None).unwrap();
        launch.add("OCAMLRUNPARAM", "v=0x400");
        assert_eq!(
            (launch.set, launch.unset.len()),
            (vec![("OCAMLRUNPARAM".into(), "v=0x400".into())], 0)
        );
    }
}
