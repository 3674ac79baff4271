//! Replays with all their collections beside the CPU time of the recorded programs.
//!
//! Programs of OCaml's study, compiled with heaplab's recorder, are recorded once, and run without
//! recording for each figure. The same steps in the real runtime (`ocamlrt:`) stand beside: there
//! the program around them is next to nothing.

use super::{Ours, POLICIES, theirs};
use crate::bounds::Bounds;
use crate::measure::{self, Spread};
use crate::programs::root;
use anyhow::{Context, Result, ensure};
use heaplab_ocamlrt::Driver;
use heaplab_trace::bundle::{Bundle, BundleWriter, Selection};
use heaplab_trace::import::{self, Format, ImportOptions};
use heaplab_trace::program::{self, Program};
use std::fs::{self, File};
use std::io::BufReader;
use std::path::Path;
use std::process::{Command, Stdio};

const PARAMETERS: &str = "o=80";

/// A program: its source, and its arguments for a number of million blocks.
struct Source {
    name: &'static str,
    path: &'static str,
    arguments: fn(u64) -> [String; 2],
    /// The minor heap of the recording, K words: without the recorder's own objects it collects as
    /// often as without the recorder (`heaplab record` prints this number).
    minor_kilo_words: u32,
    /// Words between two forced collections of the recording: a few for each cycle, so that every
    /// death is noticed in its cycle.
    granularity_words: u32,
}

/// A cache of strings of mixed sizes, four blocks an operation; and a map of numbers, eighteen
/// blocks an operation.
const SOURCES: [Source; 2] = [
    Source {
        name: "strcache",
        path: "crates/heaplab/tests/data/strcache.ml",
        arguments: |millions| ["20000".into(), (millions * 253_000).to_string()],
        minor_kilo_words: 512,
        granularity_words: 500_000,
    },
    Source {
        name: "mapchurn",
        path: "studies/ocaml-best-fit/programs/mapchurn.ml",
        arguments: |millions| ["30000".into(), (millions * 56_200).to_string()],
        minor_kilo_words: 617,
        granularity_words: 200_000,
    },
];

/// Replays each program's recording with each policy.
pub fn bench(
    driver: &Driver,
    millions: u64,
    repetitions: usize,
    bounds: &mut Bounds,
) -> Result<()> {
    println!("\nCPU with all collections, s ({PARAMETERS}; median and range of {repetitions})\n");
    println!(
        "| program | blocks | policy | replay | the program | ratio | OCaml {} running the steps |",
        driver.version()
    );
    println!("|---|---|---|---|---|---|---|");
    let folder = tempfile::tempdir()?;
    for source in &SOURCES {
        compile(source, folder.path())?;
        let program = recorded(source, millions, folder.path())?;
        for policy in POLICIES {
            let spec = format!("{policy},{PARAMETERS}");
            let [mut ours_s, mut real_s, mut theirs_s] = [const { Vec::new() }; 3];
            for _ in 0..repetitions {
                let ours = in_child(&spec, &program)?;
                let run = theirs(driver, &spec, &program)?;
                ensure!(ours.report() == run.end, "not the same work: {ours:?} and {:?}", run.end);
                ours_s.push(ours.cpu_ns as f64 / 1e9);
                theirs_s.push(run.cpu_ns as f64 / 1e9);
                real_s.push(real(source, millions, policy, folder.path())?);
            }
            let ratios: Vec<f64> = ours_s.iter().zip(&real_s).map(|(a, b)| a / b).collect();
            let text = |values: &[f64]| {
                let Spread { median, least, most } = Spread::of(values.iter().copied());
                format!("{median:.2} ({least:.2} to {most:.2})")
            };
            println!(
                "| {} | {} | {policy} | {} | {} | {} | {} |",
                source.name,
                program.facts().objects,
                text(&ours_s),
                text(&real_s),
                text(&ratios),
                text(&theirs_s)
            );
            let what = format!("{}, replay with {policy}", source.name);
            bounds.median_at_most(&what, ratios, "of the program's CPU", 0.5);
        }
        fs::remove_dir_all(folder.path().join(format!("{}.heaplab", source.name)))?;
    }
    Ok(())
}

/// Compiles a program with the recorder linked in.
fn compile(source: &Source, folder: &Path) -> Result<()> {
    for name in ["src/heaplab.ml", "src/heaplab.mli", "src/heaplab_stubs.c", "auto/heaplab_auto.ml"]
    {
        let from = root().join("ocaml").join(name);
        let name = from.file_name().context("a file")?;
        fs::copy(&from, folder.join(name)).with_context(|| from.display().to_string())?;
    }
    let file = format!("{}.ml", source.name);
    fs::copy(root().join(source.path), folder.join(&file)).with_context(|| source.path)?;
    let recorder = ["heaplab_stubs.c", "heaplab.mli", "heaplab.ml", "heaplab_auto.ml"];
    let output = Command::new("ocamlopt")
        .current_dir(folder)
        .args(recorder)
        .args([&file, "-o", source.name])
        .output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

fn command(source: &Source, millions: u64, parameters: &str, folder: &Path) -> Command {
    let mut command = Command::new(folder.join(source.name));
    command.args((source.arguments)(millions)).env("OCAMLRUNPARAM", parameters);
    command.stdout(Stdio::null());
    command
}

/// The program's recording as a replay program.
fn recorded(source: &Source, millions: u64, folder: &Path) -> Result<Program> {
    let stream = folder.join("stream");
    let parameters = format!("{PARAMETERS},s={}k", source.minor_kilo_words);
    measure::run(
        command(source, millions, &parameters, folder)
            .env("HEAPLAB_OCAML", &stream)
            .env("HEAPLAB_OCAML_GRANULARITY", source.granularity_words.to_string()),
    )?;
    let path = folder.join(format!("{}.heaplab", source.name));
    let mut writer = BundleWriter::create(&path)?;
    let options = ImportOptions { name: stream.clone(), lenient: false };
    let input = BufReader::with_capacity(1 << 16, File::open(&stream)?);
    let imported = import::import(input, Some(Format::Ocaml), &options, &mut writer)?;
    writer.finish(&imported.tables, imported.meta)?;
    fs::remove_file(stream)?;
    Ok(program::cached(&Bundle::open(&path)?, Selection::default())?)
}

/// CPU time of the program by itself, s.
fn real(source: &Source, millions: u64, policy: &str, folder: &Path) -> Result<f64> {
    let number = POLICIES.iter().position(|known| *known == policy).context("a policy")?;
    let parameters = format!("a={number},{PARAMETERS}");
    Ok(measure::run(&mut command(source, millions, &parameters, folder))?.cpu_s)
}

/// Runs a fresh process, like a cell.
fn in_child(spec: &str, program: &Program) -> Result<Ours> {
    let child = Command::new(std::env::current_exe()?)
        .args(["ocaml", "--cell", spec, "--program"])
        .arg(program.path())
        .output()?;
    ensure!(child.status.success(), "{}", String::from_utf8_lossy(&child.stderr));
    Ok(serde_json::from_slice(&child.stdout)?)
}
