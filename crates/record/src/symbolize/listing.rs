//! The symbols found for each module: a table for a person, JSON for a machine.

use super::SymbolizedModule;
use heaplab_text::lines::{cut_middle, paragraph};

/// Indent of the lines about a module.
const NOTE: &str = "      ";
/// Columns of the four counts and the space before the module.
const COUNTS: usize = 38;

/// The results, a row a module.
pub fn text(modules: &[SymbolizedModule], columns: usize) -> String {
    if modules.is_empty() {
        return "No frame of this recording lies in a module; there is nothing to resolve.\n"
            .into();
    }
    let mut out =
        format!("{:>8} {:>9} {:>8} {:>8}  module\n", "frames", "functions", "lines", "inlined");
    for module in modules {
        let report = &module.report;
        let path = cut_middle(&module.path, columns - COUNTS);
        out += &format!(
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
            out += &format!("{NOTE}{what} {path}\n");
        }
        let split = (report.split_files > 0)
            .then(|| format!("split debug information in {} files (.dwo)", report.split_files));
        let packed = report
            .has_packed_symbols
            .then(|| "symbols packed into the file (.gnu_debugdata)".to_owned());
        for note in split.iter().chain(&packed).chain(&report.notes) {
            out += &paragraph(note, NOTE, NOTE.len(), columns);
        }
    }
    out
}

/// The same for a machine.
pub fn json(modules: &[SymbolizedModule]) -> serde_json::Value {
    let row = |module: &SymbolizedModule| {
        let report = &module.report;
        serde_json::json!({
            "module": module.path, "build_id": module.build_id, "frames": module.frames, "functions": report.functions,
            "lines": report.lines, "inlined": report.inlined, "file": report.file, "debug_file": report.debug_file,
            "shared_debug_file": report.shared_debug_file, "has_packed_symbols": report.has_packed_symbols,
            "split_package": report.split_package, "split_files": report.split_files, "notes": report.notes,
        })
    };
    serde_json::json!({ "modules": modules.iter().map(row).collect::<Vec<_>>() })
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
            text(&modules, 80),
            "  frames functions    lines  inlined  module\n    1234      1200     1100       31  /lib/libc.so.6\n\
             \x20     debug file /usr/lib/debug/libc.debug\n       5         0        0        0  /gone\n\
             \x20     the file cannot be read (No such file)\n"
        );
        assert_eq!(json(&modules)["modules"][0]["functions"], 1200);
        assert!(text(&[], 80).contains("nothing to resolve"));
    }
}
