//! Arenas as a user sees them.
//!
//! The checklist is HotSpot's own tests of its metaspace (`test_metaspace*` and others). Each has a
//! counterpart here, or in the lab's `heaps/metaspace`, or a reason why not:
//!
//! | HotSpot's | ours |
//! |---|---|
//! | allocation guard | here canaries and more, `debugging`; the lab's heap has none: a release JVM takes the flag and does nothing (its `the_guard_of_a_release_jvm_changes_nothing`) |
//! | arena growth policy | `growth::tests`; lab: `elastic/strategy.rs` |
//! | bin list, block tree, free blocks | `blocks::what_is_known_of_the_largest_free_block_hides_none`, `free_blocks_that_wait_for_bins_are_not_lost`; lab: `free_blocks_tests.rs` |
//! | chunk manager stress | `model`, over lists of operations; buddy: `random_steps_keep_every_invariant` |
//! | chunk header pool | buddy: `a_split_leaves_one_splinter_a_level_and_reuses_pooled_headers` |
//! | class-loader space | lab: `regions_are_the_arenas_of_the_plan`; a library has no class loaders |
//! | commit mask | buddy: `the_mask_is_what_a_list_of_bytes_says`; here `pool::bits` |
//! | internal statistics | `report` |
//! | metachunk | buddy: `split_and_merge_at_every_committed_length`, `what_follows_an_uncommitted_end_is_forgotten` |
//! | metachunk list | buddy: `committed_chunks_are_found_first_and_the_search_ends_at_an_uncommitted_one` |
//! | arena basics, with and without limit | `blocks`, `limits` |
//! | arena enlarged in place: allowed | `blocks::the_neighbouring_lines_are_taken_while_they_are_free_and_refused_when_they_are_not`; lab: `a_chunk_doubles_in_place_as_long_as_the_next_one_would_be_as_large` |
//! | to root, refused above root and above double | lab: `a_root_chunk_is_not_enlarged`, `enlarging_is_refused_where_hotspot_refuses_it`; here chunks are lengthened by lines |
//! | deallocate and reuse | `blocks::blocks_given_back_are_used_before_anything_else_and_then_the_fast_path_opens_again` |
//! | arena stress: 32 arenas, 1 arena, 10,000 steps, marked blocks | `threads::thirty_two_arenas_through_ten_thousand_steps` |
//! | the same under a limit of 2M words | lab: `thirty_two_arenas_under_a_limit_of_two_million_words`; here `model` changes the limit at any step |
//! | virtual space node: commit limit, arbitrary commits | lab: `arbitrary_commits_against_a_limit`; here `limits::a_fault_at_any_commit_refuses_one_request_and_loses_nothing` |
//! | many threads, three profiles, 15 % deallocated | `threads::many_threads_with_three_profiles_of_sizes` |

mod blocks;
mod debugging;
mod empty;
mod learned_growth;
mod limits;
mod model;
mod report;
mod threads;

use crate::{Arena, Error, Growth, Options, Reclaim, Space};
use std::alloc::Layout;

/// A small space that gives memory back only when it is told to.
fn space() -> Space {
    Space::new(Options { reclaim: Reclaim::AtTrim, ..small() }).unwrap()
}

/// Options of a small space; Miri's stand-in for the kernel backs all of it at once.
fn small() -> Options {
    let granule_bytes = Options::default().granule_bytes;
    let granules = if cfg!(miri) { 1024 } else { 65536 };
    Options {
        reserve_bytes: granule_bytes * granules,
        root_bytes: granule_bytes * 256,
        ..Options::default()
    }
}

/// An arena that has its first chunk: a word was allocated.
fn begun(space: &Space, growth: Growth) -> Result<Arena, Error> {
    let arena = space.arena(growth)?;
    arena.allocate(layout(8, 8))?;
    Ok(arena)
}

/// The same with nothing in it.
fn reset(space: &Space, growth: Growth) -> Arena {
    let mut arena = begun(space, growth).unwrap();
    arena.reset();
    arena
}

fn layout(size: usize, align: usize) -> Layout {
    Layout::from_size_align(size, align).unwrap()
}

/// Everything that was committed is gone when nothing is left.
fn is_empty(space: &Space) {
    space.trim().unwrap();
    space.check_deep().unwrap();
    assert_eq!((space.arenas(), space.committed_bytes(), space.idle_bytes()), (0, 0, 0));
}
