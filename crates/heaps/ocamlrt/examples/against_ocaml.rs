//! Runs a generated workload in heaplab's OCaml heap and in the real runtime, and prints where they
//! differ.
//!
//! `cargo run --release -p heaplab-ocamlrt --example against_ocaml -- SHAPE STEPS SLOTS SEED
//! SPEC...`

#[path = "../tests/common/mod.rs"]
mod common;

use common::{Shape, compare, generate};
use heaplab_ocaml::spec::Spec;
use heaplab_ocamlrt::Driver;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [shape, steps, slots, seed, specs @ ..] = arguments.as_slice() else {
        return Err(format!(
            "usage: against_ocaml SHAPE STEPS SLOTS SEED SPEC...; shapes: {}",
            Shape::ALL.map(|(name, _)| name).join(", ")
        )
        .into());
    };
    let driver = Driver::build()?;
    let (slots, seed) = (slots.parse()?, seed.parse()?);
    for shape in Shape::ALL.into_iter().filter(|(name, _)| shape == "all" || name == shape) {
        let workload = generate(shape.1, steps.parse()?, slots, seed);
        for spec in specs {
            let spec = Spec::parse(spec)?;
            let outcome = compare(&driver, spec, slots, &workload);
            println!(
                "{:10} {spec}: {}",
                shape.0,
                outcome.unwrap_or_else(|difference| format!("DIFFERS\n{difference}"))
            );
        }
    }
    Ok(())
}
