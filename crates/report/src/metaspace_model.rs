//! A recorded JVM's workload in the metaspace of another JDK: its contents at the recording's marks
//! and at the asked moment.
//!
//! The workload runs on the model as in any replay (`heaplab_replay::Driver`): births and deaths of
//! arenas, requests, blocks given back, and purges where the JVM purged.

use heaplab_heap::{Family, FamilyError, Manual, Name};
use heaplab_metaspace::Metaspaces;
use heaplab_metaspace::designs::{Design, Usage};
use heaplab_metaspace::elastic::ElasticMetaspace;
use heaplab_metaspace::family::{Metaspace, plan};
use heaplab_metaspace::old::{Heap11, Options11};
use heaplab_metaspace::spec::Generation;
use heaplab_profile::At;
use heaplab_profile::choose::{self, ChooseError, Chosen};
use heaplab_replay::workload::Replayed;
use heaplab_replay::{Driver, ReplayError, Touch};
use heaplab_text::lines;
use heaplab_text::words::{bytes, duration};
use heaplab_trace::TraceError;
use heaplab_trace::bundle::{Bundle, Selection};
use heaplab_trace::program::{self, Program};

/// The default model of a workload without chunks.
pub const DEFAULT_MODEL: &str = "metaspace:jdk17";

/// Why a model is not shown.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// The recording is of something else, or no moment is so called.
    #[error("{0}")]
    Asked(#[from] ChooseError),
    /// No model is so called, or it cannot be made.
    #[error("{0}")]
    Family(#[from] FamilyError),
    /// The workload cannot be compiled.
    #[error(transparent)]
    Unread(#[from] TraceError),
    /// The model cannot run it.
    #[error("{model}: {error}")]
    Replay {
        /// Its name.
        model: String,
        /// Why.
        error: ReplayError,
    },
}

macro_rules! not_there {
    ($($text:tt)*) => { return Err(ChooseError::NotThere(format!($($text)*)).into()) };
}

/// The model's listing at `wanted` (the end), with a line for each of the recording's marks before
/// it.
///
/// # Errors
/// No model or moment is so called, the recording is not of a metaspace, or the model cannot run
/// the workload.
pub fn on_model(
    bundle: &Bundle,
    process: u32,
    name: &str,
    wanted: Option<&str>,
) -> Result<String, ModelError> {
    let tables = bundle.tables();
    if !heaplab_jvm::is_metaspace(tables) {
        not_there!(
            "--model is for recordings of a JVM's metaspace: {} is none",
            bundle.path().display()
        );
    }
    let Some(model) = Metaspaces.parse(&Name::parse(name)) else {
        not_there!(
            "{name:?} is no model: they are named as `heaplab heaps` names them: metaspace:jdk11, metaspace:jdk17,reclaim=aggressive, ..."
        );
    };
    // Rows of the table, and the moment of the listing, which has no name there.
    let duration_ns = bundle.meta().duration_ns;
    let mut rows: Vec<(u64, Option<&str>)> =
        tables.marks.iter().map(|mark| (mark.time_ns, Some(mark.name.as_str()))).collect();
    rows.push((u64::MAX, Some("end")));
    rows.push((moment_ns(bundle, process, wanted)?, None));
    rows.sort_by_key(|(time_ns, _)| *time_ns);
    let times_ns: Vec<u64> = rows.iter().map(|(time_ns, _)| *time_ns).collect();
    let (program, words) = program::with_moments(bundle, process, &times_ns)?;
    let mut rows = rows.into_iter();
    let (mut table, mut listing) = (String::new(), String::new());
    run(&model?, &program, &words, &mut |heap| match rows.next() {
        Some((time_ns, Some(row))) => {
            table.push_str(&line(row, time_ns.min(duration_ns), &heap.usage()));
        }
        _ => listing = heap.listing(name).to_string(),
    })?;
    let when = wanted.unwrap_or("end");
    let head = format!(
        "{:<24}{:>12}{:>12}{:>12}{:>16}\n",
        "moment", "time", "used", "committed", "in free chunks"
    );
    Ok(format!("\nThe same workload on {name}\n\n{head}{table}\nat {when}:\n{listing}"))
}

/// The time of the moment that `wanted` names (the end), in ns.
fn moment_ns(bundle: &Bundle, process: u32, wanted: Option<&str>) -> Result<u64, ModelError> {
    let tables = bundle.tables();
    let selection = Selection { process: Some(process) };
    Ok(match wanted.map(|text| choose::moment(tables, selection, text)).transpose()? {
        None | Some(Chosen::End) => u64::MAX,
        Some(Chosen::Peak) => not_there!(
            "--model takes marks, times and end: the peak of a model is another moment than the JVM's"
        ),
        Some(Chosen::At(At::Mark(row))) => {
            tables.marks.get(row as usize).map_or(0, |mark| mark.time_ns)
        }
        Some(Chosen::At(At::Time(time_ns))) => time_ns,
        Some(Chosen::At(At::Row(_))) => not_there!("--model takes marks, times and end"),
    })
}

/// Runs the program on a model, and looks at it before each of these words.
fn run(
    Metaspace(spec): &Metaspace,
    program: &Program,
    words: &[usize],
    look: &mut dyn FnMut(&dyn Design),
) -> Result<(), ModelError> {
    let plan = plan(&Replayed(program));
    let ran = if spec.generation == Generation::Jdk11 {
        drive(Heap11::new(Options11::from(spec), plan), program, words, look)
    } else {
        let heap = ElasticMetaspace::new(*spec, plan).map_err(FamilyError::failed)?;
        drive(heap, program, words, look)
    };
    ran.map_err(|error| ModelError::Replay { model: Metaspace(*spec).to_string(), error })
}

fn drive<D: Manual + Design>(
    heap: D,
    program: &Program,
    words: &[usize],
    look: &mut dyn FnMut(&dyn Design),
) -> Result<(), ReplayError> {
    let mut driver = Driver::new(program, heap)?;
    for word in words {
        // Nobody reads the blocks' content.
        driver.run_to(*word, Touch::None)?;
        look(driver.heap());
    }
    Ok(())
}

fn line(name: &str, time_ns: u64, usage: &Usage) -> String {
    let [used, committed, free] = [usage.used, usage.committed, usage.free_chunks].map(bytes);
    let name = lines::cut(name, 23);
    format!("{name:<24}{:>12}{used:>12}{committed:>12}{free:>16}\n", duration(time_ns))
}
