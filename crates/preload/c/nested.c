/* Stacks of events in the middle of a record: a signal handler that allocates while its thread
 * writes a record.
 *
 * The thread's cache of its last stack is in use then, and its nodes may be half defined. So such a
 * stack is walked separately, from its innermost frame to the end. The nested ring has node numbers
 * of its own and defines all frames right before the event. This takes some microseconds, in a rare
 * case. Walking takes recorder.modules_lock, which nobody holds with signals open. It reads the
 * bounds of stacks from a cache that the interrupted record does not use. It needs some KB of the
 * stack it runs on; an alternate stack with less room left gets no stack recorded. Readers remove
 * the recorder's own frames (those of one module). */
#include "arch.h"

#define WALK_STACK_BYTES (16u << 10)

/* The stack around sp. */
static bool nested_stack(struct thread *t, uintptr_t sp, struct stack *found)
{
    const struct stack *known = stack_of(&t->nested_own_stack, t->nested_stacks, NESTED_STACKS_KNOWN, &t->nested_stacks_next, sp);
    if (known)
        *found = *known;
    return known != NULL;
}

/* Whether this runs on an alternate stack with too little room for walking. */
static bool is_cramped(uintptr_t sp)
{
    stack_t alternate;
    if (failed(sys(SYS_sigaltstack, 0, (long)&alternate, 0, 0, 0, 0)))
        return true;
    uintptr_t start = (uintptr_t)alternate.ss_sp;
    return !(alternate.ss_flags & SS_DISABLE) && lies_in(sp, start, start + alternate.ss_size) && sp - start < WALK_STACK_BYTES;
}

struct nested_walk {
    struct registers at;
    struct stack stack;
    uintptr_t high; /* upper end of the readable memory */
    struct blocked blocked;
};

/* One frame outwards from `from`; false: the walk ends. */
static bool nested_step(struct nested_walk *w, packed rule, struct registers from)
{
    struct outward out;
    if (rule_kind(rule) != RULE_STEP && rule_kind(rule) != RULE_FRAME_POINTER)
        return false;
    if (!step_out(rule, from, w->high, &out) && !step_further(&w->stack, rule, from, &w->high, &out))
        return false;
    w->at = out.at;
    return true;
}

/* Steps from a handler's frame to the interrupted code, and one frame out of it. Returns the number
   of addresses added; 0: the walk ends. */
static uint32_t nested_beyond_signal(struct thread *t, struct nested_walk *w, uint64_t *ips)
{
    struct registers from;
    uintptr_t lr;
    if (!step_signal_on(&w->stack, w->at, &w->high, &from, &lr))
        return 0;
    if (!is_on(&w->stack, from.sp)) {
        if (!nested_stack(t, from.sp, &w->stack))
            return 0;
        w->high = readable_end(&w->stack, from.sp);
    }
    packed rule = rule_miss(from.ip, true, &w->blocked);
    ips[0] = from.ip + 1;
    if (rule_kind(rule) == RULE_LEAF) {
        w->at = (struct registers){strip(lr), from.sp + (uintptr_t)rule_cfa_offset(rule), from.fp};
        return w->at.ip ? 1 : 0;
    }
    return nested_step(w, rule, from) ? 1 : 0;
}

/* Writes the return addresses from `at` on, innermost first; returns their number. `ips` has room
   for `most` + 1. */
static uint32_t nested_walk(struct thread *t, struct registers at, uint64_t *ips, uint32_t most)
{
    struct nested_walk w = {.at = at};
    uint32_t count = 0;
    if (!nested_stack(t, at.sp, &w.stack))
        return 0;
    w.high = readable_end(&w.stack, at.sp);
    while (count < most) {
        packed rule = rule_of(w.at.ip, &w.blocked);
        if (rule_unknown(rule))
            break;
        ips[count++] = w.at.ip;
        if (rule_kind(rule) == RULE_SIGNAL) {
            uint32_t added = nested_beyond_signal(t, &w, ips + count);
            if (!added)
                break;
            count += added;
        } else if (!nested_step(&w, rule, w.at)) {
            break;
        }
    }
    unblock(&w.blocked);
    return count;
}

/* Opens the nested ring for an event of `words` with a stack from `at`, and writes the definitions
 * of its frames. *node is the stack's node, 0 without a stack; *stamp serves both. *all: words to
 * publish. NULL: write nothing. */
static uint64_t *enter_nested_with_stack(uint64_t words, struct registers at, uint32_t *node, uint64_t *stamp, uint64_t *all)
{
    struct thread *t = self;
    /* no more than fit on a page (layout.h): one event must not take the whole ring */
    uint32_t most = (recorder.page / 8 - (uint32_t)words) / 3 - 1;
    if (most > recorder.depth)
        most = recorder.depth;
    uint64_t *to = NULL;
    *node = 0;
    *all = words;
    bool wanted = t->ring && t->wants_stacks;
    if (wanted && !t->nested_busy && !is_cramped((uintptr_t)&to) && nested_has_room(t, words + 3 * (most + 1)) && back_nested(t))
        to = enter_nested(words + 3 * (most + 1));
    if (!to) {
        to = enter_nested(words);
        *stamp = to ? counter() : 0;
        if (to && wanted)
            lose(HL_LOST_NESTED_STACK);
        return to;
    }
    uint32_t count = nested_walk(t, at, to, most);
    *stamp = counter();
    if (!count)
        lose(HL_LOST_NESTED_STACK);
    for (uint32_t i = 0; i < count / 2; i++) { /* outermost first */
        uint64_t ip = to[i];
        to[i] = to[count - 1 - i];
        to[count - 1 - i] = ip;
    }
    /* from the last on: record i never lies before address i */
    for (uint32_t i = count; i-- > 0;) {
        uint64_t ip = to[i];
        to[3 * i] = *stamp << 4 | HL_NODE;
        to[3 * i + 1] = ip;
        to[3 * i + 2] = (i + 1) | (uint64_t)i << 32;
    }
    *node = count;
    *all = words + 3 * count;
    return to + 3 * count;
}
