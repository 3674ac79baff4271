//! The table of heap names: one `match` from a name to a heap of a family, and the driver compiled for it.

use anyhow::{Context, Result, bail};
use heaplab_arena::{
    bump::Bumps,
    elastic,
    elastic::{Alone, Elastic},
};
use heaplab_experiment::HeapCell;
use heaplab_metaspace::elastic::ElasticMetaspace;
use heaplab_metaspace::old::{Heap11, Options11};
use heaplab_metaspace::plan::{ArenaPlan, Plan};
use heaplab_metaspace::spec::{self as metaspace, Generation};
use heaplab_replay::{CellKind, CellReport, CellRequest, cell};
use heaplab_system::{
    HEAPS, Kind, Malloc, Spec, SpecError, System, glibc::Glibc, jemalloc::Jemalloc, library::Library, mimalloc::Mimalloc, null::Null,
};
use heaplab_trace::program::{Program, Step};
use serde::Serialize;
use std::fmt;
use std::path::Path;

/// Space cells of a heap whose space depends on time: enough to show by how much.
const SPACE_CELLS: u32 = 3;

/// How the metaspace family is named.
const METASPACE: &str = "metaspace:";
/// The C library's malloc by another name, for workloads with arenas: each block is freed when its arena dies.
const MALLOC: &str = "malloc";

/// An arena library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArenaLibrary {
    /// heaplab's own.
    Elastic,
    /// bumpalo.
    Bump,
}

impl ArenaLibrary {
    /// Every one, with its name and what it is, in a line.
    pub const ALL: [(ArenaLibrary, &'static str, &'static str); 2] = [
        (ArenaLibrary::Elastic, "elastic", "heaplab's elastic arenas: one space, each arena of the workload an arena in it"),
        (ArenaLibrary::Bump, "bump", "bumpalo: each arena of the workload a Bump of its own, dropped whole"),
    ];
}

/// A heap of any family, with its parameters, as asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heap {
    /// An allocator as it is.
    System(Spec),
    /// HotSpot's metaspace.
    Metaspace(metaspace::Spec),
    /// An arena library.
    Arena(ArenaLibrary),
}

impl Heap {
    /// Parses a name with its parameters.
    pub fn parse(text: &str) -> Result<Heap> {
        if let Some(rest) = text.strip_prefix(METASPACE) {
            return Ok(Heap::Metaspace(metaspace::Spec::parse(rest)?));
        }
        if let Some((library, _, _)) = ArenaLibrary::ALL.iter().find(|(_, name, _)| *name == text) {
            return Ok(Heap::Arena(*library));
        }
        match Spec::parse(if text == MALLOC { "glibc" } else { text }) {
            Ok(spec) => Ok(Heap::System(spec)),
            Err(SpecError::Name { name, known }) => {
                let arenas = ArenaLibrary::ALL.map(|(_, name, _)| name).join(", ");
                let known = format!("{known}, {METASPACE}JDK, {arenas}");
                Err(SpecError::Name { name, known }.into())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The file of a library that is loaded, if one is.
    pub fn library(&self) -> Option<&Path> {
        match self {
            Heap::System(spec) => spec.path.as_deref().map(Path::new),
            Heap::Metaspace(_) | Heap::Arena(_) => None,
        }
    }
}

impl fmt::Display for Heap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Heap::System(spec) => spec.fmt(f),
            Heap::Metaspace(spec) => write!(f, "{METASPACE}{spec}"),
            Heap::Arena(library) => {
                let name = ArenaLibrary::ALL.iter().find(|(known, _, _)| known == library).map_or("", |(_, name, _)| name);
                f.write_str(name)
            }
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
            space_depends_on_time: heap.space_depends_on_time,
            version: version(heap.kind),
        }
    });
    let plain =
        |name: String, summary| Row { name, summary, argument: None, parameters: Vec::new(), space_depends_on_time: None, version: None };
    let generations = Generation::ALL.iter().map(|(generation, name, summary)| {
        let parameters = metaspace::PARAMETERS.iter().filter(|parameter| *generation != Generation::Jdk11 || parameter.name != "reclaim");
        let rows = parameters.map(|parameter| ParameterRow {
            name: parameter.name,
            takes: parameter.takes.into(),
            default: parameter.default,
            help: parameter.help,
        });
        Row { parameters: rows.collect(), ..plain(format!("{METASPACE}{name}"), summary) }
    });
    let arenas = ArenaLibrary::ALL.iter().map(|(_, name, summary)| plain((*name).into(), summary));
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
            bail!("the null heap is measured with every experiment and is not compared with a heap; leave it out");
        }
        if heaps[..index].contains(heap) {
            bail!("{heap} is named twice");
        }
    }
    if heaps.is_empty() {
        bail!("no heap is named; for example --on glibc,jemalloc");
    }
    Ok(heaps)
}

/// Names of the heaps that need nothing but this binary.
pub fn built_in() -> Vec<&'static str> {
    HEAPS.iter().filter(|heap| heap.kind != Kind::Null && heap.argument.is_none()).map(|heap| heap.name).collect()
}

/// A heap as a cell of an experiment.
pub fn cell(heap: &Heap) -> HeapCell {
    let (environment, depends_on_time) = match heap {
        Heap::System(spec) => (spec.environment(), spec.heap().space_depends_on_time.is_some()),
        Heap::Metaspace(_) | Heap::Arena(_) => (Vec::new(), false),
    };
    HeapCell { name: heap.to_string(), environment, space_cells: if depends_on_time { SPACE_CELLS } else { 1 } }
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
    match Heap::parse(&request.heap)? {
        Heap::System(spec) => serve_system(&spec, &program, request),
        Heap::Metaspace(spec) => serve_metaspace(&spec, &program, request),
        Heap::Arena(ArenaLibrary::Bump) => Ok(cell::run(Bumps::default(), || "bumpalo 3".into(), &program, request)),
        Heap::Arena(ArenaLibrary::Elastic) => {
            let growth = program.facts().regions().map(|region| elastic::growth(&region.growth_policy)).collect();
            let options = heaplab_elastic::Options::default();
            let heap = Elastic::knowing(options, growth, dying_alone(&program));
            let version = || format!("elastic {}", env!("CARGO_PKG_VERSION"));
            Ok(cell::run(heap.context("no address space for elastic arenas")?, version, &program, request))
        }
    }
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

fn serve_metaspace(spec: &metaspace::Spec, program: &Program, request: &CellRequest) -> Result<CellReport> {
    let regions = program.facts().regions().map(|region| ArenaPlan::parse(&region.kind, &region.growth_policy));
    let plan = Plan::new(regions.collect());
    let version = || format!("the rules of HotSpot, {}", spec.generation.name());
    if spec.generation == Generation::Jdk11 {
        return Ok(cell::run(Heap11::new(Options11::from(spec), plan), version, program, request));
    }
    let heap = ElasticMetaspace::new(*spec, plan).context("no address space for the metaspace")?;
    Ok(cell::run(heap, version, program, request))
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
    fn parameters_belong_to_the_heap_before_them() {
        let names = |list: &str| parse_list(list).unwrap().iter().map(Heap::to_string).collect::<Vec<_>>();
        assert_eq!(names("glibc,jemalloc, mimalloc"), ["glibc", "jemalloc", "mimalloc"]);
        assert_eq!(
            names("jemalloc:narenas=1,dirty_decay_ms=0,glibc:arena_max=1,lib:/a/libx.so,CONF=a:b"),
            ["jemalloc:narenas=1,dirty_decay_ms=0", "glibc:arena_max=1", "lib:/a/libx.so,CONF=a:b"]
        );
        assert_eq!(
            names("metaspace:jdk17,reclaim=aggressive,elastic,malloc,bump,metaspace:jdk11"),
            ["metaspace:jdk17,reclaim=aggressive", "elastic", "glibc", "bump", "metaspace:jdk11"]
        );
        for (list, expected) in
            [("metaspace:jdk9", "there are jdk11"), ("metaspace", "metaspace:JDK, elastic, bump"), ("malloc,glibc", "named twice")]
        {
            let error = parse_list(list).unwrap_err().to_string();
            assert!(error.contains(expected), "{list}: {error}");
        }
        for (list, expected) in [("", "no heap"), ("glibc,glibc", "named twice"), ("null", "leave it out"), ("glib", "there is no heap")] {
            let error = parse_list(list).unwrap_err().to_string();
            assert!(error.contains(expected), "{list}: {error}");
        }
    }
}
