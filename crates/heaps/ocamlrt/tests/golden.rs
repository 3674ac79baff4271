//! Recorded logs of real runtimes, for machines without them: OCaml 4.13.1 of Debian 12, and 4.12.0
//! and 4.14.0 as built by `examples/build-runtime.sh`, all on x86-64.
//!
//! They lie in `tests/golden/`.
//! `HEAPLAB_WRITE_GOLDEN=1 cargo test -p heaplab-ocamlrt --test golden` writes those of the version
//! that `ocamlopt` in the path has.

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

const VERSIONS: [&str; 3] = ["4.12", "4.13", "4.14"];

fn path(version: &str, shape: &str, spec: &str) -> PathBuf {
    let policy = spec.split(',').next().unwrap_or_default();
    let name = format!("tests/golden/{version}-{shape}-{policy}.json");
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn shape(name: &str) -> Shape {
    Shape::ALL.into_iter().find(|(known, _)| *known == name).unwrap().1
}

#[test]
fn kept_logs_are_reproduced() {
    if std::env::var_os("HEAPLAB_WRITE_GOLDEN").is_some() {
        write();
    }
    for (version, (name, text)) in VERSIONS.into_iter().flat_map(|v| RUNS.map(|run| (v, run))) {
        let path = path(version, name, text);
        let golden: Golden = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let spec = format!("{},version={}", golden.spec, golden.version);
        let mut heap = OCaml::new(Spec::parse(&spec).unwrap()).unwrap();
        let workload = generate(shape(&golden.shape), golden.steps, golden.slots, golden.seed);
        let ours = run(&mut heap, golden.slots, &workload);
        compare_slices(heap.slices(), &golden.slices)
            .and_then(|()| compare_reports(&ours, &golden.reports))
            .unwrap_or_else(|difference| panic!("{}: {difference}", path.display()));
        assert!(golden.slices.len() > 30, "{}: a log that says something", path.display());
    }
}

fn write() {
    let driver = Driver::build().unwrap();
    let version = VERSIONS.into_iter().find(|known| driver.version().starts_with(known)).unwrap();
    for (name, text) in RUNS {
        let (steps, slots, seed) = (8_000, 500, 7);
        let run = driver
            .run(
                &Spec::parse(&format!("{text},version={version}")).unwrap(),
                slots,
                generate(shape(name), steps, slots, seed),
                true,
            )
            .unwrap();
        let reports = run.collections.into_iter().chain([run.end]).collect();
        let (text, spec, shape) = (String::from(text), text.into(), name.into());
        let golden = Golden {
            version: driver.version().into(),
            spec,
            shape,
            steps,
            slots,
            seed,
            slices: run.slices,
            reports,
        };
        let path = path(version, name, text.as_str());
        std::fs::write(path, serde_json::to_string(&golden).unwrap() + "\n").unwrap();
    }
}
