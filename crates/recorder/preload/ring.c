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

/* Up to where the thread may write: to what the drainer has not read, and on the first lap to what has memory behind it. */
static uint64_t limit_now(const struct thread *t)
{
    uint64_t limit = load_acquire(&t->ring->tail) + t->mask + 1;
    return t->backed_words <= t->mask && limit > t->backed_words ? t->backed_words : limit;
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

/* Puts memory behind the beginning of a new ring: most processes and threads write little, and what is behind a file costs time
 * when it is given and when it is taken back. The nested ring gets its own when it is needed. Where the kernel cannot be asked, the whole file
 * gets its blocks at once. */
static long ring_back(struct thread *t, int fd, uint8_t *area, uint64_t bytes)
{
    uint64_t first = round_to_page(RING_BYTES_FIRST), data = (t->mask + 1) * 8;
    if (first > data)
        first = data;
    t->backed_words = t->mask + 1;
    t->nested_backed_words = t->nested_words;
    long result = populate_now(area, recorder.page + first);
    if (result == -EINVAL)
        return reserve_file(fd, bytes);
    t->backed_words = first / 8;
    t->nested_backed_words = 0;
    return failed(result) ? -ENOSPC : 0;
}

/* Maps the ring's file: the header, the data and the nested ring's data. Behind both data lies a page of the file that is never used, over which the
 * first page of those data is mapped a second time, so that no record need be split. */
static bool ring_map(struct thread *t, uint32_t number)
{
    struct hl_process *file = recorder.process->file;
    uint64_t page = recorder.page, data = recorder.control->ring_bytes, nested = recorder.control->nested_bytes;
    uint64_t data_at = page, nested_at = data_at + data + page, bytes = nested_at + nested + page;
    uint8_t *area = NULL;
    int fd = spool_open(file->pid, file->seq, ".ring", number, O_RDWR | O_CREAT | O_TRUNC);
    long result = fd;
    if (fd >= 0) {
        result = resize_file(fd, bytes);
        if (!failed(result))
            result = sys(SYS_mmap, 0, (long)bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
        area = failed(result) ? NULL : (uint8_t *)result;
        uint64_t parts[][2] = {{data_at + data, data_at}, {nested_at + nested, nested_at}};
        for (unsigned i = 0; i < 2 && !failed(result); i++)
            result = sys(SYS_mmap, (long)(area + parts[i][0]), (long)page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, (long)parts[i][1]);
        t->data = (uint64_t *)(area + data_at);
        t->mask = data / 8 - 1;
        t->nested_data = (uint64_t *)(area + nested_at);
        t->nested_words = nested / 8;
        if (!failed(result)) {
            advise_shared(area, bytes);
            result = ring_back(t, fd, area, bytes);
        }
        sys(SYS_close, fd, 0, 0, 0, 0, 0);
    }
    if (failed(result)) {
        if (area)
            sys(SYS_munmap, (long)area, (long)bytes, 0, 0, 0, 0);
        refuse(HL_STEP_RING_FILE, result);
        return false;
    }
    t->ring = (struct hl_ring *)area;
    struct hl_ring *ring = t->ring;
    ring->version = HL_VERSION;
    ring->number = number;
    ring->pid = file->pid;
    ring->seq = file->seq;
    ring->data_offset = data_at;
    ring->data_bytes = data;
    ring->nested_offset = nested_at;
    ring->nested_bytes = nested;
    store_release(&ring->magic, HL_RING_MAGIC);
    announce();
    return true;
}

/* A thread's state with a new ring, or NULL. */
static struct thread *thread_make(struct process *p)
{
    size_t frames = recorder.depth ? kept_frames() + 1 : 0;
    size_t at_frames = (sizeof(struct thread) + 63) & ~(size_t)63;
    size_t at_checks = at_frames + frames * sizeof(struct frame);
    size_t at_steps = at_checks + frames * 3 * sizeof(struct check);
    size_t at_known = (at_steps + frames * sizeof(struct step) + 63) & ~(size_t)63;
    uint32_t known_bits = p->file->ring_count ? KNOWN_BITS : KNOWN_BITS_FIRST;
    size_t bytes = round_to_page(at_known + (recorder.depth ? sizeof(struct known) << known_bits : 0));
    bool is_first = !p->file->ring_count;
    struct thread *t = is_first ? recorder.first_thread : NULL;
    if (t)
        recorder.first_thread = NULL; /* it may be unmapped */
    else
        t = map_private(bytes, MADV_WIPEONFORK);
    if (!t) {
        refuse(HL_STEP_MAP, -ENOMEM);
        return NULL;
    }
    if (!ring_map(t, load_relaxed(&p->file->ring_count))) {
        sys(SYS_munmap, (long)t, (long)bytes, 0, 0, 0, 0);
        return NULL;
    }
    store_release(&p->file->ring_count, p->file->ring_count + 1);
    t->frames = (struct frame *)((uint8_t *)t + at_frames);
    t->checks = (struct check *)((uint8_t *)t + at_checks);
    t->steps = (struct step *)((uint8_t *)t + at_steps);
    t->known = (struct known *)((uint8_t *)t + at_known);
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

/* Gives the calling thread a ring; NULL where there is none to be had. The ring is left closed (busy). Signals are blocked. */
static struct thread *thread_acquire(void)
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
    t->tid = (uint32_t)sys(SYS_gettid, 0, 0, 0, 0, 0, 0);
    t->limit = 0;
    t->held_limit = limit_now(t);
    t->busy_frame = 0;
    t->nested_busy = t->nested_begun = false;
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
    if (t->head + 4 <= t->held_limit || (!recorder.cut && wait_for_room(t, 4))) {
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

/* First event of a thread, or of a forked child: a ring, and the record that says whose it is. */
COLD static struct thread *enter_new(uintptr_t frame)
{
    uint64_t signals;
    block_signals(&signals);
    struct thread *t = thread_acquire();
    if (t)
        t->busy_frame = frame;
    restore_signals(&signals);
    if (!t) {
        lose(HL_LOST_NO_RING);
        return NULL;
    }
    if (t->head + 4 > t->held_limit && !wait_for_room(t, 4))
        return NULL;
    write_thread_record(t->data + (t->head & t->mask), HL_THREAD_BEGIN, t->tid);
    publish(t, 4);
    return t;
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

/* Everything but the common case of enter(): the ring is closed, full, or not there. */
COLD static struct thread *enter_slow(uint64_t words, uintptr_t frame)
{
    int error = errno;
    struct thread *t = self;
    if (!recorder_ready() || load_relaxed(&recorder.cut))
        return NULL;
    if (t->ring && recorder.process->alive) {
        bool left = !t->limit;
        if (left && !abandoned(t, frame))
            return NULL;
        close_ring(t, frame); /* a record that was left too: who strikes now lies above its frame as well, and would take it up */
        if (left) {
            t->frame_count = t->check_count = 0; /* a walk may have been left in the middle */
            t->nested_busy = false;
        }
        if (t->head + words > t->held_limit && !wait_for_room(t, words)) {
            errno = error;
            return NULL;
        }
    } else {
        t = enter_new(frame);
        if (t && t->head + words > t->held_limit && !wait_for_room(t, words))
            t = NULL;
        errno = error;
        if (!t)
            return NULL;
    }
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

/* Also for the record that says whose events follow, which each ring has by itself. */
static bool nested_has_room(const struct thread *t, uint64_t words)
{
    return t->nested_head + words + (t->nested_begun ? 0 : 4) <= load_acquire(&t->ring->nested_tail) + t->nested_words;
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
    if (!t->nested_begun) { /* published with the event */
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
