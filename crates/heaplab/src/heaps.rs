//! The table of heap names: one `match` from a name to a heap of a family, and the driver compiled for it.

use crate::output::Misasked;
use anyhow::{Context, Result, anyhow};
use heaplab_arena::{
    bump::Bumps,
    elastic::{Alone, Elastic},
    spec as arena,
    walked::WalkedBumps,
};
use heaplab_experiment::HeapCell;
use heaplab_heap::{Allocating, Footprint, Part, Structured};
use heaplab_metaspace::elastic::ElasticMetaspace;
use heaplab_metaspace::old::{Heap11, Options11};
use heaplab_metaspace::plan::{ArenaPlan, Plan};
use heaplab_metaspace::spec::{self as metaspace, Generation};
use heaplab_replay::{CellKind, CellReport, CellRequest, Driver, RETURNED_NULL, ReplayError, Touch, cell};
use heaplab_system::{
    HEAPS, Kind, Malloc, Spec, SpecError, System, glibc::Glibc, jemalloc::Jemalloc, library::Library, mimalloc::Mimalloc, null::Null,
};
use heaplab_trace::program::{Program, RegionKind, Step};
use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

/// Space cells of a heap whose space depends on time, and of all with threads, whose order differs from run to run: enough to show by how much.
const SPACE_CELLS: u32 = 3;

/// How the metaspace family is named.
const METASPACE: &str = "metaspace:";
/// The C library's malloc by another name, for workloads with arenas: each block is freed when its arena dies.
const MALLOC: &str = "malloc";

/// heaplab's own elastic arenas, by name.
const ELASTIC: &str = "elastic";
/// bumpalo, by name.
const BUMP: &str = "bump";

/// The arena libraries with what each is, in a line.
const ARENAS: [(&str, &str); 2] = [
    (ELASTIC, "heaplab's elastic arenas: one space, each arena of the workload an arena in it"),
    (BUMP, "bumpalo: each arena of the workload a Bump of its own, dropped whole"),
];

/// How parameters follow a heap's name.
pub const SYNTAX: &str = "Parameters follow a heap's name: NAME:PARAMETER=VALUE,PARAMETER=VALUE; a metaspace's follow its JDK and a comma: \
                          metaspace:JDK,PARAMETER=VALUE.";

/// A heap with parameters as it is named on the command line, by the heap's name alone.
fn example(name: &str) -> Option<&'static str> {
    Some(match name {
        "glibc" | MALLOC => "glibc:arena_max=1,mmap_threshold=65536",
        "jemalloc" => "jemalloc:narenas=1,dirty_decay_ms=0",
        "mimalloc" => "mimalloc:purge_delay=0,allow_thp=false",
        "lib" => "lib:/opt/libmine.so,NAME=VALUE",
        "metaspace:jdk11" => "metaspace:jdk11,limit=64m",
        "metaspace:jdk16" => "metaspace:jdk16,reclaim=aggressive",
        "metaspace:jdk18" => "metaspace:jdk18,limit=64m",
        _ if name.starts_with(METASPACE) => "metaspace:jdk17,reclaim=aggressive,limit=64m",
        ELASTIC => "elastic:growth=fast,reclaim=trim,huge_pages=true",
        _ => return None,
    })
}

/// The name before any parameter: `metaspace:jdk17` of `metaspace:jdk17:reclaim=none`.
fn bare(text: &str) -> &str {
    let from = if text.starts_with(METASPACE) { METASPACE.len() } else { 0 };
    let end = text[from..].find([':', ',']).map_or(text.len(), |end| from + end);
    &text[..end]
}

/// A heap of any family, with its parameters, as asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heap {
    /// An allocator as it is.
    System(Spec),
    /// HotSpot's metaspace.
    Metaspace(metaspace::Spec),
    /// Elastic arenas.
    Elastic(arena::Spec),
    /// bumpalo.
    Bump,
}

impl Heap {
    /// Parses a name with its parameters.
    pub fn parse(text: &str) -> Result<Heap> {
        Heap::parse_exact(text).map_err(|error| match example(bare(text)) {
            Some(example) if text != bare(text) => Misasked(format!("{error:#}; for example {example}")).into(),
            _ => error,
        })
    }

    fn parse_exact(text: &str) -> Result<Heap> {
        let name = bare(text);
        let rest = &text[name.len()..];
        if let Some(jdk) = name.strip_prefix(METASPACE) {
            if Generation::ALL.iter().any(|(_, known, _)| *known == jdk) && rest.starts_with(':') {
                misasked!("{text}: the parameters of {name} follow a comma");
            }
            return Ok(Heap::Metaspace(metaspace::Spec::parse(&text[METASPACE.len()..])?));
        }
        let is_known = HEAPS.iter().any(|heap| heap.name == name) || [MALLOC, ELASTIC, BUMP].contains(&name);
        if is_known && rest.starts_with(',') {
            misasked!("{text}: the parameters of {name} follow a colon");
        }
        match name {
            ELASTIC => return Ok(Heap::Elastic(arena::Spec::parse(rest.trim_start_matches(':'))?)),
            BUMP if rest.is_empty() => return Ok(Heap::Bump),
            BUMP => misasked!("{text}: {BUMP} has no parameters"),
            _ => {}
        }
        match Spec::parse(if text == MALLOC { "glibc" } else { text }) {
            Ok(spec) => Ok(Heap::System(spec)),
            Err(SpecError::Name { name, known }) => {
                let known = format!("{known}, {METASPACE}JDK, {}", ARENAS.map(|(name, _)| name).join(", "));
                Err(SpecError::Name { name, known }.into())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The limit it was given, as it is named on the command line.
    fn limit(&self) -> Option<String> {
        match self {
            Heap::Metaspace(spec) => spec.to_string().split(',').find(|piece| piece.starts_with("limit=")).map(str::to_owned),
            Heap::Elastic(spec) => spec.limit().map(|limit| format!("limit={limit}")),
            Heap::System(_) | Heap::Bump => None,
        }
    }

    /// The file of a library that is loaded, if one is.
    pub fn library(&self) -> Option<&Path> {
        match self {
            Heap::System(spec) => spec.path.as_deref().map(Path::new),
            Heap::Metaspace(_) | Heap::Elastic(_) | Heap::Bump => None,
        }
    }
}

impl fmt::Display for Heap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Heap::System(spec) => spec.fmt(f),
            Heap::Metaspace(spec) => write!(f, "{METASPACE}{spec}"),
            Heap::Elastic(spec) if *spec == arena::Spec::default() => f.write_str(ELASTIC),
            Heap::Elastic(spec) => write!(f, "{ELASTIC}:{spec}"),
            Heap::Bump => f.write_str(BUMP),
        }
    }
}

/// A row of `heaplab heaps`: a heap of any family.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// As it is named on the command line.
    pub name: String,
    /// What it is, in a line.
    pub summary: &'static str,
    /// What follows the colon before any parameter.
    pub argument: Option<&'static str>,
    /// Its parameters.
    pub parameters: Vec<ParameterRow>,
    /// It with some of them, as on the command line.
    pub example: Option<&'static str>,
    /// Why its space differs from run to run, where it does.
    pub space_depends_on_time: Option<&'static str>,
    /// What it says of itself.
    pub version: Option<String>,
}

/// A parameter of a heap.
#[derive(Clone, Debug, Serialize)]
pub struct ParameterRow {
    /// As it is named on the command line.
    pub name: &'static str,
    /// The values it takes.
    pub takes: String,
    /// What it is without being named.
    pub default: &'static str,
    /// What it does, in a line.
    pub help: &'static str,
}

impl ParameterRow {
    fn of(parameter: &heaplab_heap::Parameter) -> ParameterRow {
        let heaplab_heap::Parameter { name, takes, default, help } = *parameter;
        ParameterRow { name, takes: takes.into(), default, help }
    }
}

/// Every heap there is.
pub fn table() -> Vec<Row> {
    let system = HEAPS.iter().map(|heap| {
        let parameters = heap.parameters.iter().map(|parameter| ParameterRow {
            name: parameter.name,
            takes: parameter.takes.to_string(),
            default: parameter.default,
            help: parameter.help,
        });
        Row {
            name: heap.name.into(),
            summary: heap.summary,
            argument: heap.argument,
            parameters: parameters.collect(),
            example: example(heap.name),
            space_depends_on_time: heap.space_depends_on_time,
            version: version(heap.kind),
        }
    });
    let plain = |name: String, summary| {
        let example = example(&name);
        Row { name, summary, argument: None, parameters: Vec::new(), example, space_depends_on_time: None, version: None }
    };
    let generations = Generation::ALL.iter().map(|(generation, name, summary)| {
        let parameters = metaspace::PARAMETERS.iter().filter(|parameter| *generation != Generation::Jdk11 || parameter.name != "reclaim");
        Row { parameters: parameters.map(ParameterRow::of).collect(), ..plain(format!("{METASPACE}{name}"), summary) }
    });
    let arenas = ARENAS.map(|(name, summary)| {
        let parameters = if name == ELASTIC { arena::PARAMETERS.iter().map(ParameterRow::of).collect() } else { Vec::new() };
        Row { parameters, ..plain(name.into(), summary) }
    });
    system.chain(generations).chain(arenas).collect()
}

fn version(kind: Kind) -> Option<String> {
    match kind {
        Kind::Glibc => Some(Glibc.version()),
        Kind::Jemalloc => Some(Jemalloc.version()),
        Kind::Mimalloc => Some(Mimalloc.version()),
        Kind::Library | Kind::Null => None,
    }
}

/// The heaps of a list such as `glibc,jemalloc:narenas=1,dirty_decay_ms=0,mimalloc`: a piece with `=` belongs to the heap before it.
pub fn parse_list(list: &str) -> Result<Vec<Heap>> {
    let mut names: Vec<String> = Vec::new();
    for piece in list.split(',').map(str::trim).filter(|piece| !piece.is_empty()) {
        let continues = piece.contains('=') && !piece.split('=').next().is_some_and(|before| before.contains(':'));
        match names.last_mut().filter(|_| continues) {
            Some(last) => *last = format!("{last},{piece}"),
            None => names.push(piece.into()),
        }
    }
    let heaps: Vec<Heap> = names.iter().map(|name| Heap::parse(name)).collect::<Result<_, _>>()?;
    for (index, heap) in heaps.iter().enumerate() {
        if matches!(heap, Heap::System(spec) if spec.kind == Kind::Null) {
            misasked!("the null heap is measured with every experiment and is not compared with a heap; leave it out");
        }
        if heaps[..index].contains(heap) {
            misasked!("{heap} is named twice");
        }
    }
    if heaps.is_empty() {
        misasked!("no heap is named; for example --on glibc,jemalloc");
    }
    Ok(heaps)
}

/// Names of the heaps that need nothing but this binary: every malloc, then the arena libraries, then the metaspaces.
pub fn built_in() -> Vec<String> {
    let system = HEAPS.iter().filter(|heap| heap.kind != Kind::Null && heap.argument.is_none()).map(|heap| heap.name.to_owned());
    let arenas = ARENAS.map(|(name, _)| name.to_owned());
    let metaspaces = Generation::ALL.map(|(_, name, _)| format!("{METASPACE}{name}"));
    system.chain(arenas).chain(metaspaces).collect()
}

/// A heap as a cell of an experiment, which runs `threads` at once or one.
pub fn cell(heap: &Heap, threads: bool) -> HeapCell {
    let (environment, depends_on_time) = match heap {
        Heap::System(spec) => (spec.environment(), spec.heap().space_depends_on_time.is_some()),
        Heap::Elastic(spec) => (Vec::new(), spec.depends_on_time()),
        Heap::Metaspace(_) | Heap::Bump => (Vec::new(), false),
    };
    let space_cells = if depends_on_time || threads { SPACE_CELLS } else { 1 };
    HeapCell { name: heap.to_string(), environment, space_cells, without_huge_pages: without_huge_pages(heap).map(String::from) }
}

/// The switch by which a heap keeps huge pages away, where it has one and does not. glibc has none: its `hugetlb` asks for them, and
/// without it the system's setting holds; bump and metaspace ask for memory in the plain way.
fn without_huge_pages(heap: &Heap) -> Option<&'static str> {
    let is_set = |name: &str| heap.to_string().contains(name);
    match heap {
        Heap::System(spec) => match spec.heap().kind {
            Kind::Glibc => (is_set("hugetlb=1") || is_set("hugetlb=2")).then_some("glibc:hugetlb=0"),
            Kind::Jemalloc => (!is_set("thp=never")).then_some("jemalloc:thp=never"),
            Kind::Mimalloc => (!is_set("allow_thp=false")).then_some("mimalloc:allow_thp=false"),
            Kind::Library | Kind::Null => None,
        },
        Heap::Elastic(_) => is_set("huge_pages=true").then_some("elastic:huge_pages=false"),
        Heap::Metaspace(_) | Heap::Bump => None,
    }
}

/// Loads a library as the cells of `lib:` do.
///
/// # Errors
/// It is not there, the loader refuses it, or it is no allocator.
pub fn load(library: &Path) -> Result<()> {
    Library::load(library)?;
    Ok(())
}

/// Serves one cell in this process.
pub fn serve(request: &CellRequest) -> Result<CellReport> {
    if let Some(core) = request.core {
        heaplab_replay::system::pin_to(core);
    }
    let program = Program::open(&request.program)?;
    if request.kind == CellKind::Canary {
        return Ok(cell::run(null(&program)?, String::new, &program, request));
    }
    let heap = Heap::parse(&request.heap)?;
    let report = match &heap {
        Heap::System(spec) => serve_system(spec, &program, request),
        Heap::Metaspace(spec) => serve_metaspace(spec, &program, request),
        Heap::Bump => Ok(cell::run(Bumps::default(), || "bumpalo 3".into(), &program, request)),
        Heap::Elastic(spec) => serve_elastic(spec, &program, request),
    };
    Ok(match (report?, heap.limit()) {
        (CellReport::Failed { reason }, Some(limit)) if reason.contains(RETURNED_NULL) => {
            CellReport::Failed { reason: format!("{reason}: it was given {limit}, and the workload may need more") }
        }
        (report, _) => report,
    })
}

/// Whether a heap's parameters are about what this program has.
///
/// # Errors
/// A growth for a kind of arena that there is not.
pub fn suits(heap: &Heap, program: &Program) -> Result<()> {
    let Heap::Elastic(spec) = heap else { return Ok(()) };
    let growths = spec.growths();
    let kinds: BTreeSet<&str> = arenas(program).map(|arena| arena.kind.as_str()).filter(|kind| !kind.is_empty()).collect();
    match growths.kinds().find(|kind| !kinds.contains(kind)) {
        None => Ok(()),
        Some(unknown) if kinds.is_empty() => misasked!("{heap}: no arena of the workload has a kind, so that none is {unknown}"),
        Some(unknown) => {
            let known = kinds.into_iter().collect::<Vec<_>>().join(", ");
            misasked!("{heap}: no arena of the workload is of kind {unknown}; they are {known}")
        }
    }
}

/// What is known of a program's arenas, without that of the blocks of none.
fn arenas(program: &Program) -> impl Iterator<Item = &RegionKind> {
    program.facts().regions().skip(1)
}

/// Elastic arenas for a program.
fn elastic_for(spec: &arena::Spec, program: &Program) -> Result<Elastic> {
    let growths = spec.growths();
    let of_arenas = arenas(program).map(|arena| growths.of_arena(&arena.kind, &arena.growth_policy));
    let growth = std::iter::once(growths.of_no_arena()).chain(of_arenas).collect();
    Elastic::knowing(spec.options(), growth, dying_alone(program)).context("no address space for elastic arenas")
}

fn serve_elastic(spec: &arena::Spec, program: &Program, request: &CellRequest) -> Result<CellReport> {
    let heap = elastic_for(spec, program)?;
    Ok(cell::run(heap, || format!("elastic {}", env!("CARGO_PKG_VERSION")), program, request))
}

/// The births whose blocks die before their arenas, are reallocated, or asked for their sizes.
fn dying_alone(program: &Program) -> Alone {
    let mut alone = Alone::default();
    let mut births = vec![0; program.facts().slots as usize];
    for (_, step) in program.steps().flatten() {
        match step {
            Step::Allocate { slot, .. } => {
                let birth = alone.birth();
                // A slot outside of the table ends the replay, with an error of its own.
                if let Some(entry) = births.get_mut(slot as usize) {
                    *entry = birth;
                }
            }
            Step::Free { slot } | Step::Reallocate { slot, .. } | Step::UsableSize { slot } => {
                if let Some(birth) = births.get(slot as usize).filter(|birth| **birth < alone.births()) {
                    alone.know(*birth);
                }
            }
            _ => {}
        }
    }
    alone
}

/// What kind of arena each region of a program is.
fn plan_of(program: &Program) -> Plan {
    Plan::new(program.facts().regions().map(|region| ArenaPlan::parse(&region.kind, &region.growth_policy)).collect())
}

fn metaspace_for(spec: &metaspace::Spec, program: &Program) -> Result<ElasticMetaspace> {
    ElasticMetaspace::new(*spec, plan_of(program)).context("no address space for the metaspace")
}

fn serve_metaspace(spec: &metaspace::Spec, program: &Program, request: &CellRequest) -> Result<CellReport> {
    let version = || format!("the rules of HotSpot, {}", spec.generation.name());
    if spec.generation == Generation::Jdk11 {
        return Ok(cell::run(Heap11::new(Options11::from(spec), plan_of(program)), version, program, request));
    }
    Ok(cell::run(metaspace_for(spec, program)?, version, program, request))
}

/// What a heap is made of when it has run a program, and where the block of each slot then lies.
pub struct Standing {
    /// Its parts, as it says.
    pub parts: Vec<Part>,
    /// By slot; `None`: the slot is empty.
    pub blocks: Vec<Option<usize>>,
    /// How many bytes are where, as it says.
    pub footprint: Footprint,
}

/// Runs a program on a heap that can say what it is made of.
///
/// # Errors
/// The heap cannot say it (which is found before anything runs), or it cannot run the program.
pub fn stand(heap: &Heap, program: &Program) -> Result<Standing> {
    suits(heap, program)?;
    let standing = match heap {
        Heap::Elastic(spec) => standing_on(elastic_for(spec, program)?, program),
        Heap::Metaspace(spec) if spec.generation == Generation::Jdk11 => {
            standing_on(Heap11::new(Options11::from(spec), plan_of(program)), program)
        }
        Heap::Metaspace(spec) => standing_on(metaspace_for(spec, program)?, program),
        Heap::Bump => standing_on(WalkedBumps::default(), program),
        Heap::System(_) => return Err(structured(heap).err().unwrap_or_else(|| anyhow!("{heap} cannot be walked"))),
    };
    standing.map_err(|error| match heap.limit() {
        Some(limit) if error.to_string().starts_with(RETURNED_NULL) => {
            anyhow!("{heap}: {error}: it was given {limit}, and the workload may need more")
        }
        _ => anyhow!("{heap}: {error}"),
    })
}

/// Whether a heap can say what it is made of.
///
/// # Errors
/// It cannot; the message names those that can.
pub fn structured(heap: &Heap) -> Result<()> {
    match heap {
        Heap::Elastic(_) | Heap::Metaspace(_) | Heap::Bump => Ok(()),
        Heap::System(_) => {
            let metaspaces = Generation::ALL.map(|(_, name, _)| format!("{METASPACE}{name}")).join(", ");
            misasked!(
                "{heap} does not tell where its chunks, free blocks and headers lie, so it cannot be walked; the heaps that can are \
                 heaplab's own, {ELASTIC}, {metaspaces}, and {BUMP}"
            )
        }
    }
}

fn standing_on<H: Allocating + Structured>(heap: H, program: &Program) -> Result<Standing, ReplayError> {
    let mut driver = Driver::new(program, heap)?;
    // What a block holds is not looked at.
    driver.run(Touch::None)?;
    let blocks = (0..program.facts().slots).map(|slot| driver.block(slot).map(|block| block.addr().get())).collect();
    let heap = driver.heap();
    Ok(Standing { parts: heap.parts(), footprint: heap.footprint(), blocks })
}

fn serve_system(spec: &Spec, program: &Program, request: &CellRequest) -> Result<CellReport> {
    Ok(match spec.kind {
        Kind::Glibc => system(Glibc, program, request),
        Kind::Jemalloc => system(Jemalloc, program, request),
        Kind::Mimalloc => system(Mimalloc, program, request),
        Kind::Library => system(Library::load(Path::new(spec.path.as_deref().unwrap_or("")))?, program, request),
        Kind::Null => cell::run_shared(null(program)?, String::new, program, request),
    })
}

fn system<M: Malloc>(malloc: M, program: &Program, request: &CellRequest) -> CellReport {
    cell::run_shared(System(malloc), || malloc.version(), program, request)
}

fn null(program: &Program) -> Result<Null> {
    Null::new(program.facts().block_size_max).context("no memory for the null heap's window")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn huge_pages_are_kept_away_by_each_heaps_own_switch() {
        let switch = |name: &str| cell(&parse_list(name).unwrap()[0], false).without_huge_pages;
        for (heap, expected) in [
            ("glibc", None),
            ("glibc:hugetlb=1", Some("glibc:hugetlb=0")),
            ("jemalloc:narenas=1", Some("jemalloc:thp=never")),
            ("jemalloc:thp=never", None),
            ("mimalloc", Some("mimalloc:allow_thp=false")),
            ("mimalloc:allow_thp=false", None),
            ("lib:/a/libx.so", None),
            ("elastic", None),
            ("elastic:huge_pages=true", Some("elastic:huge_pages=false")),
            ("bump", None),
            ("metaspace:jdk17", None),
        ] {
            let switch = switch(heap);
            assert_eq!(switch.as_deref(), expected, "{heap}");
            // It can be typed, and is the end of it.
            assert!(switch.is_none_or(|named| cell(&parse_list(&named).unwrap()[0], false).without_huge_pages.is_none()));
        }
    }

    #[test]
    fn parameters_belong_to_the_heap_before_them() {
        let names = |list: &str| parse_list(list).unwrap().iter().map(Heap::to_string).collect::<Vec<_>>();
        assert_eq!(names("glibc,jemalloc, mimalloc"), ["glibc", "jemalloc", "mimalloc"]);
        assert_eq!(
            names("jemalloc:narenas=1,dirty_decay_ms=0,glibc:arena_max=1,lib:/a/libx.so,CONF=a:b"),
            ["jemalloc:narenas=1,dirty_decay_ms=0", "glibc:arena_max=1", "lib:/a/libx.so,CONF=a:b"]
        );
        assert_eq!(
            names("metaspace:jdk17,reclaim=aggressive,elastic,elastic:granule=64k,growth=fast,malloc,bump,metaspace:jdk11"),
            ["metaspace:jdk17,reclaim=aggressive", "elastic", "elastic:granule=64k,growth=fast", "glibc", "bump", "metaspace:jdk11"]
        );
        for (list, expected) in [
            ("metaspace:jdk9", "there are jdk11"),
            ("metaspace:jdk17:reclaim=aggressive", "follow a comma; for example metaspace:jdk17,reclaim=aggressive"),
            ("glibc,arena_max=1", "follow a colon; for example glibc:arena_max=1"),
            ("elastic:speed=1", "it has granule, growth, reclaim, keep, interval, huge_pages, limit; for example elastic:growth=fast"),
            ("bump:x=1", "bump has no parameters"),
            ("metaspace", "metaspace:JDK, elastic, bump"),
            ("malloc,glibc", "named twice"),
        ] {
            let error = parse_list(list).unwrap_err().to_string();
            assert!(error.contains(expected), "{list}: {error}");
        }
        for (list, expected) in [("", "no heap"), ("glibc,glibc", "named twice"), ("null", "leave it out"), ("glib", "there is no heap")] {
            let error = parse_list(list).unwrap_err().to_string();
            assert!(error.contains(expected), "{list}: {error}");
        }
    }
}
