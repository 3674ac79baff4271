//! `heaplab import`: turn another tool's trace into a bundle.

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use heaplab_jvm::FormatName;
use heaplab_terminal::progress::{self, ProgressBar};
use heaplab_text::words::plural;
use heaplab_trace::bundle::{Bundle, BundleWriter};
use heaplab_trace::import::ImportOptions;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("../../help/import.txt"), override_usage = "heaplab import [OPTIONS] --output <BUNDLE> [FORMAT] <FILE>...")]
pub struct Args {
    /// The trace, plain or compressed by zstd or gzip; - reads standard input. You may write its
    /// format before it. Give a JVM's rotated log as several files, the oldest first
    #[arg(value_name = "FILE", num_args = 1.., required = true)]
    trace: Vec<PathBuf>,
    /// The bundle to make
    #[arg(short, long, value_name = "BUNDLE")]
    output: PathBuf,
    /// Replace a bundle of that name when the new one is complete
    #[arg(long)]
    force: bool,
    /// The trace's format
    #[arg(long, value_enum, default_value = "auto")]
    format: FormatName,
    /// Drop lines out of order and a cut last line, with a message, instead of refusing the trace
    #[arg(long)]
    lenient: bool,
    /// Print a summary of the import as JSON
    #[arg(long)]
    json: bool,
}

impl Args {
    /// Format and files, wherever the format stands.
    fn what(&self) -> Result<(FormatName, &[PathBuf])> {
        let named = self.trace.split_first().filter(|(_, files)| !files.is_empty());
        let named = named.and_then(|(first, files)| {
            Some((FormatName::from_str(&first.to_string_lossy(), false).ok()?, files))
        });
        let (format, files) = named.unwrap_or((self.format, &self.trace));
        if files.len() == 1 || matches!(format, FormatName::JvmLog) {
            return Ok((format, files));
        }
        if named.is_some() || files.len() > 2 {
            misasked!(
                "one trace is imported at a time (a JVM's rotated log excepted: heaplab import jvm-log ...)"
            );
        }
        let known = FormatName::value_variants()
            .iter()
            .filter_map(FormatName::to_possible_value)
            .map(|value| value.get_name().to_string());
        let names = known.collect::<Vec<_>>().join(", ");
        misasked!(
            "{:?} is no format; there are: {names} (and one trace is imported at a time)",
            files[0].to_string_lossy()
        )
    }
}

/// The files' name in messages.
fn name_of(files: &[PathBuf]) -> PathBuf {
    match files {
        [one] if one.as_os_str() == "-" => PathBuf::from("standard input"),
        [one] => one.clone(),
        [first, rest @ ..] => {
            PathBuf::from(format!("{} and {} after it, as one", first.display(), rest.len()))
        }
        [] => PathBuf::new(),
    }
}

/// All files, concatenated.
fn open_all(files: &[PathBuf]) -> Result<(Box<dyn BufRead>, ProgressBar)> {
    let Some((first, rest)) = files.split_first() else { misasked!("no trace was named") };
    let (mut all, bar) = open(first)?;
    for file in rest {
        let (next, _) = open(file)?;
        all = Box::new(all.chain(next));
    }
    Ok((all, bar))
}

pub fn run(args: Args) -> Result<ExitCode> {
    let (format, files) = args.what()?;
    let name = name_of(files);
    let (input, progress) = open_all(files)?;
    let begin = if args.force { BundleWriter::replace } else { BundleWriter::create };
    let mut writer = begin(&args.output)?;
    let options = ImportOptions { name: name.clone(), lenient: args.lenient };
    let imported = heaplab_jvm::import(input, format.format(), &options, &mut writer);
    progress.finish_and_clear();
    let mut imported = imported?;
    heaplab_jvm::workload::name_kinds_beside(&mut imported, &options.name)?;
    if writer.is_empty() {
        let name = options.name.display();
        match imported.meta.cut {
            Some(cut) => bail!("{name}: cut before its first event, {cut}; nothing was written"),
            None => bail!("{name}: the trace holds no events; nothing was written"),
        }
    }
    writer.finish(&imported.tables, imported.meta)?;
    let bundle = Bundle::open(&args.output)?;
    say(&args, &bundle)?;
    if let Some(cut) = &bundle.meta().cut {
        eprintln!("heaplab: the import ends there: {cut}");
        return Ok(ExitCode::from(1));
    }
    if bundle.meta().gaps && !args.lenient {
        eprintln!(
            "heaplab: {}: lines are missing in the middle, as counted above (--lenient calls that done)",
            name.display()
        );
        return Ok(ExitCode::from(1));
    }
    Ok(ExitCode::SUCCESS)
}

fn open(input: &Path) -> Result<(Box<dyn BufRead>, ProgressBar)> {
    if input.as_os_str() == "-" {
        // The total is unknown: a spinner of bytes.
        let bar = progress::line(false, "{spinner} {bytes} read");
        return Ok((
            Box::new(BufReader::with_capacity(1 << 16, bar.wrap_read(std::io::stdin()))),
            bar,
        ));
    }
    let file = File::open(input).with_context(|| format!("{}: cannot open", input.display()))?;
    let data = file.metadata().with_context(|| format!("{}: cannot read", input.display()))?;
    if data.is_dir() {
        bail!(
            "{}: this is a folder; a trace is a file (a bundle needs no import)",
            input.display()
        );
    }
    let bar = progress::bar(false, data.len(), "{wide_bar} {bytes} of {total_bytes}, {eta} left");
    let input: Box<dyn Read> = Box::new(bar.wrap_read(file));
    Ok((Box::new(BufReader::with_capacity(1 << 16, input)), bar))
}

fn say(args: &Args, bundle: &Bundle) -> Result<()> {
    let meta = bundle.meta();
    if args.json {
        println!("{}", serde_json::to_string_pretty(meta)?)?;
        return Ok(());
    }
    let (processes, threads) = (bundle.tables().processes.len(), bundle.tables().threads.len());
    println!(
        "{}: {}, {}, {processes} process{}, {}",
        args.output.display(),
        plural(meta.events, "event"),
        plural(meta.objects, "object"),
        if processes == 1 { "" } else { "es" },
        plural(threads as u64, "thread"),
    )?;
    for loss in &meta.losses {
        println!("  {loss}")?;
    }
    Ok(())
}
