//! `heaplab export`: write a profile for another tool, or a metaspace's workload as text.

use crate::heaps::{self, Heap};
use crate::usage_error::UsageError;
use anyhow::Result;
use clap::ValueEnum;
use heaplab_export::{Format, Source, Weight, write_metaspace_trace};
use heaplab_record::output;
use heaplab_terminal::whole_file;
use std::{
    io::{IsTerminal, stdout},
    path::{Path, PathBuf},
    process::ExitCode,
};

/// Arguments of `heaplab export`.
#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("../../help/export.txt"))]
pub struct Args {
    /// The recording
    #[arg(value_name = "BUNDLE")]
    bundle: PathBuf,
    /// What to write
    #[arg(long, short, value_enum)]
    format: FormatName,
    /// Where to write it; - is standard output
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
    /// When memory is in use: peak, end, the name of a mark, or a time such as 1.5s
    #[arg(long, value_name = "MOMENT", default_value = "peak")]
    at: String,
    /// Pid (PID#2: its second program) or program name of the process to show, or all; by default
    /// the one with the largest peak
    #[arg(long, value_name = "PROCESS")]
    process: Option<String>,
    /// With heapsnapshot: run the workload as far as the moment on this heap, and write the heap as
    /// it then stands (elastic, a metaspace, with parameters: heaplab heaps; or bump)
    #[arg(long, value_name = "HEAP")]
    on: Option<String>,
    /// The one number that collapsed stacks have room for
    #[arg(long, value_enum, value_name = "WEIGHT", default_value = "in-use-bytes")]
    weight: WeightName,
    /// For a heap snapshot: say what both phases took, walking over what is live and writing the
    /// file, with counts
    #[arg(long)]
    profile: bool,
}

/// The formats, as they are called on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FormatName {
    /// Protobuf of pprof, gzipped
    Pprof,
    /// JSON of speedscope
    Speedscope,
    /// One line a stack, for flame graph scripts
    Collapsed,
    /// JSON of the Firefox Profiler
    Firefox,
    /// JSON of valgrind's DHAT viewer
    Dhat,
    /// Each live block, for Chrome DevTools' Memory panel and `heaplab snapshot`
    Heapsnapshot,
    /// The workload of a metaspace as text (#metaspace-trace 1)
    MetaspaceTrace,
}

/// The weights, as they are called on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum WeightName {
    /// Bytes in use at the moment
    InUseBytes,
    /// Objects in use at the moment
    InUseObjects,
    /// Bytes of all requests
    AllocatedBytes,
    /// All requests
    AllocatedObjects,
}

const NO_PHASES: &str =
    "--profile is for heap snapshots (--format heapsnapshot): other formats have no phases";

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode> {
    let on = match &args.on {
        Some(_) if args.format != FormatName::Heapsnapshot => {
            misasked!(
                "--on is for heap snapshots, of a heap that ran the workload: write --format heapsnapshot, or leave --on out"
            )
        }
        name => name.as_deref().map(heap_of).transpose()?,
    };
    if args.format == FormatName::MetaspaceTrace {
        return workload(&args);
    }
    let format = format(&args);
    let misused = match format {
        Some(Format::Pprof) if args.output == Path::new("-") && stdout().is_terminal() => Some(
            "a pprof file is binary and standard output is a terminal: write to a file with -o FILE, or into a pipe",
        ),
        Some(Format::Dhat) if args.at != "peak" && args.at != "end" => Some(
            "a DHAT file holds the peak and the end, and no other moment: leave --at out, or choose another format",
        ),
        Some(Format::Pprof | Format::Speedscope | Format::Firefox | Format::Dhat)
            if args.weight != WeightName::InUseBytes =>
        {
            Some("--weight is for collapsed stacks; the other formats hold all weights")
        }
        None if args.weight != WeightName::InUseBytes => Some(
            "--weight is for collapsed stacks; a heap snapshot holds each block with the bytes asked for",
        ),
        _ => None,
    };
    if let Some(misused) = misused {
        misasked!("{misused}");
    }
    if args.profile && format.is_some() {
        misasked!("{NO_PHASES}");
    }
    let bundle = output::open(&args.bundle)?;
    let source = Source::of(&bundle, args.process.as_deref(), &args.at)?;
    match format {
        Some(format) => {
            whole_file::write(&args.output, format == Format::Pprof, |out| -> Result<()> {
                Ok(source.write_profile(format, out)?)
            })?;
            Ok(ExitCode::SUCCESS)
        }
        None => heap_snapshot(&args, &source, on),
    }
}

/// Writes a heap snapshot, and says what is particular of it.
fn heap_snapshot(args: &Args, source: &Source, on: Option<Heap>) -> Result<ExitCode> {
    if source.is_after_the_end() {
        eprintln!(
            "heaplab: `{}` lies after the end of the recording: what is written is its end",
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
                        "heaplab: {heap} had {walked} bytes committed while it was walked, and {after} when that was done"
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
    if args.at != "peak" || args.weight != WeightName::InUseBytes {
        misasked!("--at and --weight are for profiles; a metaspace trace is the whole workload");
    }
    if args.profile {
        misasked!("{NO_PHASES}");
    }
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

/// The profile's format; `None`: a heap snapshot or the workload, which are no profiles.
fn format(args: &Args) -> Option<Format> {
    let weight = match args.weight {
        WeightName::InUseBytes => Weight::InUseBytes,
        WeightName::InUseObjects => Weight::InUseObjects,
        WeightName::AllocatedBytes => Weight::AllocatedBytes,
        WeightName::AllocatedObjects => Weight::AllocatedObjects,
    };
    match args.format {
        FormatName::Pprof => Some(Format::Pprof),
        FormatName::Speedscope => Some(Format::Speedscope),
        FormatName::Collapsed => Some(Format::Collapsed(weight)),
        FormatName::Firefox => Some(Format::Firefox),
        FormatName::Dhat => Some(Format::Dhat),
        FormatName::Heapsnapshot | FormatName::MetaspaceTrace => None,
    }
}

/// The heap that `--on` names.
///
/// # Errors
/// There is none of that name, it is several, or it cannot be walked.
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
            let error = heap_of(name).unwrap_err().to_string();
            assert!(error.starts_with("--on: ") && error.contains(expected), "{name}: {error}");
        }
    }
}
