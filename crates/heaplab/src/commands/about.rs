//! `heaplab about`: a running program reports its memory.

use crate::answer::{self, HtmlFile};
use crate::commands::seconds;
use anyhow::{Context, Result};
use heaplab_about::{Model, Saved, Served, Subject, Watch, difference, page, text};
use heaplab_dark_matter::{DarkMatter, SortBy};
use heaplab_loopback::{Answer, Request, Server};
use heaplab_profile::choose::process;
use heaplab_terminal as terminal;
use heaplab_terminal::whole_file;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Groups of blocks to show of each list.
const GROUPS: usize = 10;

#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("../../help/about.txt"))]
pub struct Args {
    /// A process with reporters, a file that heaplab or about:memory saved, or a recording made
    /// with `record --dmd`
    #[arg(value_name = "PID|FILE|BUNDLE")]
    subject: String,
    /// Show changes since this reading (also a process or a file); of a recording, since this other
    /// recording
    #[arg(long, value_name = "PID|FILE|BUNDLE")]
    diff: Option<String>,
    /// Take readings until the process ends, and show minimum and maximum
    #[arg(long, conflicts_with = "diff")]
    live: bool,
    /// Take this many readings, and show minimum and maximum
    #[arg(long, value_name = "N", conflicts_with = "diff", value_parser = clap::value_parser!(u64).range(1..))]
    readings: Option<u64>,
    /// Seconds between readings
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = |text: &str| seconds(text, 0.01..=86_400.0))]
    every: f64,
    /// Serve a page for a browser that takes a reading every second
    #[arg(long, conflicts_with_all = ["diff", "live", "readings", "save", "html", "json"])]
    serve: bool,
    /// The page's port on the loopback address; 0: a free one
    #[arg(long, value_name = "PORT", default_value_t = 0, requires = "serve")]
    port: u16,
    /// Write the reading, or the difference, as a file for about:memory; FILE.gz is compressed
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// When the program set this mark: of a process instead of now, of a recording instead of the
    /// last time that reporters were asked
    #[arg(long, value_name = "MARK", conflicts_with_all = ["live", "readings", "serve"])]
    at: Option<String>,
    /// Show changes since a process set this mark, until now or until --at
    #[arg(long, value_name = "MARK", conflicts_with_all = ["diff", "live", "readings", "serve"])]
    since: Option<String>,
    /// The process of a recording: its pid, the name of its program, or all
    #[arg(long, value_name = "PID|NAME|all")]
    process: Option<String>,
    /// Of a recording: put blocks together whose stacks agree in so many frames [default: 8; with
    /// --json: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    frames: Option<u32>,
    /// Of a recording: what the first groups of each list have the most of [default: usable]
    #[arg(long, value_name = "AMOUNT")]
    sort_by: Option<SortBy>,
    #[command(flatten)]
    html: HtmlFile,
    #[command(flatten)]
    show: Show,
}

/// The request to a program, and the form of its answer.
#[derive(Debug, clap::Args)]
pub struct Show {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Also show entries below 1 % of their tree, and every group of a recording
    #[arg(long)]
    all: bool,
    /// Seconds that a process may take to answer
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0, value_parser = |text: &str| seconds(text, 0.01..=86_400.0))]
    timeout: f64,
}

impl Show {
    /// Seconds to wait for an answer.
    pub fn patience(&self) -> Duration {
        Duration::from_secs_f64(self.timeout)
    }

    /// Prints a model; as JSON on one line: indented, a deep tree is three times as long.
    pub fn print(&self, model: &Model) -> Result<()> {
        answer::print(self.json, || model, || text::render(model, self.shown()))
    }

    fn shown(&self) -> text::Shown {
        let (width, colour) = (terminal::width(), terminal::has_colours());
        text::Shown { width, colour, all: self.all }
    }
}

pub fn run(args: Args) -> Result<ExitCode> {
    args.html.check()?;
    if Path::new(&args.subject).is_dir() {
        return dark_matter(&args);
    }
    let patience = args.show.patience();
    let subject = Subject::of(&args.subject)?;
    if args.frames.is_some() || args.process.is_some() || args.sort_by.is_some() {
        misasked!("{}: --frames, --sort-by and --process need a recording", args.subject);
    }
    if subject.pid().is_none() && (args.at.is_some() || args.since.is_some()) {
        misasked!(
            "{}: a file has no marks; --at and --since need a process, or --at a recording",
            args.subject
        );
    }
    if args.serve {
        return serve(subject, patience, args.port);
    }
    let mut saved = subject.read(args.at.as_deref(), patience)?;
    let mut model = Model::of(&saved);
    let before = args.diff.as_ref().map(|before| Subject::of(before)?.read(None, patience));
    let since = || args.since.as_deref().map(|mark| subject.read(Some(mark), patience));
    if let Some(before) = before.or_else(since).transpose()? {
        saved = difference::between(&before, &saved);
        model = Model::of_difference(&saved);
    } else if args.live || args.readings.is_some() {
        let Some(pid) = subject.pid() else {
            misasked!(
                "{}: a file is one reading; --live and --readings need a process",
                args.subject
            )
        };
        (saved, model) = watch(&args, pid, saved)?;
    }
    if let Some(file) = &args.save {
        let is_packed = file.extension().is_some_and(|extension| extension == "gz");
        whole_file::write_bytes(file, is_packed, &saved.write(is_packed)?)?;
    }
    if !args.html.write(|| page::file(&model, &subject.title()))?
        && (args.save.is_none() || args.show.json)
    {
        args.show.print(&model)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Blocks of a recorded program that no reporter named, or that two named.
fn dark_matter(args: &Args) -> Result<ExitCode> {
    let is_of_process = args.since.is_some() || args.save.is_some();
    if is_of_process
        || args.html.is_asked_for()
        || args.live
        || args.readings.is_some()
        || args.serve
    {
        misasked!(
            "{}: a recording is shown as text or with --json; leave out --html, --live, --readings, --save, --serve and --since",
            args.subject
        );
    }
    if let Some(before) = args.diff.as_ref().filter(|before| !Path::new(before).is_dir()) {
        misasked!("--diff {before}: expected a recording, because {} is one", args.subject);
    }
    let (mut found, name) = blocks_of(&args.subject, args)?;
    if let Some(before) = &args.diff {
        found = found.since(blocks_of(before, args)?.0, before);
    }
    let found = found.sorted_by(args.sort_by.unwrap_or_default());
    let top = if args.show.all { usize::MAX } else { GROUPS };
    let look = terminal::look(top);
    answer::print_pretty(args.show.json, &found, || {
        heaplab_dark_matter::render(&found, &name, &look)
    })?;
    Ok(ExitCode::SUCCESS)
}

/// The blocks of a recording, and the name of the process that they are of.
fn blocks_of(recording: &str, args: &Args) -> Result<(DarkMatter, String)> {
    let bundle = heaplab_record::output::open(Path::new(recording))?;
    let selection = process(&bundle, args.process.as_deref())?;
    let found = heaplab_dark_matter::find_in(&bundle, selection, args.at.as_deref())
        .with_context(|| recording.to_owned())?;
    let unasked = if args.show.json { usize::MAX } else { heaplab_dark_matter::FRAMES };
    let found = found.with_frames(args.frames.map_or(unasked, |frames| frames as usize));
    Ok((found, heaplab_dark_matter::subject(&bundle, selection)))
}

/// Takes readings until there are enough or the process ends, and shows each in a terminal.
fn watch(args: &Args, pid: u32, first: Saved) -> Result<(Saved, Model)> {
    let is_shown = std::io::stdout().is_terminal() && !args.show.json && !args.html.is_asked_for();
    let (patience, every) = (args.show.patience(), Duration::from_secs_f64(args.every));
    let watch = Watch { pid, patience, every, readings: args.readings };
    let watched = watch.run(first, &mut |model| -> Result<()> {
        if is_shown {
            print!("\x1b[H\x1b[2J{}", text::render(model, args.show.shown()))?;
        }
        Ok(())
    })?;
    if is_shown {
        print!("\x1b[H\x1b[2J")?;
    }
    Ok(watched)
}

/// Shows a page that asks again and again, until the command is interrupted.
fn serve(subject: Subject, patience: Duration, port: u16) -> Result<ExitCode> {
    let server = Server::bind(port)
        .with_context(|| format!("cannot listen on port {port} of the loopback address"))?;
    // A process that cannot be asked is an error here, not on the page.
    subject.read(None, patience)?;
    println!("{}", server.url())?;
    eprintln!("heaplab: open this address in a browser; ctrl-C ends the page");
    let title = subject.title();
    let served = Served::new(subject, patience);
    let chosen = |request: &Request, name: &str| request.value(name).unwrap_or_default().to_owned();
    server.serve(&|request| match request.path.as_str() {
        "" => Answer::html(page::served(&title)),
        "about.css" => Answer::ok("text/css", page::STYLE),
        "about.js" => Answer::ok("text/javascript", page::script()),
        "body" => match served.body(&chosen(request, "at"), &chosen(request, "since")) {
            Ok(body) => Answer::html(body),
            Err(error) => {
                let error = anyhow::Error::from(error);
                Answer::error(404, terminal::output::message(error.chain()))
            }
        },
        _ => Answer::not_found(),
    })
}
