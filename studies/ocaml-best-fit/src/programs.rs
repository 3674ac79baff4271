//! The programs of the real side: ours, compiled once, and some of Debian's programs in OCaml.

use anyhow::{Context, Result, bail};
use heaplab_study::in_tree;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A program and its work.
pub struct Program {
    pub name: &'static str,
    /// Its words, to run in [`folder`].
    pub words: Vec<String>,
}

/// Programs of the tree: name, source, arguments.
const OURS: [(&str, &str, &str); 6] = [
    ("strcache", "crates/heaplab/tests/data/strcache.ml", "20000 400000"),
    ("mapchurn", "studies/ocaml-best-fit/programs/mapchurn.ml", "30000 300000"),
    ("index", "studies/ocaml-best-fit/programs/index.ml", "60000"),
    ("terms", "studies/ocaml-best-fit/programs/terms.ml", "3000 60000"),
    ("editor", "studies/ocaml-best-fit/programs/editor.ml", "2000000 60000"),
    ("messages", "studies/ocaml-best-fit/programs/messages.ml", "4000 400000"),
];

/// The folder of compiled programs and kept results; programs run there.
pub fn folder() -> Result<PathBuf> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| in_tree("target"), Into::into);
    let folder = target.join("study-ocaml-best-fit");
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("{}: cannot create this folder", folder.display()))?;
    Ok(folder)
}

/// The output of `program`; `None`: not installed.
fn said(program: &str, argument: &str) -> Option<String> {
    let output = Command::new(program).arg(argument).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// All programs that can run here; empty without an OCaml 4.
pub fn all() -> Result<Vec<Program>> {
    let mut programs = ours()?;
    if !programs.is_empty() {
        programs.extend(installed()?);
    }
    Ok(programs)
}

/// One of ours; `None` without an OCaml 4.
pub fn one(name: &str) -> Result<Option<Program>> {
    Ok(ours()?.into_iter().find(|program| program.name == name))
}

fn ours() -> Result<Vec<Program>> {
    // OCaml 5 has another heap, without policies.
    if !said("ocamlopt", "-version").is_some_and(|version| version.starts_with("4.")) {
        return Ok(Vec::new());
    }
    let mut programs = Vec::new();
    for (name, source, arguments) in OURS {
        compile(name, &in_tree(source))?;
        let words = std::iter::once(format!("./{name}"))
            .chain(arguments.split(' ').map(str::to_owned))
            .collect();
        programs.push(Program { name, words });
    }
    Ok(programs)
}

fn compile(name: &str, source: &Path) -> Result<()> {
    let folder = folder()?;
    let copied = folder.join(format!("{name}.ml"));
    let text = std::fs::read(source).with_context(|| source.display().to_string())?;
    if folder.join(name).exists() && std::fs::read(&copied).is_ok_and(|old| old == text) {
        return Ok(());
    }
    std::fs::write(&copied, text)?;
    let output = Command::new("ocamlopt")
        .current_dir(&folder)
        .args([&format!("{name}.ml"), "-o", name])
        .output()?;
    if !output.status.success() {
        bail!("ocamlopt {name}.ml: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}

/// Debian's programs, each with an input file; those not installed are left out.
fn installed() -> Result<Vec<Program>> {
    let folder = folder()?;
    let mut programs = Vec::new();
    let mut add = |name, words: Vec<String>| programs.push(Program { name, words });
    let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let library = said("ocamlopt", "-where").map(PathBuf::from).unwrap_or_default();
    let bring = |from: &Path, name: &str| -> Result<bool> {
        Ok(from.is_file() && std::fs::copy(from, folder.join(name)).map(|_| true)?)
    };
    // The largest module of OCaml's own library.
    if said("ocamlopt.opt", "-version").is_some()
        && bring(&library.join("camlinternalFormat.ml"), "large.ml")?
    {
        add("ocamlopt", words("ocamlopt.opt -w -a -c large.ml"));
    }
    if said("ocamldoc.opt", "-version").is_some() {
        std::fs::create_dir_all(folder.join("doc"))?;
        let mut interfaces: Vec<_> = std::fs::read_dir(&library)?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.extension().is_some_and(|extension| extension == "mli"))
            .filter_map(|path| path.to_str().map(str::to_owned))
            .collect();
        interfaces.sort();
        interfaces.truncate(30);
        add("ocamldoc", [words("ocamldoc.opt -html -d doc"), interfaces].concat());
    }
    let grammar = in_tree("studies/ocaml-best-fit/programs/grammar.mly");
    if said("menhir", "--version").is_some() && bring(&grammar, "grammar.mly")? {
        add("menhir", words("menhir --canonical --table grammar.mly"));
    }
    if let Some(library) = said("coqc", "-where") {
        let proofs = Path::new(&library).join("theories/Sorting/Permutation.v");
        if bring(&proofs, "Proofs.v")? {
            add("coqc", words("coqc Proofs.v"));
        }
    }
    Ok(programs)
}
