//! `heaplab snapshot scenario`: the three snapshots of `leaks`, from steps on a page in Chromium.

use super::leaks::{Asked, tell};
use super::take::with_progress;
use anyhow::{Context, Result, anyhow, ensure};
use heaplab_capture::scenario::{Scenario, Stage};
use heaplab_capture::take::Request;
use heaplab_capture::{Browser, Connection, Endpoint, Options};
use heaplab_terminal as terminal;
use heaplab_text::lines;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// The largest scenario that is read.
const BYTES_LIMIT: u64 = 1 << 20;

/// Why the snapshots of a scenario do not follow each other.
const ELSEWHERE: &str =
    "the page loaded another document, where ids begin anew: let `action:` and `back:` stay in one";

#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("../../../help/snapshot-scenario.txt"))]
pub struct Args {
    /// The file with the steps, one on each line
    #[arg(value_name = "FILE")]
    scenario: PathBuf,
    /// The folder for base, target and final.heapsnapshot; created if missing
    #[arg(short, long = "output", value_name = "FOLDER")]
    output: PathBuf,
    /// The Chromium to start [default: chromium, chromium-browser, google-chrome or chrome]
    #[arg(long, value_name = "COMMAND", conflicts_with = "chromium")]
    browser: Option<PathBuf>,
    /// Use a running Chromium, by the address of its --remote-debugging-port, such as 9222
    #[arg(long, value_name = "PORT|ADDRESS")]
    chromium: Option<String>,
    /// With --chromium: the page with this text in its title or address
    #[arg(long, value_name = "TEXT", requires = "chromium")]
    page: Option<String>,
    /// Seconds without a sign of the page after which heaplab gives up
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..))]
    timeout: u64,
    #[command(flatten)]
    asked: Asked,
}

pub fn run(args: Args) -> Result<ExitCode> {
    args.asked.check()?;
    let scenario = read(&args.scenario)?;
    fs::create_dir_all(&args.output)
        .with_context(|| format!("cannot make the folder {}", args.output.display()))?;
    let files = Stage::ALL.map(|moment| args.output.join(moment.file_name()));
    let mut taken = Vec::new();
    if let Err(error) = take(&args, &scenario, &mut taken) {
        let kept = match taken.last() {
            None => "nothing was taken".to_owned(),
            Some(_) => format!("{} taken and kept: {}", was(taken.len()), taken.join(", ")),
        };
        return Err(error.context(format!("the scenario did not come to its end; {kept}")));
    }
    let [base, target, last] = &files;
    tell([base, target, last], &args.asked, |_| ELSEWHERE)
}

fn was(count: usize) -> &'static str {
    if count == 1 { "one snapshot was" } else { "two snapshots were" }
}

fn read(path: &Path) -> Result<Scenario> {
    let cannot_read = || format!("cannot read {}", path.display());
    let metadata = fs::metadata(path).with_context(cannot_read)?;
    ensure!(metadata.is_file(), "{} is no regular file", path.display());
    ensure!(
        metadata.len() <= BYTES_LIMIT,
        "{} has {} bytes: a scenario is a text of at most {BYTES_LIMIT}",
        path.display(),
        metadata.len()
    );
    let text = fs::read_to_string(path).with_context(cannot_read)?;
    Scenario::read(&text).map_err(|misread| anyhow!("{}: {misread}", path.display()))
}

/// Does the steps and takes the snapshots; the names of those that are there go into `taken`.
fn take(args: &Args, scenario: &Scenario, taken: &mut Vec<String>) -> Result<()> {
    let options = Options { silence: Duration::from_secs(args.timeout), ..Options::default() };
    let own = match &args.chromium {
        None => Some(Browser::start(args.browser.as_deref())?),
        Some(_) => None,
    };
    let own_address = own.as_ref().map(Browser::address);
    let address = args.chromium.as_deref().or(own_address).unwrap_or_default();
    let endpoint = Endpoint::at(address, args.page.as_deref(), &options)?;
    let mut connection = Connection::open(&endpoint, &options)?;
    let steps = scenario.run(&mut connection, &mut |connection, moment| {
        let path = args.output.join(moment.file_name());
        with_progress(connection, &path, Request::default(), args.asked.is_quiet())?;
        if !args.asked.is_quiet() {
            let line = format!("{} written", path.display());
            eprint!("{}", lines::paragraph(&line, "heaplab: ", 2, terminal::columns()));
        }
        taken.push(path.display().to_string());
        Ok(())
    });
    for line in connection.dialogs() {
        eprint!("{}", lines::paragraph(&line, "heaplab: ", 2, terminal::columns()));
    }
    steps.with_context(|| args.scenario.display().to_string())
}
