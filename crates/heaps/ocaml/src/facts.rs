//! Constants of the runtime, each with its file in OCaml 4.13.1. Sizes are words of 8 bytes unless
//! named otherwise.

/// Bytes of a word (64-bit machines).
pub const WORD_BYTES: usize = 8;
/// Bytes of the runtime's page, whatever the system's (`caml/config.h`, `Page_size`).
pub const PAGE_BYTES: usize = 4096;
/// Words of such a page.
pub const PAGE_WORDS: usize = PAGE_BYTES / WORD_BYTES;
/// Largest block of the minor heap, without its header (`caml/config.h`, `Max_young_wosize`).
pub const YOUNG_WORDS_MAX: usize = 256;
/// Smallest minor heap (`caml/config.h`, `Minor_heap_min`).
pub const MINOR_WORDS_MIN: usize = 4096;
/// Largest minor heap (`caml/config.h`, `Minor_heap_max`).
pub const MINOR_WORDS_MAX: usize = 1 << 28;
/// Default minor heap: `s` (`caml/config.h`, `Minor_heap_def`).
pub const MINOR_WORDS: usize = 256 << 10;
/// Smallest chunk of the major heap (`caml/config.h`, `Heap_chunk_min`: 15 pages' bytes, read as
/// words).
pub const CHUNK_WORDS_MIN: usize = 15 * PAGE_BYTES;
/// Default increment of the major heap: `i`, percent of the heap (`caml/config.h`,
/// `Heap_chunk_def`).
pub const INCREMENT: usize = 15;
/// An increment above this is a number of words, not a percentage (`major_gc.c`,
/// `caml_clip_heap_chunk_wsz`).
pub const INCREMENT_PERCENT_MAX: usize = 1000;
/// Default first chunk: `h` (`caml/config.h`, `Init_heap_def`).
pub const INITIAL_WORDS: usize = 31 * PAGE_BYTES;
/// Default overhead that starts a compaction: `O`, percent (`caml/config.h`,
/// `Max_percent_free_def`).
pub const COMPACTION_OVERHEAD: usize = 500;
/// From this `O` on no compaction starts by itself (`compact.c`, `caml_compact_heap_maybe`).
pub const COMPACTION_NEVER: usize = 1_000_000;
/// Largest block that a compaction takes for a small one, with its header (`compact.c` of 4.14.2,
/// `COMPACT_FL_CUTOFF_SIZE`).
pub const COMPACTION_SMALL_WORDS: usize = 11;
/// Cycles before the first compaction that starts by itself (`compact.c`).
pub const COMPACTION_CYCLES_MIN: u64 = 3;
/// Largest smoothing window: `w` (`caml/config.h`, `Max_major_window`).
pub const WINDOW_MAX: usize = 50;
/// Most work of one slice, as a part of a cycle; the next slices get the rest (`major_gc.c`).
pub const SLICE_PART_MAX: f64 = 0.3;
/// Entries of a mark stack that has not grown (`major_gc.c`, `MARK_STACK_INIT_SIZE`).
pub const MARK_STACK_ENTRIES: usize = 2048;
/// Words of an entry of the mark stack.
pub const MARK_ENTRY_WORDS: usize = 2;
/// The mark stack grows while it is smaller than this part of the heap (`major_gc.c`,
/// `realloc_mark_stack`).
pub const MARK_STACK_HEAP_PART: usize = 64;
/// Places in the ring of blocks that wait for their prefetch (`major_gc.c` of 4.14, `Pb_size`).
pub const PREFETCH_RING: usize = 256;
/// Fewest blocks in the ring while there is other work (`major_gc.c` of 4.14, `Pb_min`).
pub const PREFETCH_LEAST: usize = 64;
/// Fields that marking looks at before it pushes a block on the mark stack (`major_gc.c`,
/// `mark_stack_push`).
pub const MARK_AHEAD_FIELDS: usize = 8;
/// Entries of the remembered set as a part of the minor heap's words (`minor_gc.c`,
/// `realloc_generic_table`).
pub const REMEMBERED_PART: usize = 8;
/// Entries of the remembered set beyond this part (`minor_gc.c`, `realloc_generic_table`).
pub const REMEMBERED_RESERVE: usize = 256;
/// First-fit's table of blocks larger than all before them (`freelist.c`, `FLP_MAX`).
pub const FIRST_FIT_TABLE: usize = 1000;
/// Best-fit's exact lists: one a size up to this (`freelist.c`, `BF_NUM_SMALL`).
pub const BEST_FIT_SMALL: usize = 16;
/// Tag of a block whose fields are values (`caml/mlvalues.h`).
pub const FIELDS_TAG: usize = 0;
/// Tag of a string (`caml/mlvalues.h`, `String_tag`).
pub const STRING_TAG: usize = 252;
/// From this tag on fields are not values (`caml/mlvalues.h`, `No_scan_tag`).
pub const NO_SCAN_TAG: usize = 251;
/// The immediate value 0.
pub const IMMEDIATE: usize = 1;

/// Bytes of addresses that a heap reserves: more than any workload of today's machines needs.
/// Addresses cost nothing until committed.
pub const RESERVED_BYTES: usize = 32 << 30;
/// The stack for signals (`signals_nat.c`; glibc's `SIGSTKSZ`): four times the bytes in which the
/// kernel saves the state of a processor with AVX-512. AMX needs more, other processors less.
pub const SIGNAL_STACK_BYTES: usize = 13_504;
