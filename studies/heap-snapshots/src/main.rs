//! The study of V8's slow heap snapshots: colliding names, line ends computed anew for every
//! function.
//!
//! Source: "Speeding up V8 heap snapshots" (José Dapena Paz and others, 2023). The tables are
//! computed here ([`names`]). Both fixes are switched one by one in our own generator
//! ([`generator`]). The programs of studies/heap-snapshots run the real Nodes with and without the
//! fixes ([`nodes`], [`growth`]) if `npm ci` has installed them; otherwise those rows stay
//! unmeasured.

mod generator;
mod growth;
mod leaks;
mod names;
mod nodes;

use anyhow::Result;
use heaplab_study::Study;
use std::process::ExitCode;

const STUDY: Study = Study {
    name: "heap-snapshots",
    title: "V8: heap snapshots made a hundred times faster (Dapena Paz, 2023), and DevTools' answers",
    claims: include_str!("../claims.toml"),
    measure,
    draw: None,
};

fn main() -> ExitCode {
    heaplab_study::main(&STUDY)
}

/// Measures one claim; `None`: its Nodes are not installed.
fn measure(id: &str) -> Result<Option<String>> {
    match id {
        "snap.hash-values" => Ok(Some(names::values())),
        "snap.gaps" => Ok(Some(names::gaps())),
        "snap.offsets" => names::offsets().map(Some),
        "snap.switched" => generator::switched().map(Some),
        "snap.hash-share" => nodes::hash_share(),
        "snap.generation" => nodes::generation(),
        "snap.total" => nodes::total(),
        "snap.successive" => growth::row("successive"),
        "snap.half-hour" => growth::row("sizes"),
        "snap.cause" => growth::row("cause"),
        "snap.generation-dominates" => nodes::dominates(),
        "snap.leaks" => leaks::seeded(),
        "snap.devtools" => nodes::devtools(),
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn exact_claims_measure_what_the_study_says() {
        super::STUDY.check();
    }
}
