//! `heaplab record`: record what a program allocates.

use super::recording::{self, Finishing};
use anyhow::{Context, Result, bail};
use heaplab_record::ocaml::{self, OcamlOptions};
use heaplab_record::output::{self, Claim};
use heaplab_record::python::Frames;
use heaplab_record::summary::{Rate, Summary};
use heaplab_record::{finish, jvm, mark::spool_of, node, session, settings};
use heaplab_terminal::bus::{self, Mapped};
use heaplab_terminal::progress::{self, ProgressBar};
use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("../../help/record.txt"))]
pub struct Args {
    /// The bundle to write [default: PROGRAM.heaplab]
    #[arg(short, long, value_name = "BUNDLE")]
    output: Option<PathBuf>,
    /// Replace a bundle (and an unfinished recording) of that name
    #[arg(long)]
    force: bool,
    /// Record a JVM's metaspace (17 or later) from the JVM's log instead of malloc
    #[arg(long, conflicts_with_all = ["stack_depth", "ring_size", "mark_signal", "samples", "spool_limit"])]
    jvm_metaspace: bool,
    /// With --jvm-metaspace, also record JVMs (9 or later) that the JVM starts
    #[arg(long, requires = "jvm_metaspace")]
    jvm_children: bool,
    /// Record JavaScript heaps of Node (18 to 24) instead of malloc
    #[arg(long, conflicts_with_all = ["jvm_metaspace", "ring_size", "mark_signal", "samples", "spool_limit"])]
    node: bool,
    /// Record the heap of an OCaml program (4.11 to 4.14, 5.3) linked with heaplab's recorder
    #[arg(long, conflicts_with_all = ["node", "jvm_metaspace", "ring_size", "mark_signal", "samples", "spool_limit", "detach_children"])]
    ocaml: bool,
    /// Add Python's frames (3.8 to 3.13) to stacks, and let Python allocate its objects by malloc;
    /// --python=all keeps the interpreter's own frames between them
    #[arg(long, value_enum, value_name = "WHICH", num_args = 0..=1, require_equals = true, default_missing_value = "frames", hide_possible_values = true,
        conflicts_with_all = ["ocaml", "node", "jvm_metaspace"])]
    python: Option<Frames>,
    /// Ask JVMs (9 or later) for the purposes of their memory: heap, code, classes, threads. They
    /// start with -XX:NativeMemoryTracking=detail and -XX:+StartAttachListener
    #[arg(long, conflicts_with_all = ["ocaml", "node", "jvm_metaspace"])]
    jvm_memory: bool,
    /// Bytes of new objects between two forced full collections, which find dead objects: a power
    /// of two from 1M to 512M [default: 1M with --node, with --ocaml none are forced]
    #[arg(long, value_name = "BYTES", value_parser = settings::granularity)]
    granularity: Option<u64>,
    /// Frames to keep of each call stack; 0: record no stacks
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(0..=1024))]
    stack_depth: u32,
    /// Size of each thread's ring: a power of two from 64K to 1G; a process's first thread has
    /// twice as much, without call stacks four times, at most 1G
    #[arg(long, value_name = "BYTES", default_value = "512K", value_parser = settings::ring_size)]
    ring_size: u32,
    /// Set a mark when the program receives this signal (a number, or a name such as USR2)
    #[arg(long, value_name = "SIGNAL", value_parser = settings::signal_number)]
    mark_signal: Option<u32>,
    /// Record which blocks the program's memory reporters name (docs/reporters.md): `heaplab about
    /// BUNDLE` lists blocks that no reporter or several reporters name
    #[arg(long, conflicts_with_all = ["node", "jvm_metaspace", "ocaml"])]
    dmd: bool,
    /// Milliseconds between two checks of each process's resident memory; 0: none [default: 5 at
    /// first, 100 after two seconds]
    #[arg(long, value_name = "MS")]
    samples: Option<u32>,
    /// End when the program has ended, even if its descendants still run
    #[arg(long)]
    detach_children: bool,
    #[command(flatten)]
    contents: recording::Contents,
    /// When to show progress on a terminal: always; auto: while the program runs only if its
    /// standard output is no terminal; never: not even while finishing
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = When::Auto, hide_possible_values = true)]
    progress: When,
    /// Show no progress: --progress never
    #[arg(short, long, conflicts_with = "progress")]
    quiet: bool,
    /// Print the summary as one line of JSON, the last line on standard error
    #[arg(long)]
    json: bool,
    /// Pretend that the disk is full once the spool has this many bytes
    #[arg(long, hide = true, value_name = "BYTES")]
    spool_limit: Option<u64>,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    command: Vec<OsString>,
}

/// When progress is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum When {
    Always,
    Auto,
    Never,
}

impl Args {
    /// Whether nothing is ever shown.
    fn is_quiet(&self) -> bool {
        self.quiet || self.progress == When::Never || self.json || !std::io::stderr().is_terminal()
    }

    /// The line of progress while the program runs. It could spoil the program's own output: an
    /// editor's screen, or a prompt.
    fn bar(&self) -> ProgressBar {
        let is_hidden =
            self.is_quiet() || (self.progress == When::Auto && std::io::stdout().is_terminal());
        progress::line(is_hidden, "{msg}")
    }
}

pub fn run(args: Args) -> Result<ExitCode> {
    let program = args.command.first().context("no program was named")?;
    check(&args)?;
    let output = args.output.clone().unwrap_or_else(|| output::default_output(program));
    let claim = output::clear(&output, args.force)?;
    bus::is_an_error(Mapped::Spool);
    if args.jvm_metaspace || args.node || args.ocaml {
        return record_runtime(&args, output, claim);
    }
    record_malloc(&args, program, output, claim)
}

/// Refuses options that contradict each other.
fn check(args: &Args) -> Result<()> {
    if args.granularity.is_some() && !args.node && !args.ocaml {
        misasked!("--granularity is for heaps that collect: with --node or --ocaml");
    }
    if args.python.is_some() && args.stack_depth == 0 {
        misasked!("--python adds frames to stacks, and --stack-depth 0 records no stacks");
    }
    if args.jvm_memory && args.samples == Some(0) {
        misasked!("--jvm-memory divides readings of resident memory, and --samples 0 takes none");
    }
    Ok(())
}

/// Records the requests of the program and its children to malloc.
fn record_malloc(args: &Args, program: &OsStr, output: PathBuf, claim: Claim) -> Result<ExitCode> {
    let options = session::RecordOptions {
        command: args.command.clone(),
        spool: spool_of(&output),
        stack_depth: args.stack_depth,
        python: args.python,
        jvm_memory: args.jvm_memory,
        ring_bytes: args.ring_size,
        mark_signal: args.mark_signal.unwrap_or(0),
        samples: args.samples.map(|ms| Duration::from_millis(ms.into())),
        detach_children: args.detach_children,
        reports: args.dmd,
        spool_limit_bytes: args.spool_limit,
    };
    let bar = args.bar();
    let mut rate = Rate::default();
    let mut claim = Some(claim);
    let recorded = session::record(&options, &mut |progress| {
        if let Some(words) = progress.words(program) {
            bar.suspend(|| eprintln!("heaplab: {words}"));
        }
        if let session::Progress::Totals(totals) = progress {
            // It has begun.
            claim = None;
            bar.set_message(rate.line(&totals));
        }
    })?;
    bar.finish_and_clear();
    if let Some(reason) = recorded.nothing().filter(|_| !recorded.is_whole()) {
        output::discard_spool(&recorded.spool)?;
        if recorded.obstacle.is_some() {
            bail!("nothing was recorded of {}, for the reason given above", program.display());
        }
        bail!("nothing was recorded: {reason}");
    }
    let options = finish::FinishOptions {
        index: Some(recorded.index.clone()),
        replace: args.force,
        ..args.contents.options()
    };
    let finishing = Finishing {
        spool: recorded.spool.clone(),
        output,
        options,
        quiet: args.is_quiet(),
        keep_spool: false,
    };
    let finished = recording::finish(&finishing)?;
    recording::report(&Summary::of(&finished, Some(&recorded)), args.json)?;
    let main_missed = recorded.unrecorded.iter().any(|process| process.pid == recorded.pid);
    if main_missed {
        bail!("{}, or the program that it became, was not recorded (see above)", program.display());
    }
    if let Some(largest) = &finished.largest_unseen {
        bail!(
            "{largest}; its requests are not in the recording, which holds only those of the other processes"
        );
    }
    Ok(ExitCode::from(recorded.exit_code()))
}

/// Records the heaps of a runtime: JVMs' metaspace, Nodes, or an OCaml program with heaplab's
/// recorder in it.
fn record_runtime(args: &Args, output: PathBuf, claim: Claim) -> Result<ExitCode> {
    let bar = args.bar();
    let mut claim = Some(claim);
    let mut show = |progress: &dyn Display| {
        claim = None;
        bar.set_message(progress.to_string());
    };
    let (command, replace) = (args.command.clone(), args.force);
    let detach_children = args.detach_children;
    let (summary, code) = if args.jvm_metaspace {
        let jvm_children = args.jvm_children;
        let options = jvm::JvmOptions { command, output, replace, detach_children, jvm_children };
        let recorded = jvm::record(&options, &mut |progress| show(&progress))?;
        (Summary::of_jvms(&recorded), recorded.exit_code())
    } else if args.node {
        let granularity_bytes = args.granularity.unwrap_or(node::GRANULARITY_MIN);
        let stack_depth = args.stack_depth;
        let options = node::NodeOptions {
            command,
            output,
            replace,
            detach_children,
            granularity_bytes,
            stack_depth,
        };
        let recorded = node::record(&options, &mut |progress| show(&progress))?;
        (Summary::of_nodes(&recorded), recorded.exit_code())
    } else {
        let granularity_bytes = args.granularity;
        let options = OcamlOptions { command, output, replace, granularity_bytes };
        let recorded = ocaml::record(&options)?;
        (Summary::of_ocaml(&recorded), recorded.exit_code())
    };
    bar.finish_and_clear();
    recording::report(&summary, args.json)?;
    Ok(ExitCode::from(code))
}
