//! A heap's parameters: `v8:many,version=7.9,compact=never`.

use crate::facts::{PAGE_BYTES, SEMI_SPACE_BYTES, VERSIONS, Version};
use crate::own::{self, OwnPage};
use crate::strategy::{self, PageOrder, Strategy};
use crate::{described, documented};
use heaplab_heap::Parameter;
use heaplab_heap::parameter::bytes;
use std::fmt;
use std::path::{Path, PathBuf};

/// The pages that a full collection empties.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compact {
    /// None (`--never-compact`).
    Never,
    /// By V8's rule of worthwhile pages.
    Regular,
    /// All (`--always-compact`).
    Always,
}

/// The objects of a birth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// `new Array(words)` of JavaScript: an array object and its elements.
    Array,
    /// One object: a header word and the body.
    Plain,
    /// One object of the birth's bytes, which include the header word.
    Recorded,
}

/// All parameters of a heap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// Free-list strategy.
    pub strategy: Strategy,
    /// The version whose rules apply.
    pub version: Version,
    /// Compaction.
    pub compact: Compact,
    /// Object shape.
    pub shape: Shape,
    /// One semi-space.
    pub semi_space_bytes: usize,
    /// Most bytes of old space and large objects.
    pub limit_bytes: usize,
    /// Tasks of a scavenge.
    pub tasks: usize,
    /// The pages that the runtime's own objects fill, in the order of their space.
    pub base: Option<Vec<OwnPage>>,
    /// Runs a full collection after each `every` births; 0: only the workload's.
    pub every: u64,
    /// Growth of the old generation that makes a full collection due, percent.
    pub overhead_percent: Option<u32>,
    /// Leaves out forced collections.
    pub own_collections: bool,
    /// For regular compaction: the free percentage from which each full collection empties a page,
    /// in order; after the last one, the version's own. V8 computes the percentage from a speed
    /// measured by the clock, so only a real run knows it.
    pub free_percents: Vec<u32>,
    /// Reports free blocks by category at each full collection.
    pub categories: bool,
    /// The first map after a full collection finds all pages swept.
    pub swept_whole: bool,
    /// Order of map space's pages once sweeping is complete.
    pub map_order: PageOrder,
    /// Parameters as given.
    given: Vec<(String, String)>,
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let given = self.given.iter().map(|(name, value)| format!("{name}={value}"));
        // The parameter `file` names a strategy of one's own.
        let name = self.named_file("file").is_none().then(|| self.strategy.name.clone());
        write!(f, "v8:{}", name.into_iter().chain(given).collect::<Vec<_>>().join(","))
    }
}

/// A parameter that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("v8: {what}: expected {expected}, found `{found}`")]
pub struct SpecError {
    what: &'static str,
    expected: String,
    found: String,
    /// A named file cannot be read, or its content is wrong.
    pub(crate) of_file: bool,
}

impl SpecError {
    fn new(what: &'static str, expected: impl Into<String>, found: impl Into<String>) -> SpecError {
        SpecError { what, expected: expected.into(), found: found.into(), of_file: false }
    }

    fn of_file(what: &'static str, expected: String, path: &Path) -> SpecError {
        SpecError { of_file: true, ..SpecError::new(what, expected, path.display().to_string()) }
    }
}

/// Default limit. V8 has none of its own: its embedder derives one from the machine's memory.
const LIMIT_BYTES: usize = 64 << 30;

/// Most bytes of a file with the runtime's own objects.
const BASE_BYTES_MAX: u64 = 16 << 20;

/// `ScavengerCollector::kMaxScavengerTasks`.
const TASKS_MAX: usize = 8;

/// Parameters, in the order of the command line's list.
pub const PARAMETERS: [Parameter; 14] = [
    Parameter {
        name: "version",
        takes: "7.8, 7.9, 8.1 or 8.4",
        default: "7.9",
        help: "V8 version whose rules apply",
    },
    Parameter {
        name: "file",
        takes: "a TOML file",
        default: "none",
        help: "your own strategy instead of a named one: minimums, search, collector, room_bytes, steal, pages",
    },
    Parameter {
        name: "compact",
        takes: "never, regular or always",
        default: "regular",
        help: "pages that a full collection empties; always equals the real V8 only with base=",
    },
    Parameter {
        name: "shape",
        takes: "array, plain or recorded",
        default: "array",
        help: "array: a birth is `new Array(words)`; plain: one object and one header word; recorded: one object of just the birth's bytes, which is what record --node has",
    },
    Parameter {
        name: "semi_space",
        takes: "bytes, a power of two from 512k",
        default: "4m",
        help: "size of a semi-space",
    },
    Parameter {
        name: "tasks",
        takes: "1 to 8",
        default: "1",
        help: "tasks of a scavenge; they take turns in a fixed order, each with its own compaction space",
    },
    Parameter {
        name: "base",
        takes: "a TOML file, or live bytes of pages joined by +",
        default: "those of the version",
        help: "pages of the runtime's own objects: a file written by own= of node, or full pages that compaction never empties",
    },
    Parameter {
        name: "every",
        takes: "a number of births",
        default: "none",
        help: "force a full collection after this many births",
    },
    Parameter {
        name: "overhead",
        takes: "percent, 1 to 1000000",
        default: "none",
        help: "start a full collection when the old generation has grown by this share of its live bytes, at least 8 MB and new space (--heap-growing-percent)",
    },
    Parameter {
        name: "gc",
        takes: "forced or own",
        default: "forced",
        help: "forced: also obey the workload's forced collections; own: only the heap's own collections",
    },
    Parameter {
        name: "categories",
        takes: "true or false",
        default: "false",
        help: "report the free blocks of each category at each full collection",
    },
    Parameter {
        name: "sweeping",
        takes: "lazy or whole",
        default: "lazy",
        help: "lazy: a page at a time where memory is needed; whole: the first hidden class after a full collection finds all pages swept, as V8's sweeper threads leave them",
    },
    Parameter {
        name: "maps",
        takes: "fullest-first, linked-last or emptiest-first",
        default: "fullest-first",
        help: "order in which map space's pages serve hidden classes once sweeping is complete",
    },
    Parameter {
        name: "limit",
        takes: "bytes",
        default: "64g",
        help: "maximum size of old space and large objects together; as in V8, promotions of one collection may exceed it by up to a semi-space, so a workload with that much more alive can end well",
    },
];

impl Default for Spec {
    fn default() -> Spec {
        let [_, version, ..] = VERSIONS;
        let mut strategies = strategy::released();
        Spec {
            strategy: strategies.remove(strategies.len() - 1),
            version,
            compact: Compact::Regular,
            shape: Shape::Array,
            semi_space_bytes: SEMI_SPACE_BYTES,
            limit_bytes: LIMIT_BYTES,
            tasks: 1,
            base: None,
            every: 0,
            overhead_percent: None,
            free_percents: Vec::new(),
            categories: false,
            swept_whole: false,
            map_order: PageOrder::FullestFirst,
            own_collections: false,
            given: Vec::new(),
        }
    }
}

impl Spec {
    /// Parses the text behind `v8:`.
    ///
    /// # Errors
    /// The unknown part, with the known ones.
    pub fn parse(text: &str) -> Result<Spec, SpecError> {
        let (first, rest) = text.split_once(',').unwrap_or((text, ""));
        let (strategy, rest) = if first.contains('=') { (None, text) } else { (Some(first), rest) };
        let parameters = rest
            .split(',')
            .filter(|part| !part.is_empty())
            .map(|part| part.split_once('=').unwrap_or((part, "")));
        Spec::of(strategy, parameters)
    }

    /// A strategy's name and parameters.
    ///
    /// # Errors
    /// The unknown part, with the known ones.
    pub fn of<'a>(
        strategy: Option<&str>,
        parameters: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Spec, SpecError> {
        let mut spec = Spec::default();
        if let Some(name) = strategy {
            spec.strategy = find_strategy(name)?;
        }
        for (name, value) in parameters {
            if spec.given.iter().any(|(given, _)| given == name) {
                let expected = format!("{name} once");
                return Err(SpecError::new("one value of each parameter", expected, value));
            }
            spec.set(name, value)?;
            spec.given.push((name.into(), value.into()));
        }
        if let (Some(strategy), Some(file)) = (strategy, spec.named_file("file")) {
            let expected = format!("v8:file= without a strategy's name, or v8:{strategy} alone");
            return Err(SpecError::new("file", expected, file.display().to_string()));
        }
        // The version is known from here on.
        let area = spec.version.area_bytes;
        if let (None, Some(path)) = (&spec.base, spec.named_file("base")) {
            let text = read_file("base", &path, BASE_BYTES_MAX)?;
            // Segregated old space has its own pages, which have no holes.
            let block = match spec.strategy.segregated {
                None => spec.strategy.minimum_block(),
                Some(_) => usize::MAX,
            };
            let pages = own::from_toml(&text, &spec.version, block).map_err(|what| {
                let expected = format!("a file that own= of node wrote, but {what}");
                SpecError::of_file("base", expected, &path)
            })?;
            spec.base = Some(pages);
        }
        let over = |page: &&OwnPage| page.live_bytes as usize > area;
        if let Some(page) = spec.base.iter().flatten().find(over) {
            let version = spec.version.name;
            let expected =
                format!("at most {area} live bytes a page, the area of version {version}");
            return Err(SpecError::new("base", expected, page.live_bytes.to_string()));
        }
        if spec.every > 0 && spec.own_collections {
            let expected = "gc=forced beside it: every forces collections";
            return Err(SpecError::new("every", expected, "gc=own"));
        }
        Ok(spec)
    }

    /// Files that the spec was read from: a strategy of one's own, the runtime's own objects.
    pub fn files(&self) -> Vec<PathBuf> {
        let base = self
            .named_file("base")
            .filter(|_| self.base.iter().flatten().any(|page| !page.objects.is_empty()));
        self.named_file("file").into_iter().chain(base).collect()
    }

    /// The last value of a parameter that names a file.
    fn named_file(&self, name: &str) -> Option<PathBuf> {
        self.given.iter().rev().find(|(given, _)| given == name).map(|(_, value)| value.into())
    }

    /// The limit, as it was given.
    pub fn limit_text(&self) -> Option<String> {
        self.given
            .iter()
            .find(|(name, _)| name == "limit")
            .map(|(name, value)| format!("{name}={value}"))
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), SpecError> {
        let wrong = |what, expected: &str| SpecError::new(what, expected, value);
        match name {
            "version" => {
                let found =
                    VERSIONS.iter().find(|version| version.name == value || version.node == value);
                self.version = *found.ok_or_else(|| wrong("version", "7.8, 7.9, 8.1 or 8.4"))?;
            }
            "file" => self.strategy = read_strategy(value)?,
            "compact" => {
                self.compact = match value {
                    "never" => Compact::Never,
                    "regular" => Compact::Regular,
                    "always" => Compact::Always,
                    _ => return Err(wrong("compact", "never, regular or always")),
                }
            }
            "shape" => {
                self.shape = match value {
                    "array" => Shape::Array,
                    "plain" => Shape::Plain,
                    "recorded" => Shape::Recorded,
                    _ => return Err(wrong("shape", "array, plain or recorded")),
                }
            }
            "semi_space" => {
                let size = bytes(value).and_then(|size| usize::try_from(size).ok());
                let fits = |size: &usize| {
                    (2 * PAGE_BYTES..=1 << 30).contains(size) && size.is_power_of_two()
                };
                self.semi_space_bytes = size.filter(fits).ok_or_else(|| {
                    wrong("semi_space", "a power of two from 512k to 1g: V8 rounds others up")
                })?;
            }
            "tasks" => {
                let tasks = value.parse().ok().filter(|tasks| (1..=TASKS_MAX).contains(tasks));
                self.tasks = tasks.ok_or_else(|| wrong("tasks", "1 to 8"))?;
            }
            // Read once the version is known.
            "base" if !value.bytes().all(|byte| byte.is_ascii_digit() || b"+r".contains(&byte)) => {
                self.base = None;
            }
            "base" => {
                let sizes: Option<Vec<OwnPage>> = value.split('+').map(base_page).collect();
                self.base = Some(sizes.ok_or_else(|| {
                    wrong("base", "live bytes of pages, with an r behind where it has a remembered set, joined by +")
                })?);
            }
            "every" => {
                let births = value.parse().ok().filter(|births| *births > 0);
                self.every = births.ok_or_else(|| wrong("every", "a number of births from 1"))?;
            }
            "overhead" => {
                let percent =
                    value.parse().ok().filter(|percent| (1..=1_000_000).contains(percent));
                let wrong = || wrong("overhead", "percent from 1 to 1000000");
                self.overhead_percent = Some(percent.ok_or_else(wrong)?);
            }
            "gc" => {
                self.own_collections = match value {
                    "forced" => false,
                    "own" => true,
                    _ => return Err(wrong("gc", "forced or own")),
                }
            }
            "categories" => {
                self.categories =
                    value.parse().map_err(|_| wrong("categories", "true or false"))?;
            }
            "sweeping" => {
                self.swept_whole = match value {
                    "lazy" => false,
                    "whole" => true,
                    _ => return Err(wrong("sweeping", "lazy or whole")),
                }
            }
            "maps" => {
                self.map_order = match value {
                    "fullest-first" => PageOrder::FullestFirst,
                    "linked-last" => PageOrder::LinkedLast,
                    "emptiest-first" => PageOrder::EmptiestFirst,
                    _ => {
                        let names = "fullest-first, linked-last or emptiest-first";
                        return Err(wrong("maps", names));
                    }
                }
            }
            "limit" => {
                let size = bytes(value).and_then(|size| usize::try_from(size).ok());
                self.limit_bytes = size
                    .filter(|size| *size >= PAGE_BYTES)
                    .ok_or_else(|| wrong("limit", "256k or more"))?;
            }
            _ => {
                let names: Vec<_> = PARAMETERS.iter().map(|parameter| parameter.name).collect();
                return Err(SpecError::new("parameter", names.join(", "), name));
            }
        }
        Ok(())
    }

    /// The pages that the runtime's own objects fill: the given ones, else the version's.
    pub fn base_pages(&self) -> Vec<OwnPage> {
        let keeps_small_blocks = self.strategy.minimum_block() < 2040;
        let base =
            if keeps_small_blocks { self.version.base } else { self.version.base_with_holes };
        let known = || {
            base.iter().flat_map(|&(live, remembered, count)| {
                std::iter::repeat_n(OwnPage::of_bytes(live, remembered), count)
            })
        };
        self.base.clone().unwrap_or_else(|| known().collect())
    }

    /// Bytes of addresses to reserve: the limit, semi-spaces, and copies during a collection.
    pub fn reserved_bytes(&self) -> usize {
        (3 * self.limit_bytes.min(1 << 40)).max(1 << 32) + 4 * self.semi_space_bytes
    }
}

/// A page's live bytes; an `r` behind them means a remembered set.
fn base_page(text: &str) -> Option<OwnPage> {
    let size = text.strip_suffix('r').unwrap_or(text).parse().ok()?;
    (size > 0).then(|| OwnPage::of_bytes(size, text.ends_with('r')))
}

/// The strategy in the TOML file at `path`. The file's size is bounded: a table of boundaries takes
/// some kilobytes.
fn read_strategy(path: &str) -> Result<Strategy, SpecError> {
    const STRATEGY_BYTES_MAX: u64 = 1 << 20;
    let text = read_file("file", Path::new(path), STRATEGY_BYTES_MAX)?;
    let wrong =
        |what| SpecError::of_file("file", format!("a strategy, but {what}"), Path::new(path));
    described::from_toml(&text).map_err(wrong)
}

/// The text of a parameter's file.
fn read_file(what: &'static str, path: &Path, bytes_max: u64) -> Result<String, SpecError> {
    let wrong = |expected| SpecError::of_file(what, expected, path);
    let about = std::fs::metadata(path)
        .map_err(|error| wrong(format!("a readable TOML file ({error})")))?;
    if !about.is_file() || about.len() > bytes_max {
        return Err(wrong(format!("a TOML file of at most {} MiB", bytes_max >> 20)));
    }
    std::fs::read_to_string(path).map_err(|error| wrong(format!("a readable TOML file ({error})")))
}

fn find_strategy(name: &str) -> Result<Strategy, SpecError> {
    documented::find(name).ok_or_else(|| {
        let names: Vec<_> = documented::all().into_iter().map(|strategy| strategy.name).collect();
        let expected = format!("{}, or a name of the document as HalfMany", names.join(", "));
        SpecError::new("strategy", expected, name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_read_and_wrong_ones_explained() {
        let spec = Spec::parse("many,version=7.9,compact=never,limit=16m").unwrap();
        assert_eq!(
            (spec.strategy.name.as_str(), spec.version.node, spec.compact),
            ("many", "13.14.0", Compact::Never)
        );
        assert_eq!(spec.limit_bytes, 16 << 20);
        assert_eq!(spec.to_string(), "v8:many,version=7.9,compact=never,limit=16m");
        let error = |text: &str| Spec::parse(text).unwrap_err().to_string();
        assert_eq!(error("version=9"), "v8: version: expected 7.8, 7.9, 8.1 or 8.4, found `9`");
        assert!(error("mony").starts_with("v8: strategy: expected legacy, fast-alloc, many"));
        for wrong in ["100k", "3m"] {
            assert!(error(&format!("semi_space={wrong}")).contains("a power of two"));
        }
        assert!(error("limit=1m,limit=2m").contains("limit once"));
        assert!(Spec::parse("gc=own").unwrap().own_collections);
        assert!(error("gc=some").contains("expected forced or own"));
        assert!(Spec::parse("base=261864,version=7.8").is_ok());
        let error_of_area = error("base=24r+261864,version=7.9");
        assert!(error_of_area.contains("at most 261856 live bytes a page"), "{error_of_area}");
        let spec = Spec::parse("sweeping=whole,maps=emptiest-first").unwrap();
        assert_eq!((spec.swept_whole, spec.map_order), (true, PageOrder::EmptiestFirst));
        assert!(error("sweeping=eager").contains("expected lazy or whole"));
        assert!(error("maps=full").contains("expected fullest-first, linked-last or"));
        assert!(error("base=0").contains("joined by +"));
        assert!(error("gc=own,every=5").contains("every forces collections"));
        assert!(error("size=1").starts_with("v8: parameter: expected version, file, compact"));
        assert!(
            error("file=/no/such.toml").contains("a readable TOML file"),
            "{}",
            error("file=/no/such.toml")
        );
        assert_eq!(Spec::parse("many-46").unwrap().strategy.categories(), 46);
    }

    #[test]
    fn a_name_with_a_file_is_a_name_again() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/strategy.toml");
        for text in [format!("file={file},version=8.4"), format!("version=8.4,file={file}")] {
            let spec = Spec::parse(&text).unwrap();
            assert_eq!(spec.strategy.categories(), 7);
            assert_eq!(spec.to_string(), format!("v8:{text}"));
        }
        let said = Spec::parse(&format!("many,file={file}")).unwrap_err().to_string();
        assert!(said.contains("v8:file= without a strategy's name"), "{said}");
    }
}
