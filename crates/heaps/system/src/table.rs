//! Every heap of this family by name, with its parameters: the one table behind parsing, limits,
//! help and the environment of a fresh process.
//!
//! A heap is named `glibc`, or with parameters `jemalloc:narenas=1,dirty_decay_ms=0`. Allocators
//! read their parameters before `main`, so a parameter becomes a part of the environment.

use serde::Serialize;
use std::collections::BTreeMap;

/// The allocator of a heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The process's own malloc.
    Glibc,
    /// jemalloc from its crate.
    Jemalloc,
    /// mimalloc from its crate.
    Mimalloc,
    /// A shared library.
    Library,
    /// No heap: the driver's own cost.
    Null,
}

/// A heap of the table.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct NamedHeap {
    /// Its allocator.
    pub kind: Kind,
    /// Its name on the command line.
    pub name: &'static str,
    /// A description in one line.
    pub summary: &'static str,
    /// The argument behind the colon, before any parameter: a library's path.
    pub argument: Option<&'static str>,
    /// Its parameters.
    pub parameters: &'static [Parameter],
    /// Why its space differs from run to run; it is then measured in several cells. `None`: it does
    /// not.
    pub space_depends_on_time: Option<&'static str>,
}

/// A parameter of a heap.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Parameter {
    /// Its name on the command line.
    pub name: &'static str,
    /// Its possible values.
    pub takes: Takes,
    /// Its value when not named, by the allocator's documentation.
    pub default: &'static str,
    /// Its effect, in one line.
    pub help: &'static str,
    /// The way of passing it to the allocator.
    #[serde(skip)]
    told: Told,
}

/// The possible values of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Takes {
    /// A whole number in these bounds, both included.
    Number(i64, i64),
    /// `true` or `false`.
    Switch,
    /// One of these words.
    Word(&'static [&'static str]),
}

impl std::fmt::Display for Takes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Takes::Number(low, i64::MAX) => write!(f, "{low} or more"),
            Takes::Number(low, high) => write!(f, "{low} to {high}"),
            Takes::Switch => f.write_str("true or false"),
            Takes::Word(words) => f.write_str(&words.join(" or ")),
        }
    }
}

/// The way to pass a parameter to an allocator before `main`.
#[derive(Clone, Copy, Debug)]
enum Told {
    /// `GLIBC_TUNABLES=NAME=VALUE:...`
    Tunable(&'static str),
    /// `_RJEM_MALLOC_CONF=NAME:VALUE,...`; the name is the parameter's.
    Conf,
    /// An environment variable; switches are 0 and 1.
    Variable(&'static str),
}

const fn parameter(
    name: &'static str,
    takes: Takes,
    default: &'static str,
    told: Told,
    help: &'static str,
) -> Parameter {
    Parameter { name, takes, default, help, told }
}

/// A parameter that glibc reads as a tunable of the same name.
const fn tunable(
    name: &'static str,
    takes: Takes,
    default: &'static str,
    help: &'static str,
) -> Parameter {
    parameter(name, takes, default, Told::Tunable(name), help)
}

const MIB: i64 = 1 << 20;

/// The tunables of glibc's malloc (its manual, "Memory Allocation Tunables"). An older glibc
/// ignores a tunable that it lacks.
const GLIBC: &[Parameter] = &[
    tunable(
        "arena_max",
        Takes::Number(1, 1024),
        "8 a processor",
        "maximum number of arenas; threads share them",
    ),
    tunable(
        "mmap_threshold",
        Takes::Number(0, 32 * MIB),
        "131072, growing",
        "smallest size of blocks with their own mapping",
    ),
    tunable(
        "mmap_max",
        Takes::Number(0, i32::MAX as i64),
        "65536",
        "maximum number of blocks with their own mapping",
    ),
    tunable(
        "trim_threshold",
        Takes::Number(0, i64::MAX),
        "131072, growing",
        "free bytes at the top that trigger giving memory back",
    ),
    tunable("top_pad", Takes::Number(0, i64::MAX), "131072", "extra bytes to request at a time"),
    tunable(
        "tcache_count",
        Takes::Number(0, 65535),
        "7",
        "blocks of one size in a thread's cache; 0: none",
    ),
    tunable(
        "tcache_max",
        Takes::Number(0, 2 * MIB),
        "1032",
        "largest block in a thread's cache, bytes",
    ),
    tunable(
        "mxfast",
        Takes::Number(0, 160),
        "128",
        "largest block that is freed without merging, bytes",
    ),
    tunable("hugetlb", Takes::Number(0, 2), "0", "1: madvise huge pages, 2: map them"),
];

/// Options of jemalloc (its manual, "opt." names).
const JEMALLOC: &[Parameter] = &[
    parameter(
        "narenas",
        Takes::Number(1, 4095),
        "4 a processor",
        Told::Conf,
        "number of arenas; threads share them",
    ),
    parameter(
        "dirty_decay_ms",
        Takes::Number(-1, i64::MAX),
        "10000",
        Told::Conf,
        "time until unused dirty pages are purged; 0: at once, -1: never",
    ),
    parameter(
        "muzzy_decay_ms",
        Takes::Number(-1, i64::MAX),
        "0",
        Told::Conf,
        "time until lazily purged pages are returned; -1: never",
    ),
    parameter("tcache", Takes::Switch, "true", Told::Conf, "a cache for each thread"),
    parameter(
        "tcache_max",
        Takes::Number(8, 8 * MIB),
        "32768",
        Told::Conf,
        "largest block in a thread's cache, bytes",
    ),
    parameter(
        "background_thread",
        Takes::Switch,
        "false",
        Told::Conf,
        "purge in a separate thread",
    ),
    parameter(
        "oversize_threshold",
        Takes::Number(0, i64::MAX),
        "8388608",
        Told::Conf,
        "smallest size of blocks with their own arena; 0: none",
    ),
    parameter("retain", Takes::Switch, "true", Told::Conf, "keep unused address space"),
    parameter(
        "thp",
        Takes::Word(&["default", "always", "never"]),
        "default",
        Told::Conf,
        "transparent huge pages",
    ),
];

/// Options of mimalloc (its manual, "Environment Options").
const MIMALLOC: &[Parameter] = &[
    parameter(
        "purge_delay",
        Takes::Number(-1, i32::MAX as i64),
        "1000",
        Told::Variable("MIMALLOC_PURGE_DELAY"),
        "ms until unused pages are purged; 0: at once, -1: never",
    ),
    parameter(
        "purge_decommits",
        Takes::Switch,
        "true",
        Told::Variable("MIMALLOC_PURGE_DECOMMITS"),
        "purged pages are decommitted",
    ),
    parameter(
        "arena_eager_commit",
        Takes::Number(0, 2),
        "2",
        Told::Variable("MIMALLOC_ARENA_EAGER_COMMIT"),
        "commit arenas whole; 2: only if the system overcommits",
    ),
    parameter(
        "page_full_retain",
        Takes::Number(-1, 1 << 16),
        "2",
        Told::Variable("MIMALLOC_PAGE_FULL_RETAIN"),
        "unused pages kept for each size class",
    ),
    parameter(
        "allow_large_os_pages",
        Takes::Switch,
        "false",
        Told::Variable("MIMALLOC_ALLOW_LARGE_OS_PAGES"),
        "use 2 MiB pages",
    ),
    parameter(
        "allow_thp",
        Takes::Switch,
        "true",
        Told::Variable("MIMALLOC_ALLOW_THP"),
        "transparent huge pages",
    ),
];

/// Every heap of this family.
pub const HEAPS: &[NamedHeap] = &[
    NamedHeap {
        kind: Kind::Glibc,
        name: "glibc",
        summary: "the C library's malloc of this process",
        argument: None,
        parameters: GLIBC,
        space_depends_on_time: None,
    },
    NamedHeap {
        kind: Kind::Jemalloc,
        name: "jemalloc",
        summary: "jemalloc, built in beside the C library's",
        argument: None,
        parameters: JEMALLOC,
        space_depends_on_time: Some("unused pages are purged after a time (dirty_decay_ms)"),
    },
    NamedHeap {
        kind: Kind::Mimalloc,
        name: "mimalloc",
        summary: "mimalloc, built in beside the C library's",
        argument: None,
        parameters: MIMALLOC,
        space_depends_on_time: Some("unused pages are purged after a time (purge_delay)"),
    },
    NamedHeap {
        kind: Kind::Library,
        name: "lib",
        summary: "any allocator in a shared library; NAME=VALUE sets its environment",
        argument: Some("/path/to/libother.so"),
        parameters: &[],
        space_depends_on_time: Some("nothing is known of a foreign library"),
    },
    NamedHeap {
        kind: Kind::Null,
        name: "null",
        summary: "no heap: shows the driver's own cost",
        argument: None,
        parameters: &[],
        space_depends_on_time: None,
    },
];

/// A requested heap with its parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// Its allocator.
    pub kind: Kind,
    /// A library's path.
    pub path: Option<String>,
    /// The named parameters, with their values.
    pub parameters: Vec<(String, String)>,
}

/// Why a name is not a heap's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// No such heap.
    #[error("there is no heap {name:?}; there are {known} (heaplab heaps lists their parameters)")]
    Name {
        /// As typed.
        name: String,
        /// The known heaps.
        known: String,
    },
    /// No such parameter.
    #[error("{heap} has no parameter {name:?}; it has {known}")]
    Parameter {
        /// The heap.
        heap: &'static str,
        /// As typed.
        name: String,
        /// The heap's parameters.
        known: String,
    },
    /// An invalid value of this parameter.
    #[error("{heap}:{name} takes {takes}, not {value:?}")]
    Value {
        /// The heap.
        heap: &'static str,
        /// The parameter.
        name: &'static str,
        /// The possible values.
        takes: Takes,
        /// As typed.
        value: String,
    },
    /// A library without a path, or a path in the wrong place.
    #[error("{0}")]
    Argument(String),
}

impl Spec {
    /// Parses `name`, `name:parameter=value,...` or `lib:/path[,NAME=VALUE,...]`.
    pub fn parse(text: &str) -> Result<Spec, SpecError> {
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        let Some(heap) = HEAPS.iter().find(|heap| heap.name == name) else {
            let known = HEAPS.iter().map(|heap| heap.name).collect::<Vec<_>>().join(", ");
            return Err(SpecError::Name { name: name.into(), known });
        };
        let mut spec = Spec { kind: heap.kind, path: None, parameters: Vec::new() };
        let mut pieces = rest.split(',').filter(|piece| !piece.is_empty()).peekable();
        if let Some(argument) = heap.argument {
            let path = pieces.next().filter(|path| !path.contains('='));
            let missing = || SpecError::Argument(format!("{name} takes a path: {name}:{argument}"));
            spec.path = Some(path.ok_or_else(missing)?.to_string());
        }
        for piece in pieces {
            let Some((key, value)) = piece.split_once('=') else {
                return Err(SpecError::Argument(format!("{name}:{piece} is not PARAMETER=VALUE")));
            };
            if heap.argument.is_none() {
                heap.check(key, value)?;
            }
            spec.parameters.push((key.into(), value.into()));
        }
        Ok(spec)
    }

    /// The heap's row of the table.
    pub fn heap(&self) -> &'static NamedHeap {
        HEAPS.iter().find(|heap| heap.kind == self.kind).unwrap_or(&HEAPS[0])
    }

    /// The environment that gives a fresh process's heap its parameters.
    pub fn environment(&self) -> Vec<(String, String)> {
        let mut environment: BTreeMap<String, String> = BTreeMap::new();
        let mut add = |name: &str, value: String, separator: char| {
            let entry = environment.entry(name.into()).or_default();
            if !entry.is_empty() {
                entry.push(separator);
            }
            entry.push_str(&value);
        };
        if self.kind == Kind::Library {
            // An allocator's thread-local data often must be reserved at the process's start.
            add("GLIBC_TUNABLES", "glibc.rtld.optional_static_tls=65536".into(), ':');
        }
        for (name, value) in &self.parameters {
            match self.heap().parameters.iter().find(|parameter| parameter.name == name) {
                Some(parameter) => match parameter.told {
                    Told::Tunable(tunable) => {
                        add("GLIBC_TUNABLES", format!("glibc.malloc.{tunable}={value}"), ':')
                    }
                    Told::Conf => add("_RJEM_MALLOC_CONF", format!("{name}:{value}"), ','),
                    Told::Variable(variable) => {
                        let number = match value.as_str() {
                            "true" => "1",
                            "false" => "0",
                            other => other,
                        };
                        add(variable, number.into(), ' ');
                    }
                },
                None => add(name, value.clone(), ' '),
            }
        }
        environment.into_iter().collect()
    }
}

impl std::fmt::Display for Spec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.heap().name)?;
        let path = self.path.iter().cloned();
        let pieces: Vec<String> = path
            .chain(self.parameters.iter().map(|(name, value)| format!("{name}={value}")))
            .collect();
        if pieces.is_empty() { Ok(()) } else { write!(f, ":{}", pieces.join(",")) }
    }
}

impl NamedHeap {
    fn check(&self, name: &str, value: &str) -> Result<(), SpecError> {
        let Some(parameter) = self.parameters.iter().find(|parameter| parameter.name == name)
        else {
            let known: Vec<&str> = self.parameters.iter().map(|parameter| parameter.name).collect();
            let known = if known.is_empty() { String::from("none") } else { known.join(", ") };
            return Err(SpecError::Parameter { heap: self.name, name: name.into(), known });
        };
        let fits = match parameter.takes {
            Takes::Number(low, high) => {
                value.parse::<i64>().is_ok_and(|number| (low..=high).contains(&number))
            }
            Takes::Switch => matches!(value, "true" | "false"),
            Takes::Word(words) => words.contains(&value),
        };
        if fits {
            return Ok(());
        }
        Err(SpecError::Value {
            heap: self.name,
            name: parameter.name,
            takes: parameter.takes,
            value: value.into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_parameters_parse_print_and_become_an_environment() {
        let cases = [
            ("glibc", vec![]),
            (
                "glibc:arena_max=1,mmap_threshold=65536",
                vec![(
                    "GLIBC_TUNABLES",
                    "glibc.malloc.arena_max=1:glibc.malloc.mmap_threshold=65536",
                )],
            ),
            (
                "jemalloc:narenas=1,dirty_decay_ms=-1",
                vec![("_RJEM_MALLOC_CONF", "narenas:1,dirty_decay_ms:-1")],
            ),
            (
                "mimalloc:purge_delay=0,allow_thp=false",
                vec![("MIMALLOC_ALLOW_THP", "0"), ("MIMALLOC_PURGE_DELAY", "0")],
            ),
            (
                "lib:/usr/lib/libx.so,MALLOC_CONF=narenas:1",
                vec![
                    ("GLIBC_TUNABLES", "glibc.rtld.optional_static_tls=65536"),
                    ("MALLOC_CONF", "narenas:1"),
                ],
            ),
        ];
        for (text, expected) in cases {
            let spec = Spec::parse(text).unwrap();
            assert_eq!(spec.to_string(), text);
            let environment = spec.environment();
            let environment: Vec<(&str, &str)> =
                environment.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            assert_eq!(environment, expected, "{text}");
        }
    }

    #[test]
    fn what_is_not_a_heap_is_said_with_what_there_is() {
        let messages: Vec<String> = [
            "tcmalloc",
            "jemalloc:arenas=1",
            "glibc:arena_max=0",
            "jemalloc:tcache=yes",
            "lib",
            "null:x=1",
            "glibc:fast",
        ]
        .iter()
        .map(|text| Spec::parse(text).unwrap_err().to_string())
        .collect();
        assert_eq!(
            messages,
            [
                "there is no heap \"tcmalloc\"; there are glibc, jemalloc, mimalloc, lib, null (heaplab heaps lists their parameters)",
                "jemalloc has no parameter \"arenas\"; it has narenas, dirty_decay_ms, muzzy_decay_ms, tcache, tcache_max, \
                 background_thread, oversize_threshold, retain, thp",
                "glibc:arena_max takes 1 to 1024, not \"0\"",
                "jemalloc:tcache takes true or false, not \"yes\"",
                "lib takes a path: lib:/path/to/libother.so",
                "null has no parameter \"x\"; it has none",
                "glibc:fast is not PARAMETER=VALUE",
            ]
        );
    }
}
