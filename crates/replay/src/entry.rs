//! The table of families: names to heaps, heaps to cells.
//!
//! A binary lists its families as [`Entry`] objects. [`Of`] makes an entry of a [`Family`] and
//! compiles the drivers for its heaps: a virtual call is paid once a cell, never for an event.

use crate::cell::{self, CellReport, CellRequest, SpaceReport, SpaceSample, TimeReport};
use crate::collected;
use crate::driver::{Driver, ReplayError};
use crate::slots::Slots;
use crate::workload::Replayed;
use crate::{CellKind, Touch};
use heaplab_heap::name::{self, Name};
use heaplab_heap::{
    Collected, Collection, Family, FamilyError, Footprint, Lab, Manual, OutsideReport, Part, Row,
    Spec, Traits, Workload, World,
};
use heaplab_trace::program::{Program, Step};
use std::fmt;

/// A family of any type.
pub trait Entry: Sync {
    /// The family's heaps.
    fn rows(&self) -> Vec<Row>;

    /// Parses a name; `None`: another family's name.
    fn parse(&self, name: &Name) -> Option<Result<Box<dyn Selected>, FamilyError>>;
}

/// A heap of any family with its parameters. Prints as its name.
pub trait Selected: fmt::Display + fmt::Debug + Send + Sync {
    /// Facts for the lab, known before the heap runs.
    fn traits(&self) -> Traits;

    /// Checks that the program has everything that the parameters name.
    ///
    /// # Errors
    /// A parameter names a thing that the program lacks.
    fn suits(&self, program: &Program) -> Result<(), FamilyError>;

    /// Serves a cell in this process.
    ///
    /// # Errors
    /// The heap cannot be made here.
    fn cell(&self, program: &Program, request: &CellRequest) -> Result<CellReport, FamilyError>;

    /// Runs the program on the heap and returns the heap's final structure.
    ///
    /// # Errors
    /// The heap cannot be made, cannot run the program, or cannot be walked.
    fn stand(&self, program: &Program) -> Result<Standing, FamilyError> {
        self.stand_after(program, None)
    }

    /// [`Selected::stand`] right after collection number `collection`, counted from 1, of a heap
    /// that collects; `None`: at the program's end.
    ///
    /// # Errors
    /// As for [`Selected::stand`], or the collection does not exist.
    fn stand_after(
        &self,
        program: &Program,
        collection: Option<usize>,
    ) -> Result<Standing, FamilyError>;

    /// Runs the program to its end and calls `show` right after each collection whose number is in
    /// `wanted`. Numbers count from 1; `wanted` rises.
    ///
    /// # Errors
    /// As for [`Selected::stand`].
    fn stand_after_each(
        &self,
        program: &Program,
        wanted: &[usize],
        show: &mut dyn FnMut(Standing),
    ) -> Result<(), FamilyError>;

    /// Another box of the same heap.
    fn boxed(&self) -> Box<dyn Selected>;
}

impl Clone for Box<dyn Selected> {
    fn clone(&self) -> Self {
        self.as_ref().boxed()
    }
}

/// A heap's structure after a program, and the place of each slot's block.
#[derive(Clone, Debug)]
pub struct Standing {
    /// Its parts.
    pub parts: Vec<Part>,
    /// By slot; `None`: the slot is empty.
    pub blocks: Vec<Option<usize>>,
    /// The heap's bytes by use.
    pub footprint: Footprint,
    /// Its losses by its own rules, in sentences.
    pub losses: Vec<String>,
    /// Every collection so far, of a heap that collects.
    pub collections: Vec<Collection>,
}

/// A family as an entry of the table.
#[derive(Clone, Copy, Debug)]
pub struct Of<F>(pub F);

impl<F: Family> Entry for Of<F> {
    fn rows(&self) -> Vec<Row> {
        self.0.rows()
    }

    fn parse(&self, name: &Name) -> Option<Result<Box<dyn Selected>, FamilyError>> {
        let spec = self.0.parse(name)?;
        Some(spec.map(|spec| -> Box<dyn Selected> { Box::new(One { family: self.0, spec }) }))
    }
}

/// A heap of a family.
struct One<F: Family> {
    family: F,
    spec: F::Spec,
}

impl<F: Family> One<F> {
    /// Explains an error to a user who chose the limit.
    fn explained(&self, error: &ReplayError) -> String {
        match (error, self.spec.traits().limit) {
            (ReplayError::Refused { .. }, Some(limit)) => {
                format!("{error}: it was given {limit}, and the workload may need more")
            }
            _ => error.to_string(),
        }
    }
}

impl<F: Family> fmt::Display for One<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.spec.fmt(f)
    }
}

impl<F: Family> fmt::Debug for One<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.spec)
    }
}

impl<F: Family> Selected for One<F> {
    fn traits(&self) -> Traits {
        self.spec.traits()
    }

    fn suits(&self, program: &Program) -> Result<(), FamilyError> {
        self.family.suits(&self.spec, &Replayed(program))
    }

    fn cell(&self, program: &Program, request: &CellRequest) -> Result<CellReport, FamilyError> {
        if request.kind == CellKind::Canary {
            return Ok(cell::canary());
        }
        let lab = CellLab { workload: Replayed(program), request };
        let report = self.family.run(&self.spec, lab)?;
        Ok(report.unwrap_or_else(|error| CellReport::Failed { reason: self.explained(&error) }))
    }

    fn stand_after(
        &self,
        program: &Program,
        collection: Option<usize>,
    ) -> Result<Standing, FamilyError> {
        self.suits(program)?;
        let refused = || {
            FamilyError::Wrong(format!(
                "{self} does not tell where its chunks, free blocks and headers lie"
            ))
        };
        let mut last = None;
        let wanted = collection.map(|number| vec![number]);
        let lab = WalkLab {
            workload: Replayed(program),
            wanted: wanted.as_deref(),
            show: &mut |standing| last = Some(standing),
        };
        let ran = self.family.run(&self.spec, lab)?;
        ran.map_err(|error| FamilyError::Failed(format!("{self}: {}", self.explained(&error))))?;
        let standing = last.ok_or_else(refused)?;
        match collection {
            Some(wanted) if standing.collections.len() < wanted || wanted == 0 => {
                let there = standing.collections.len();
                Err(FamilyError::Wrong(format!(
                    "collection:{wanted}: {self} collects {there} times on this workload; name one of 1 to {there}, or end"
                )))
            }
            _ => Ok(standing),
        }
    }

    fn stand_after_each(
        &self,
        program: &Program,
        wanted: &[usize],
        show: &mut dyn FnMut(Standing),
    ) -> Result<(), FamilyError> {
        self.suits(program)?;
        let lab = WalkLab { workload: Replayed(program), wanted: Some(wanted), show };
        let ran = self.family.run(&self.spec, lab)?;
        ran.map_err(|error| FamilyError::Failed(format!("{self}: {}", self.explained(&error))))
    }

    fn boxed(&self) -> Box<dyn Selected> {
        Box::new(One { family: self.family, spec: self.spec.clone() })
    }
}

/// Serves one cell.
struct CellLab<'a> {
    workload: Replayed<'a>,
    request: &'a CellRequest,
}

impl Lab for CellLab<'_> {
    type Output = Result<CellReport, ReplayError>;

    fn workload(&self) -> &dyn Workload {
        &self.workload
    }

    fn logs(&self) -> bool {
        self.request.kind == CellKind::Space
    }

    fn manual<H: Manual>(self, heap: H) -> Self::Output {
        cell::measure(heap, self.workload.0, self.request)
    }

    fn shared<H: Manual + Clone + Send>(self, heap: H) -> Self::Output {
        cell::measure_shared(heap, self.workload.0, self.request)
    }

    fn collected<H: Collected>(self, heap: H) -> Self::Output {
        Ok(crate::collected::run(heap, self.workload.0, self.request))
    }

    fn outside(
        self,
        run: &mut dyn FnMut(&dyn Workload) -> Result<OutsideReport, String>,
    ) -> Self::Output {
        let report = match run(&self.workload) {
            Ok(report) => report,
            Err(reason) => return Ok(CellReport::Failed { reason }),
        };
        let samples = samples(self.workload.0, &report);
        let OutsideReport { version, collections, cpu_ns, log, .. } = report;
        Ok(match self.request.kind {
            CellKind::Time => CellReport::Time(TimeReport {
                version,
                passes_ns: vec![cpu_ns],
                cpu_ns,
                minor_faults: 0,
                collections,
            }),
            // The heap's own checks cannot run in this process.
            CellKind::Verify => CellReport::Verified { version },
            CellKind::Space | CellKind::Canary => CellReport::Space(SpaceReport {
                version,
                samples,
                collections,
                log,
                ..SpaceReport::default()
            }),
        })
    }
}

/// A runtime's space at each checkpoint: committed bytes as of its last collection. Anonymous
/// memory is known only at its peak, and is the same for each checkpoint.
fn samples(program: &Program, report: &OutsideReport) -> Vec<SpaceSample> {
    let births = births_at_checkpoints(program);
    let committed = |births: u64| {
        let before = report.collections.partition_point(|collection| collection.births <= births);
        let last = report.collections.get(before.checked_sub(1)?)?;
        Some(last.after.committed_bytes + report.uncounted_bytes)
    };
    let anonymous_bytes = report.peak_anonymous_bytes.unwrap_or(0);
    births
        .map(|births| SpaceSample {
            anonymous_bytes,
            committed_bytes: committed(births),
            ..SpaceSample::default()
        })
        .collect()
}

/// Births before each checkpoint; a reallocation counts as one, as in [`Collection::births`].
fn births_at_checkpoints(program: &Program) -> impl Iterator<Item = u64> {
    let mut steps = program.steps().map_while(Result::ok).peekable();
    let mut births = 0;
    program.checkpoints().iter().map(move |checkpoint| {
        while let Some((_, step)) = steps.next_if(|(word, _)| (*word as u64) < checkpoint.word) {
            births += u64::from(matches!(step, Step::Allocate { .. } | Step::Reallocate { .. }));
        }
        births
    })
}

/// Runs a heap to the program's end, or to each wanted collection, and walks it there. Shows
/// nothing of a heap that cannot be walked.
struct WalkLab<'a> {
    workload: Replayed<'a>,
    wanted: Option<&'a [usize]>,
    show: &'a mut dyn FnMut(Standing),
}

impl Lab for WalkLab<'_> {
    type Output = Result<(), ReplayError>;

    fn workload(&self) -> &dyn Workload {
        &self.workload
    }

    fn walks(&self) -> bool {
        true
    }

    fn manual<H: Manual>(self, heap: H) -> Self::Output {
        let program = self.workload.0;
        let mut driver = Driver::new(program, heap)?;
        // Nobody reads the blocks' content.
        driver.run(Touch::None)?;
        let blocks = (0..program.facts().slots)
            .map(|slot| driver.block(slot).map(|block| block.addr().get()))
            .collect();
        let heap = driver.heap();
        if let Some(parts) = heap.walk() {
            let (footprint, losses) = (heap.footprint(), heap.losses());
            (self.show)(Standing { parts, footprint, losses, blocks, collections: Vec::new() });
        }
        Ok(())
    }

    fn collected<H: Collected>(self, mut heap: H) -> Self::Output {
        let program = self.workload.0;
        heap.measure_pauses();
        let mut driver = collected::Driver::new(program, heap, Slots::new(program.facts().slots)?);
        let moments: Vec<Option<usize>> = match self.wanted {
            None => vec![None],
            Some(numbers) => numbers.iter().copied().map(Some).collect(),
        };
        for moment in moments {
            driver.run_until(moment)?;
            let blocks = (0..program.facts().slots)
                .map(|slot| driver.world().object(slot).map(|object| object.address.addr().get()))
                .collect();
            let heap = driver.heap();
            let collections = heap.collections().to_vec();
            if let Some(parts) = heap.walk() {
                let (footprint, losses) = (heap.footprint(), heap.losses());
                (self.show)(Standing { parts, footprint, losses, blocks, collections });
            }
        }
        Ok(())
    }

    fn outside(
        self,
        _run: &mut dyn FnMut(&dyn Workload) -> Result<OutsideReport, String>,
    ) -> Self::Output {
        Ok(())
    }
}

/// The table.
#[derive(Clone, Copy)]
pub struct Families(pub &'static [&'static dyn Entry]);

impl Families {
    /// All heaps.
    pub fn rows(&self) -> Vec<Row> {
        self.0.iter().flat_map(|family| family.rows()).collect()
    }

    /// Names of the heaps that need only this binary.
    pub fn built_in(&self) -> Vec<String> {
        self.rows().into_iter().filter(|row| row.is_built_in).map(|row| row.name).collect()
    }

    /// The heap of a name.
    ///
    /// # Errors
    /// No heap has the name, or a parameter is wrong; the error lists the heaps, the likely
    /// meaning, and an example.
    pub fn parse(&self, text: &str) -> Result<Box<dyn Selected>, FamilyError> {
        self.parse_name(&Name::parse(text))
    }

    fn parse_name(&self, name: &Name) -> Result<Box<dyn Selected>, FamilyError> {
        if let Some(twice) = name.repeated() {
            return Err(FamilyError::Wrong(format!("{} has {twice} twice", name.text)));
        }
        match self.0.iter().find_map(|family| family.parse(name)) {
            None => Err(self.unknown(name)),
            Some(Ok(heap)) => Ok(heap),
            Some(Err(FamilyError::Wrong(what))) => Err(FamilyError::Wrong(what + &self.hint(name))),
            Some(Err(error)) => Err(error),
        }
    }

    fn unknown(&self, name: &Name) -> FamilyError {
        let rows = self.rows();
        let known = rows.iter().map(|row| row.name.as_str());
        let heads = rows.iter().map(|row| row.name.split(':').next().unwrap_or_default());
        let close =
            name::closest(&name.heap(), known.clone()).or_else(|| name::closest(&name.head, heads));
        let meant = close.map(|close| format!("did you mean {close}? ")).unwrap_or_default();
        if name.head.contains('/') || name.head.starts_with('.') || name.head.ends_with(".so") {
            return FamilyError::Wrong(format!(
                "there is no heap {:?}; a library is named lib:{}",
                name.head, name.text
            ));
        }
        let all = match close {
            Some(_) => "heaplab heaps lists all".to_string(),
            None => {
                let known = known.collect::<Vec<_>>().join(", ");
                format!("there are {known} (heaplab heaps lists their parameters)")
            }
        };
        FamilyError::Wrong(format!("there is no heap {:?}; {meant}{all}", name.head))
    }

    /// The likely meaning of a parameter or a variant, and an example of the heap's name with
    /// parameters.
    fn hint(&self, name: &Name) -> String {
        let rows = self.rows();
        let Some(row) = rows
            .iter()
            .find(|row| row.name == name.heap())
            .or_else(|| rows.iter().find(|row| row.name == name.head))
        else {
            let variants =
                rows.iter().filter_map(|row| row.name.strip_prefix(&format!("{}:", name.head)));
            let close = name::closest(name.variant.as_deref().unwrap_or_default(), variants);
            return close
                .map(|close| format!("; did you mean {}:{close}?", name.head))
                .unwrap_or_default();
        };
        let known = || row.parameters.iter().map(|parameter| parameter.name);
        let unknown = name
            .parameters
            .iter()
            .map(|(key, _)| key)
            .find(|key| known().all(|known| known != key.as_str()));
        let meant = unknown
            .and_then(|key| name::closest(key, known()))
            .map(|close| format!("; did you mean {close}?"));
        let example = row.example.map(|example| format!("; for example {example}"));
        meant.unwrap_or_default() + &example.unwrap_or_default()
    }

    /// The heaps of a list such as `glibc,jemalloc:narenas=1,dirty_decay_ms=0`.
    ///
    /// # Errors
    /// The list is empty, a heap is named twice or cannot be compared, or a name is wrong.
    pub fn parse_list(&self, list: &str) -> Result<Vec<Box<dyn Selected>>, FamilyError> {
        let mut heaps: Vec<Box<dyn Selected>> = Vec::new();
        for name in name::list(list) {
            let heap = self.parse_name(&name)?;
            if !heap.traits().compared {
                return Err(FamilyError::Wrong(format!(
                    "the {heap} heap is measured with every experiment and is not compared with a heap; leave it out"
                )));
            }
            if heaps.iter().any(|earlier| earlier.to_string() == heap.to_string()) {
                return Err(FamilyError::Wrong(format!("{heap} is named twice")));
            }
            heaps.push(heap);
        }
        if heaps.is_empty() {
            return Err(FamilyError::Wrong(
                "no heap is named; for example --on glibc,jemalloc".into(),
            ));
        }
        Ok(heaps)
    }

    /// Checks that `heap` can be walked; the error names the heaps that can.
    ///
    /// # Errors
    /// The heap cannot be walked.
    pub fn walked(&self, heap: &dyn Selected) -> Result<(), FamilyError> {
        if heap.traits().walked {
            return Ok(());
        }
        let known: Vec<String> =
            self.rows().into_iter().filter(|row| row.is_walked).map(|row| row.name).collect();
        Err(FamilyError::Wrong(format!(
            "{heap} does not tell where its chunks, free blocks and headers lie, so it cannot be walked; the heaps that can are {}",
            known.join(", ")
        )))
    }

    /// Serves one cell in this process.
    ///
    /// # Errors
    /// The program cannot be opened, no heap has the name, or the heap cannot be made here.
    pub fn serve(&self, request: &CellRequest) -> Result<CellReport, ServeError> {
        if let Some(core) = request.core {
            crate::system::pin_to(core);
        }
        if !request.huge_pages {
            crate::system::without_huge_pages().map_err(ServeError::HugePages)?;
        }
        if request.kind == CellKind::Canary {
            return Ok(cell::canary());
        }
        let program = Program::open(&request.program)?;
        Ok(self.parse(&request.heap)?.cell(&program, request)?)
    }
}

/// Why a cell is not served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The kernel cannot keep huge pages from a process.
    #[error("huge pages cannot be switched off (prctl PR_SET_THP_DISABLE): {0}")]
    HugePages(std::io::Error),
    /// The program cannot be opened.
    #[error(transparent)]
    Program(#[from] heaplab_trace::TraceError),
    /// The heap cannot be made.
    #[error(transparent)]
    Heap(#[from] FamilyError),
}

#[cfg(test)]
mod tests {
    use super::births_at_checkpoints;
    use heaplab_trace::program::{Facts, Program, compile};
    use heaplab_trace::source::Slice;
    use heaplab_trace::tables::Tables;
    use heaplab_trace::{Event, Op};
    use std::io::Cursor;
    use std::path::Path;

    #[test]
    fn a_reallocation_is_a_birth_before_a_checkpoint() {
        let event = |op, object, size| Event { op, object, size, ..Event::default() };
        let events = [
            event(Op::Alloc, 0, 8),
            event(Op::Realloc, 0, 16),
            event(Op::Realloc, 0, 24),
            event(Op::Alloc, 1, 8),
            event(Op::Free, 1, 0),
        ];
        let (facts, mut out) = (Facts::default(), Cursor::new(Vec::new()));
        compile(&mut Slice(&events), &Tables::default(), facts, 0, Path::new("test"), &mut out)
            .unwrap();
        let program = Program::from_bytes(&out.into_inner(), Path::new("test")).unwrap();
        assert_eq!(births_at_checkpoints(&program).last(), Some(4));
    }
}
