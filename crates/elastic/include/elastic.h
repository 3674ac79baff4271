/* Elastic arenas: very many lifetimes that share one pool of chunks, and give memory back when they die.
 *
 *   elastic_space *space;
 *   elastic_arena *request;
 *   if (elastic_space_new(NULL, &space) == ELASTIC_OK && elastic_arena_new(space, NULL, 0, &request) == ELASTIC_OK) {
 *       char *name = elastic_allocate(request, 20, 1);
 *       ...
 *       elastic_arena_free(request);
 *   }
 *
 * Build: cargo rustc -p heaplab-elastic --release --features c-interface --crate-type staticlib
 * Link:  cc program.c -I crates/elastic/include target/release/libheaplab_elastic.a -lpthread -lm -ldl
 *
 * A space may be used by any number of threads; an arena by one at a time. Nothing here throws or longjmps. Linux, x86-64 and aarch64.
 *
 * A process may fork whatever its other threads do: fork() waits until none of them is in a space, and the child may use every space and
 * the arenas of the thread that forked. Arenas of other threads stay as they were in the child. Not from a signal handler that interrupted
 * a function of this header, and not by _Fork() or clone(2) alone. */
#ifndef ELASTIC_H
#define ELASTIC_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct elastic_space elastic_space;
typedef struct elastic_arena elastic_arena;

typedef enum elastic_status {
    ELASTIC_OK = 0,
    ELASTIC_LIMIT = 1,         /* the commit limit is reached */
    ELASTIC_ADDRESS_SPACE = 2, /* the reserved address space is used up */
    ELASTIC_LAYOUT = 3,        /* no space can serve this size and alignment */
    ELASTIC_SYSTEM = 4,        /* the kernel refused */
    ELASTIC_OPTIONS = 5        /* options or chunk sizes that no space or arena can have */
} elastic_status;

enum { ELASTIC_RECLAIM_DEFAULT = 0, ELASTIC_RECLAIM_AT_RETURN = 1, ELASTIC_RECLAIM_AT_TRIM = 2, ELASTIC_RECLAIM_BACKGROUND = 3 };

/* Aids against memory errors, to be added up. What they find is printed and aborts the process: an overrun, a block given back twice
 * or with another size, a write to one that is gone; when it is given back, when its memory is used again, when the arena ends. */
enum {
    ELASTIC_DEBUG_CANARIES = 1,    /* known bytes behind each block */
    ELASTIC_DEBUG_GUARD_PAGES = 2, /* an inaccessible page behind each block; directly, if its size is a multiple of its alignment */
    ELASTIC_DEBUG_POISON = 4,      /* blocks that are gone are filled with 0xf5, and looked at again */
    ELASTIC_DEBUG_NO_REUSE = 8     /* nothing given back is used again while its arena lives */
};

/* Zero anywhere means the default: 64 GB (where the system refuses them, as many as there are), 16 MB, a page, no limit; reclaim at return, keeping 256 KB; no huge pages, no aids. */
typedef struct elastic_options {
    size_t reserve_bytes; /* address space */
    size_t root_bytes;    /* the largest chunk, a power of two of at least 64 granules */
    size_t granule_bytes; /* what is committed and given back at a time, a power of two of at least a page */
    size_t limit_bytes;   /* what may be committed */
    size_t keep_bytes;    /* what may stay committed though nobody uses it; where `reclaim` is at return or background, zero is zero */
    uint32_t interval_ms; /* of the background policy, whose thread a forked child starts when the first arena ends in it */
    int reclaim;          /* ELASTIC_RECLAIM_... */
    int huge_pages;       /* 1: ask the kernel for huge pages */
    unsigned debug;       /* ELASTIC_DEBUG_... */
} elastic_options;

/* What an arena has: owned = committed + uncommitted, committed = used + free + deallocated + overhead. */
typedef struct elastic_statistics {
    size_t chunks;
    size_t owned_bytes;
    size_t committed_bytes;
    size_t used_bytes;         /* in blocks, rounding and alignment included */
    size_t free_bytes;         /* still to be bumped through */
    size_t deallocated_bytes;  /* in free blocks: given back, or left over */
    size_t deallocated_blocks; /* how many those are */
    size_t overhead_bytes;     /* the arena's head, its chunks' links, the table of its free blocks */
} elastic_statistics;

/* What a space has: committed = in arenas + free lines + idle, while no arena begins, grows or ends and nothing is given back; and what the
 * arenas that were asked do with their chunks. */
typedef struct elastic_usage {
    size_t reserved_bytes;
    size_t committed_bytes;
    size_t resident_bytes;      /* as the kernel says */
    size_t mappings;            /* likewise, with the guard pages at both ends of the space */
    size_t arenas;              /* alive */
    size_t in_arenas_bytes;     /* committed, of chunks that arenas have */
    size_t free_lines_bytes;    /* committed, between small chunks: the next ones go there */
    size_t idle_bytes;          /* committed and used by nobody: what a trim gives back */
    size_t table_bytes;         /* the books themselves, about; not part of what is committed */
    uint64_t commits;           /* ranges committed since the beginning; most take no system call */
    uint64_t uncommits;         /* ranges given back */
    uint64_t uncommitted_bytes; /* given back since the beginning */
    uint64_t mmap_calls;        /* system calls since the beginning */
    uint64_t mprotect_calls;    /* likewise */
    uint64_t madvise_calls;     /* likewise */
    uint64_t at_return_ns;      /* time that giving back took threads that let arenas go, by the clock, since the beginning */
    uint64_t at_trim_ns;        /* those that called for a trim */
    uint64_t background_ns;     /* the space's own thread */
    uint64_t for_room_ns;       /* those that asked for memory at the commit limit or out of addresses */
    uint64_t longest_ns;        /* the longest at a time, of a chunk or the free pages of a region */
    size_t asked_arenas;        /* how many arenas were asked */
    size_t not_asked_bytes;     /* committed, of chunks of those that were not */
    elastic_statistics asked;   /* the sum of what they said */
} elastic_usage;

/* Makes a space; `options` may be null. */
elastic_status elastic_space_new(const elastic_options *options, elastic_space **space);
/* Drops the handle; the space goes with its last arena. Null does nothing. */
void elastic_space_free(elastic_space *space);
/* Gives all idle memory back to the system; writes how much, unless `bytes` is null. */
elastic_status elastic_space_trim(const elastic_space *space, size_t *bytes);
/* Changes what may be committed; 0: no limit. What is committed beyond it stays. */
void elastic_space_set_limit(const elastic_space *space, size_t limit_bytes);
/* Committed bytes, idle ones included. */
size_t elastic_space_committed_bytes(const elastic_space *space);
/* Writes what the space has, as text, cut to `capacity` and terminated; returns the length of the whole text, as snprintf does. */
size_t elastic_space_report(const elastic_space *space, char *text, size_t capacity);

/* The same text with what these arenas do with their chunks (used, free, left over); arenas of other spaces are passed over. An arena's books
 * are those of the thread that uses it: none of them may be used by another one meanwhile. With a count of 0 `arenas` may be null. */
size_t elastic_space_report_with(const elastic_space *space, elastic_arena *const *arenas, size_t count, char *text, size_t capacity);
/* The same as numbers. */
elastic_status elastic_space_usage(const elastic_space *space, elastic_arena *const *arenas, size_t count, elastic_usage *usage);

/* Begins an arena whose chunks have these sizes (up to eight, the last one repeats; ELASTIC_OPTIONS for more, or for null with a count);
 * with a count of 0, first chunks are as large as the space's arenas turn out to be. */
elastic_status elastic_arena_new(const elastic_space *space, const size_t *chunk_bytes, size_t count, elastic_arena **arena);
/* Ends an arena and all of its blocks, on any thread. Null does nothing. */
void elastic_arena_free(elastic_arena *arena);
/* Ends all blocks and keeps the memory for what is allocated next. */
void elastic_arena_reset(elastic_arena *arena);

/* What the arena has; takes time in proportion to its chunks and free blocks. */
void elastic_arena_statistics(const elastic_arena *arena, elastic_statistics *statistics);
/* With canaries or poison: 0 where nothing was written over; otherwise writes what was, cut and terminated, and returns its length. */
size_t elastic_arena_check(const elastic_arena *arena, char *text, size_t capacity);

/* A block, or null. `align` is a power of two; 0 means 16. Of no bytes: an aligned address that is no block; giving it back does nothing. */
void *elastic_allocate(elastic_arena *arena, size_t bytes, size_t align);
/* The same with the reason. `*block` is written only where it is ELASTIC_OK. */
elastic_status elastic_try_allocate(elastic_arena *arena, size_t bytes, size_t align, void **block);
/* The block with another size, where it was or elsewhere, with what both sizes have in common; or null, and it is as before. The last block
 * of an arena grows without leaving a hole, though its bytes move, because arenas fill downwards. `align` is what it was allocated with; of
 * null a new block. */
void *elastic_reallocate(elastic_arena *arena, void *block, size_t old_bytes, size_t new_bytes, size_t align);
/* Gives one block back early; `bytes` is what was asked for. Null does nothing. A block must not be given back twice: two later ones would
 * be the same (ELASTIC_DEBUG_POISON or any other aid finds it). */
void elastic_deallocate(elastic_arena *arena, void *block, size_t bytes);

/* What a status means and what to do; of a number that is none, that of ELASTIC_OPTIONS. */
const char *elastic_message(elastic_status status);

#ifdef __cplusplus
}
#endif
#endif
