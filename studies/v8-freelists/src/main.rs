//! The study of V8's free-list strategies: their needs of memory and work on real programs.
//!
//! Source: "Reducing heap fragmentation in V8" (V8's heap team, 2019). Its programs were web pages
//! and Octane, in a Chromium that nobody can build again from the document. Here they are programs
//! of npm, recorded by `heaplab record --node` ([`recordings`]) and replayed on heaplab's heap of
//! V8's rules ([`replay`]). Strategies that V8 shipped run in the real V8 too ([`nodes`]).

mod compare;
mod latency;
mod maps;
mod memory;
mod nodes;
mod origins;
mod pictures;
mod recordings;
mod replay;
mod runs;
mod sizes;
mod table;
mod times;

use anyhow::{Context, Result};
use heaplab_study::Study;
use heaplab_v8::spec::Compact;
use recordings::Kind;
use std::path::Path;
use std::process::ExitCode;

const STUDY: Study = Study {
    name: "v8-freelists",
    title: "V8: reducing heap fragmentation by free-list strategies (V8's heap team, 2019)",
    claims: include_str!("../claims.toml"),
    measure,
    draw: Some(pictures::draw),
};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match arguments.split_first() {
        Some((command, rest)) if command == "record" => record(rest),
        Some((command, rest)) if command == "table" => table(rest),
        Some((command, rest)) if command == "latency" => {
            latency::table(rest).map(|text| print!("{text}"))
        }
        _ => return heaplab_study::main(&STUDY),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("study v8-freelists: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// `record [FOLDER [SCALE [PROGRAM...]]]`.
fn record(arguments: &[String]) -> Result<()> {
    let kept = heaplab_study::in_tree("traces/v8");
    let to = arguments.first().map_or(kept.as_path(), Path::new);
    let scale = arguments.get(1).map_or(Ok(1), |scale| scale.parse());
    let scale = scale.ok().filter(|scale| (1..=1000).contains(scale));
    let scale =
        scale.context("record FOLDER SCALE PROGRAM...: SCALE is a number from 1 to 1000")?;
    let names = arguments.get(2..).unwrap_or_default();
    let known = recordings::PROGRAMS.map(|program| program.name);
    if let Some(unknown) = names.iter().find(|name| !known.contains(&name.as_str())) {
        anyhow::bail!("there is no program {unknown:?}; there are {}", known.join(", "));
    }
    recordings::record(to, names, scale)
}

/// `table [never|regular|always [STRATEGY...]]`.
fn table(arguments: &[String]) -> Result<()> {
    let compact = match arguments.first().map(String::as_str) {
        None | Some("regular") => Compact::Regular,
        Some("never") => Compact::Never,
        Some("always") => Compact::Always,
        Some(other) => anyhow::bail!("table takes never, regular or always, not {other:?}"),
    };
    println!("{}", table::programs(compact)?);
    print!("{}", table::table(compact, arguments.get(1..).unwrap_or_default())?);
    Ok(())
}

/// Measures one claim; `None`: a program that it needs is not installed.
fn measure(id: &str) -> Result<Option<String>> {
    match id {
        "v8.sizes.octane" => sizes::shares(Kind::Synthetic).map(Some),
        "v8.sizes.web" => sizes::shares(Kind::Real).map(Some),
        "v8.same-size.synthetic" => sizes::succession(Kind::Synthetic).map(Some),
        "v8.same-size.web" => sizes::succession(Kind::Real).map(Some),
        "v8.origins.synthetic" => origins::origins(Kind::Synthetic),
        "v8.origins.web" => origins::origins(Kind::Real),
        "v8.cache" => nodes::times(3, 2),
        "v8.end-of-cycle" => latency::row().map(Some),
        "v8.map-space" => maps::row().map(Some),
        "v8.real.memory" => nodes::memory(),
        "v8.real.equal" => nodes::equal(),
        _ => match memory::row(id)? {
            None => times::row(id)?.with_context(|| format!("nothing measures {id}")).map(Some),
            row => Ok(row),
        },
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn exact_claims_measure_what_the_study_says() {
        super::STUDY.check();
    }
}
