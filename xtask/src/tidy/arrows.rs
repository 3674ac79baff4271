//! The arrows between crates: a crate may import only those of our crates that its row in
//! ARCHITECTURE.md's table allows, and these stand above it.
//!
//! The table is the rule and the document at once. Dev-dependencies are free: a test may use the
//! whole house.

use super::{Finding, SourceFile};

const DOCUMENT: &str = "ARCHITECTURE.md";

/// A row of the table.
#[derive(Debug, PartialEq, Eq)]
struct Row {
    folder: String,
    line: usize,
    imports: Imports,
}

#[derive(Debug, PartialEq, Eq)]
enum Imports {
    Any,
    Only(Vec<String>),
}

impl Row {
    /// Its name among the imports of others: the last part of its folder.
    fn name(&self) -> &str {
        self.folder.rsplit('/').next().unwrap_or(&self.folder)
    }
}

/// Compares every crate with the table.
pub fn check(files: &[SourceFile]) -> Vec<Finding> {
    let Some(document) = files.iter().find(|file| file.path == DOCUMENT) else {
        return vec![Finding {
            file: DOCUMENT.into(),
            line: 1,
            message: "is missing: it holds the table of crates".into(),
        }];
    };
    let rows = table(&document.text);
    let mut findings = Vec::new();
    for manifest in files.iter().filter(|file| is_crate_manifest(&file.path)) {
        let folder = manifest.path.trim_end_matches("/Cargo.toml");
        match rows.iter().position(|row| row.folder == folder) {
            Some(position) => findings.extend(forbidden(manifest, &rows, position)),
            None => findings.push(manifest.finding(
                1,
                format!(
                    "{folder} is not in the table of {DOCUMENT}: add it with what it may import"
                ),
            )),
        }
    }
    let missing = rows
        .iter()
        .filter(|row| !files.iter().any(|file| file.path == format!("{}/Cargo.toml", row.folder)));
    findings.extend(
        missing.map(|row| document.finding(row.line, format!("there is no crate {}", row.folder))),
    );
    findings
}

fn is_crate_manifest(path: &str) -> bool {
    path.ends_with("/Cargo.toml")
        && ["crates/", "bench/", "xtask/"].iter().any(|folder| path.starts_with(folder))
        && !path.contains("/tests/")
}

/// The rows of the table of crates: folder in backquotes, content, imports.
fn table(document: &str) -> Vec<Row> {
    let cells = document.lines().enumerate().filter_map(|(number, line)| {
        let cells: Vec<&str> =
            line.trim().strip_prefix('|')?.strip_suffix('|')?.split('|').map(str::trim).collect();
        let [folder, _, imports] = cells[..] else { return None };
        let folder = folder.strip_prefix('`')?.strip_suffix('`')?;
        let imports = match imports {
            "everything" | "what it measures" => Imports::Any,
            "-" => Imports::Only(Vec::new()),
            list => Imports::Only(list.split(',').map(|name| name.trim().to_owned()).collect()),
        };
        Some(Row { folder: folder.to_owned(), line: number + 1, imports })
    });
    cells.collect()
}

/// Imports of ours in `manifest` that its row does not allow, or that do not stand above it.
fn forbidden(manifest: &SourceFile, rows: &[Row], position: usize) -> Vec<Finding> {
    let imports = match imports_of_ours(&manifest.text) {
        Ok(imports) => imports,
        Err(error) => return vec![manifest.finding(1, format!("cannot be read: {error}"))],
    };
    let row = &rows[position];
    let mut findings = Vec::new();
    for import in imports {
        let line = 1 + manifest
            .text
            .lines()
            .position(|line| line.starts_with(&format!("heaplab-{import}")))
            .unwrap_or(0);
        let above = rows[..position].iter().any(|above| above.name() == import);
        let allowed = match &row.imports {
            Imports::Any => true,
            Imports::Only(names) => names.contains(&import),
        };
        if !allowed {
            findings.push(manifest.finding(
                line,
                format!("{} may not import {import}: see the table of {DOCUMENT}", row.folder),
            ));
        } else if !above {
            findings.push(manifest.finding(
                line,
                format!("{import} does not stand above {} in the table of {DOCUMENT}", row.folder),
            ));
        }
    }
    findings
}

/// Names (without `heaplab-`) of our crates among the dependencies and build dependencies, those of
/// targets included.
fn imports_of_ours(manifest: &str) -> Result<Vec<String>, toml::de::Error> {
    let manifest: toml::Table = manifest.parse()?;
    let targets = manifest
        .get("target")
        .and_then(toml::Value::as_table)
        .into_iter()
        .flat_map(|targets| targets.values());
    let holders = std::iter::once(&manifest).chain(targets.filter_map(toml::Value::as_table));
    let mut names: Vec<String> = holders
        .flat_map(|holder| {
            ["dependencies", "build-dependencies"].map(|section| holder.get(section))
        })
        .filter_map(|section| section?.as_table())
        .flat_map(|section| section.keys())
        .filter_map(|name| name.strip_prefix("heaplab-").map(str::to_owned))
        .collect();
    names.sort_unstable();
    names.dedup();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "| crate | is | imports of ours |\n|---|---|---|\n| `crates/trace` | events | - |\n\
        | `crates/profile` | a pass | trace, later |\n| `crates/heaplab` | all | everything |\n";

    fn tree(manifests: &[(&str, &str)]) -> Vec<SourceFile> {
        let document = SourceFile { path: DOCUMENT.into(), text: TABLE.into() };
        let all = ["crates/trace", "crates/profile", "crates/heaplab"].map(|folder| (folder, ""));
        let others =
            all.iter().filter(|(folder, _)| !manifests.iter().any(|(given, _)| given == folder));
        let manifest = |(folder, text): &(&str, &str)| SourceFile {
            path: format!("{folder}/Cargo.toml"),
            text: (*text).into(),
        };
        std::iter::once(document).chain(manifests.iter().chain(others).map(manifest)).collect()
    }

    fn messages(manifests: &[(&str, &str)]) -> Vec<String> {
        check(&tree(manifests)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_the_table_allows_is_fine() {
        assert_eq!(
            messages(&[("crates/profile", "[dependencies]\nheaplab-trace.workspace = true\n")]),
            Vec::<String>::new()
        );
        assert_eq!(
            messages(&[("crates/trace", "[dev-dependencies]\nheaplab-profile.workspace = true\n")]),
            Vec::<String>::new()
        );
    }

    #[test]
    fn an_arrow_the_other_way_is_found_with_its_line() {
        let found = messages(&[(
            "crates/trace",
            "[package]\n[dependencies]\nheaplab-profile.workspace = true\n",
        )]);
        assert_eq!(
            found,
            [
                "crates/trace/Cargo.toml:3: crates/trace may not import profile: see the table of ARCHITECTURE.md"
            ]
        );
        let found = messages(&[(
            "crates/trace",
            "[target.'cfg(unix)'.build-dependencies]\nheaplab-profile = \"1\"\n",
        )]);
        assert_eq!(found.len(), 1);
        let found = messages(&[("crates/profile", "[dependencies]\nheaplab-later = \"1\"\n")]);
        assert_eq!(
            found,
            [
                "crates/profile/Cargo.toml:2: later does not stand above crates/profile in the table of ARCHITECTURE.md"
            ]
        );
    }

    #[test]
    fn crates_and_rows_must_match() {
        assert!(
            messages(&[("crates/new", "")])[0]
                .starts_with("crates/new/Cargo.toml:1: crates/new is not in the table")
        );
        let mut files = tree(&[]);
        files.retain(|file| file.path != "crates/profile/Cargo.toml");
        assert_eq!(
            check(&files)[0].to_string(),
            "ARCHITECTURE.md:4: there is no crate crates/profile"
        );
        assert_eq!(check(&[])[0].line, 1);
        assert!(messages(&[("crates/trace", "[dep")])[0].contains("cannot be read"));
    }
}
