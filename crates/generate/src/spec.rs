//! The statement of a workload on a command line: `sizes=web,lifetimes=phase,seed=7`.

use crate::sizes::{SIZE_MAX, Sizes};
use std::fmt;

/// Most births of a workload.
const BIRTHS_MAX: u64 = 10_000_000_000;
/// Most slots.
const SLOTS_MAX: u64 = 1 << 26;
/// Births and slots by default.
const BIRTHS: u64 = 1_000_000;
const SLOTS: u64 = 20_000;
const PHASES: u64 = 10;
/// Dart's test: bytes of its arrays.
pub(crate) const FRAGMENTS: [u64; 3] = [260 * 8, 8, 300 * 8];

/// Each key with its possible values.
const KEYS: [(&str, &str); 9] = [
    ("sizes", "octane, web, uniform:LEAST-MOST, fixed:BYTES or file:PATH"),
    ("lifetimes", "phase, random, queue, cache, generational or fragmentation"),
    ("births", "1 to 10000000000"),
    ("slots", "1 to 67108864"),
    ("phases", "1 to 1000"),
    ("die", "0 to 100 percent"),
    ("same", "0 to 100 percent"),
    ("collect", "0 or a number of births"),
    ("seed", "a number"),
];

/// The rule of objects' deaths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Lifetimes {
    /// Objects live to the end of their phase; there a part of all live objects dies at random.
    /// Sizes change with the phase.
    Phase,
    /// A birth replaces the object of a random slot.
    Random,
    /// First in, first out.
    Queue,
    /// The least recently used object makes room; requests for keys follow Zipf's law (exponent 1)
    /// over ten times the slots.
    Cache,
    /// Most die young; the rest replaces a random old object.
    Generational,
    /// Dart's fragmentation test: arrays of 260 and of 1 word alternate, then the large ones die,
    /// then arrays of 300 words follow.
    Fragmentation,
}

impl Lifetimes {
    /// Each with its name.
    pub const ALL: [(Lifetimes, &'static str); 6] = [
        (Lifetimes::Phase, "phase"),
        (Lifetimes::Random, "random"),
        (Lifetimes::Queue, "queue"),
        (Lifetimes::Cache, "cache"),
        (Lifetimes::Generational, "generational"),
        (Lifetimes::Fragmentation, "fragmentation"),
    ];
}

/// A statement to generate from. Prints as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// The sizes of objects.
    pub sizes: Sizes,
    /// The rule of their deaths.
    pub lifetimes: Lifetimes,
    /// Objects born.
    pub births: u64,
    /// Objects kept.
    pub slots: u64,
    /// Phases.
    pub phases: u64,
    /// Chance of a death, in parts of a million.
    pub die: u64,
    /// Births between forced collections; 0: none.
    pub collect: u64,
    /// Seed: another one gives another workload.
    pub seed: u64,
    text: String,
}

/// Why a text is no statement.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// No such key.
    #[error("{name:?} cannot be stated; what can: {known}")]
    Key {
        /// The given name.
        name: String,
        /// The known names.
        known: String,
    },
    /// Not a value of this key.
    #[error("{key} takes {takes}, not {value:?}")]
    Value {
        /// The key.
        key: &'static str,
        /// The possible values.
        takes: &'static str,
        /// The given value.
        value: String,
    },
    /// There are no such sizes.
    #[error("sizes={value}: {why}")]
    Sizes {
        /// The given value.
        value: String,
        /// In words.
        why: String,
    },
    /// The file of sizes cannot be read, or is damaged.
    #[error("sizes={value}: {why}")]
    File {
        /// The given value.
        value: String,
        /// In words.
        why: String,
    },
    /// Another key makes this one useless.
    #[error("{0}")]
    Useless(String),
}

impl Spec {
    /// Parses `key=value` pieces, separated by commas. `read` returns the content of a file of
    /// sizes.
    ///
    /// # Errors
    /// An unknown key, a value that the key does not take, or unreadable sizes.
    pub fn parse(
        text: &str,
        read: impl Fn(&str) -> Result<String, String>,
    ) -> Result<Spec, SpecError> {
        let mut spec = Spec {
            sizes: Sizes::mix([87, 93, 98], 350_000),
            lifetimes: Lifetimes::Random,
            births: BIRTHS,
            slots: SLOTS,
            phases: PHASES,
            die: 0,
            collect: 0,
            seed: 1,
            text: text.into(),
        };
        let mut named: Vec<(&str, &str, String)> = Vec::new();
        for piece in text.split(',').filter(|piece| !piece.is_empty()) {
            let (name, value) = piece.split_once('=').unwrap_or((piece, ""));
            // fixed=64 is sizes=fixed:64.
            let of_sizes = ["uniform", "fixed", "file"]
                .contains(&name)
                .then(|| ("sizes", format!("{name}:{value}")));
            let (name, value) = of_sizes.unwrap_or((name, value.into()));
            let Some((key, takes)) = KEYS.iter().find(|(key, ..)| *key == name) else {
                return Err(SpecError::Key {
                    name: name.into(),
                    known: KEYS.map(|(key, ..)| key).join(", "),
                });
            };
            if named.iter().any(|(known, ..)| known == key) {
                return Err(SpecError::Useless(format!("{key} is stated twice")));
            }
            if *key == "sizes" {
                let known = value.contains(':') || ["web", "octane"].contains(&value.as_str());
                let wrong = || SpecError::Value { key, takes, value: value.clone() };
                if !known {
                    return Err(wrong());
                }
                spec.sizes = sizes(&value, &read).ok_or_else(wrong)?.map_err(|why| {
                    let value = value.clone();
                    if value.starts_with("file:") {
                        SpecError::File { value, why }
                    } else {
                        SpecError::Sizes { value, why }
                    }
                })?;
            }
            named.push((key, takes, value));
        }
        for (key, takes, value) in &named {
            spec.set(key, value).ok_or_else(|| SpecError::Value {
                key,
                takes,
                value: value.clone(),
            })?;
        }
        spec.settle(&named.iter().map(|(key, ..)| *key).collect::<Vec<_>>())
    }

    fn set(&mut self, key: &str, value: &str) -> Option<()> {
        let number = |least: u64, most: u64| {
            value.parse().ok().filter(|number| (least..=most).contains(number))
        };
        let percent = || {
            let percent = value
                .trim_end_matches('%')
                .parse::<f64>()
                .ok()
                .filter(|percent| (0.0..=100.0).contains(percent))?;
            Some((percent * 10_000.0).round() as u64)
        };
        match key {
            "lifetimes" => {
                self.lifetimes = Lifetimes::ALL.iter().find(|(_, name)| *name == value)?.0
            }
            "births" => self.births = number(1, BIRTHS_MAX)?,
            "slots" => self.slots = number(1, SLOTS_MAX)?,
            "phases" => self.phases = number(1, 1000)?,
            "die" => self.die = percent()?,
            "same" => self.sizes.same = Some(percent()?),
            "collect" => self.collect = number(0, BIRTHS_MAX)?,
            "seed" => self.seed = number(0, u64::MAX)?,
            _ => {}
        }
        Some(())
    }

    /// Sets defaults that depend on other keys, and refuses keys without meaning.
    fn settle(mut self, named: &[&str]) -> Result<Spec, SpecError> {
        let has = |key: &str| named.contains(&key);
        let lifetimes = Lifetimes::ALL
            .iter()
            .find(|(lifetimes, _)| *lifetimes == self.lifetimes)
            .map_or("", |(_, name)| name);
        let useless = |key: &str| {
            Err(SpecError::Useless(format!("{key} has no meaning with lifetimes={lifetimes}")))
        };
        let used: &[&str] = match self.lifetimes {
            Lifetimes::Phase => &["phases", "die"],
            Lifetimes::Generational => &["slots", "die"],
            Lifetimes::Random | Lifetimes::Queue | Lifetimes::Cache => &["slots"],
            Lifetimes::Fragmentation => &[],
        };
        if let Some(key) =
            ["phases", "die", "slots"].into_iter().find(|key| has(key) && !used.contains(key))
        {
            return useless(key);
        }
        if self.lifetimes == Lifetimes::Fragmentation {
            // Its order is fixed: no number is drawn.
            if let Some(key) = ["sizes", "same", "seed"].into_iter().find(|key| has(key)) {
                return useless(key);
            }
            self.sizes = Sizes::new(FRAGMENTS.map(|size| (size, 1)).to_vec(), None)
                .map_err(SpecError::Useless)?;
        }
        if !has("die") {
            self.die = if self.lifetimes == Lifetimes::Phase { 700_000 } else { 900_000 };
        }
        if !has("collect") {
            self.collect = self.births.div_ceil(10);
        }
        Ok(self)
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// `None`: the key does not take this value.
fn sizes(
    value: &str,
    read: &impl Fn(&str) -> Result<String, String>,
) -> Option<Result<Sizes, String>> {
    Some(match value.split_once(':').unwrap_or((value, "")) {
        ("web", "") => Ok(Sizes::mix([87, 93, 98], 350_000)),
        ("octane", "") => Ok(Sizes::mix([77, 93, 99], 500_000)),
        ("fixed", size) => Ok(Sizes::fixed(size.parse().ok().filter(|size| *size <= SIZE_MAX)?)),
        ("uniform", range) => {
            let (least, most) = range.split_once('-')?;
            Sizes::uniform(least.parse().ok()?, most.parse().ok()?)
        }
        ("file", path) if !path.is_empty() => read(path).and_then(|text| Sizes::read(&text)),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Spec, SpecError> {
        Spec::parse(text, |path| {
            if path == "s.csv" { Ok("64,2\n".into()) } else { Err(format!("{path}: no such file")) }
        })
    }

    #[test]
    fn statements_are_parsed_with_their_defaults() {
        let spec = parsed("sizes=octane,lifetimes=phase,births=1000,seed=7").unwrap();
        assert_eq!(
            (spec.births, spec.collect, spec.die, spec.seed, spec.sizes.same),
            (1000, 100, 700_000, 7, Some(500_000))
        );
        assert_eq!(parsed("lifetimes=generational").unwrap().die, 900_000);
        assert_eq!(parsed("fixed=64").unwrap().sizes, Sizes::fixed(64));
        assert_eq!(parsed("file=s.csv").unwrap().sizes.share(64), 1.0);
        assert_eq!(parsed("same=12.5,sizes=web,collect=0").unwrap().sizes.same, Some(125_000));
        assert_eq!(parsed("lifetimes=fragmentation").unwrap().sizes.share(8), 1.0 / 3.0);
    }

    #[test]
    fn what_cannot_be_stated_is_refused_with_what_can() {
        let said = |text: &str| parsed(text).unwrap_err().to_string();
        assert_eq!(
            said("size=web"),
            "\"size\" cannot be stated; what can: sizes, lifetimes, births, slots, phases, die, same, collect, seed"
        );
        assert_eq!(
            said("sizes=large"),
            "sizes takes octane, web, uniform:LEAST-MOST, fixed:BYTES or file:PATH, not \"large\""
        );
        assert_eq!(said("births=0"), "births takes 1 to 10000000000, not \"0\"");
        assert_eq!(said("file=t.csv"), "sizes=file:t.csv: t.csv: no such file");
        assert!(
            said("sizes=uniform:9-15").contains("no multiple of 8 from 9 to 15")
                && said("die=101").contains("percent")
        );
        assert_eq!(said("lifetimes=queue,die=5"), "die has no meaning with lifetimes=queue");
        assert_eq!(said("births=5,births=6"), "births is stated twice");
        assert_eq!(
            said("lifetimes=fragmentation,sizes=web"),
            "sizes has no meaning with lifetimes=fragmentation"
        );
        assert!(said("lifetimes=fragmentation,seed=2").starts_with("seed has no meaning"));
        assert!(said("uniform=100-10").ends_with("no multiple of 8 from 100 to 10"));
    }
}
