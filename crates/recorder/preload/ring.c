/* Rings: a thread takes one at its first event, writes records into it, and gives it back when it ends.
 *
 * Entering stores 0 in `limit`, so that a signal handler that allocates meanwhile finds the ring closed and writes to the
 * nested ring; leaving publishes the head and restores it from `held_limit`, which whoever learns of more room has set. While the ring
 * is closed, `busy_frame` names the hook that closed it, or is 0: it is named before and once more after, because a handler that
 * strikes in between leaves 0 behind, and forgotten after the ring is open again. The
 * producer keeps the consumer's tail as part of it and reads the shared one only when it runs into it. */
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <time.h>
#include "arch.h"

struct recorder recorder;

/* What a thread without a ring points to: never written. */
static struct thread nobody;
__thread struct thread *self = &nobody;
__thread uintptr_t inside;
static __thread bool ended; /* the thread's destructors have run once */

static pthread_key_t thread_key;
static bool have_thread_key;

#define WAIT_NS_MIN 20000
#define WAIT_NS_MAX 1000000
#define CHECK_DRAINER_COUNT 64 /* waits between two looks at the drainer's lock */
#define RETRY_TICKS (1ull << 25) /* counter ticks, some 10 ms, between two tries to make a ring */

/* Of a ring's data, what is backed by memory at first; more follows as it is written to. */
#define RING_BYTES_FIRST (4u << 10)

/* Nodes that a ring knows: 256 KiB, and 1 MiB for a process's first ring, which is as a rule its main thread's. */
#ifndef KNOWN_BITS
#define KNOWN_BITS 14
#define KNOWN_BITS_FIRST 16
#endif

static uint32_t kept_frames(void) { return recorder.depth + 48; }

/* Whether the drainer still holds its lock on the control file. */
static bool drainer_lives(void)
{
    char path[sizeof recorder.spool + 16];
    append_text(path, append_text(path, 0, sizeof path, recorder.spool), sizeof path, "/control");
    long fd = sys(SYS_openat, AT_FDCWD, (long)path, O_RDWR | O_CLOEXEC, 0, 0, 0);
    if (!failed(fd)) {
        struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        long result = sys(SYS_fcntl, fd, F_OFD_GETLK, (long)&whole, 0, 0, 0);
        sys(SYS_close, fd, 0, 0, 0, 0, 0);
        if (!failed(result))
            return whole.l_type != F_UNLCK;
    }
    return sys(SYS_kill, (long)recorder.control->drainer_pid, 0, 0, 0, 0, 0) != -ESRCH;
}

/* Where the data end before they begin again: no record lies across it, so that each is written in one piece. */
static uint64_t lap_end(const struct thread *t) { return (t->head | t->mask) + 1; }

/* Up to where the thread may write: to what the drainer has not read, to the end of the lap, and on the first one to what has memory behind
 * it. */
static uint64_t limit_now(const struct thread *t)
{
    uint64_t limit = load_acquire(&t->ring->tail) + t->mask + 1, end = lap_end(t);
    if (t->backed_words <= t->mask && limit > t->backed_words)
        limit = t->backed_words;
    return limit < end ? limit : end;
}

static void pad(uint64_t *to, uint64_t words)
{
    uint64_t stamp = counter() << 4 | HL_PAD;
    while (words--)
        *to++ = stamp;
}

/* Puts memory behind more of the ring's data, twice as much as there is. False: there is none to be had. */
COLD static bool back_more(struct thread *t, uint64_t words)
{
    uint64_t all = t->mask + 1, now = t->backed_words, then = 2 * now;
    while (then < t->head + words)
        then *= 2;
    if (then > all)
        then = all;
    if (!populate(t->data + now, (then - now) * 8))
        return false;
    t->backed_words = then;
    return true;
}

/* Waits until the ring has room for `words`. False: recording was cut. Signal handlers may run, and allocate. */
COLD static bool wait_for_room(struct thread *t, uint64_t words)
{
    uint64_t began = counter();
    struct timespec pause_time = {0, WAIT_NS_MIN};
    for (unsigned count = 1;; count++) {
        t->held_limit = limit_now(t);
        if (t->head + words <= t->held_limit)
            return true;
        if (load_relaxed(&recorder.cut))
            return false;
        if (t->held_limit == lap_end(t)) { /* it is too near: the record begins the next lap */
            uint64_t left = t->held_limit - t->head;
            pad(t->data + (t->head & t->mask), left);
            t->head += left; /* published with the record */
            continue;
        }
        if (t->backed_words <= t->mask) {
            if (!back_more(t, words)) {
                process_cut(HL_CUT_NO_SPACE, began);
                return false;
            }
            continue;
        }
        if (load_relaxed(&recorder.control->state) == HL_CONTROL_STOPPED) {
            process_cut(HL_CUT_STOPPED, began);
            return false;
        }
        if (count % CHECK_DRAINER_COUNT == 0 && !drainer_lives()) {
            process_cut(HL_CUT_DRAINER_DEAD, began);
            return false;
        }
        sys(SYS_nanosleep, (long)&pause_time, 0, 0, 0, 0, 0);
        if (pause_time.tv_nsec < WAIT_NS_MAX)
            pause_time.tv_nsec *= 2;
    }
}

static size_t round_to_page(size_t bytes) { return (bytes + recorder.page - 1) & ~((size_t)recorder.page - 1); }

/* Of a new ring's data, what gets memory at once. */
static uint64_t ring_first_bytes(void)
{
    uint64_t first = round_to_page(RING_BYTES_FIRST), data = recorder.control->ring_bytes;
    return first < data ? first : data;
}

/* Says what a ring is whose data lie at `data_at` of its file, and behind them the nested ring's. */
static void ring_describe(struct hl_ring *ring, uint32_t number, uint64_t data_at)
{
    const struct hl_process *file = recorder.process->file;
    ring->version = HL_VERSION;
    ring->number = number;
    ring->pid = file->pid;
    ring->seq = file->seq;
    ring->data_offset = data_at;
    ring->data_bytes = recorder.control->ring_bytes;
    ring->nested_offset = data_at + ring->data_bytes;
    ring->nested_bytes = recorder.control->nested_bytes;
    store_release(&ring->magic, HL_RING_MAGIC);
}

/* Makes a ring's file; NULL where it cannot be had. */
static uint8_t *ring_file(uint32_t number, bool *whole)
{
    const struct hl_process *file = recorder.process->file;
    uint64_t bytes = recorder.page + recorder.control->ring_bytes + recorder.control->nested_bytes;
    long error;
    int fd = spool_open(file->pid, file->seq, ".ring", number, O_RDWR | O_CREAT | O_TRUNC);
    uint8_t *area = map_file(fd, bytes, recorder.page + ring_first_bytes(), bytes, whole, &error);
    if (!area) {
        refuse(HL_STEP_RING_FILE, error);
        return NULL;
    }
    ring_describe((struct hl_ring *)area, number, recorder.page);
    return area;
}

/* Gives the thread a new ring: the process's first one lies in its file, which is there. */
static bool ring_make(struct thread *t, struct process *p, bool is_first)
{
    struct hl_process *file = p->file;
    bool whole = p->whole;
    uint8_t *area = is_first ? (uint8_t *)file : ring_file(load_relaxed(&file->ring_count), &whole);
    if (!area)
        return false;
    t->ring = is_first ? &file->first_ring : (struct hl_ring *)area;
    t->data = (uint64_t *)(area + recorder.page);
    t->mask = recorder.control->ring_bytes / 8 - 1;
    t->nested_data = t->data + t->mask + 1;
    t->nested_words = recorder.control->nested_bytes / 8;
    t->backed_words = whole ? t->mask + 1 : ring_first_bytes() / 8;
    t->nested_backed_words = whole ? t->nested_words : 0;
    if (!is_first) {
        store_release(&file->ring_count, file->ring_count + 1);
        announce();
    }
    return true;
}

/* Where the parts of a thread's state lie. */
struct thread_parts {
    size_t frames, checks, steps, known, bytes;
};

static struct thread_parts thread_parts(uint32_t known_bits)
{
    struct thread_parts at;
    size_t frames = recorder.depth ? kept_frames() + 1 : 0;
    at.frames = (sizeof(struct thread) + 63) & ~(size_t)63;
    at.checks = at.frames + frames * sizeof(struct frame);
    at.steps = at.checks + frames * 3 * sizeof(struct check);
    at.known = (at.steps + frames * sizeof(struct step) + 63) & ~(size_t)63;
    at.bytes = round_to_page(at.known + (recorder.depth ? sizeof(struct known) << known_bits : 0));
    return at;
}

/* A thread's state with a new ring, or NULL. */
static struct thread *thread_make(struct process *p)
{
    bool is_first = !p->threads;
    uint32_t known_bits = is_first ? KNOWN_BITS_FIRST : KNOWN_BITS;
    struct thread_parts at = thread_parts(known_bits);
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
    t->known_bits = recorder.depth ? known_bits : 0;
    t->wants_stacks = recorder.depth != 0;
    t->plain = recorder.plain && !recorder.depth;
    t->plain_free = recorder.plain;
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

/* Takes back rings of threads that allocated after their last destructor and are gone. Called with the lock held. */
static void reclaim_late(struct process *p)
{
    for (struct thread *t = p->threads; t; t = t->next) {
        if (t->late && sys(SYS_tgkill, p->file->pid, t->tid, 0, 0, 0, 0) == -ESRCH) {
            t->late = false;
            store_relaxed(&t->ring->state, HL_RING_FREE);
            t->next_free = p->free_threads;
            p->free_threads = t;
        }
    }
}

/* Gives the calling thread a ring; NULL where there is none to be had. The ring is left closed, and not begun. A process that has just begun has
 * one thread, which is called as it is. Signals are blocked. */
static struct thread *thread_acquire(bool is_only)
{
    struct process *p = recorder.process;
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
    t->frame_count = t->check_count = 0;
    t->stack = (struct range){0, 0};
    memset(t->stacks, 0, sizeof t->stacks);
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

/* The thread ends, or its destructors run again because it allocated in between. */
static void thread_destructor(void *pointer)
{
    struct thread *t = pointer;
    struct process *p = recorder.process;
    uint64_t signals;
    int error = errno;
    ended = true;
    if (t != self || !t->ring || !p->alive)
        return; /* wiped by a fork since */
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

/* A ring for a thread that has none, or that is its parent's copy. */
COLD static struct thread *thread_new(void)
{
    uint64_t signals;
    block_signals(&signals);
    struct thread *t = thread_acquire(false);
    restore_signals(&signals);
    if (!t)
        lose(HL_LOST_NO_RING);
    return t;
}

/* Before the first event of a thread: the record that says whose it is. The ring is closed. */
static bool thread_begin(struct thread *t)
{
    if (t->head + 4 > t->held_limit && !wait_for_room(t, 4))
        return false;
    t->begun = true;
    write_thread_record(t->data + (t->head & t->mask), HL_THREAD_BEGIN, t->tid);
    publish(t, 4);
    return true;
}

/* From here on a handler writes to the nested ring. */
ALWAYS_INLINE void close_ring(struct thread *t, uintptr_t frame)
{
    t->busy_frame = frame;
    signal_fence();
    t->limit = 0;
    signal_fence();
    t->busy_frame = frame;
    signal_fence();
}

ALWAYS_INLINE void open_ring(struct thread *t)
{
    signal_fence();
    t->limit = t->held_limit;
    signal_fence();
    t->busy_frame = 0;
}

static bool lies_in(uintptr_t address, uintptr_t start, uintptr_t end) { return address >= start && address < end; }

/* Whether one of the two lies on the alternate stack for signals and the other does not, as far as can be told: that stack may be a part of
 * the mapping that the thread's own lies in. */
static bool apart(uintptr_t frame, uintptr_t other)
{
    stack_t alternate;
    if (failed(sys(SYS_sigaltstack, 0, (long)&alternate, 0, 0, 0, 0)))
        return true;
    uintptr_t start = (uintptr_t)alternate.ss_sp, end = start + alternate.ss_size;
    return !(alternate.ss_flags & SS_DISABLE) && lies_in(frame, start, end) != lies_in(other, start, end);
}

/* Whether the record that closed the ring will never be finished: a handler left it by longjmp, so that the stack has been
 * unwound to its caller or beyond: a handler's frames lie below the record that it struck. On another stack that cannot be told, and the
 * ring stays closed: its events are nested ones. Where stacks are recorded, t->stack is theirs as a rule, and it may not be changed here,
 * because the record may be in the middle of a walk. */
static bool abandoned(struct thread *t, uintptr_t frame)
{
    uintptr_t busy = t->busy_frame;
    if (!busy || frame < busy)
        return false;
    struct range stack = t->stack;
    if (!lies_in(busy, stack.start, stack.end)) {
        stack = stack_around(busy);
        if (!t->wants_stacks)
            t->stack = stack;
    }
    return lies_in(frame, stack.start, stack.end) && !apart(frame, busy);
}

/* Everything but the common case of enter(): the ring is closed, full, not begun, or not there. */
COLD static struct thread *enter_slow(uint64_t words, uintptr_t frame)
{
    int error = errno;
    if (!recorder_ready() || load_relaxed(&recorder.cut))
        return NULL;
    struct thread *t = self;
    if ((!t->ring || !recorder.process->alive) && !(t = thread_new())) {
        errno = error;
        return NULL;
    }
    bool left = !t->limit && (t->begun || t->busy_frame);
    if (left && !abandoned(t, frame))
        return NULL;
    close_ring(t, frame); /* a record that was left too: who strikes now lies above its frame as well, and would take it up */
    if (left) {
        t->frame_count = t->check_count = 0; /* a walk may have been left in the middle */
        t->nested_busy = false;
    }
    bool is_open = (t->begun || thread_begin(t)) && (t->head + words <= t->held_limit || wait_for_room(t, words));
    errno = error;
    if (!is_open)
        return NULL;
    t->busy_frame = frame;
    return t;
}

/* Opens the ring for a record of up to `words`; NULL: it is not to be written here. `frame` is the hook's frame address. */
ALWAYS_INLINE struct thread *enter(uint64_t words, uintptr_t frame)
{
    struct thread *t = self;
    uint64_t limit = t->limit;
    if (unlikely(!limit))
        return enter_slow(words, frame);
    close_ring(t, frame);
    if (unlikely(t->head + words > limit)) {
        t->limit = limit;
        return enter_slow(words, frame);
    }
    return t;
}

ALWAYS_INLINE uint64_t *room(struct thread *t) { return t->data + (t->head & t->mask); }

ALWAYS_INLINE void leave(struct thread *t, uint64_t words)
{
    publish(t, words);
    open_ring(t);
}

/* Puts memory behind all of the nested ring, when more than its first page is needed for the first time. */
static bool back_nested(struct thread *t, uint64_t words)
{
    if (t->nested_head + words <= t->nested_backed_words || t->nested_backed_words == t->nested_words)
        return true;
    uint64_t backed = t->nested_backed_words;
    if (!populate(t->nested_data + backed, (t->nested_words - backed) * 8))
        return false;
    t->nested_backed_words = t->nested_words;
    return true;
}

/* What `words` take in the nested ring: also the record that says whose events follow, which each ring has by itself, and what is left of a lap in which
 * they have no room. */
static uint64_t nested_words_for(const struct thread *t, uint64_t words)
{
    uint64_t left = t->nested_words - (t->nested_head & (t->nested_words - 1));
    words += t->nested_begun ? 0 : 4;
    return words <= left ? words : left + words;
}

static bool nested_has_room(const struct thread *t, uint64_t words)
{
    return t->nested_head + nested_words_for(t, words) <= load_acquire(&t->ring->nested_tail) + t->nested_words;
}

ALWAYS_INLINE uint64_t *nested_room(struct thread *t) { return t->nested_data + (t->nested_head & (t->nested_words - 1)); }

/* The nested ring's version of enter, room and leave: NULL unless the thread is inside a record of its main ring. */
COLD static uint64_t *enter_nested(uint64_t words)
{
    struct thread *t = self;
    if (!t->ring || !recorder.process->alive || t->limit || recorder.cut)
        return NULL;
    if (t->nested_busy) {
        lose(HL_LOST_NESTED_DEEPER);
        return NULL;
    }
    t->nested_busy = true;
    signal_fence();
    if (!nested_has_room(t, words) || !back_nested(t, words + 4)) {
        lose(HL_LOST_NESTED_FULL);
        t->nested_busy = false;
        return NULL;
    }
    uint64_t all = nested_words_for(t, words), left = t->nested_words - (t->nested_head & (t->nested_words - 1));
    if (all > left) { /* published with the event, as what follows */
        pad(nested_room(t), left);
        t->nested_head += left;
    }
    if (!t->nested_begun) {
        write_thread_record(nested_room(t), HL_THREAD_BEGIN, t->tid);
        t->nested_head += 4;
        t->nested_begun = true;
    }
    return nested_room(t);
}

static void leave_nested(uint64_t words)
{
    struct thread *t = self;
    t->nested_head += words;
    store_release(&t->ring->nested_head, t->nested_head);
    signal_fence();
    t->nested_busy = false;
}
