//! The parameters of the family on a command line: `node:version=13.14.0,strategy=2,compact=never`.
//!
//! Parsing and help derive from one table ([`PARAMETERS`]).

use crate::known;
use heaplab_heap::{Parameter, parameter};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// The family's name.
pub const FAMILY: &str = "node";

/// The strategies of `--gc-freelist-strategy`, in the order of their numbers.
pub const STRATEGIES: [&str; 6] =
    ["legacy", "fast-alloc", "many", "many-cached", "many-fast-path", "many-origin"];

/// The parameters.
pub const PARAMETERS: [Parameter; 12] = [
    Parameter {
        name: "version",
        takes: "12.22.1, 13.14.0, 14.0.0, 14.21.3 or another Node of 12 to 14: others have no such strategies",
        default: known::VERSION,
        help: "the Node to run the workload in (V8 7.8, 7.9, 8.1, 8.4)",
    },
    Parameter {
        name: "strategy",
        takes: "0 to 5, or legacy, fast-alloc, many, many-cached, many-fast-path, many-origin",
        default: "many-origin",
        help: "V8's free-list strategy",
    },
    Parameter {
        name: "compact",
        takes: "never, regular or always",
        default: "regular",
        help: "when full collections move objects: never; if V8 finds it worthwhile; always",
    },
    Parameter {
        name: "gc",
        takes: "forced or own",
        default: "forced",
        help: "forced: only the workload's full collections; own: only V8's (predictable schedule, no incremental marking; watching costs a microsecond a birth)",
    },
    Parameter {
        name: "every",
        takes: "a number of births",
        default: "none",
        help: "force a full collection after this many births (gc=forced)",
    },
    Parameter {
        name: "limit",
        takes: "bytes with m or g; whole megabytes",
        default: "8g",
        help: "maximum size of the old generation",
    },
    Parameter {
        name: "semi_space",
        takes: "1m to 512m, a power of two: V8 rounds others up",
        default: "4m",
        help: "size of a semi-space",
    },
    Parameter {
        name: "categories",
        takes: "true or false",
        default: "false",
        help: "also report the free bytes of each category on each page, before collections and after sweeping",
    },
    Parameter {
        name: "sweeping",
        takes: "lazy or whole",
        default: "lazy",
        help: "lazy: V8 sweeps a page at a time where memory is needed; whole: the first hidden class after a forced full collection finds all pages swept, as V8's sweeper threads leave them",
    },
    Parameter {
        name: "timeout",
        takes: "1 to 86400 s",
        default: "600 and 1 more per 20,000 steps",
        help: "kill Node after this time",
    },
    Parameter {
        name: "own",
        takes: "a file",
        default: "none",
        help: "write the places of Node's own objects at the workload's start into this file, for base= of v8; replaces only a file of the same Node and parameters",
    },
    Parameter {
        name: "node",
        takes: "a path",
        default: "found by version",
        help: "the Node program; it must have the given version",
    },
];

/// Whether full collections move objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compact {
    /// `--never-compact`.
    Never,
    /// V8 decides.
    #[default]
    Regular,
    /// `--always-compact`.
    Always,
}

impl Compact {
    /// As it is named.
    pub fn name(self) -> &'static str {
        match self {
            Compact::Never => "never",
            Compact::Regular => "regular",
            Compact::Always => "always",
        }
    }
}

/// The source of full collections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Gc {
    /// The workload only.
    #[default]
    Forced,
    /// V8 only.
    Own,
}

impl Gc {
    /// As it is named.
    pub fn name(self) -> &'static str {
        match self {
            Gc::Forced => "forced",
            Gc::Own => "own",
        }
    }
}

/// The parameters: a Node with its flags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// Node's version.
    pub version: String,
    /// 0 to 5.
    pub strategy: u8,
    /// Whether full collections move objects.
    pub compact: Compact,
    /// The source of full collections.
    pub gc: Gc,
    /// Births between forced collections.
    pub every: Option<u64>,
    /// Most MB of the old generation.
    pub limit_mb: u64,
    /// MB of a semi-space.
    pub semi_space_mb: u64,
    /// Whether to report free bytes by category.
    pub categories: bool,
    /// The first hidden class after a full collection finds all pages swept.
    pub swept_whole: bool,
    /// Kill it after this time.
    pub timeout: Option<Duration>,
    /// The file for Node's own objects.
    pub own: Option<PathBuf>,
    /// The program itself.
    pub node: Option<PathBuf>,
    pub(crate) text: String,
}

/// The mistake in a text of parameters.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// No such parameter.
    #[error("node has no parameter {name:?}; it has {known}")]
    Parameter {
        /// The given name.
        name: String,
        /// The known names.
        known: String,
    },
    /// The parameter does not take this value.
    #[error("node:{parameter} takes {takes}, not {value:?}")]
    Value {
        /// The parameter.
        parameter: &'static str,
        /// The possible values.
        takes: &'static str,
        /// The given value.
        value: String,
    },
    /// Another parameter makes this one useless.
    #[error("node:{0}")]
    Useless(&'static str),
}

impl Default for Spec {
    fn default() -> Spec {
        Spec {
            version: known::VERSION.into(),
            strategy: 5,
            compact: Compact::default(),
            gc: Gc::default(),
            every: None,
            limit_mb: 8192,
            semi_space_mb: 4,
            categories: false,
            swept_whole: false,
            timeout: None,
            own: None,
            node: None,
            text: String::new(),
        }
    }
}

impl Spec {
    /// Parses `parameter=value` pieces, separated by commas; an empty text gives the defaults.
    ///
    /// # Errors
    /// An unknown parameter, or a value that the parameter does not take.
    pub fn parse(text: &str) -> Result<Spec, SpecError> {
        let mut spec = Spec { text: text.into(), ..Spec::default() };
        for piece in text.split(',').filter(|piece| !piece.is_empty()) {
            let (key, value) = piece.split_once('=').unwrap_or((piece, ""));
            let Some(parameter) = PARAMETERS.iter().find(|parameter| parameter.name == key) else {
                let known = PARAMETERS.map(|parameter| parameter.name).join(", ");
                return Err(SpecError::Parameter { name: key.into(), known });
            };
            let wrong = || SpecError::Value {
                parameter: parameter.name,
                takes: parameter.takes,
                value: value.into(),
            };
            spec.set(parameter.name, value).ok_or_else(wrong)?;
        }
        if spec.every.is_some() && spec.gc == Gc::Own {
            return Err(SpecError::Useless(
                "every forces collections, and gc=own leaves them to V8",
            ));
        }
        if spec.swept_whole && spec.gc == Gc::Own {
            return Err(SpecError::Useless(
                "sweeping=whole sweeps after forced collections, and gc=own leaves them to V8",
            ));
        }
        Ok(spec)
    }

    fn set(&mut self, name: &str, value: &str) -> Option<()> {
        match name {
            "version" => self.version = version(value)?,
            "strategy" => self.strategy = strategy(value)?,
            "compact" => {
                self.compact = [Compact::Never, Compact::Regular, Compact::Always]
                    .into_iter()
                    .find(|way| way.name() == value)?
            }
            "gc" => self.gc = [Gc::Forced, Gc::Own].into_iter().find(|gc| gc.name() == value)?,
            "every" => self.every = Some(value.parse().ok().filter(|births| *births > 0)?),
            "limit" => self.limit_mb = megabytes(value).filter(|mb| (4..=1 << 20).contains(mb))?,
            "semi_space" => {
                self.semi_space_mb =
                    megabytes(value).filter(|mb| (1..=512).contains(mb) && mb.is_power_of_two())?
            }
            "categories" => self.categories = value.parse().ok()?,
            "sweeping" => {
                self.swept_whole = match value {
                    "lazy" => false,
                    "whole" => true,
                    _ => return None,
                }
            }
            "timeout" => {
                self.timeout = Some(Duration::from_secs(
                    value.parse().ok().filter(|seconds| (1..=86_400).contains(seconds))?,
                ))
            }
            "own" => {
                self.own = Some(PathBuf::from(value)).filter(|path| !path.as_os_str().is_empty())
            }
            "node" => {
                self.node = Some(PathBuf::from(value)).filter(|path| !path.as_os_str().is_empty())
            }
            _ => return None,
        }
        let empty = name == "node" && self.node.is_none() || name == "own" && self.own.is_none();
        (!empty).then_some(())
    }

    /// The flags of V8.
    ///
    /// `--predictable-gc-schedule` would be shorter. But it sets `--heap-growing-percent` to 30
    /// whatever the command line says (flag-definitions.h, an implication by value), and V8 would
    /// collect on its own between forced collections of a growing workload. So the flags that it
    /// stands for are named one by one.
    pub fn flags(&self) -> Vec<String> {
        let growth = if self.gc == Gc::Forced { 100_000 } else { 30 };
        let semi = self.semi_space_mb;
        let mut flags = vec![
            format!("{}={}", known::STRATEGY_FLAG, self.strategy),
            format!("--min-semi-space-size={semi}"),
            format!("--max-semi-space-size={semi}"),
            format!("--heap-growing-percent={growth}"),
            format!("--max-old-space-size={}", self.limit_mb),
        ];
        // Bytecode flushing, lazy feedback and the compilation cache would let objects of Node die
        // or be born during a workload. From 8.4 on only V8's own collections age code, and the
        // fourth one drops the driver's entry of 48 bytes. The seed is fixed because V8 chooses
        // addresses by it, and these decide the order in which pages are compacted.
        let always = "--no-memory-reducer --single-threaded --single-threaded-gc \
                      --no-incremental-marking --expose-gc --no-opt --no-flush-bytecode \
                      --no-lazy-feedback-allocation --no-compilation-cache --random-seed=1";
        flags.extend(always.split_whitespace().map(String::from));
        flags
    }

    /// The limit as written; `None` if not given.
    pub(crate) fn named_limit(&self) -> Option<&str> {
        self.text.split(',').rev().find(|piece| piece.starts_with("limit="))
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.text.is_empty() { f.write_str(FAMILY) } else { write!(f, "{FAMILY}:{}", self.text) }
    }
}

/// Three numbers with dots between, of a Node with free-list strategies.
fn version(text: &str) -> Option<String> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let pieces: Vec<&str> = text.split('.').collect();
    let number = |piece: &&str| {
        !piece.is_empty() && piece.len() <= 4 && piece.bytes().all(|byte| byte.is_ascii_digit())
    };
    let is_version = pieces.len() == 3 && pieces.iter().all(number);
    // Others lack the flag, however they are installed.
    let has_strategies = matches!(pieces[0], "12" | "13" | "14");
    (is_version && has_strategies).then(|| text.into())
}

fn strategy(text: &str) -> Option<u8> {
    let numbered = text.parse::<u8>().ok().filter(|number| usize::from(*number) < STRATEGIES.len());
    numbered.or_else(|| STRATEGIES.iter().position(|name| *name == text).map(|at| at as u8))
}

fn megabytes(text: &str) -> Option<u64> {
    parameter::bytes(text)
        .filter(|bytes| *bytes > 0 && bytes.is_multiple_of(1 << 20))
        .map(|bytes| bytes >> 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_read_and_others_refused_with_what_there_is() {
        let spec = Spec::parse("version=14.0.0,strategy=many,compact=never,limit=2g,semi_space=16m,every=20000,timeout=5").unwrap();
        assert_eq!(
            (spec.version.as_str(), spec.strategy, spec.compact),
            ("14.0.0", 2, Compact::Never)
        );
        assert_eq!(
            (spec.limit_mb, spec.semi_space_mb, spec.every, spec.timeout),
            (2048, 16, Some(20_000), Some(Duration::from_secs(5)))
        );
        assert_eq!(
            Spec::parse("strategy=4").unwrap(),
            Spec { text: "strategy=4".into(), strategy: 4, ..Spec::default() }
        );
        assert_eq!(Spec::parse("").unwrap(), Spec::default());
        let said = |text: &str| Spec::parse(text).unwrap_err().to_string();
        assert_eq!(
            said("fast=1"),
            "node has no parameter \"fast\"; it has version, strategy, compact, gc, every, limit, semi_space, categories, sweeping, timeout, own, node"
        );
        assert_eq!(
            said("strategy=6"),
            "node:strategy takes 0 to 5, or legacy, fast-alloc, many, many-cached, many-fast-path, many-origin, not \"6\""
        );
        for wrong in [
            "version=13",
            "version=13.14.x",
            "version=20.20.2",
            "compact=no",
            "gc=",
            "every=0",
            "limit=1000",
            "limit=1k",
            "semi_space=0m",
            "timeout=0",
            "sweeping=eager",
        ] {
            let name = wrong.split('=').next().unwrap();
            assert!(said(wrong).starts_with(&format!("node:{name} takes ")), "{}", said(wrong));
        }
        assert!(
            said("node=").contains("takes a path")
                && said("gc=own,every=5").contains("leaves them to V8")
                && said("gc=own,sweeping=whole").contains("leaves them to V8")
        );
        assert!(Spec::parse("sweeping=whole").unwrap().swept_whole);
    }

    #[test]
    fn every_parameter_of_the_table_is_known_to_the_parser() {
        for parameter in PARAMETERS {
            assert!(
                !matches!(
                    Spec::parse(&format!("{}=?", parameter.name)),
                    Err(SpecError::Parameter { .. })
                ),
                "{}",
                parameter.name
            );
        }
    }
}
