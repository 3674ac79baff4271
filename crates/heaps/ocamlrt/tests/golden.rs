//! Logs of the real runtime that are kept, for machines without OCaml: OCaml 4.13.1 of Debian 12 on
//! x86-64.
//!
//! They lie in `tests/golden/`, written by `HEAPLAB_WRITE_GOLDEN=1 cargo test -p heaplab-ocamlrt
//! --test golden`.

mod common;

use common::{Shape, compare_reports, compare_slices, generate, run};
use heaplab_ocaml::OCaml;
use heaplab_ocaml::spec::Spec;
use heaplab_ocamlrt::{Driver, Report, Slice};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A run of the real runtime.
#[derive(Serialize, Deserialize)]
struct Golden {
    version: String,
    spec: String,
    shape: String,
    steps: usize,
    slots: u32,
    seed: u64,
    slices: Vec<Slice>,
    reports: Vec<Report>,
}

const RUNS: [(&str, &str); 4] = [
    ("mixed", "best-fit,o=80,s=4k"),
    ("cache", "next-fit,o=120,s=4k"),
    ("phases", "first-fit,o=40,s=4k"),
    ("forced", "best-fit,o=80,s=4k,O=50"),
];

fn path(shape: &str, spec: &str) -> PathBuf {
    let policy = spec.split(',').next().unwrap_or_default();
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{shape}-{policy}.json"))
}

fn shape(name: &str) -> Shape {
    Shape::ALL.into_iter().find(|(known, _)| *known == name).unwrap().1
}

#[test]
fn kept_logs_are_reproduced() {
    if std::env::var_os("HEAPLAB_WRITE_GOLDEN").is_some() {
        write();
    }
    for (name, text) in RUNS {
        let golden: Golden =
            serde_json::from_slice(&std::fs::read(path(name, text)).unwrap()).unwrap();
        let mut heap = OCaml::new(Spec::parse(&golden.spec).unwrap()).unwrap();
        let ours = run(
            &mut heap,
            golden.slots,
            &generate(shape(&golden.shape), golden.steps, golden.slots, golden.seed),
        );
        compare_slices(heap.slices(), &golden.slices)
            .and_then(|()| compare_reports(&ours, &golden.reports))
            .unwrap();
        assert!(golden.slices.len() > 30, "{name}: a log that says something");
    }
}

fn write() {
    let driver = Driver::build().unwrap();
    assert!(driver.version().starts_with("4.13."), "the kept logs are 4.13's");
    for (name, text) in RUNS {
        let (steps, slots, seed) = (8_000, 500, 7);
        let run = driver
            .run(
                &Spec::parse(text).unwrap(),
                slots,
                generate(shape(name), steps, slots, seed),
                true,
            )
            .unwrap();
        let reports = run.collections.into_iter().chain([run.end]).collect();
        let (version, spec, shape) = (driver.version().into(), text.into(), name.into());
        let golden =
            Golden { version, spec, shape, steps, slots, seed, slices: run.slices, reports };
        std::fs::create_dir_all(path(name, text).parent().unwrap()).unwrap();
        std::fs::write(path(name, text), serde_json::to_string(&golden).unwrap() + "\n").unwrap();
    }
}
