/* Threads: each takes a ring at its first event and gives it back at its end. The first thread of a
   new process gets its ring before its first event. */
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include "arch.h"

/* Thread state of threads without a ring: never written. */
static struct thread nobody;
__thread struct thread *self = &nobody;
__thread uintptr_t inside;
static __thread bool ended; /* the thread's destructors have run once */

static pthread_key_t thread_key;
static bool have_thread_key;

#define RETRY_TICKS (1ull << 25) /* counter ticks, some 10 ms, between two tries to make a ring */

/* Sizes of a thread's knowledge of stacks, as powers of two: nodes (16 bytes each), words of traces
 * (8), followers of traces (8), and nodes' traces (4). In all 432 KiB; for a process's first ring,
 * as a rule its main thread's, 816 KiB. */
struct known_bits {
    uint32_t nodes, trace_words, followers, traced_nodes;
};
#ifndef KNOWN_BITS
#define KNOWN_BITS 14, 14, 12, 12
#define KNOWN_BITS_FIRST 15, 15, 12, 12
#endif

static uint32_t kept_frames(void) { return recorder.depth + KEEP_MORE; }

/* Offsets of the parts of a thread's state. */
struct thread_parts {
    size_t frames, checks, steps, known, trace_words, followers, of_nodes, bytes;
};

static size_t after(size_t at, size_t count, size_t bytes) { return (at + count * bytes + 63) & ~(size_t)63; }

static struct thread_parts thread_parts(struct known_bits bits)
{
    struct thread_parts at = {.frames = after(0, 1, sizeof(struct thread))};
    size_t frames = kept_frames() + 1;
    at.checks = after(at.frames, frames, sizeof(struct frame));
    at.steps = after(at.checks, frames * 3, sizeof(struct check));
    at.known = after(at.steps, frames, sizeof(struct step));
    at.trace_words = after(at.known, (size_t)1 << bits.nodes, sizeof(struct known));
    at.followers = after(at.trace_words, (size_t)1 << bits.trace_words, sizeof(uint64_t));
    at.of_nodes = after(at.followers, (size_t)1 << bits.followers, sizeof(struct follower));
    at.bytes = round_to_page(recorder.depth ? after(at.of_nodes, (size_t)1 << bits.traced_nodes, sizeof(uint32_t)) : at.frames);
    return at;
}

/* A thread's state with a new ring, or NULL. */
static struct thread *thread_make(struct process *p)
{
    bool is_first = !p->threads;
    struct known_bits bits = is_first ? (struct known_bits){KNOWN_BITS_FIRST} : (struct known_bits){KNOWN_BITS};
    struct thread_parts at = thread_parts(bits);
    struct thread *t = is_first ? recorder.first_thread : NULL;
    if (!t && !(t = map_private(at.bytes, MADV_WIPEONFORK))) {
        refuse(HL_STEP_MAP, -ENOMEM);
        return NULL;
    }
    if (!ring_make(t, p, is_first)) {
        sys(SYS_munmap, (long)t, (long)at.bytes, 0, 0, 0, 0);
        return NULL;
    }
    t->frames = (struct frame *)((uint8_t *)t + at.frames);
    t->checks = (struct check *)((uint8_t *)t + at.checks);
    t->steps = (struct step *)((uint8_t *)t + at.steps);
    t->known = (struct known *)((uint8_t *)t + at.known);
    t->known_bits = bits.nodes;
    t->traces = (struct traces){
        .words = (uint64_t *)((uint8_t *)t + at.trace_words),
        .followers = (struct follower *)((uint8_t *)t + at.followers),
        .of_nodes = (uint32_t *)((uint8_t *)t + at.of_nodes),
        .room = 1u << bits.trace_words,
        .follower_bits = bits.followers,
        .node_bits = bits.traced_nodes,
        .left = 1,
        .rest = TRACE_TRIES,
    };
    t->wants_stacks = recorder.depth != 0;
    t->wants_python = t->wants_stacks && recorder.control->flags & HL_CONTROL_PYTHON;
    t->plain = recorder.plain && !recorder.depth;
    t->plain_free = recorder.plain && !t->wants_python;
    t->header_trials = HEADER_TRIALS;
    t->next = p->threads;
    p->threads = t;
    if (is_first)
        recorder.first_thread = t;
    return t;
}

static void write_thread_record(uint64_t *to, uint32_t kind, uint32_t tid)
{
    char name[16] = {0};
    sys(SYS_prctl, PR_GET_NAME, (long)name, 0, 0, 0, 0);
    to[1] = tid;
    memcpy(to + 2, name, sizeof name);
    to[0] = counter() << 4 | kind;
}

/* Takes back rings of gone threads that allocated after their last destructor. The caller holds the
   lock. */
static void reclaim_late(struct process *p)
{
    for (struct thread *t = p->threads; t; t = t->next) {
        if (t->late && sys(SYS_tgkill, recorder.pid, t->tid, 0, 0, 0, 0) == -ESRCH) {
            t->late = false;
            store_relaxed(&t->ring->state, HL_RING_FREE);
            t->next_free = p->free_threads;
            p->free_threads = t;
        }
    }
}

/* Gives the calling thread a ring; NULL: none left. The ring stays closed and not begun. `is_only`:
 * a process that has just begun has one thread. Signals are blocked. */
static struct thread *thread_acquire(bool is_only)
{
    struct process *p = recorder.process;
    if (load_relaxed(&recorder.sandboxed)) {
        if (!p->alive) {
            refuse(HL_STEP_SANDBOX, -EPERM);
            store_release(&recorder.cut, 1);
        }
        return NULL;
    }
    lock(&p->lock);
    if (!p->alive && !process_begin(recorder.pid ? HL_BEGAN_FORK : HL_BEGAN_STARTED)) {
        store_release(&recorder.cut, 1);
        unlock(&p->lock);
        return NULL;
    }
    if (!p->free_threads)
        reclaim_late(p);
    struct thread *t = p->free_threads;
    if (t)
        p->free_threads = t->next_free;
    else if (counter() >= p->retry_counter && !(t = thread_make(p)))
        p->retry_counter = counter() + RETRY_TICKS;
    unlock(&p->lock);
    if (!t)
        return NULL;
    t->tid = is_only ? p->file->pid : (uint32_t)sys(SYS_gettid, 0, 0, 0, 0, 0, 0);
    t->limit = 0;
    t->held_limit = limit_now(t);
    t->busy_frame = 0;
    t->begun = t->nested_busy = t->nested_begun = false;
    t->late = ended;
    forget_stacks(t);
    traces_forget(&t->traces);
    t->nested_own_stack = (struct stack){0};
    memset(t->nested_stacks, 0, sizeof t->nested_stacks);
    store_relaxed(&t->ring->tid, t->tid);
    store_relaxed(&t->ring->state, HL_RING_IN_USE);
    self = t;
    if (have_thread_key)
        pthread_setspecific(thread_key, t);
    return t;
}

static void publish(struct thread *t, uint64_t words)
{
    t->head += words;
    store_release(&t->ring->head, t->head);
}

/* Runs at the thread's end, and again if the thread allocated between two rounds of destructors. */
static void thread_destructor(void *pointer)
{
    struct thread *t = pointer;
    struct process *p = recorder.process;
    uint64_t signals;
    int error = errno;
    ended = true;
    if (t != self || !t->ring || !p->alive)
        return; /* wiped by a fork since */
    if (load_relaxed(&recorder.sandboxed))
        return; /* nobody could reuse the ring */
    t->busy_frame = 0;
    signal_fence();
    t->limit = 0;
    signal_fence();
    if (t->begun && (t->head + 4 <= t->held_limit || (!recorder.cut && wait_for_room(t, 4)))) {
        write_thread_record(t->data + (t->head & t->mask), HL_THREAD_END, t->tid);
        publish(t, 4);
    }
    block_signals(&signals);
    self = &nobody;
    lock(&p->lock);
    store_relaxed(&t->ring->state, HL_RING_FREE);
    t->late = false;
    t->next_free = p->free_threads;
    p->free_threads = t;
    unlock(&p->lock);
    restore_signals(&signals);
    errno = error;
}

/* A ring for a thread without one, or with its parent's copy. */
COLD static struct thread *thread_new(void)
{
    uint64_t signals;
    block_signals(&signals);
    struct thread *t = thread_acquire(false);
    restore_signals(&signals);
    if (!t)
        lose(load_relaxed(&recorder.sandboxed) ? HL_LOST_IN_SANDBOX : HL_LOST_NO_RING);
    return t;
}

/* Before a thread's first event: writes the record that names the thread. The ring is closed. */
static bool thread_begin(struct thread *t)
{
    if (t->head + 4 > t->held_limit && !wait_for_room(t, 4))
        return false;
    t->begun = true;
    write_thread_record(t->data + (t->head & t->mask), HL_THREAD_BEGIN, t->tid);
    publish(t, 4);
    return true;
}
