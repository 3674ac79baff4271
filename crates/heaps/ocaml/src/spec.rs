//! The names of the policies and the parameters of `OCAMLRUNPARAM`:
//! `best-fit,o=80,s=256k,version=4.13`.
//!
//! Parsing, limits and help derive from one table ([`PARAMETERS`]). Each parameter has its letter
//! in `OCAMLRUNPARAM` and a long name. Parameters of custom blocks (`M`, `m`, `n`) are left out:
//! the workload has no such blocks.

use crate::facts::{
    COMPACTION_OVERHEAD, INCREMENT, INITIAL_WORDS, MINOR_WORDS, MINOR_WORDS_MAX, MINOR_WORDS_MIN,
    PAGE_WORDS,
};
use crate::facts::{RESERVED_BYTES, SIGNAL_STACK_BYTES, WINDOW_MAX};
use crate::strategy::Version;
use heaplab_heap::parameter::bytes;
use heaplab_heap::{Name, Parameter};
use serde::Serialize;

/// The way in which the major heap finds a free block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// In address order, from where the last search ended.
    NextFit,
    /// The lowest one.
    FirstFit,
    /// The smallest one that is large enough.
    BestFit,
}

impl Policy {
    /// Every policy, in the order of `a`'s numbers, with its name and a line of explanation.
    pub const ALL: [(Policy, &'static str, &'static str); 3] = [
        (
            Policy::NextFit,
            "next-fit",
            "OCaml's major heap with a=0: the next free block that fits (default up to 4.12)",
        ),
        (
            Policy::FirstFit,
            "first-fit",
            "OCaml's major heap with a=1: the lowest free block that fits",
        ),
        (
            Policy::BestFit,
            "best-fit",
            "OCaml's major heap with a=2: the smallest free block that fits (default from 4.13)",
        ),
    ];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }
}

/// The family's parameters; each has a long name too, at the same index of [`LONG_NAMES`].
pub const PARAMETERS: [Parameter; 9] = [
    Parameter {
        name: "a",
        takes: "0 (next-fit), 1 (first-fit) or 2 (best-fit)",
        default: "the version's",
        help: "the policy, by number",
    },
    Parameter {
        name: "s",
        takes: "words, or with k, m, g; 4k to 256m",
        default: "256k",
        help: "the minor heap; rounded up to pages of 512 words",
    },
    Parameter {
        name: "o",
        takes: "percent, 1 to 1000000",
        default: "120 (4.12: 80)",
        help: "space overhead (also overhead=): memory that the major collector may waste, as a share of live memory",
    },
    Parameter {
        name: "i",
        takes: "percent of the heap, or words above 1000, or with k, m, g",
        default: "15",
        help: "minimum growth of the major heap",
    },
    Parameter {
        name: "h",
        takes: "words, or with k, m, g",
        default: "124k",
        help: "first chunk of the major heap; at least 60k",
    },
    Parameter {
        name: "O",
        takes: "percent",
        default: "500",
        help: "free space that starts a compaction, as a share of live memory; 1000000: never",
    },
    Parameter {
        name: "w",
        takes: "1 to 50",
        default: "1",
        help: "slices over which the major collector spreads its work",
    },
    Parameter {
        name: "version",
        takes: "4.12, 4.13, 4.14 or 4.14.2",
        default: "4.13",
        help: "OCaml version whose rules apply",
    },
    Parameter {
        name: "limit",
        takes: "bytes, or with k, m, g",
        default: "32g",
        help: "maximum size of both heaps together",
    },
];

/// Long names of the parameters.
pub const LONG_NAMES: [&str; PARAMETERS.len()] = [
    "policy",
    "minor_heap_size",
    "space_overhead",
    "major_heap_increment",
    "initial_heap_size",
    "max_overhead",
    "window_size",
    "version",
    "limit",
];

/// The name of `o` in every family of heaps that collect.
const OVERHEAD: &str = "overhead";

/// A policy with its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Spec {
    /// The runtime's version whose rules apply.
    pub version: Version,
    /// The way in which the major heap finds a free block.
    pub policy: Policy,
    /// `s`: words of the minor heap, a multiple of 512.
    pub minor_words: usize,
    /// `o`, percent.
    pub space_overhead: usize,
    /// `i`: percent of the heap up to 1000, words above.
    pub increment: usize,
    /// `h`: words of the first chunk.
    pub initial_words: usize,
    /// `O`, percent.
    pub max_overhead: usize,
    /// `w`: slices.
    pub window: usize,
    /// Most bytes of the heap; `None`: all reserved addresses.
    pub limit_bytes: Option<u64>,
    /// Bytes of the runtime's stack for signals, a fact of the machine and no parameter:
    /// `sysconf(_SC_SIGSTKSZ)`. Once chunks were freed, the stack decides where new ones lie. The
    /// default is that of processors with AVX-512; AMX makes it 47,808.
    #[serde(skip)]
    pub signal_stack_bytes: usize,
}

/// The mistake in a name of this family.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// No such parameter.
    #[error("ocaml has no policy or parameter {0:?}; the policies are next-fit, first-fit and best-fit, the parameters {names}", names = names())]
    Parameter(String),
    /// A policy by its name, and another one by `a`.
    #[error("ocaml is given two policies, {} and a={}: leave one out", named.name(), *numbered as usize)]
    Policies {
        /// The policy by its name.
        named: Policy,
        /// The policy by `a`.
        numbered: Policy,
    },
    /// Not a value of this parameter.
    #[error("ocaml's {parameter} takes {takes}, not {value:?}")]
    Value {
        /// The parameter.
        parameter: &'static str,
        /// The possible values.
        takes: &'static str,
        /// The given value.
        value: String,
    },
}

fn names() -> String {
    PARAMETERS.map(|parameter| parameter.name).join(", ")
}

impl Spec {
    /// A version with its defaults.
    pub fn new(version: Version) -> Spec {
        let strategy = version.strategy();
        Spec {
            version,
            policy: strategy.policy,
            minor_words: MINOR_WORDS,
            space_overhead: strategy.space_overhead,
            increment: INCREMENT,
            initial_words: INITIAL_WORDS,
            max_overhead: COMPACTION_OVERHEAD,
            window: 1,
            limit_bytes: None,
            signal_stack_bytes: SIGNAL_STACK_BYTES,
        }
    }

    /// Parses the text behind `ocaml:`: a policy's name and `parameter=value` pieces in any order,
    /// separated by commas; an empty text gives the defaults of 4.13. Later pieces win, as in
    /// `OCAMLRUNPARAM`, but a policy by name and another one by `a` is an error.
    ///
    /// # Errors
    /// The wrong part, with the right ones.
    pub fn parse(text: &str) -> Result<Spec, SpecError> {
        let pieces: Vec<&str> =
            text.split(',').map(str::trim).filter(|piece| !piece.is_empty()).collect();
        let version = pieces.iter().rev().find_map(|piece| piece.strip_prefix("version="));
        let mut spec = Spec::new(version.map_or(Ok(Version::V4_13), parse_version)?);
        let (mut named, mut numbered) = (None, None);
        for piece in pieces {
            if let Some((policy, _, _)) = Policy::ALL.iter().find(|(_, name, _)| *name == piece) {
                (spec.policy, named) = (*policy, Some(*policy));
                continue;
            }
            let (key, value) =
                piece.split_once('=').ok_or_else(|| SpecError::Parameter(piece.into()))?;
            let key = if key == OVERHEAD { "o" } else { key };
            let known = (0..PARAMETERS.len())
                .find(|nth| PARAMETERS[*nth].name == key || LONG_NAMES[*nth] == key);
            let parameter = &PARAMETERS[known.ok_or_else(|| SpecError::Parameter(key.into()))?];
            spec.set(parameter, value)?;
            if parameter.name == "a" {
                numbered = Some(spec.policy);
            }
        }
        match named.zip(numbered) {
            Some((named, numbered)) if named != numbered => {
                Err(SpecError::Policies { named, numbered })
            }
            _ => Ok(spec),
        }
    }

    /// Parses the part of a heap's name that follows its head.
    ///
    /// # Errors
    /// As for [`Spec::parse`].
    pub fn of_name(name: &Name) -> Result<Spec, SpecError> {
        Spec::parse(&[name.variant.clone().unwrap_or_default(), name.parameters_text()].join(","))
    }

    fn set(&mut self, parameter: &Parameter, value: &str) -> Result<(), SpecError> {
        let wrong = || SpecError::Value {
            parameter: parameter.name,
            takes: parameter.takes,
            value: value.into(),
        };
        let words = |from: usize, to: usize| {
            bytes(value)
                .and_then(|words| usize::try_from(words).ok())
                .filter(|words| (from..=to).contains(words))
                .ok_or_else(wrong)
        };
        match parameter.name {
            "a" => {
                let by_name = Policy::ALL.iter().position(|(_, name, _)| *name == value);
                let nth = by_name
                    .or_else(|| value.parse().ok().filter(|nth| *nth < Policy::ALL.len()))
                    .ok_or_else(wrong)?;
                self.policy = Policy::ALL[nth].0;
            }
            "s" => {
                self.minor_words =
                    words(MINOR_WORDS_MIN, MINOR_WORDS_MAX)?.next_multiple_of(PAGE_WORDS)
            }
            "o" => self.space_overhead = words(1, 1_000_000)?,
            "i" => self.increment = words(0, RESERVED_BYTES / 8)?,
            "h" => self.initial_words = words(0, RESERVED_BYTES / 8)?,
            "O" => self.max_overhead = words(0, u32::MAX as usize)?,
            "w" => self.window = words(1, WINDOW_MAX)?,
            "version" => self.version = parse_version(value)?,
            _ => self.limit_bytes = Some(words(1 << 20, RESERVED_BYTES)? as u64),
        }
        Ok(())
    }

    /// The value of `OCAMLRUNPARAM` that gives the real runtime these parameters.
    pub fn run_parameters(&self) -> String {
        let Spec {
            policy,
            minor_words,
            space_overhead,
            increment,
            initial_words,
            max_overhead,
            window,
            ..
        } = *self;
        format!(
            "a={},s={minor_words},o={space_overhead},i={increment},h={initial_words},O={max_overhead},w={window}",
            policy as usize
        )
    }
}

fn parse_version(value: &str) -> Result<Version, SpecError> {
    let wrong = || SpecError::Value {
        parameter: "version",
        takes: "4.12, 4.13, 4.14 or 4.14.2",
        value: value.into(),
    };
    Version::named(value).ok_or_else(wrong)
}

impl std::fmt::Display for Spec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let default = Spec::new(self.version);
        write!(f, "{}", self.policy.name())?;
        let numbers = [
            ("s", self.minor_words, default.minor_words),
            ("o", self.space_overhead, default.space_overhead),
            ("i", self.increment, default.increment),
            ("h", self.initial_words, default.initial_words),
            ("O", self.max_overhead, default.max_overhead),
            ("w", self.window, default.window),
        ];
        for (name, value, _) in numbers.iter().filter(|(_, value, default)| value != default) {
            write!(f, ",{name}={value}")?;
        }
        if self.version != Version::V4_13 {
            write!(f, ",version={}", self.version.strategy().name)?;
        }
        match self.limit_bytes {
            Some(limit) => write!(f, ",limit={limit}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_parameters_are_read_and_written() {
        let spec = Spec::parse("first-fit,o=40,s=33000,version=4.12").unwrap();
        assert_eq!(
            (spec.policy, spec.space_overhead, spec.minor_words),
            (Policy::FirstFit, 40, 33280)
        );
        assert_eq!(spec.to_string(), "first-fit,s=33280,o=40,version=4.12");
        assert_eq!(Spec::parse(&spec.to_string()), Ok(spec));
        assert_eq!(Spec::parse("a=0,o=80,version=4.13.1").unwrap().to_string(), "next-fit,o=80");
        for two in ["best-fit,a=0", "a=0,best-fit"] {
            let said = Spec::parse(two).unwrap_err().to_string();
            assert!(said.contains("two policies, best-fit and a=0"), "{said}");
        }
        assert_eq!(
            Spec::parse("space_overhead=80").unwrap(),
            Spec::parse("best-fit,o=80").unwrap()
        );
        assert_eq!(
            Spec::parse("").unwrap().run_parameters(),
            "a=2,s=262144,o=120,i=15,h=126976,O=500,w=1"
        );
        let of_4_14 = ["4.14", "4.14.1", "4.14.2"]
            .map(|version| Spec::parse(&format!("version={version}")).unwrap().to_string());
        assert_eq!(of_4_14, ["4.14", "4.14", "4.14.2"].map(|v| format!("best-fit,version={v}")));
        assert_eq!(Spec::parse("version=4.12").unwrap().to_string(), "next-fit,version=4.12");
    }

    #[test]
    fn what_is_not_understood_is_said() {
        for (text, part) in [
            ("worst-fit", "no policy or parameter \"worst-fit\"; the policies are next-fit"),
            ("best-fit,x=1", "no policy or parameter \"x\""),
            ("o=0", "o takes percent, 1 to 1000000, not \"0\""),
            ("s=1", "s takes words"),
            ("a=3", "a takes 0 (next-fit), 1 (first-fit) or 2 (best-fit), not \"3\""),
            ("w=51", "w takes 1 to 50"),
            ("version=5.1", "version takes 4.12, 4.13, 4.14 or 4.14.2, not \"5.1\""),
        ] {
            let message = Spec::parse(text).unwrap_err().to_string();
            assert!(message.contains(part), "{text}: {message}");
        }
    }
}
