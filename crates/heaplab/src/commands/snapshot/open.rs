//! `heaplab snapshot open`: reads and analyses a file once, and answers many questions; with
//! `--serve`, a page in a browser for one or several files.
//!
//! In a terminal a line is a command of `heaplab snapshot` without the file: `path Session`,
//! `object @4711`. A failed line prints its error, and the session goes on.

mod serve;

use super::Question;
use super::file::{self, Reading};
use anyhow::Result;
use clap::{Parser, Subcommand};
use heaplab_snapshot::analysis::Analysis;
use heaplab_terminal::OutputError;
use heaplab_text::words::{bytes, count};
use std::io::{self, BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("../../../help/snapshot-open.txt"))]
pub struct Args {
    /// The snapshot; with --serve also several snapshots of one program, the oldest first
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Serve a page for a browser
    #[arg(long)]
    serve: bool,
    /// The page's port on the loopback address; 0: a free one
    #[arg(long, value_name = "PORT", default_value_t = 0, requires = "serve")]
    port: u16,
    #[command(flatten)]
    reading: Reading,
}

/// A line of the session.
#[derive(Debug, Parser)]
#[command(multicall = true)]
struct Line {
    #[command(subcommand)]
    word: Word,
}

#[derive(Debug, Subcommand)]
enum Word {
    #[command(flatten)]
    Question(Question),
    /// End the session
    #[command(alias = "quit")]
    Exit,
}

pub fn run(args: Args) -> Result<ExitCode> {
    if args.serve {
        return serve::run(&args.files, args.port, &args.reading);
    }
    let [path] = &args.files[..] else {
        misasked!("a session has one file; --serve shows several");
    };
    let failed = file::analysed(path, &args.reading, None, |analysis| {
        std::thread::scope(|scope| {
            // While the first question is typed.
            scope.spawn(|| analysis.prepare_questions());
            answered(path, analysis)
        })
    })?;
    Ok(ExitCode::from(u8::from(failed)))
}

/// Answers line after line; whether one failed that nobody typed.
fn answered(path: &Path, analysis: &Analysis) -> Result<bool> {
    let is_typed = io::stdin().is_terminal();
    if is_typed {
        let nodes = count(analysis.snapshot().graph.node_count() as u64);
        let total = bytes(analysis.total_bytes());
        eprintln!(
            "heaplab: {}: {total} in {nodes} objects; help lists what can be asked",
            path.display()
        );
    }
    let mut failed = false;
    for line in lines(is_typed) {
        match ask(&line?, path, analysis) {
            Ok(true) => {}
            Ok(false) => break,
            Err(error) if matches!(error.downcast_ref(), Some(OutputError::ReaderGone)) => {
                return Err(error);
            }
            Err(error) => {
                failed = true;
                eprintln!("heaplab: {error:#}");
            }
        }
    }
    Ok(failed && !is_typed)
}

/// The lines of standard input, with a prompt on a terminal.
fn lines(is_typed: bool) -> impl Iterator<Item = io::Result<String>> {
    std::iter::from_fn(move || {
        if is_typed {
            eprint!("> ");
            let _ = io::stderr().flush();
        }
        let mut line = String::new();
        match io::stdin().lock().read_line(&mut line) {
            Ok(0) => None,
            Ok(_) => Some(Ok(line)),
            Err(error) => Some(Err(error)),
        }
    })
}

/// Answers a line; false ends the session.
fn ask(line: &str, file: &Path, analysis: &Analysis) -> Result<bool> {
    let Some(words) = shlex::split(line) else {
        misasked!("a quote that is not closed, or a backslash at the end: {}", line.trim_end());
    };
    if words.is_empty() {
        return Ok(true);
    }
    match Line::try_parse_from(words) {
        Ok(Line { word: Word::Exit }) => return Ok(false),
        Ok(Line { word: Word::Question(question) }) => {
            question.answer(file, Some((file, analysis)))?
        }
        Err(error) if error.use_stderr() => misasked!("{error}"),
        Err(help) => print!("{help}").map(|()| ExitCode::SUCCESS)?,
    };
    Ok(true)
}
