/* State of the recorder inside the target, and what the files of the preload object use of one another.
 *
 * Everything that a forked child must not use (it would write into its parent's files) lies on pages that the kernel wipes at
 * fork (MADV_WIPEONFORK, which raw clone cannot bypass) or does not copy (MADV_DONTFORK). A wiped thread looks like one whose
 * ring is full, so that the hot path notices a fork without looking for it. */
#ifndef HEAPLAB_STATE_H
#define HEAPLAB_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "layout.h"

#define EXPORT __attribute__((visibility("default")))
#define COLD __attribute__((noinline, cold))
#define ALWAYS_INLINE static inline __attribute__((always_inline))
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
/* Orders this thread against its own signal handlers. */
#define signal_fence() __atomic_signal_fence(__ATOMIC_SEQ_CST)

#define load_relaxed(p) __atomic_load_n(p, __ATOMIC_RELAXED)
#define load_acquire(p) __atomic_load_n(p, __ATOMIC_ACQUIRE)
#define store_relaxed(p, v) __atomic_store_n(p, v, __ATOMIC_RELAXED)
#define store_release(p, v) __atomic_store_n(p, v, __ATOMIC_RELEASE)
#define add_relaxed(p, v) __atomic_fetch_add(p, v, __ATOMIC_RELAXED)

#define SPREAD 0x9e3779b97f4a7c15ull /* 2^64 over the golden ratio: the high bits of a product with it depend on all of a number */

/* Where a thread stands in its own code: what unwinding starts from and steps through. */
struct registers {
    uintptr_t ip, sp, fp;
};

/* A node as the ring defines it now: its number there, and which definition it is, counted over the ring's life. */
struct node {
    uint32_t number, definition;
};

/* One frame of the cache of the thread's last stack, outermost at index 0 (stacks.c). */
struct frame {
    struct registers at;
    struct node node;
    uint32_t path; /* hash of its return address and all outside of it */
    uint16_t checks; /* the first so many checks vouch for all frames outside of this one */
    bool fp_matters; /* whether unwinding from here depends on fp */
};

/* "This word of the stack still holds this value." */
struct check {
    const uintptr_t *slot;
    uintptr_t value;
};

/* One step of a walk in progress, innermost first. */
struct step {
    struct registers at;
    uintptr_t ip_slot; /* where at.ip was read; 0 for the innermost */
    uintptr_t fp_slot; /* where at.fp was read; 0 where it is the callee's */
    uintptr_t cfa_slot; /* where at.sp was read; 0 where it is computed */
    uint64_t rule;     /* how to go on from here */
    uint32_t path;
};

/* What the ring's node of this place's number is: an address called from definition `parent`. */
struct known {
    uint64_t key; /* the address, and above it, in 16 bits, how many frames lie outside; 0: nothing yet */
    uint32_t parent, definition;
};
#define KNOWN_WAYS 4 /* places a node may have: a cache line */

struct range {
    uintptr_t start, end;
};

/* A trace by its name, and the place of its node among those known (traces.c). */
struct follower {
    uint32_t first, node;
};

/* A thread's traces. */
struct traces {
    uint32_t head, floor; /* the next one's name, and the first that counts */
    uint32_t last;        /* the last stack's */
    bool are_tried;
    uint32_t left, wrong; /* stacks until that is judged again, and of those tried so far the wrong guesses */
    uint32_t rest;        /* stacks that none is tried of when they are next found not to pay */
    uint32_t room, follower_bits, node_bits;
    uint64_t *words; /* `room` of them, a power of two */
    struct follower *followers;
    uint32_t *of_nodes; /* the last trace made of a node */
};
/* A stack, or the mapping that it lies in (bounds.c). */
struct stack {
    uintptr_t start, end;
    bool lasts; /* it stays mapped while its thread runs */
};
#define STACKS_KNOWN 8
#define NESTED_STACKS_KNOWN 2 /* a handler's and the one that it interrupted */

#define HEADER_TRIALS 256
#define KEEP_MORE 48

/* A thread's half of its ring. Wiped at fork. */
struct thread {
    /* The hot path: words may be written while head + words <= limit. 0: busy, wiped, or nobody's: look closer. */
    uint64_t limit;
    uint64_t head;
    uint64_t *data;
    uint64_t mask; /* words of data less one */
    struct hl_ring *ring;
    uintptr_t busy_frame; /* frame address of the hook that is writing a record */

    uint64_t held_limit; /* the limit to return to; the same as limit, unless that is 0 */
    bool plain, plain_free; /* plain.c may go its short way */
    bool wants_stacks;
    uint16_t header_trials; /* blocks whose header is still to be held against malloc_usable_size (plain.c) */
    uint64_t *nested_data;
    uint64_t nested_head, nested_words;
    uint64_t backed_words; /* of the ring's data, what has memory behind it: the disk may be full later */
    bool nested_backed; /* the same of the nested ring's, which get it at once, when they are first needed */
    bool begun, nested_busy, nested_begun; /* begun: the ring says whose events follow */
    bool late; /* taken after the thread's destructors had run: nobody will give it back */
    uint32_t tid;
    struct thread *next_free, *next;

    /* stacks.c */
    uint32_t generation;
    uint32_t frame_count, check_count, step_count;
    bool complete; /* frame 0 is the outermost there is */
    bool unsure; /* what lies outside of frame 0 may be code that was made just now */
    struct stack stack, own_stack;
    struct stack stacks[STACKS_KNOWN];
    struct stack nested_own_stack, nested_stacks[NESTED_STACKS_KNOWN]; /* nested.c's */
    uint32_t nested_stacks_next;
    uint32_t stacks_next;
    struct frame *frames;
    struct check *checks;
    struct step *steps;
    struct known *known; /* 1 << known_bits places */
    uint32_t known_bits;
    struct traces traces;
    uint32_t definitions; /* so far */
    uint64_t stamp; /* of the event being written and of the nodes that it needs */
    bool overwritten; /* a node of the kept stack was defined anew */
#ifdef HEAPLAB_VERIFY
    uint32_t *verify_nodes;
#endif
};

/* The process's half. Wiped at fork; made anew by the child. */
struct process {
    uint32_t alive;
    uint32_t lock; /* of the free list; taken with signals blocked */
    struct hl_process *file;
    uint32_t records_lock;
    uint64_t more_reserved; /* of the second area for records, what has memory behind it */
    bool whole; /* the first ring's data have all of their memory */
    uint32_t ring_count; /* of files made; the shared one is for the drainer, and the program may overwrite it */
    struct thread *free_threads, *threads;
    uint64_t retry_counter; /* no ring is to be made before */
};

/* Survives fork; nothing in it is the parent's alone. */
struct recorder {
    uint32_t ready;     /* 1: recording; 2: never will */
    uint32_t cut;       /* recording was cut short, in this process or (before the fork) its parent */
    uint32_t depth;     /* of stacks, 0: none */
    uint32_t plain;     /* the allocator is one for plain.c's short way */
    uint32_t sandboxed; /* the program lets the kernel be asked for few things or none from here on (sandbox.c) */
    uint32_t timeless;  /* and the counter may not be read; recording was cut then */
    uint32_t page;
    uint32_t pid, seq;  /* of the image that last made its files: in a forked child, the parent */
    uint32_t generation; /* of everything that is known about modules */
    uint32_t modules_lock;
    struct hl_control *control;
    struct process *process;
    uintptr_t main_locals; /* where `self` of the first process's main thread lies */
    struct thread *first_thread; /* memory of the first ring's thread, which a forked child finds wiped and takes for its own */
    char spool[3072];
};
extern struct recorder recorder;

extern __thread struct thread *self;
extern __thread uintptr_t inside; /* frame address of the hook that is inside the allocator, 0: none */

/* system.c */
struct mapping {
    uintptr_t start, end;
    uint64_t offset, inode;
    bool readable, executable, stack;
    char name[512];
};
typedef bool (*mapping_visitor)(const struct mapping *mapping, void *context); /* false ends the visit */
static long sys(long number, long a, long b, long c, long d, long e, long f);
static long sys_always(long number, long a, long b, long c, long d, long e, long f);
static bool try_lock(uint32_t *word);
static bool failed(long result);
static void *map_private(size_t bytes, int advice);
static bool visit_mappings(mapping_visitor visitor, void *context);
static size_t append_text(char *to, size_t at, size_t capacity, const char *text);
static size_t append_number(char *to, size_t at, size_t capacity, uint64_t number);
static void lock(uint32_t *word);
static void unlock(uint32_t *word);
static void block_signals(uint64_t *old);
static void restore_signals(const uint64_t *old);

/* process.c */
static bool process_begin(uint32_t began);
static void process_cut(uint32_t reason, uint64_t when);
static void refuse(uint32_t step, long error);
static void lose(uint32_t reason);
static void record_append(struct hl_record *head, const void *payload, uint32_t payload_bytes, const void *text1, uint32_t bytes1,
                          const void *text2, uint32_t bytes2);
static int spool_open(uint32_t pid, uint32_t seq, const char *suffix, int64_t number, int flags);
static uint8_t *map_file(int fd, uint64_t bytes, uint64_t first_bytes, uint64_t whole_bytes, bool *whole, long *error);
static void announce(void);
static bool populate(void *start, size_t bytes);

/* sandbox.c */
static bool drainer_ticks(void);
static uint64_t counter_or_0(void);

/* ring.c */
static bool drainer_lives(void);
static size_t round_to_page(size_t bytes);
static uint64_t ring_first_bytes(void);
static void ring_describe(struct hl_ring *ring, uint32_t number, uint64_t data_at, uint64_t data_bytes);

/* start.c */
static bool recorder_ready(void);

/* threads.c */
static void thread_destructor(void *thread);

/* modules.c */
struct module {
    uintptr_t start, end, bias;
    uintptr_t code_start, code_end;       /* from the first to the last executable segment */
    const uint8_t *hdr;                   /* .eh_frame_hdr, NULL: none */
    struct range hdr_segment;             /* what may be read around it, .eh_frame included */
    const void *link_map;
    char path[1024];
    uint8_t build_id[64];
    uint32_t build_id_bytes;
    bool live;
};
static struct module *module_of(uintptr_t ip);
static void modules_record_again(void);
static void modules_after_unload(void);
static bool in_generated_code(uintptr_t ip, bool *sure);

/* dwarf.c */
struct rule;
static bool dwarf_rule(const struct module *module, uintptr_t pc, struct rule *rule);

/* unwind.c */
static void rules_forget(void);

/* ring.c */
static bool wait_for_room(struct thread *t, uint64_t words);

/* stacks.c */
static uint32_t stack_node(struct thread *t, struct registers at, uint64_t words);

#endif
