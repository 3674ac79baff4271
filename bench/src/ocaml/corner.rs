//! First-fit beside best-fit where first-fit should be slowest: a full table of record sizes, behind
//! it blocks of the largest record's size, and requests of one word more, which lie behind those.
//!
//! Deviation from the aim: first-fit looks at some 780 blocks a request however many blocks the
//! request has to pass, so this list does not reach the corner of OCaml's own sources, where each
//! search walks the whole list. The reason is unknown; both sides do the same work.
//!
//! Chunks come at falling addresses and blocks are cut from their high ends: what is born first
//! lies highest.

use super::ours_of;
use anyhow::{Result, ensure};
use heaplab_heap::Ask;
use heaplab_ocaml::facts::{FIRST_FIT_TABLE, YOUNG_WORDS_MAX};
use heaplab_ocaml::spec::Spec;
use heaplab_ocamlrt::{Driver, Step};

/// Between two blocks that die, so that they are not merged.
const KEPT_WORDS: usize = YOUNG_WORDS_MAX + 1;
/// Requests that are found behind the passed blocks.
const REQUESTS: usize = 2000;

/// Runs the corner with more and more blocks to pass.
pub fn bench(driver: &Driver, most: usize) -> Result<()> {
    println!("\nfirst-fit's slow corner: {REQUESTS} requests that pass so many free blocks\n");
    println!(
        "| passed | policy | blocks looked at a request | heaplab, ms | OCaml {}, ms |",
        driver.version()
    );
    println!("|---|---|---|---|---|");
    for passed in [most / 4, most / 2, most].into_iter().filter(|passed| *passed > 0) {
        for policy in ["first-fit", "best-fit"] {
            let spec = format!("{policy},O=1000000");
            // The same without the requests, so that what is left is theirs.
            let [with, without] = [REQUESTS, 0].map(|requests| {
                let (slots, steps) = steps(passed, requests);
                let ours = ours_of(&spec, slots, &steps)?;
                let run = driver.run(&Spec::parse(&spec)?, slots, steps, false)?;
                ensure!(ours.report() == run.end, "not the same work: {ours:?}, {:?}", run.end);
                Ok((ours.steps as f64, ours.cpu_ns as f64 / 1e6, run.cpu_ns as f64 / 1e6))
            });
            let (with, without): ((f64, f64, f64), (f64, f64, f64)) = (with?, without?);
            println!(
                "| {passed} | {policy} | {:.0} | {:.1} | {:.1} |",
                (with.0 - without.0) / REQUESTS as f64,
                with.1 - without.1,
                with.2 - without.2
            );
        }
    }
    Ok(())
}

/// The workload, and its slots.
fn steps(passed: usize, requests: usize) -> (u32, Vec<Step>) {
    let record = KEPT_WORDS + FIRST_FIT_TABLE;
    let sizes = std::iter::repeat_n(record + 1, REQUESTS)
        .chain(std::iter::repeat_n(record, passed))
        .chain((record - FIRST_FIT_TABLE..record).rev());
    let (mut slot, mut steps, mut holes) = (0, Vec::new(), Vec::new());
    let mut birth = |words: usize, steps: &mut Vec<Step>| {
        steps.push(Step::Birth { slot, size: words * 8 });
        slot += 1;
        slot - 1
    };
    for words in sizes {
        holes.push(birth(words, &mut steps));
        birth(KEPT_WORDS, &mut steps);
    }
    steps.extend(holes.iter().map(|slot| Step::Death { slot: *slot }));
    steps.push(Step::Collect(Ask::Full));
    let request = |slot: &u32| Step::Birth { slot: *slot, size: (record + 1) * 8 };
    steps.extend(holes.iter().take(requests).map(request));
    (slot, steps)
}
