//! The family of real allocators: `glibc` (also `malloc`), `jemalloc`, `mimalloc`, `lib:/path`,
//! `null`.

use crate::{
    HEAPS, Kind, Malloc, NamedHeap, Spec, System, glibc::Glibc, jemalloc::Jemalloc,
    library::Library, mimalloc::Mimalloc, null::Null,
};
use heaplab_heap::{Family, FamilyError, Lab, Name, ParameterRow, Row, Traits};
use std::path::Path;

/// The C library's malloc by another name, for workloads with arenas: the driver frees each block
/// when its arena dies.
const MALLOC: &str = "malloc";

/// The family.
#[derive(Clone, Copy, Debug)]
pub struct Allocators;

impl Family for Allocators {
    type Spec = Spec;

    fn rows(&self) -> Vec<Row> {
        HEAPS.iter().map(row).collect()
    }

    fn parse(&self, name: &Name) -> Option<Result<Spec, FamilyError>> {
        let head = if name.head == MALLOC { "glibc" } else { &name.head };
        HEAPS.iter().find(|heap| heap.name == head)?;
        let pieces: Vec<String> = name
            .variant
            .iter()
            .cloned()
            .chain([name.parameters_text()])
            .filter(|piece| !piece.is_empty())
            .collect();
        Some(Spec::parse(&format!("{head}:{}", pieces.join(","))).map_err(FamilyError::wrong))
    }

    fn run<L: Lab>(&self, spec: &Spec, lab: L) -> Result<L::Output, FamilyError> {
        Ok(match spec.kind {
            Kind::Glibc => lab.shared(System(Glibc)),
            Kind::Jemalloc => lab.shared(System(Jemalloc)),
            Kind::Mimalloc => lab.shared(System(Mimalloc)),
            Kind::Library => {
                let path = spec.path.as_deref().unwrap_or_default();
                lab.shared(System(Library::load(Path::new(path)).map_err(FamilyError::failed)?))
            }
            Kind::Null => {
                let window = Null::new(lab.workload().facts().block_size_max);
                lab.shared(window.map_err(|error| {
                    FamilyError::Failed(format!("no memory for the null heap's window: {error}"))
                })?)
            }
        })
    }
}

impl heaplab_heap::Spec for Spec {
    fn traits(&self) -> Traits {
        Traits {
            environment: self.environment(),
            space_depends_on_time: self.heap().space_depends_on_time.is_some(),
            without_huge_pages: self.without_huge_pages().map(String::from),
            library: self.path.as_ref().map(Into::into),
            threaded: true,
            compared: self.kind != Kind::Null,
            ..Traits::default()
        }
    }
}

impl Spec {
    fn has(&self, name: &str, values: &[&str]) -> bool {
        self.parameters
            .iter()
            .any(|(known, value)| known == name && values.contains(&value.as_str()))
    }

    /// glibc has no switch against huge pages: its `hugetlb` asks for them, and without it the
    /// system's setting applies.
    fn without_huge_pages(&self) -> Option<&'static str> {
        match self.kind {
            Kind::Glibc => self.has("hugetlb", &["1", "2"]).then_some("glibc:hugetlb=0"),
            Kind::Jemalloc => (!self.has("thp", &["never"])).then_some("jemalloc:thp=never"),
            Kind::Mimalloc => {
                (!self.has("allow_thp", &["false"])).then_some("mimalloc:allow_thp=false")
            }
            Kind::Library | Kind::Null => None,
        }
    }
}

fn row(heap: &NamedHeap) -> Row {
    let parameters = heap.parameters.iter().map(|parameter| ParameterRow {
        name: parameter.name,
        takes: parameter.takes.to_string(),
        default: parameter.default,
        help: parameter.help,
    });
    let (version, example) = match heap.kind {
        Kind::Glibc => (Some(Glibc.version()), Some("glibc:arena_max=1,mmap_threshold=65536")),
        Kind::Jemalloc => (Some(Jemalloc.version()), Some("jemalloc:narenas=1,dirty_decay_ms=0")),
        Kind::Mimalloc => {
            (Some(Mimalloc.version()), Some("mimalloc:purge_delay=0,allow_thp=false"))
        }
        Kind::Library => (None, Some("lib:/opt/libmine.so,NAME=VALUE")),
        Kind::Null => (None, None),
    };
    Row {
        name: heap.name.into(),
        summary: heap.summary,
        argument: heap.argument,
        parameters: parameters.collect(),
        example,
        space_depends_on_time: heap.space_depends_on_time,
        version,
        is_built_in: heap.kind != Kind::Null && heap.argument.is_none(),
        is_walked: false,
    }
}
