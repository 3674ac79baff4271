//! The study of elastic metaspace: the memory that the old design keeps after class unloading, and
//! the memory that the elastic one returns.
//!
//! Source: T. Stüfe, "Elastic Metaspaces" (2020). Two recordings of real JVMs run on every design
//! of `heaplab-metaspace`; each decides as its JVM does ([`design`]). [`workload`] reads the
//! recordings, [`curves`] replays them, [`claims`] turns the results into the document's figures
//! and [`pictures`] into its graphs.

mod claims;
mod curves;
mod design;
mod pictures;
mod workload;

use anyhow::Result;
use heaplab_study::Study;
use std::process::ExitCode;

const STUDY: Study = Study {
    name: "elastic-metaspace",
    title: "HotSpot: what metaspace keeps after class unloading, old and elastic (Stüfe, 2020)",
    claims: include_str!("../claims.toml"),
    measure,
    draw: Some(pictures::draw),
};

fn main() -> ExitCode {
    heaplab_study::main(&STUDY)
}

/// Measures one claim; `None`: the claim is open.
fn measure(id: &str) -> Result<Option<String>> {
    Ok(match id {
        "meta.large-share" => Some(claims::large_share()?),
        "meta.dealloc" => Some(claims::deallocations()?),
        "meta.micro-loader" => Some(claims::micro_loaders()?),
        "meta.free-chunks" => Some(claims::free_chunks()?),
        "meta.intrachunk" => Some(claims::waste_in_chunks()?),
        "meta.elastic" => Some(claims::committed_follows_used()?),
        "meta.rss" => Some(claims::resident_follows_used()?),
        "meta.wildfly" => Some(claims::after_startup()?),
        "meta.cost" => Some(claims::cost()?),
        "meta.buddy" => Some(claims::contiguity()?),
        "meta.granule" => Some(claims::granules()?),
        "meta.jdk11" => Some(claims::as_jdk_11()?),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn exact_claims_measure_what_the_study_says() {
        super::STUDY.check();
    }
}
