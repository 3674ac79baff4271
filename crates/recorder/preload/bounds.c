/* Where stacks lie, and how far outwards a walk may read them.
 *
 * A thread's own stack stays while the thread runs. Any other, a coroutine's or an alternate one for signals, lies in a mapping that other things may
 * lie in too: its neighbour can be another coroutine's stack, of which the program unmaps what it likes when it likes, and nobody says so. What lies
 * between the stack pointer and the end of the coroutine's stack is there, but where that end is nobody knows, and neither the cache of the last stack
 * nor a frame without sound unwind information needs to respect it. So on such a stack a walk reads the page of its stack pointer, and each page beyond
 * it only after the kernel has read a word of it during this walk. That is a system call a page, several at each allocation on a deep coroutine's stack.
 *
 * Deviations: another thread may unmap such a page between the kernel's look and ours. A coroutine's stack that lies in one mapping with a thread's own
 * below it when the thread's first event is recorded, or on the main stack, is taken for a part of that. */
#include <sys/auxv.h>
#include "arch.h"

#define MAIN_STACK_BYTES (120ull << 20) /* the kernel keeps this much below the main stack's top free of other mappings */
#define MAIN_STACK_SURE (8ull << 20) /* and qemu gives it this much */
#define FRAME_PAGES_MAX 1024 /* that a walk asks for at a step: a frame that is larger ends it */
#define CHECK_PAGES_MAX 64   /* and for the cache of the last stack: one that is larger is walked anew */

struct stack_search {
    uintptr_t sp;
    struct stack found;
};

/* Whether a thread's own local variables lie in the mapping, above its stack. Those of the main thread lie elsewhere. */
static bool is_own(const struct stack_search *search, const struct mapping *mapping)
{
    uintptr_t locals = (uintptr_t)&self;
    return locals != recorder.main_locals && search->sp < locals && locals < mapping->end;
}

static bool visit_for_stack(const struct mapping *mapping, void *context)
{
    struct stack_search *search = context;
    if (search->sp < mapping->start || search->sp >= mapping->end)
        return true;
    search->found = (struct stack){mapping->start, mapping->end, mapping->stack};
    if (mapping->stack && mapping->end - mapping->start < MAIN_STACK_BYTES)
        search->found.start = mapping->end - MAIN_STACK_BYTES; /* it grows */
    if (!mapping->stack && is_own(search, mapping))
        search->found = (struct stack){mapping->start, (uintptr_t)&self & -(uintptr_t)8, true};
    return false;
}

/* The upper end of the main stack, where the kernel puts the program's name last; 0 where it does not say. Reading the mappings takes longer than
 * all else that the first event of a short process asks for. */
static uintptr_t main_stack_end(void)
{
    const char *name = (const char *)getauxval(AT_EXECFN);
    return name ? ((uintptr_t)name + strlen(name) + recorder.page) & -(uintptr_t)recorder.page : 0;
}

/* The stack that sp lies in; its end is 0 where there is none. */
COLD static struct stack stack_around(uintptr_t sp)
{
    struct stack_search search = {.sp = sp};
    uintptr_t end = main_stack_end();
    if (sp < end && end - sp <= MAIN_STACK_SURE)
        return (struct stack){end - MAIN_STACK_SURE, end, true};
    visit_mappings(visit_for_stack, &search);
    return search.found;
}

ALWAYS_INLINE bool is_on(const struct stack *stack, uintptr_t sp) { return sp >= stack->start && sp < stack->end; }

/* The known stack that sp lies in, which is found once: the thread's own is kept, the others are `known`, of which the oldest goes. NULL: there is none. */
COLD static const struct stack *stack_of(struct stack *own, struct stack *known, uint32_t count, uint32_t *next, uintptr_t sp)
{
    if (is_on(own, sp))
        return own;
    for (uint32_t i = 0; i < count; i++)
        if (is_on(&known[i], sp))
            return &known[i];
    struct stack found = stack_around(sp), *to = found.lasts ? own : &known[(*next)++ % count];
    if (!found.end)
        return NULL;
    *to = found;
    return to;
}

/* Nothing is known of the thread's stacks, nor of its last one. */
static void forget_stacks(struct thread *t)
{
    t->frame_count = t->check_count = 0;
    t->stack = t->own_stack = (struct stack){0};
    memset(t->stacks, 0, sizeof t->stacks);
}

/* Makes t->stack the one that sp lies in. */
COLD static bool find_stack(struct thread *t, uintptr_t sp)
{
    t->frame_count = t->check_count = 0;
    const struct stack *found = stack_of(&t->own_stack, t->stacks, STACKS_KNOWN, &t->stacks_next, sp);
    if (found)
        t->stack = *found;
    else
        lose(HL_LOST_STACK_BOUNDS);
    return found != NULL;
}

/* Whether the kernel can read a word there: it takes it for a set of signals, and refuses what it is asked to do with that. */
static bool can_read(uintptr_t address) { return sys(SYS_rt_sigprocmask, -1, (long)address, 0, 8, 0, 0) == -EINVAL; }

/* Up to where a walk may read at first that begins at sp. Below sp lies the frame of the hook that it begins in. */
ALWAYS_INLINE uintptr_t readable_end(const struct stack *stack, uintptr_t sp)
{
    return likely(stack->lasts) ? stack->end : (sp + recorder.page - 1) & -(uintptr_t)recorder.page;
}

/* Lets a walk read up to `wanted` where it may not yet and the kernel can: *high is where it ends now. False: nothing has changed. The mapping may
 * have become larger since it was found. */
COLD static bool reach(const struct stack *stack, uintptr_t *high, uintptr_t wanted, uint32_t pages)
{
    if (stack->lasts || wanted <= *high || wanted - *high > pages * (uintptr_t)recorder.page)
        return false;
    uintptr_t to = *high;
    for (; to < wanted; to += recorder.page)
        if (!can_read(to))
            return false;
    *high = to;
    return true;
}

/* A step that step_out() does not take because it would read beyond *high: takes it where the words are there. */
COLD static bool step_further(const struct stack *stack, packed rule, struct registers at, uintptr_t *high, struct outward *out)
{
    while (reach(stack, high, step_end(rule, at, *high), FRAME_PAGES_MAX)) {
        out->stopped_at = NULL;
        if (step_out(rule, at, *high, out))
            return true;
    }
    return false;
}

/* step_signal() from a frame on the stack; where the interrupted code runs on the same one, *high is what may be read there. */
COLD static bool step_signal_on(const struct stack *stack, struct registers at, uintptr_t *high, struct registers *from, uintptr_t *lr)
{
    reach(stack, high, at.sp + SIGNAL_SP + 16, 1);
    if (!step_signal(at, *high, from, lr))
        return false;
    if (stack->lasts || !is_on(stack, from->sp))
        return true;
    *high = (from->sp - 8) & -(uintptr_t)recorder.page;
    return reach(stack, high, from->sp, 1);
}
