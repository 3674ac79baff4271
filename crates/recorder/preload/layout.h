/* What the recorded program and the drainer share: files in the spool folder, mapped by both, in the machine's own byte
 * order. `src/layout.rs` mirrors this file; a test compares the two. Where the files of one build could be read wrongly by another
 * it means a new HL_VERSION; a recorder and its control page are always of one build.
 *
 * Files (HEAPLAB_SPOOL names the folder, absolute):
 *   control          struct hl_control. Made by the drainer before the target starts. The drainer holds a write lock
 *                    (open file description lock, whole file) on it while it lives.
 *   PID-SEQ.process  struct hl_process, an area of struct hl_record, the data of the process's first ring (number 0), those of its nested
 *                    ring, then another area of struct hl_record. One a process image: SEQ counts the files of one PID
 *                    from 0 (exec, or a process number used again). All that a short process needs is in its first two pages: making
 *                    a file and giving it pages is most of what recording such a process costs.
 *   PID-SEQ-N.ring   struct hl_ring, then the ring's data, then the nested ring's data: the rings of further threads. N counts
 *                    from 1 to below hl_process.ring_count.
 * A file counts from the moment its magic is there (stored last, with release order). Whoever makes a file then adds one to
 * hl_control.announced, so that the drainer need not look for files at every turn; a process that may not write the control
 * page cannot announce, so they are to be looked for now and then all the same.
 *
 *   PID-SEQ.unread   empty. Made by the drainer where it cannot read PID-SEQ.process or one of its rings, which it therefore never empties: who
 *                    finds it while waiting for room stops recording.
 *
 *   execs            lines. Made, empty, by the drainer; every process appends to it what it is about to start (exec.c):
 *                      e COUNTER PID PATH   process PID becomes PATH, in an environment that asks for the recorder
 *                      n COUNTER PID PATH   the same in an environment that does not
 *                      c COUNTER PID PATH   as e, of a child of PID, whose own number only the C library knows
 *                      d COUNTER PID PATH   as n, of such a child
 *                      f COUNTER PID        the line of that counter and process did not come true
 *                    PATH is absolute as far as could be told; bytes below 0x21, above 0x7e and '%' are %XX. Counters are read before
 *                    the call, so that the image of PATH begins later; lines of several writers may stand in any order.
 *
 * Rings. One producer, one consumer; positions count 64-bit words and never wrap; word i lies at data[i mod words]. The
 * producer writes words, then stores `head` with release order; the consumer loads `head` with acquire order, reads, and
 * stores `tail` with release order. No record lies across the end of the data: where one does not fit before it, HL_PAD fills what is
 * left, and the record begins the next lap. A ring that a thread has left is taken up by
 * a later thread of the process, so each holds HL_THREAD_BEGIN ... HL_THREAD_END once a thread. The nested ring takes what
 * happens while the thread is in the middle of writing a record (a signal handler that allocates), behind an HL_THREAD_BEGIN of its own before
 * the first such event of a thread: each of its allocations and reallocations has all nodes of its stack defined right before it, at most as many as fit on
 * a page (some 160); where that is not possible (a small alternate stack, a ring that is nearly full) it carries no stack and is
 * counted in `lost`; and when the ring is full, events are counted there instead of waited for.
 *
 * Time stamps are the machine's counter (x86-64: rdtsc; aarch64: cntvct_el0); two pairs (counter, CLOCK_MONOTONIC) in the
 * control page give its rate. A free is stamped before the call, an allocation after it, a reallocation at both.
 *
 * Stacks. A ring defines nodes for its own use: HL_NODE says that from here on, in this ring, node n is frame `ip` (a return
 * address) called from the frames of node `parent` as that was defined at this moment; 0 is "no stack". Numbers are used again: a
 * later HL_NODE of the same number takes its place, for what follows it. So whoever reads a ring from its beginning needs one
 * entry a number, and the recorder remembers no more than that either: how many different stacks a program has costs the
 * program nothing. The same frame may be defined any number of times; who reads puts equal ones together. A stack has at least
 * min(stack_depth, its real depth) frames and may have more: frames that were known anyway are kept because the tree then
 * shares them. Who wants exactly stack_depth frames cuts the outer ones.
 *
 * Modules. HL_MODULE says which file lay at [start, end) from its counter on, until HL_MODULE_UNLOADED of the same index. The
 * module of a node is therefore the one loaded last before the node's stamp among those whose range holds its ip.
 */
#ifndef HEAPLAB_LAYOUT_H
#define HEAPLAB_LAYOUT_H

#include <stdint.h>

#define HL_VERSION 3u
#define HL_CONTROL_MAGIC 0x31304c5254434c48ull /* "HLCTRL01" */
#define HL_PROCESS_MAGIC 0x3130434f52504c48ull /* "HLPROC01" */
#define HL_RING_MAGIC 0x3130474e49524c48ull    /* "HLRING01" */

/* hl_control.state */
#define HL_CONTROL_RECORDING 1u
#define HL_CONTROL_STOPPED 2u /* the drainer wants no more: processes cut their recording at their next wait */

/* hl_control.flags */
#define HL_CONTROL_MEMORY 1u /* processes note their memory at exit() */

#define HL_STACK_DEPTH_MAX 1024u

struct hl_control {
    uint64_t magic;
    uint32_t version;
    uint32_t state;       /* atomic; HL_CONTROL_... */
    uint32_t stack_depth; /* innermost frames wanted, 0: none, at most HL_STACK_DEPTH_MAX */
    uint32_t ring_bytes;  /* of a ring's data: a power of two, at least 64 KiB */
    uint32_t nested_bytes; /* of a nested ring's data: a power of two, at least the page size */
    uint32_t mark_signal; /* a signal that sets a mark, 0: none */
    uint32_t drainer_pid; /* asked with kill(pid, 0) where the lock cannot be asked */
    uint32_t flags;       /* HL_CONTROL_MEMORY */
    uint64_t origin_counter; /* time stamp counter ... */
    uint64_t origin_ns;      /* ... and CLOCK_MONOTONIC at the same moment, when the recording began */
    uint64_t end_counter;    /* the same pair later (the drainer renews it); 0: not yet */
    uint64_t end_ns;
    uint32_t first_ring_bytes; /* ring_bytes of each process's first ring, which is as a rule its main thread's */
    uint8_t unused0[52];
    uint64_t announced;    /* atomic; files made so far, written by targets */
    uint32_t refused;      /* atomic; processes that could not record */
    uint32_t refused_pid;  /* the last of them */
    uint32_t refused_errno; /* and its errno */
    uint32_t refused_step; /* and HL_STEP_...: what failed */
    uint8_t unused1[40];
};

/* hl_control.refused_step */
#define HL_STEP_PROCESS_FILE 1u
#define HL_STEP_RING_FILE 3u
#define HL_STEP_MAP 4u
#define HL_STEP_SANDBOX 5u /* of a child; refused_pid is its parent, which is in a sandbox (sandbox.c) */

/* hl_process.began */
#define HL_BEGAN_STARTED 1u /* the first image of its process (also after vfork or posix_spawn: see ppid) */
#define HL_BEGAN_FORK 2u    /* a copy of image parent_pid-parent_seq */
#define HL_BEGAN_EXEC 3u    /* follows image pid-(seq - 1) in the same process */

/* hl_process.state */
#define HL_PROCESS_RECORDING 1u
#define HL_PROCESS_CUT 2u /* recording stopped early: cut_reason, cut_counter */

/* hl_process.cut_reason */
#define HL_CUT_DRAINER_DEAD 1u
#define HL_CUT_STOPPED 2u /* hl_control.state asked for it */
#define HL_CUT_NO_SPACE 3u /* a ring's file, of which the beginning only has memory, could not have more: the disk is full */
#define HL_CUT_UNREAD 4u /* PID-SEQ.unread is there */
#define HL_CUT_LEFT 6u /* hl_process.left */
#define HL_CUT_TIMELESS 5u /* the program has forbidden itself to read the counter (sandbox.c) */

/* hl_process.architecture */
#define HL_X86_64 1u
#define HL_AARCH64 2u

/* hl_process.lost: what is missing, counted by reason */
#define HL_LOST_NESTED_FULL 0u    /* events: the nested ring was full */
#define HL_LOST_NESTED_DEEPER 1u  /* events: inside an event inside an event */
#define HL_LOST_NO_RING 2u        /* events: no ring could be made for the thread */
#define HL_LOST_RECORDS_FULL 4u   /* module records: the record area is full */
#define HL_LOST_STACK_BOUNDS 5u   /* stacks cut short: the memory the stack lies in could not be told */
#define HL_LOST_MARK_LONG 6u      /* marks whose name was cut at HL_MARK_BYTES_MAX */
#define HL_LOST_NESTED_STACK 7u   /* stacks of events in the nested ring: the events are there without */
#define HL_LOST_IN_SANDBOX 8u     /* events: of threads that began in a sandbox (sandbox.c), where no ring can be made */
#define HL_LOST_REASONS 16u

/* hl_ring.state */
#define HL_RING_FREE 0u
#define HL_RING_IN_USE 1u

struct hl_ring {
    uint64_t magic;
    uint32_t version;
    uint32_t number;
    uint32_t pid;
    uint32_t seq;
    uint64_t data_offset;   /* in the file, as the nested ring's */
    uint64_t data_bytes;
    uint64_t nested_offset;
    uint64_t nested_bytes;
    uint8_t unused0[8];
    /* the next four groups lie on cache lines of their own */
    uint32_t state; /* atomic; HL_RING_... */
    uint32_t tid;   /* of the thread that has it, or had it last */
    uint8_t unused1[56];
    uint64_t head; /* atomic, words written; the producer's */
    uint8_t unused2[56];
    uint64_t tail; /* atomic, words read; the consumer's */
    uint8_t unused3[56];
    uint64_t nested_head;
    uint8_t unused4[56];
    uint64_t nested_tail;
    uint8_t unused5[56];
};

struct hl_process {
    uint64_t magic;
    uint32_t version;
    uint32_t pid;
    uint32_t seq;
    uint32_t ppid;
    uint32_t began;      /* HL_BEGAN_... */
    uint32_t parent_pid; /* fork: the image that was copied; else 0 */
    uint32_t parent_seq;
    uint32_t architecture;
    uint64_t start_ticks; /* field 22 of /proc/PID/stat: tells an exec from a process number used again; 0: not known */
    uint64_t begin_counter; /* a fork: right before it, in the parent */
    uint32_t state;      /* atomic; HL_PROCESS_... */
    uint32_t cut_reason; /* HL_CUT_..., stored before state */
    uint64_t cut_counter;
    uint32_t exited;     /* atomic; 1 once exit() or _exit() was called: exit_status, exit_counter. Events may still follow. */
    int32_t exit_status;
    uint64_t exit_counter;
    uint32_t ring_count;    /* atomic; the first one is always there */
    uint32_t page_bytes;
    uint64_t records_offset; /* in this file; records that do not fit there go on in the second area */
    uint64_t records_capacity;
    uint64_t records_used; /* atomic, published with release order */
    uint64_t lost[HL_LOST_REASONS]; /* atomic */
    /* At exit(), as /proc/self/status has them, stored before `exited`; 0: not known (and in files of before there were these). */
    uint64_t exit_resident_bytes;
    uint64_t exit_anonymous_bytes;
    uint64_t exit_resident_peak_bytes;
    /* The second area. From the first record on that lies there all do. */
    uint64_t more_offset;
    uint64_t more_capacity;
    uint64_t more_used; /* atomic, published with release order */
    uint32_t left;      /* atomic; 1: the drainer reads it no more, because it takes the image for ended */
    uint8_t unused0[20];
    struct hl_ring first_ring; /* its offsets are those in this file */
};

/* One record of the process file: `bytes` in all, a multiple of 8. */
struct hl_record {
    uint32_t kind; /* HL_RECORD_... */
    uint32_t bytes;
    uint64_t counter; /* when */
};
#define HL_RECORD_EXECUTABLE 1u   /* struct hl_text: path */
#define HL_RECORD_COMMAND_LINE 2u /* struct hl_text: arguments, each ended by a zero byte */
#define HL_RECORD_MODULE 3u       /* struct hl_module */
#define HL_RECORD_MODULE_UNLOADED 4u /* struct hl_unloaded */

struct hl_text {
    struct hl_record head;
    uint32_t text_bytes; /* follow */
    uint32_t unused;
};

struct hl_module {
    struct hl_record head;
    uint64_t bias;  /* address in memory less virtual address in the file */
    uint64_t start; /* of the first segment in memory */
    uint64_t end;   /* of the last one */
    uint32_t index; /* from 0 in each process */
    uint32_t build_id_bytes; /* follow, then the path, each without padding between */
    uint32_t path_bytes;
    uint32_t unused;
};

struct hl_unloaded {
    struct hl_record head;
    uint32_t index;
    uint32_t unused;
};

/* Ring records. Word 0: kind in the low 4 bits, the counter's low 60 bits above. Every kind has its own length. */
#define HL_ALLOC 1u           /* 4 words: 0, block, size, node|slack */
#define HL_ALLOC_FAILED 2u    /* 4 words: the same with address 0 */
#define HL_FREE 3u            /* 2 words: 0, block */
#define HL_REALLOC 4u         /* 6 words: 0 (before), new block, size, node|slack, old block, counter after */
#define HL_REALLOC_FAILED 5u  /* 6 words: the same with a new address of 0; the old block lives on */
#define HL_USABLE_SIZE 6u     /* 2 words: 0, block: the program asked for its usable size */
#define HL_THREAD_BEGIN 7u    /* 4 words: 0, tid, 16 bytes of name ended by zero */
#define HL_THREAD_END 8u      /* 4 words: the same, with the name it has now */
#define HL_MARK 9u            /* 2 + n words: 0, bytes of name, name padded with zeros to whole words */
#define HL_MARK_BYTES_MAX 256u
#define HL_NODE 10u          /* 3 words: 0, ip, node|parent (node in the low 32 bits) */
#define HL_NODES_MAX (1u << 20) /* node numbers are below */
#define HL_PAD 11u           /* 1 word: 0, and nothing else */
#define HL_COUNTER_BITS 60u

/* A block word: address in the low 52 bits, then log2 of the alignment asked for (0: none), zeroed, family (as in heaplab's
 * trace: 0 malloc, 1 aligned, 2 operator new). Tag bits of an aarch64 pointer are cut off. */
#define HL_ADDRESS_BITS 52u
#define HL_ALIGN_SHIFT 52u /* 6 bits */
#define HL_ZEROED_SHIFT 58u
#define HL_FAMILY_SHIFT 59u /* 2 bits */
#define HL_FAMILY_MALLOC 0u
#define HL_FAMILY_ALIGNED 1u
#define HL_FAMILY_NEW 2u

/* node|slack: node in the low 32 bits, usable size less size above; HL_SLACK_UNKNOWN where it does not fit or is not known. */
#define HL_SLACK_UNKNOWN 0xffffffffu

#endif
