//! `heaplab export`: write a profile for another tool, or a metaspace's workload as text.

use crate::heaps::{self, Heap};
use crate::usage_error::UsageError;
use anyhow::Result;
use heaplab_export::{Asked, FileFormat, Format, Source, Weight, write_metaspace_trace};
use heaplab_record::output;
use heaplab_terminal::whole_file;
use std::{
    io::{IsTerminal, stdout},
    path::{Path, PathBuf},
    process::ExitCode,
};

#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("../../help/export.txt"))]
pub struct Args {
    /// The recording
    #[arg(value_name = "BUNDLE")]
    bundle: PathBuf,
    /// The format to write
    #[arg(long, short, value_enum)]
    format: FileFormat,
    /// The file to write; - is standard output
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
    /// Show memory in use at this moment: peak, end, the name of a mark, or a time such as 1.5s
    #[arg(long, value_name = "MOMENT", default_value = "peak")]
    at: String,
    /// Pid (PID#2: its second program) or program name of the process to show, or all; by default
    /// the one with the largest peak
    #[arg(long, value_name = "PROCESS")]
    process: Option<String>,
    /// With heapsnapshot: run the workload on this heap up to the moment, and write the heap's
    /// state (elastic, a metaspace, with parameters: heaplab heaps; or bump)
    #[arg(long, value_name = "HEAP")]
    on: Option<String>,
    /// The number to write for each collapsed stack
    #[arg(long, value_enum, value_name = "WEIGHT", default_value = "in-use-bytes")]
    weight: Weight,
    /// With heapsnapshot: print times and counts of the walk over live blocks and of the writing
    #[arg(long)]
    profile: bool,
}

pub fn run(args: Args) -> Result<ExitCode> {
    let asked = Asked {
        format: args.format,
        at: &args.at,
        weight: args.weight,
        is_on_heap: args.on.is_some(),
        with_phases: args.profile,
        to_terminal: args.output == Path::new("-") && stdout().is_terminal(),
    };
    asked.check()?;
    if args.format == FileFormat::MetaspaceTrace {
        return workload(&args);
    }
    let on = args.on.as_deref().map(heap_of).transpose()?;
    let bundle = output::open(&args.bundle)?;
    let source = Source::of(&bundle, args.process.as_deref(), &args.at)?;
    match asked.profile() {
        Some(format) => {
            whole_file::write(&args.output, format == Format::Pprof, |out| -> Result<()> {
                Ok(source.write_profile(format, out)?)
            })?;
            Ok(ExitCode::SUCCESS)
        }
        None => heap_snapshot(&args, &source, on),
    }
}

/// Writes a heap snapshot, and prints notes about it.
fn heap_snapshot(args: &Args, source: &Source, on: Option<Heap>) -> Result<ExitCode> {
    if source.is_after_the_end() {
        eprintln!(
            "heaplab: `{}` lies after the end of the recording: the file has the state at the end",
            args.at
        );
    }
    let mut written = None;
    whole_file::write(&args.output, false, |out| -> Result<()> {
        written = Some(match &on {
            None => source.write_heap_snapshot(out)?,
            Some(heap) => {
                let ran = source.run_on(heap.as_ref())?;
                if let Some((walked, after)) = ran.changed_bytes() {
                    eprintln!(
                        "heaplab: {heap} had {walked} bytes committed during the walk and {after} after it"
                    );
                }
                source.write_heap(ran, &heap.to_string(), out)?
            }
        });
        Ok(())
    })?;
    let Some(written) = written else { return Ok(ExitCode::FAILURE) };
    if args.profile {
        eprintln!("{}", written.profile);
    }
    if !written.ids_last {
        eprintln!(
            "heaplab: the recording has too many objects for ids of 32 bits, or its beginning is missing: the file's ids are its own, and it cannot be compared with one of another moment"
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes the workload itself.
fn workload(args: &Args) -> Result<ExitCode> {
    let bundle = output::open(&args.bundle)?;
    let (process, path) = (args.process.as_deref(), &args.output);
    let mut written = None;
    whole_file::write(path, false, |out| -> Result<()> {
        written = Some(write_metaspace_trace(&bundle, process, out, path)?);
        Ok(())
    })?;
    let Some(written) = written else { return Ok(ExitCode::FAILURE) };
    match args.output.to_string_lossy().strip_suffix(".trace") {
        Some(stem) => {
            let table = PathBuf::from(format!("{stem}.arenas.csv"));
            whole_file::write_bytes(&table, false, written.kinds.as_bytes())?;
        }
        None => eprintln!(
            "heaplab: kinds of loaders are left out: a table of them is written beside a file that is called X.trace"
        ),
    }
    if written.marks_left_out > 0 {
        eprintln!(
            "heaplab: {} marks are left out: the format has none but purges",
            written.marks_left_out
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// The heap that `--on` names.
///
/// # Errors
/// No heap has this name, the list names several, or the heap cannot be walked.
fn heap_of(name: &str) -> Result<Heap> {
    if name.trim().is_empty() {
        misasked!("--on: no heap is named; for example --on elastic");
    }
    let heaps = heaps::on(name)?;
    let [heap] = &heaps[..] else {
        misasked!("--on: a heap snapshot is of one heap, and {name} names {}", heaps.len());
    };
    heaps::FAMILIES.walked(&**heap).map_err(|error| UsageError(format!("--on: {error:#}")))?;
    Ok(heap.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heaps_that_cannot_be_walked_are_refused_with_those_that_can() {
        for (name, expected) in [
            (
                "glibc",
                "the heaps that can are metaspace:jdk11, metaspace:jdk16, metaspace:jdk17, metaspace:jdk18, elastic, bump",
            ),
            ("jemalloc:narenas=1", "does not tell where"),
            ("mimalloc", "does not tell where"),
            ("elastic,metaspace:jdk17", "names 2"),
            ("elastik", "there is no heap"),
            ("", "for example --on elastic"),
        ] {
            let error = format!("{:#}", heap_of(name).unwrap_err());
            assert!(error.starts_with("--on: ") && error.contains(expected), "{name}: {error}");
        }
    }
}
