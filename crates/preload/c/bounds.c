/* The bounds of stacks, which limit the reads of a walk.
 *
 * A thread's own stack stays mapped while the thread runs. Any other stack (a coroutine's, an
 * alternate one for signals) lies in a mapping that may hold other things. Its neighbour can be
 * another coroutine's stack, and the program may unmap this neighbour at any time without notice.
 * The memory from the stack pointer to the end of the coroutine's stack is mapped, but nobody knows
 * where this end is. Neither the cache of the last stack nor a frame without sound unwind
 * information respects the end. So on such a stack a walk reads the page of its stack pointer
 * freely. Each page beyond is read only after the kernel has read a word of the page during this
 * walk. The price is a system call a page: several at each allocation on a deep coroutine's stack.
 *
 * Deviations: another thread may unmap such a page between the kernel's look and ours. A
 * coroutine's stack counts as a part of another stack in two cases: it shares one mapping with a
 * thread's own stack below it when the thread's first event is recorded, or it lies on the main
 * stack. */
#include <sys/auxv.h>
#include "arch.h"

/* the kernel keeps these bytes below the main stack's top free of other mappings */
#define MAIN_STACK_BYTES (120ull << 20)
#define MAIN_STACK_SURE (8ull << 20) /* qemu keeps these */
/* most pages that a walk asks for at a step: a larger frame ends the walk */
#define FRAME_PAGES_MAX 1024
/* the same for the cache of the last stack: a larger stack is walked anew */
#define CHECK_PAGES_MAX 64

struct stack_search {
    uintptr_t sp;
    struct stack found;
};

/* Whether a thread's own local variables lie in the mapping, above its stack. The main thread's lie
   elsewhere. */
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
        search->found.start = mapping->end - MAIN_STACK_BYTES; /* the main stack grows */
    if (!mapping->stack && is_own(search, mapping))
        search->found = (struct stack){mapping->start, (uintptr_t)&self & -(uintptr_t)8, true};
    return false;
}

/* The upper end of the main stack: the kernel puts the program's name last. 0: the kernel does not
 * tell. Reading the mappings instead would take longer than everything else at a short process's
 * first event. */
static uintptr_t main_stack_end(void)
{
    const char *name = (const char *)getauxval(AT_EXECFN);
    return name ? ((uintptr_t)name + strlen(name) + recorder.page) & -(uintptr_t)recorder.page : 0;
}

/* The stack around sp; its end is 0 if none was found. */
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

/* The known stack around sp. Each is searched for once: the thread's own stays known, the others
   are in `known`, where the newest replaces the oldest. NULL: none. */
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

/* Forgets the thread's stacks, its last call stack and its pass over the reporters. */
static void forget_stacks(struct thread *t)
{
    t->pass.sp = 0;
    t->frame_count = t->check_count = 0;
    t->stack = t->own_stack = (struct stack){0};
    memset(t->stacks, 0, sizeof t->stacks);
}

/* Makes t->stack the stack around sp. */
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

/* Whether the kernel can read a word at `address`. The kernel reads the word as a set of signals,
   then refuses the invalid request. */
static bool can_read(uintptr_t address) { return sys(SYS_rt_sigprocmask, -1, (long)address, 0, 8, 0, 0) == -EINVAL; }

/* Upper end of the memory that a walk from sp may read without asking. Below sp lies the frame of
   the hook that starts the walk. */
ALWAYS_INLINE uintptr_t readable_end(const struct stack *stack, uintptr_t sp)
{
    return likely(stack->lasts) ? stack->end : (sp + recorder.page - 1) & -(uintptr_t)recorder.page;
}

/* Raises *high to at least `wanted` if the kernel can read the pages between. False: nothing has
 * changed. The mapping may have grown since it was found. */
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

/* Takes a step that step_out() refuses because the step reads beyond *high, if the words are
   readable. */
COLD static bool step_further(const struct stack *stack, packed rule, struct registers at, uintptr_t *high, struct outward *out)
{
    while (reach(stack, high, step_end(rule, at, *high), FRAME_PAGES_MAX)) {
        out->stopped_at = NULL;
        if (step_out(rule, at, *high, out))
            return true;
    }
    return false;
}

/* step_signal() from a frame on the stack. If the interrupted code runs on the same stack, *high is
   its readable end. */
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
