//! First-fit's slow corner: each request walks a list behind the table of record sizes. First-fit's
//! time grows with the number of free blocks, best-fit's does not.
//!
//! OCaml's own source fears this list (`freelist.c`, "the flp table is full"): a full table, behind
//! it free blocks as large as the last record, and requests of one word more, which fit only behind
//! those. Blocks smaller than the last record would not do: after a walk has passed one, later
//! walks begin behind it.
//!
//! The heap has one chunk, filled by all blocks to the last word: the rest of a chunk would lie
//! before all holes, be the largest record and serve every request. Blocks are cut from the high
//! end of a free one, so the first-born lies highest.

use super::ours_of;
use anyhow::{Result, ensure};
use heaplab_heap::Ask;
use heaplab_ocaml::facts::{CHUNK_WORDS_MIN, FIRST_FIT_TABLE, PAGE_WORDS, YOUNG_WORDS_MAX};
use heaplab_ocaml::slot_fields;
use heaplab_ocaml::spec::Spec;
use heaplab_ocamlrt::{Driver, Step};

/// Words of a kept block between two blocks that die, so that these do not merge.
const KEPT_WORDS: usize = YOUNG_WORDS_MAX + 1;
/// Requests served from behind the passed blocks.
const REQUESTS: usize = 2000;
/// Words of the program's arguments, promoted by the first minor collection: an array and a string.
const ARGUMENTS_WORDS: usize = 4;

/// Runs the corner with rising numbers of blocks to pass.
pub fn bench(driver: &Driver, most: usize) -> Result<()> {
    println!("\nfirst-fit's slow corner: {REQUESTS} requests that pass so many free blocks\n");
    println!(
        "| passed | policy | blocks looked at a request | heaplab, ms | OCaml {}, ms |",
        driver.version()
    );
    println!("|---|---|---|---|---|");
    for passed in [most / 4, most / 2, most].into_iter().filter(|passed| *passed > 0) {
        for policy in ["first-fit", "best-fit"] {
            // The same without the requests; the difference is theirs.
            let [with, without] = [REQUESTS, 0].map(|requests| {
                let Corner { slots, steps, words } = Corner::new(passed, requests);
                let spec = format!("{policy},O=1000000,h={words},version={}", driver.version());
                let ours = ours_of(&spec, slots, &steps)?;
                let run = driver.run(&Spec::parse(&spec)?, slots, steps, false)?;
                ensure!(ours.report() == run.end, "not the same work: {ours:?}, {:?}", run.end);
                ensure!(ours.counters.heap_chunks == 1, "the heap has grown: {ours:?}");
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

/// The workload, its slots, and the words of its chunk.
struct Corner {
    slots: u32,
    steps: Vec<Step>,
    words: usize,
}

impl Corner {
    fn new(passed: usize, requests: usize) -> Corner {
        let record = KEPT_WORDS + FIRST_FIT_TABLE;
        let sizes = std::iter::repeat_n(record + 1, REQUESTS)
            .chain(std::iter::repeat_n(record, passed))
            .chain((record - FIRST_FIT_TABLE..record).rev());
        let (mut slots, mut steps, mut holes, mut used) = (0, Vec::new(), Vec::new(), 0);
        let mut birth = |words: usize, steps: &mut Vec<Step>| {
            steps.push(Step::Birth { slot: slots, size: words * 8 });
            used += words + 1;
            slots += 1;
            slots - 1
        };
        for words in sizes {
            holes.push(birth(words, &mut steps));
            birth(KEPT_WORDS, &mut steps);
        }
        // One more slot, for the block that fills the chunk.
        let used = used + ARGUMENTS_WORDS + slot_fields(slots + 1) + 1;
        let words = (used + KEPT_WORDS + 1).max(CHUNK_WORDS_MIN).next_multiple_of(PAGE_WORDS);
        steps.push(Step::Birth { slot: slots, size: (words - used - 1) * 8 });
        steps.extend(holes.iter().map(|slot| Step::Death { slot: *slot }));
        steps.push(Step::Collect(Ask::Full));
        let request = |slot: &u32| Step::Birth { slot: *slot, size: (record + 1) * 8 };
        steps.extend(holes.iter().take(requests).map(request));
        Corner { slots: slots + 1, steps, words }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_request_of_first_fit_passes_all_blocks() {
        let looked_at = |policy: &str, passed: usize| {
            let [with, without] = [REQUESTS, 0].map(|requests| {
                let Corner { slots, steps, words } = Corner::new(passed, requests);
                let ours = ours_of(&format!("{policy},O=1000000,h={words}"), slots, &steps);
                let ours = ours.unwrap();
                assert_eq!(ours.counters.heap_chunks, 1);
                ours.steps
            });
            (with - without) / REQUESTS as u64
        };
        for passed in [100, 400] {
            assert_eq!(looked_at("first-fit", passed), (FIRST_FIT_TABLE + passed + 1) as u64);
            assert!(looked_at("best-fit", passed) < 20);
        }
    }
}
