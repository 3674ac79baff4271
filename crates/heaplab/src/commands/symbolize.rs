//! `heaplab symbolize`: resolve functions, files and lines of a bundle again.
//!
//! Recording resolves them already. This is for what could not be resolved then: debug files that
//! were installed later, or a recording that came from another machine.

use crate::choose;
use anyhow::Result;
use heaplab_record::symbolize::{SymbolizedModule, symbolize};
use heaplab_symbols::Options;
use heaplab_terminal as terminal;
use heaplab_terminal::bus::{self, Mapped};
use heaplab_text::lines::{cut_middle, paragraph};
use serde_json::json;
use std::{path::PathBuf, process::ExitCode};

/// Arguments of `heaplab symbolize`.
#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("../../help/symbolize.txt"))]
pub struct Args {
    /// The recording
    #[arg(value_name = "BUNDLE")]
    bundle: PathBuf,
    /// A folder of debug files, searched before /usr/lib/debug (may be repeated)
    #[arg(long, value_name = "DIR")]
    debug_dir: Vec<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode> {
    bus::is_an_error(Mapped::Modules);
    let mut bundle = choose::open(&args.bundle)?;
    let mut options = Options::default();
    options.debug_dirs.splice(0..0, args.debug_dir);
    let mut tables = bundle.tables().clone();
    let modules = symbolize(&mut tables, &options);
    bundle.rewrite_frames(tables.frames)?;
    let text = if args.json {
        serde_json::to_string_pretty(&as_json(&modules))? + "\n"
    } else {
        as_text(&modules, terminal::columns())
    };
    print!("{text}")?;
    Ok(ExitCode::SUCCESS)
}

/// Before what is said of a module.
const NOTE: &str = "      ";
/// Columns of the four counts and what parts them from the module.
const COUNTS: usize = 38;

/// What was found, a row a module.
fn as_text(modules: &[SymbolizedModule], columns: usize) -> String {
    if modules.is_empty() {
        return "No frame of this recording lies in a module; there is nothing to resolve.\n"
            .into();
    }
    let mut text =
        format!("{:>8} {:>9} {:>8} {:>8}  module\n", "frames", "functions", "lines", "inlined");
    for module in modules {
        let report = &module.report;
        let path = cut_middle(&module.path, columns - COUNTS);
        text += &format!(
            "{:>8} {:>9} {:>8} {:>8}  {path}\n",
            module.frames, report.functions, report.lines, report.inlined
        );
        let files = [
            ("debug file", &report.debug_file),
            ("shared debug file", &report.shared_debug_file),
            ("split debug information in", &report.split_package),
        ];
        for (what, file) in files.iter().filter_map(|(what, file)| Some((what, file.as_ref()?))) {
            let path =
                cut_middle(&file.display().to_string(), columns - NOTE.len() - what.len() - 1);
            text += &format!("{NOTE}{what} {path}\n");
        }
        let split = (report.split_files > 0)
            .then(|| format!("split debug information in {} files (.dwo)", report.split_files));
        let packed = report
            .has_packed_symbols
            .then(|| "symbols packed into the file (.gnu_debugdata)".to_owned());
        for note in split.iter().chain(&packed).chain(&report.notes) {
            text += &paragraph(note, NOTE, NOTE.len(), columns);
        }
    }
    text
}

fn as_json(modules: &[SymbolizedModule]) -> serde_json::Value {
    let row = |module: &SymbolizedModule| {
        let report = &module.report;
        json!({
            "module": module.path, "build_id": module.build_id, "frames": module.frames, "functions": report.functions,
            "lines": report.lines, "inlined": report.inlined, "file": report.file, "debug_file": report.debug_file,
            "shared_debug_file": report.shared_debug_file, "has_packed_symbols": report.has_packed_symbols,
            "split_package": report.split_package, "split_files": report.split_files, "notes": report.notes,
        })
    };
    json!({ "modules": modules.iter().map(row).collect::<Vec<_>>() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use heaplab_symbols::ModuleReport;

    #[test]
    fn the_table_names_what_is_missing() {
        let libc = ModuleReport {
            debug_file: Some("/usr/lib/debug/libc.debug".into()),
            functions: 1200,
            lines: 1100,
            inlined: 31,
            ..ModuleReport::default()
        };
        let gone = ModuleReport {
            notes: vec!["the file cannot be read (No such file)".into()],
            ..ModuleReport::default()
        };
        let module = |path: &str, frames, report| SymbolizedModule {
            path: path.into(),
            build_id: "ab".into(),
            frames,
            report,
        };
        let modules = [module("/lib/libc.so.6", 1234, libc), module("/gone", 5, gone)];
        assert_eq!(
            as_text(&modules, 80),
            "  frames functions    lines  inlined  module\n    1234      1200     1100       31  /lib/libc.so.6\n\
             \x20     debug file /usr/lib/debug/libc.debug\n       5         0        0        0  /gone\n\
             \x20     the file cannot be read (No such file)\n"
        );
        assert_eq!(as_json(&modules)["modules"][0]["functions"], 1200);
        assert!(as_text(&[], 80).contains("nothing to resolve"));
    }
}
