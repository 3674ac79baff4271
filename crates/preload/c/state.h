/* State of the recorder inside the target, and the declarations that the files of the preload
 * object share.
 *
 * A forked child must not use some of this state: it would write into its parent's files. That
 * state lies on pages that the kernel wipes at fork (MADV_WIPEONFORK, which raw clone cannot
 * bypass) or does not copy (MADV_DONTFORK). A wiped thread looks like one with a full ring, so the
 * hot path notices a fork without a check of its own. */
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

/* 2^64 over the golden ratio: the high bits of a product depend on all bits of a number */
#define SPREAD 0x9e3779b97f4a7c15ull

/* A thread's place in its own code: the start and the steps of unwinding. */
struct registers {
    uintptr_t ip, sp, fp;
};

/* A node as the ring defines it now: its number, and its definition's number, counted over the
   ring's life. */
struct node {
    uint32_t number, definition;
};

/* One frame of the cache of the thread's last stack, outermost at index 0 (stacks.c). */
struct frame {
    struct registers at;
    struct node node;
    uint32_t path; /* hash of its return address and all frames outside */
    uint16_t checks; /* number of first checks that vouch for all frames outside of this one */
    bool fp_matters; /* whether unwinding from here depends on fp */
};

/* "This word of the stack still holds this value." */
struct check {
    const uintptr_t *slot;
    uintptr_t value;
};

/* One step of a walk; steps are innermost first. */
struct step {
    struct registers at;
    uintptr_t ip_slot; /* where at.ip was read; 0 for the innermost frame */
    uintptr_t fp_slot; /* where at.fp was read; 0: unchanged from the callee */
    uintptr_t cfa_slot; /* where at.sp was read; 0: computed */
    uint64_t rule;     /* rule of the next step outwards */
    uint32_t path;
};

/* The ring's node of this place's number: an address called from definition `parent`. */
struct known {
    uint64_t key; /* the address, and in the upper 16 bits the number of frames outside; 0: empty */
    uint32_t parent, definition;
};
#define KNOWN_WAYS 4 /* places of a node: a cache line */

struct range {
    uintptr_t start, end;
};
ALWAYS_INLINE bool in_range(struct range range, uintptr_t address) { return address >= range.start && address < range.end; }

/* A trace's name, and the place of its node among the known nodes (traces.c). */
struct follower {
    uint32_t first, node;
};

/* The last trace whose words all hold until the pass over the reporters ends, but for those here:
   what it takes to know its stack again. */
struct proved {
    struct registers at; /* ip 0: none */
    uint64_t fp_mask;    /* 0: fp does not matter */
    const uint64_t *values, *end;
    const uint16_t *offsets;
    uint32_t node;
};

/* A thread's traces. */
struct traces {
    uint32_t head, floor; /* the next trace's name, and the first valid one */
    uint32_t last;        /* the last stack's */
    bool are_tried;
    /* stacks until the next verdict on guessing, and wrong guesses among those tried so far */
    uint32_t left, wrong;
    /* stacks without guesses after the next verdict that guessing does not pay */
    uint32_t rest;
    uint32_t room, follower_bits, node_bits;
    uint64_t *words; /* `room` words, a power of two */
    struct follower *followers;
    uint32_t *of_nodes; /* the last trace of each node */
    struct proved proved;
};
/* The pass over the memory reporters that a thread is in. */
struct pass {
    uintptr_t sp;    /* of the function that asks them; 0: in none */
    uint32_t number; /* of the thread's last one */
};

/* A stack, or the mapping around it (bounds.c). */
struct stack {
    uintptr_t start, end;
    bool lasts; /* stays mapped while its thread runs */
};
#define STACKS_KNOWN 8
#define NESTED_STACKS_KNOWN 2 /* a handler's stack and the one that it interrupted */

#define HEADER_TRIALS 256
#define KEEP_MORE 48

/* A thread's half of its ring. Wiped at fork. */
struct thread {
    /* The hot path: words may be written while head + words <= limit. 0: busy, wiped, or nobody's;
       enter_slow() decides. */
    uint64_t limit;
    uint64_t head;
    uint64_t *data;
    uint64_t mask; /* words of data less one */
    struct hl_ring *ring;
    uintptr_t busy_frame; /* frame address of the hook that writes a record */

    uint64_t held_limit; /* value to restore to limit; equal to limit unless limit is 0 */
    bool plain, plain_free; /* plain.c may go its short way */
    bool wants_stacks, wants_python;
    /* blocks left to compare their header with malloc_usable_size (plain.c) */
    uint16_t header_trials;
    uint64_t *nested_data;
    uint64_t nested_head, nested_words;
    /* words of the ring's data that have memory behind them: the disk may be full later */
    uint64_t backed_words;
    bool nested_backed; /* the same for the nested ring's data, which get all memory at first use */
    /* begun: the ring names the thread of the events that follow */
    bool begun, nested_busy, nested_begun;
    bool late; /* taken after the thread's destructors had run: nobody will give it back */
    uint32_t tid;
    struct thread *next_free, *next;

    /* stacks.c */
    uint32_t generation;
    uint32_t frame_count, check_count, step_count;
    bool complete; /* frame 0 is the outermost there is */
    bool unsure; /* the code outside of frame 0 may have been generated just now */
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
    struct pass pass; /* reports.c */
    uint32_t definitions; /* definitions so far */
    uint64_t stamp; /* of the current event and of its nodes */
    bool overwritten; /* a node of the kept stack was defined anew */
    struct python_thread *python; /* python.c; NULL until a stack has Python frames */
#ifdef HEAPLAB_VERIFY
    uint32_t *verify_nodes;
#endif
};

/* The process's half. Wiped at fork; made anew by the child. */
struct process {
    uint32_t alive;
    uint32_t lock; /* guards the free list; taken with signals blocked */
    struct hl_process *file;
    uint32_t records_lock;
    uint64_t more_reserved; /* bytes of the second record area that have memory behind them */
    bool whole; /* the first ring's data have all their memory */
    /* files made; the shared count is for the drainer, and the program may overwrite it */
    uint32_t ring_count;
    struct thread *free_threads, *threads;
    uint64_t retry_counter; /* no ring is made before this time */
};

/* Survives fork; holds nothing that is the parent's alone. */
struct recorder {
    uint32_t ready;     /* 1: recording; 2: never will */
    uint32_t cut;       /* recording was cut short, in this process or (before the fork) its parent */
    uint32_t depth;     /* of stacks, 0: none */
    uint32_t plain;     /* the allocator allows plain.c's short way */
    uint32_t sandboxed; /* from here on the program may make few system calls or none (sandbox.c) */
    uint32_t timeless;  /* the counter may not be read either; recording was cut then */
    uint32_t page;
    uint32_t pid, seq;  /* the image that last made its files: in a forked child, the parent's */
    uint32_t generation; /* of all knowledge about modules */
    uint32_t modules_lock;
    struct hl_control *control;
    struct process *process;
    uintptr_t main_locals; /* address of `self` in the first process's main thread */
    /* memory of the first ring's thread; a forked child finds it wiped and takes it over */
    struct thread *first_thread;
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
    struct range hdr_segment;             /* readable memory around hdr, .eh_frame included */
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

/* python.c */
static void python_look_at(const struct module *module);
static void python_record_again(void);

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
