//! The facts that a registry shows of a crate: every published crate must state them. Every
//! dependency by path must have a version, by which a published crate finds it. Libraries that do
//! heaplab's own work a second time are judges in tests, and nowhere else.

use super::{Finding, SourceFile};

const REQUIRED: [&str; 6] =
    ["description", "version", "license", "repository", "keywords", "categories"];

/// Judges of the project's own Parquet writer and dominators.
const ONLY_TESTS: [&str; 2] = ["parquet", "petgraph"];

/// Checks every published crate below `crates/` for the facts that a registry shows, and the
/// workspace's dependencies for versions.
pub fn check(files: &[SourceFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for manifest in files.iter().filter(|file| file.path.ends_with("Cargo.toml")) {
        let Ok(table) = manifest.text.parse::<toml::Table>() else { continue };
        findings.extend(judges(manifest, &table));
        if manifest.path == "Cargo.toml" {
            findings.extend(without_version(manifest, &table));
        } else if manifest.path.starts_with("crates/") && !manifest.path.contains("/tests/") {
            let folder = manifest.path.trim_end_matches("Cargo.toml");
            let has_readme = files.iter().any(|file| file.path == format!("{folder}README.md"));
            findings.extend(
                missing(&table, has_readme)
                    .into_iter()
                    .map(|key| manifest.finding(1, format!("a published crate has `{key}`"))),
            );
        }
    }
    findings
}

/// Dependencies that only tests may have.
fn judges(manifest: &SourceFile, table: &toml::Table) -> Vec<Finding> {
    let Some(dependencies) = table.get("dependencies").and_then(toml::Value::as_table) else {
        return Vec::new();
    };
    let used = ONLY_TESTS.into_iter().filter(|name| dependencies.contains_key(*name));
    used.map(|name| manifest.finding(1, format!("{name} belongs to [dev-dependencies]"))).collect()
}

/// The facts missing in a published crate's manifest.
fn missing(manifest: &toml::Table, has_readme: bool) -> Vec<&'static str> {
    let Some(package) = manifest.get("package").and_then(toml::Value::as_table) else {
        return vec!["package"];
    };
    if package.get("publish").and_then(toml::Value::as_bool) == Some(false) {
        return Vec::new();
    }
    let mut missing: Vec<&str> =
        REQUIRED.into_iter().filter(|key| !package.contains_key(*key)).collect();
    if !has_readme && !package.contains_key("readme") {
        missing.push("readme");
    }
    let docs = package.get("metadata").and_then(|metadata| metadata.get("docs")?.get("rs"));
    if docs.and_then(|docs| docs.get("targets")).is_none() {
        missing.push("package.metadata.docs.rs.targets");
    }
    missing
}

/// Dependencies of the workspace with a path and without a version.
fn without_version(manifest: &SourceFile, table: &toml::Table) -> Vec<Finding> {
    let dependencies = table
        .get("workspace")
        .and_then(|workspace| workspace.get("dependencies")?.as_table())
        .into_iter()
        .flatten();
    dependencies
        .filter(|(_, value)| value.get("path").is_some() && value.get("version").is_none())
        .map(|(name, _)| {
            let here = |line: &str| line.split_whitespace().next() == Some(name.as_str());
            let line = manifest.text.lines().position(here).unwrap_or(0) + 1;
            manifest.finding(line, format!("{name} has a path and no version"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = "[package]\ndescription = \"d\"\nversion.workspace = true\n\
        license.workspace = true\nrepository.workspace = true\nkeywords.workspace = true\n\
        categories.workspace = true\nreadme.workspace = true\n\
        [package.metadata.docs.rs]\ntargets = [\"x\"]\n";

    fn messages(files: &[(&str, &str)]) -> Vec<String> {
        let file =
            |(path, text): &(&str, &str)| SourceFile { path: (*path).into(), text: (*text).into() };
        let files: Vec<SourceFile> = files.iter().map(file).collect();
        check(&files).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_published_crate_has_what_a_registry_shows() {
        assert_eq!(messages(&[("crates/a/Cargo.toml", WHOLE)]), Vec::<String>::new());
        let without_docs = &WHOLE[..WHOLE.find("[package.metadata").unwrap()];
        assert_eq!(
            messages(&[("crates/a/Cargo.toml", without_docs)]),
            ["crates/a/Cargo.toml:1: a published crate has `package.metadata.docs.rs.targets`"]
        );
        let without_readme = WHOLE.replace("readme.workspace = true\n", "");
        assert_eq!(
            messages(&[("crates/a/Cargo.toml", &without_readme)]),
            ["crates/a/Cargo.toml:1: a published crate has `readme`"]
        );
        let beside =
            [("crates/a/Cargo.toml", without_readme.as_str()), ("crates/a/README.md", "# a\n")];
        assert_eq!(messages(&beside), Vec::<String>::new());
        let own = "[package]\npublish = false\n";
        assert_eq!(messages(&[("crates/a/Cargo.toml", own)]), Vec::<String>::new());
        assert_eq!(messages(&[("bench/Cargo.toml", "[package]\n")]), Vec::<String>::new());
    }

    #[test]
    fn a_judge_is_for_tests_alone() {
        let of = |table: &str| {
            let text = format!("[package]\npublish = false\n[{table}]\nparquet.workspace = true\n");
            messages(&[("crates/a/Cargo.toml", &text)])
        };
        let found = ["crates/a/Cargo.toml:1: parquet belongs to [dev-dependencies]"];
        assert_eq!(of("dependencies"), found);
        assert_eq!(of("dev-dependencies"), Vec::<String>::new());
    }

    #[test]
    fn a_path_has_a_version() {
        let text = "[workspace.dependencies]\na = { path = \"a\", version = \"1\" }\n\
            b = { path = \"b\" }\nserde = \"1\"\n";
        assert_eq!(
            messages(&[("Cargo.toml", text)]),
            ["Cargo.toml:3: b has a path and no version"]
        );
    }
}
