/* What the recorded program and the drainer share: files in the spool folder, mapped by both, in
 * the machine's own byte order. `src/layout.rs` mirrors this file; a test compares the two. A
 * change after which one build could misread another's files takes a new HL_VERSION. A recorder and
 * its control page always come from one build.
 *
 * Files (HEAPLAB_SPOOL names the folder, absolute):
 *   control          struct hl_control. The drainer makes it before the target starts, and holds a
 *                    write lock (open file description lock, whole file) on it while it lives.
 *   PID-SEQ.process  One a process image; SEQ counts the files of one PID from 0 (an exec, or a
 *                    reused process number). Holds struct hl_process, an area of struct hl_record,
 *                    the data of the process's first ring (number 0), the data of that ring's
 *                    nested ring, then another area of struct hl_record. A short process needs only
 *                    the first two pages: making a file and giving it pages is most of the cost of
 *                    recording such a process.
 *   PID-SEQ-N.ring   The rings of further threads: struct hl_ring, the ring's data, then the nested
 *                    ring's data. N counts from 1 to below hl_process.ring_count.
 * A file is valid once its magic is there (stored last, with release order). The maker of a file
 * then adds one to hl_control.announced: the drainer need not look for files at every turn. A
 * process that may not write the control page cannot announce, so the drainer also looks now and
 * then.
 *
 *   PID-SEQ.unread   Empty. The drainer makes it if it cannot read PID-SEQ.process or one of its
 *                    rings, and never empties that ring. A thread that waits for room finds this
 *                    file and stops recording.
 *
 *   execs            Lines. The drainer makes it, empty. Every process appends a line before it
 *                    starts a program (exec.c):
 *                      e COUNTER PID PATH   process PID becomes PATH; its environment loads the
 *                                           recorder
 *                      n COUNTER PID PATH   as e; its environment does not load the recorder
 *                      c COUNTER PID PATH   as e, for a child of PID; only the C library knows the
 *                                           child's number
 *                      d COUNTER PID PATH   as n, for such a child
 *                      f COUNTER PID        retracts the earlier line of that counter and process:
 *                                           the exec failed
 *                    PATH is absolute if the writer could tell; bytes below 0x21, above 0x7e and
 *                    '%' are %XX. COUNTER is read before the call: the image of PATH begins later.
 *                    Lines of several writers may stand in any order.
 *
 * Rings. One producer, one consumer. Positions count 64-bit words and never wrap; word i lies at
 * data[i mod words]. The producer writes words, then stores `head` with release order. The consumer
 * loads `head` with acquire order, reads, and stores `tail` with release order. No record crosses
 * the end of the data: if a record does not fit before the end, HL_PAD fills the rest, and the
 * record begins the next lap. A later thread of the process reuses the ring of an ended thread, so
 * a ring holds HL_THREAD_BEGIN ... HL_THREAD_END once a thread. The nested ring takes events that
 * happen while the thread writes a record (a signal handler that allocates). An HL_THREAD_BEGIN of
 * its own precedes a thread's first event there. In the nested ring all nodes of an allocation's or
 * reallocation's stack are defined right before the event, at most as many as fit on a page (some
 * 160). Where they cannot be (a small alternate stack, a ring that is nearly full) the event has no
 * stack and is counted in `lost`. A full nested ring counts events in `lost` instead of waiting.
 *
 * Time stamps are the machine's counter (x86-64: rdtsc; aarch64: cntvct_el0); two pairs (counter,
 * CLOCK_MONOTONIC) in the control page give its rate. A free is stamped before the call, an
 * allocation after the call, a reallocation at both.
 *
 * Stacks. A ring defines nodes for its own use. From an HL_NODE on, in its ring, node n is frame
 * `ip` (a return address) called from the frames of node `parent` as defined at this moment; 0 is
 * "no stack". Numbers are reused: a later HL_NODE of the same number replaces the node for the
 * records after it. So a reader from a ring's beginning needs one entry a number, and the recorder
 * keeps no more than one either: the number of different stacks costs the program nothing. The same
 * frame may be defined any number of times; readers merge equal frames. A stack has at least
 * min(stack_depth, its real depth) frames and may have more: the recorder keeps frames that it
 * knows anyway, because the tree then shares them. Readers that want exactly stack_depth frames cut
 * the outer ones.
 *
 * Modules. HL_MODULE names the file at [start, end) from its counter on, until HL_MODULE_UNLOADED
 * of the same index. A node's module is therefore the last one loaded before the node's stamp among
 * those with its ip in range.
 */
#ifndef HEAPLAB_LAYOUT_H
#define HEAPLAB_LAYOUT_H

#include <stdint.h>

#define HL_VERSION 5u
#define HL_CONTROL_MAGIC 0x31304c5254434c48ull /* "HLCTRL01" */
#define HL_PROCESS_MAGIC 0x3130434f52504c48ull /* "HLPROC01" */
#define HL_RING_MAGIC 0x3130474e49524c48ull    /* "HLRING01" */

/* hl_control.state */
#define HL_CONTROL_RECORDING 1u
/* the drainer has stopped: processes cut their recording at their next wait */
#define HL_CONTROL_STOPPED 2u

/* hl_control.flags */
#define HL_CONTROL_MEMORY 1u /* processes note their memory at exit() */
#define HL_CONTROL_PYTHON 2u /* stacks have Python's frames (python.c) */
#define HL_CONTROL_INTERPRETER 4u /* and all native frames of the interpreter between them */
#define HL_CONTROL_REPORTS 8u /* processes write HL_REPORT */

#define HL_STACK_DEPTH_MAX 1024u

struct hl_control {
    uint64_t magic;
    uint32_t version;
    uint32_t state;       /* atomic; HL_CONTROL_... */
    /* innermost frames wanted of a stack; 0: none; at most HL_STACK_DEPTH_MAX */
    uint32_t stack_depth;
    uint32_t ring_bytes;  /* bytes of a ring's data: a power of two, at least 64 KiB */
    /* bytes of a nested ring's data: a power of two, at least the page size */
    uint32_t nested_bytes;
    uint32_t mark_signal; /* a signal that sets a mark, 0: none */
    uint32_t drainer_pid; /* asked by kill(pid, 0) if the lock cannot be asked */
    uint32_t flags;       /* HL_CONTROL_MEMORY, HL_CONTROL_REPORTS */
    uint64_t origin_counter; /* time stamp counter ... */
    uint64_t origin_ns;      /* ... and CLOCK_MONOTONIC at the same moment, when the recording began */
    uint64_t end_counter;    /* the same pair later (the drainer renews it); 0: not yet */
    uint64_t end_ns;
    /* ring_bytes of each process's first ring, as a rule its main thread's */
    uint32_t first_ring_bytes;
    uint8_t unused0[52];
    uint64_t announced;    /* atomic; files made so far, written by targets */
    uint32_t refused;      /* atomic; processes that could not record */
    uint32_t refused_pid;  /* the last of them */
    uint32_t refused_errno; /* and its errno */
    uint32_t refused_step; /* HL_STEP_...: the step that failed */
    uint8_t unused1[40];
};

/* hl_control.refused_step */
#define HL_STEP_PROCESS_FILE 1u
#define HL_STEP_RING_FILE 3u
#define HL_STEP_MAP 4u
#define HL_STEP_SANDBOX 5u /* of a child; refused_pid is its parent, in a sandbox (sandbox.c) */

/* hl_process.began */
#define HL_BEGAN_STARTED 1u /* the first image of its process (also after vfork or posix_spawn: see ppid) */
#define HL_BEGAN_FORK 2u    /* a copy of image parent_pid-parent_seq */
#define HL_BEGAN_EXEC 3u    /* follows image pid-(seq - 1) in the same process */

/* hl_process.state */
#define HL_PROCESS_RECORDING 1u
#define HL_PROCESS_CUT 2u /* recording stopped early: cut_reason, cut_counter */

/* hl_process.cut_reason */
#define HL_CUT_DRAINER_DEAD 1u
#define HL_CUT_STOPPED 2u /* hl_control.state requested it */
#define HL_CUT_NO_SPACE 3u /* the disk is full: a ring's partly backed file got no more memory */
#define HL_CUT_UNREAD 4u /* PID-SEQ.unread is there */
#define HL_CUT_LEFT 6u /* hl_process.left */
#define HL_CUT_TIMELESS 5u /* the program has forbidden itself to read the counter (sandbox.c) */

/* hl_process.architecture */
#define HL_X86_64 1u
#define HL_AARCH64 2u

/* hl_process.lost: counts of missing things, by reason */
#define HL_LOST_NESTED_FULL 0u    /* events: the nested ring was full */
#define HL_LOST_NESTED_DEEPER 1u  /* events: inside an event inside an event */
#define HL_LOST_NO_RING 2u        /* events: no ring could be made for the thread */
#define HL_LOST_RECORDS_FULL 4u   /* module records: the record area is full */
/* stacks cut short: the bounds of the stack's memory are unknown */
#define HL_LOST_STACK_BOUNDS 5u
#define HL_LOST_MARK_LONG 6u      /* marks whose name was cut at HL_MARK_BYTES_MAX */
#define HL_LOST_NESTED_STACK 7u   /* stacks of events in the nested ring; the events are there */
/* events of threads that began in a sandbox (sandbox.c), where no ring can be made */
#define HL_LOST_IN_SANDBOX 8u
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
    uint64_t data_offset;   /* in the file; the same for nested_offset */
    uint64_t data_bytes;
    uint64_t nested_offset;
    uint64_t nested_bytes;
    uint8_t unused0[8];
    /* each of the next four groups lies on its own cache lines */
    uint32_t state; /* atomic; HL_RING_... */
    uint32_t tid;   /* of the thread that has the ring, or had it last */
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
    /* field 22 of /proc/PID/stat: distinguishes an exec from a reused process number; 0: unknown */
    uint64_t start_ticks;
    uint64_t begin_counter; /* after a fork: just before the fork, in the parent */
    uint32_t state;      /* atomic; HL_PROCESS_... */
    uint32_t cut_reason; /* HL_CUT_..., stored before state */
    uint64_t cut_counter;
    uint32_t exited;     /* atomic; 1 once exit() or _exit() was called: exit_status, exit_counter. Events may still follow. */
    int32_t exit_status;
    uint64_t exit_counter;
    uint32_t ring_count;    /* atomic; the first one is always there */
    uint32_t page_bytes;
    uint64_t records_offset; /* in this file; the second area takes the records that do not fit */
    uint64_t records_capacity;
    uint64_t records_used; /* atomic, published with release order */
    uint64_t lost[HL_LOST_REASONS]; /* atomic */
    /* At exit(), from /proc/self/status, stored before `exited`; 0: unknown (also in older files,
       which lack these fields). */
    uint64_t exit_resident_bytes;
    uint64_t exit_anonymous_bytes;
    uint64_t exit_resident_peak_bytes;
    /* The second area. Once one record lies there, all later ones do. */
    uint64_t more_offset;
    uint64_t more_capacity;
    uint64_t more_used; /* atomic, published with release order */
    /* atomic; 1: the drainer has stopped reading, because it takes the image for ended */
    uint32_t left;
    uint8_t unused0[20];
    struct hl_ring first_ring; /* its offsets count from the start of this file */
};

/* One record of the process file: `bytes` is its whole size, a multiple of 8. */
struct hl_record {
    uint32_t kind; /* HL_RECORD_... */
    uint32_t bytes;
    uint64_t counter; /* time of the record */
};
#define HL_RECORD_EXECUTABLE 1u   /* struct hl_text: path */
#define HL_RECORD_COMMAND_LINE 2u /* struct hl_text: arguments, each ended by a zero byte */
#define HL_RECORD_MODULE 3u       /* struct hl_module */
#define HL_RECORD_MODULE_UNLOADED 4u /* struct hl_unloaded */
#define HL_RECORD_CODE 5u   /* struct hl_code */
#define HL_RECORD_PYTHON 6u /* struct hl_python */

struct hl_text {
    struct hl_record head;
    uint32_t text_bytes; /* bytes that follow */
    uint32_t unused;
};

struct hl_module {
    struct hl_record head;
    uint64_t bias;  /* address in memory less virtual address in the file */
    uint64_t start; /* start of the first segment in memory */
    uint64_t end;   /* end of the last segment */
    uint32_t index; /* counts from 0 in each process */
    uint32_t build_id_bytes; /* bytes that follow; then the path; no padding between */
    uint32_t path_bytes;
    uint32_t unused;
};

struct hl_unloaded {
    struct hl_record head;
    uint32_t index;
    uint32_t unused;
};

/* A code object of Python. Numbers count from 1 in each process image; a forked child begins
   anew. */
struct hl_code {
    struct hl_record head;
    uint32_t number;
    uint32_t line;       /* the first one */
    uint32_t name_bytes; /* bytes of UTF-8 that follow: the qualified name, then the file */
    uint32_t file_bytes;
};

/* The fate of Python's frames in this image. */
struct hl_python {
    struct hl_record head;
    uint32_t verdict; /* HL_PYTHON_... */
    uint32_t version; /* 0x030b0200: 3.11.2 */
};
#define HL_PYTHON_READ 1u
/* The frames are not read: */
#define HL_PYTHON_VERSION 2u     /* a version that the recorder does not know */
#define HL_PYTHON_SYMBOLS 3u     /* the interpreter exports too few symbols */
#define HL_PYTHON_LAYOUT 4u      /* frames do not look as those of this version do */
#define HL_PYTHON_NOT_CPYTHON 5u /* another implementation */

/* In place of a node's return address: a Python frame. Bits 0 to 23 hold the line in the code's
   file, the next 24 bits the code's number (struct hl_code; 0: unknown). */
#define HL_PYTHON_FRAME 0x8000000000000000ull
#define HL_PYTHON_LINE_BITS 24u

/* Ring records. Word 0: kind in the low 4 bits, the counter's low 60 bits above. Every kind has a
   fixed length; HL_MARK's depends on its second word. */
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
#define HL_NODES_MAX (1u << 20) /* node numbers are below this */
#define HL_PAD 11u           /* 1 word: only the stamp */
#define HL_MAP 12u           /* 4 words: 0, address and owner, bytes, node: the range is mapped */
#define HL_UNMAP 13u         /* 3 words: 0 (before), address, bytes: the range is unmapped */
#define HL_REPORT 14u         /* 3 words: 0, address, node|inside: a memory reporter names a block */
#define HL_REPORT_INSIDE 1u /* above the node: the address lies somewhere in the block */
#define HL_COUNTER_BITS 60u

/* A block word: address in the low 52 bits, then log2 of the requested alignment (0: none), zeroed,
 * family (as in heaplab's trace: 0 malloc, 1 aligned, 2 operator new). Tag bits of an aarch64
 * pointer are cut off. */
#define HL_ADDRESS_BITS 52u
#define HL_ALIGN_SHIFT 52u /* 6 bits */
#define HL_ZEROED_SHIFT 58u
#define HL_FAMILY_SHIFT 59u /* 2 bits */
#define HL_FAMILY_MALLOC 0u
#define HL_FAMILY_ALIGNED 1u
#define HL_FAMILY_NEW 2u

/* Above the address of HL_MAP: the mapping's owner, the program or an allocator. */
#define HL_MAP_OWNER_SHIFT 52u
#define HL_MAP_PROGRAM 0u
#define HL_MAP_ALLOCATOR 1u

/* node|slack: node in the low 32 bits, usable size less size above; HL_SLACK_UNKNOWN if unknown or
   too large. */
#define HL_SLACK_UNKNOWN 0xffffffffu

#endif
