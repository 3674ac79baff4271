/* Writing a record: opens a thread's ring for the record and closes the ring again.
 *
 * Entering stores 0 in `limit`: a signal handler that allocates meanwhile finds the ring closed and
 * writes to the nested ring. Leaving publishes the head and restores `limit` from `held_limit`;
 * code that learns of more room raises `held_limit`. While the ring is closed, `busy_frame` names
 * the hook that closed it, or is 0. The hook stores `busy_frame` once before and once after
 * closing, because a handler that strikes in between leaves 0 behind. The hook clears `busy_frame`
 * after the ring is open again. */
#include "arch.h"

/* From here on a signal handler writes to the nested ring. */
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

/* Whether one of the two frames lies on the alternate signal stack and the other does not. An
 * approximation: the alternate stack may be a part of the mapping of the thread's own stack. */
static bool apart(uintptr_t frame, uintptr_t other)
{
    stack_t alternate;
    if (failed(sys(SYS_sigaltstack, 0, (long)&alternate, 0, 0, 0, 0)))
        return true;
    uintptr_t start = (uintptr_t)alternate.ss_sp, end = start + alternate.ss_size;
    return !(alternate.ss_flags & SS_DISABLE) && lies_in(frame, start, end) != lies_in(other, start, end);
}

/* Whether the record that closed the ring will never be finished. A handler's frames lie below the
 * record that it interrupted; if the handler left by longjmp, the stack is unwound to the record's
 * caller or beyond. On another stack the two cannot be told apart: the ring stays closed, and its
 * events are nested ones. With stacks recorded, both frames lie on t->stack as a rule; it must not
 * change here, because the record may be in the middle of a walk. */
static bool abandoned(struct thread *t, uintptr_t frame)
{
    uintptr_t busy = t->busy_frame;
    if (!busy || frame < busy)
        return false;
    struct stack stack = t->stack;
    if (!is_on(&stack, busy)) {
        stack = stack_around(busy);
        if (!t->wants_stacks)
            t->stack = stack;
    }
    return is_on(&stack, frame) && !apart(frame, busy);
}

/* The rare cases of enter(): the ring is closed, full, not begun, or missing. */
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
    /* a handler here would also lie above the frame of the abandoned record, and would take it
       up */
    close_ring(t, frame);
    if (left) {
        if (t->wants_stacks)
            /* the abandoned record may have been walking, or searching its stack */
            forget_stacks(t);
        t->nested_busy = false;
    }
    bool is_open = (t->begun || thread_begin(t)) && (t->head + words <= t->held_limit || wait_for_room(t, words));
    errno = error;
    if (!is_open)
        return NULL;
    t->busy_frame = frame;
    return t;
}

/* Opens the ring for a record of up to `words`; NULL: do not write the record here. `frame` is the
   hook's frame address. */
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

/* Backs the nested ring with memory at its first use. */
static bool back_nested(struct thread *t)
{
    if (!t->nested_backed)
        t->nested_backed = populate(t->nested_data, t->nested_words * 8) || load_acquire(&recorder.sandboxed);
    return t->nested_backed;
}

/* Room that `words` take in the nested ring. Includes the record that names the thread, which each
 * ring has for itself, and the rest of a lap too short for the event. */
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

/* enter, room and leave for the nested ring; NULL unless the thread is writing a record of its main
   ring. */
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
    if (!nested_has_room(t, words) || !back_nested(t)) {
        lose(HL_LOST_NESTED_FULL);
        t->nested_busy = false;
        return NULL;
    }
    uint64_t all = nested_words_for(t, words), left = t->nested_words - (t->nested_head & (t->nested_words - 1));
    if (all > left) { /* published together with the event */
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
