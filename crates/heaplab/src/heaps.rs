//! The table of heap names: one `match` from a name to a heap of a family, and the driver compiled for it.

use anyhow::{Context, Result, bail};
use heaplab_experiment::HeapCell;
use heaplab_replay::{CellKind, CellReport, CellRequest, cell};
use heaplab_system::{
    HEAPS, Kind, Malloc, Spec, System, glibc::Glibc, jemalloc::Jemalloc, library::Library, mimalloc::Mimalloc, null::Null,
};
use heaplab_trace::program::Program;
use std::path::Path;

/// Space cells of a heap whose space depends on time: enough to show by how much.
const SPACE_CELLS: u32 = 3;

/// The heaps of a list such as `glibc,jemalloc:narenas=1,dirty_decay_ms=0,mimalloc`: a piece with `=` belongs to the heap before it.
pub fn parse_list(list: &str) -> Result<Vec<Spec>> {
    let mut names: Vec<String> = Vec::new();
    for piece in list.split(',').map(str::trim).filter(|piece| !piece.is_empty()) {
        let continues = piece.contains('=') && !piece.split('=').next().is_some_and(|before| before.contains(':'));
        match names.last_mut().filter(|_| continues) {
            Some(last) => *last = format!("{last},{piece}"),
            None => names.push(piece.into()),
        }
    }
    let specs: Vec<Spec> = names.iter().map(|name| Spec::parse(name)).collect::<Result<_, _>>()?;
    for (index, spec) in specs.iter().enumerate() {
        if spec.kind == Kind::Null {
            bail!("the null heap is measured with every experiment and is not compared with a heap; leave it out");
        }
        if specs[..index].contains(spec) {
            bail!("{spec} is named twice");
        }
    }
    if specs.is_empty() {
        bail!("no heap is named; for example --on glibc,jemalloc");
    }
    Ok(specs)
}

/// Names of the heaps that need nothing but this binary.
pub fn built_in() -> Vec<&'static str> {
    HEAPS.iter().filter(|heap| heap.kind != Kind::Null && heap.argument.is_none()).map(|heap| heap.name).collect()
}

/// A heap as a cell of an experiment.
pub fn cell(spec: &Spec) -> HeapCell {
    let space_cells = if spec.heap().space_depends_on_time.is_some() { SPACE_CELLS } else { 1 };
    HeapCell { name: spec.to_string(), environment: spec.environment(), space_cells }
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
    let spec = Spec::parse(&request.heap)?;
    Ok(match spec.kind {
        Kind::Glibc => system(Glibc, &program, request),
        Kind::Jemalloc => system(Jemalloc, &program, request),
        Kind::Mimalloc => system(Mimalloc, &program, request),
        Kind::Library => system(Library::load(Path::new(spec.path.as_deref().unwrap_or("")))?, &program, request),
        Kind::Null => cell::run_shared(null(&program)?, String::new, &program, request),
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
        let names = |list: &str| parse_list(list).unwrap().iter().map(Spec::to_string).collect::<Vec<_>>();
        assert_eq!(names("glibc,jemalloc, mimalloc"), ["glibc", "jemalloc", "mimalloc"]);
        assert_eq!(
            names("jemalloc:narenas=1,dirty_decay_ms=0,glibc:arena_max=1,lib:/a/libx.so,CONF=a:b"),
            ["jemalloc:narenas=1,dirty_decay_ms=0", "glibc:arena_max=1", "lib:/a/libx.so,CONF=a:b"]
        );
        for (list, expected) in [("", "no heap"), ("glibc,glibc", "named twice"), ("null", "leave it out"), ("glib", "there is no heap")] {
            let error = parse_list(list).unwrap_err().to_string();
            assert!(error.contains(expected), "{list}: {error}");
        }
    }
}
