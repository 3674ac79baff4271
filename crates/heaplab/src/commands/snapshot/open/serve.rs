//! `heaplab snapshot open --serve`: snapshots as a page in a browser.

use crate::commands::snapshot::diff::warned;
use crate::commands::snapshot::file::{Reading, all_analysed};
use anyhow::{Context, Result};
use heaplab_loopback::{Answer, Request, Server};
use heaplab_snapshot::analysis::Analysis;
use heaplab_snapshot::session::SnapshotIds;
use heaplab_snapshot_view::page::{Opened, Page, Problem, asset};
use std::path::PathBuf;
use std::process::ExitCode;

/// Reads the files, prints the page's address, and answers until the program is interrupted.
pub fn run(paths: &[PathBuf], port: u16, reading: &Reading) -> Result<ExitCode> {
    // The port may be taken: bind it before minutes of reading.
    let server = Server::bind(port)
        .with_context(|| format!("cannot listen on port {port} of the loopback address"))?;
    all_analysed(paths, reading, &mut |analyses| serve(&server, paths, analyses, reading))
}

fn serve(
    server: &Server,
    paths: &[PathBuf],
    analyses: &[&Analysis],
    reading: &Reading,
) -> Result<ExitCode> {
    let mut files = Vec::new();
    let mut before: Option<SnapshotIds> = None;
    for (path, analysis) in paths.iter().zip(analyses) {
        let moment = SnapshotIds::of(analysis.snapshot());
        let session = before.map(|before| warned(&before, &moment));
        before = Some(moment);
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        files.push(Opened { name, analysis, session });
    }
    let page = Page::new(files);
    println!("{}", server.url())?;
    if !reading.quiet {
        eprintln!("heaplab: open this address in a browser; ctrl-C ends the page");
    }
    std::thread::scope(|scope| {
        scope.spawn(|| page.prepare());
        server.serve(&|request| answer(&page, request))
    })
}

fn answer(page: &Page, request: &Request) -> Answer {
    if let Some((content_type, text)) = asset(&request.path) {
        return Answer::ok(content_type, text);
    }
    let Some(question) = request.path.strip_prefix("api/") else { return Answer::not_found() };
    match page.answer(question, &request.query) {
        Ok(answer) => Answer::ok("application/json", answer.to_string()),
        Err(Problem::NotFound(why)) => Answer::error(404, why),
        Err(Problem::Asked(why)) => Answer::error(400, why),
    }
}
