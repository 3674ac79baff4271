//! `heaplab about`: a running program reports its memory.

use crate::answer::{self, HtmlFile};
use crate::commands::seconds;
use anyhow::{Context, Result};
use heaplab_about::{Model, Saved, Watch, ask, difference, page, text};
use heaplab_dark_matter::{DarkMatter, SortBy};
use heaplab_loopback::{Answer, Request, Server};
use heaplab_profile::choose::process;
use heaplab_terminal as terminal;
use heaplab_terminal::whole_file;
use heaplab_trace::tables::{Process, process_label};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
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
    let pid = ask::number(&args.subject)?;
    if args.frames.is_some() || args.process.is_some() || args.sort_by.is_some() {
        misasked!(
            "{}: --frames, --sort-by and --process are of a recording's blocks",
            args.subject
        );
    }
    if pid.is_none() && (args.at.is_some() || args.since.is_some()) {
        misasked!("{}: a file has no marks; a process and a recording have", args.subject);
    }
    let title = match pid {
        Some(pid) => format!("Memory of process {pid}"),
        None => format!("Memory: {}", args.subject),
    };
    if args.serve {
        return serve(&args.subject, patience, args.port, &title);
    }
    let mut saved = read(&args.subject, args.at.as_deref(), patience)?;
    let mut model = Model::of(&saved);
    let before = args.diff.as_ref().map(|before| read(before, None, patience));
    let since = || args.since.as_deref().map(|mark| read(&args.subject, Some(mark), patience));
    if let Some(before) = before.or_else(since).transpose()? {
        saved = difference::between(&before, &saved);
        model = Model::of_difference(&saved);
    } else if args.live || args.readings.is_some() {
        let Some(pid) = pid else { misasked!("{}: a file is one reading", args.subject) };
        (saved, model) = watch(&args, pid, saved)?;
    }
    if let Some(file) = &args.save {
        let is_packed = file.extension().is_some_and(|extension| extension == "gz");
        whole_file::write_bytes(file, is_packed, &saved.write(is_packed)?)?;
    }
    if !args.html.write(|| page::file(&model, &title))? && (args.save.is_none() || args.show.json) {
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
        misasked!("{}: of a recording there is text, and --json", args.subject);
    }
    if let Some(before) = args.diff.as_ref().filter(|before| !Path::new(before).is_dir()) {
        misasked!("{before}: {} is a recording, so --diff names another one", args.subject);
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
    let events = || bundle.events(selection);
    let found = match &args.at {
        Some(mark) => heaplab_dark_matter::find_at(bundle.tables(), events, mark),
        None => heaplab_dark_matter::find(bundle.tables(), events),
    };
    let found = found.with_context(|| recording.to_owned())?;
    let all = bundle.tables();
    let named = |row: usize| match all.processes.get(row).map_or("", Process::program_name) {
        "" => bundle.meta().program.clone(),
        program => format!("{program} (pid {})", process_label(&all.processes, row)),
    };
    let name = selection
        .process
        .or((all.processes.len() == 1).then_some(0))
        .map_or_else(|| "all processes".into(), |row| named(row as usize));
    let unasked = if args.show.json { usize::MAX } else { heaplab_dark_matter::FRAMES };
    let found = found.with_frames(args.frames.map_or(unasked, |frames| frames as usize));
    Ok((found, name))
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

/// A reading of a process, now or at a mark, or the one of a file.
fn read(subject: &str, at: Option<&str>, patience: Duration) -> Result<Saved> {
    if let Some(pid) = ask::number(subject)? {
        return Ok(match at {
            Some(mark) => ask::at(pid, mark, patience)?,
            None => ask::report(pid, patience)?,
        });
    }
    let bytes = std::fs::read(subject).with_context(|| subject.to_owned())?;
    Saved::read(&bytes).with_context(|| subject.to_owned())
}

/// Shows a page that asks again and again, until the command is interrupted.
fn serve(subject: &str, patience: Duration, port: u16, title: &str) -> Result<ExitCode> {
    let server = Server::bind(port)
        .with_context(|| format!("cannot listen on port {port} of the loopback address"))?;
    // A process that cannot be asked is an error here, not on the page.
    read(subject, None, patience)?;
    println!("{}", server.url())?;
    let seen = Mutex::new(None);
    eprintln!("heaplab: open this address in a browser; ctrl-C ends the page");
    server.serve(&|request| match request.path.as_str() {
        "" => Answer::html(page::served(title)),
        "about.css" => Answer::ok("text/css", page::STYLE),
        "about.js" => Answer::ok("text/javascript", page::script()),
        "body" => match body(subject, request, patience, &seen) {
            Ok(body) => Answer::html(body),
            Err(error) => Answer::error(404, terminal::output::message(error.chain())),
        },
        _ => Answer::not_found(),
    })
}

/// The served page at the moment that the request chooses; now with the range of all readings
/// `seen`.
fn body(
    subject: &str,
    request: &Request,
    patience: Duration,
    seen: &Mutex<Option<Model>>,
) -> Result<String> {
    let chosen = |name: &str| request.value(name).unwrap_or_default();
    let mark = |name: &str| Some(chosen(name)).filter(|mark| !mark.is_empty());
    let now = read(subject, mark("at"), patience)?;
    let model = match (mark("since"), mark("at")) {
        (Some(since), _) => {
            Model::of_difference(&difference::between(&read(subject, Some(since), patience)?, &now))
        }
        (None, Some(_)) => Model::of(&now),
        (None, None) => {
            let mut model = Model::of(&now);
            let mut seen = seen.lock().expect("no reading panics");
            seen.iter().for_each(|earlier| model.widen(earlier));
            seen.insert(model).clone()
        }
    };
    Ok(page::marks(&model, chosen("at"), chosen("since")) + &page::body(&model))
}
