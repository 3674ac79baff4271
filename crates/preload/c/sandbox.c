/* Programs in a sandbox (seccomp): after the call most system calls fail or kill, and nobody can
 * ask which.
 *
 * So before the call reaches the kernel the recorder prepares everything it may want later (memory
 * behind all rings, room for modules and unwind rules). From then on it asks the kernel for
 * nothing: sys() refuses (system.c). Consequences: a thread that waits for room in its ring spins,
 * and takes the drainer for dead if the drainer has not told the time for SILENCE_NS. Signals stay
 * open where they would be blocked, so a handler that finds a lock taken does without a rule.
 * Threads and children that begin in the sandbox are not recorded, only counted. On a coroutine's
 * stack walks read only the first page.
 *
 * Strict mode, and PR_SET_TSC by itself, also make reading the counter deadly (prctl(2)). Recording
 * needs the counter: it ends there.
 *
 * If one thread of the program is in a sandbox, the whole recorder behaves as if in it. A program
 * started by exec in the sandbox begins anew, and asks the kernel for its needs, as the dynamic
 * linker does. Deviations: the recorder does not see filters installed without the C library, nor
 * by a child of vfork before its exec. */
#include <linux/seccomp.h>
#include "arch.h"

#define RULES_BITS_SANDBOXED 15
#define RECORDS_BYTES_SANDBOXED (64u << 10)
#define SILENCE_NS 5000000000ull

static int (*next_prctl)(int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d);

/* Backs all memory that the process's rings and records may be written to. The caller holds their
   locks. */
static bool back_everything(struct process *p)
{
    bool backed = true;
    for (struct thread *t = p->threads; t; t = t->next)
        backed &= populate(t->data, (t->mask + 1 + t->nested_words) * 8);
    if (p->more_reserved < RECORDS_BYTES_SANDBOXED && populate((uint8_t *)p->file + p->file->more_offset, RECORDS_BYTES_SANDBOXED))
        p->more_reserved = RECORDS_BYTES_SANDBOXED;
    return backed;
}

/* Stops recording: of this thread at once; of the others readers leave out later events. */
static void stop_recording(uint32_t reason)
{
    process_cut(reason, counter());
    if (self->ring)
        self->limit = self->held_limit = 0;
}

/* State to restore if the call fails. */
struct unlocked {
    uint32_t sandboxed, timeless;
};

/* Called before the call that sandboxes the program. */
static struct unlocked enter_sandbox(bool timeless)
{
    uint64_t signals;
    struct unlocked before = {load_relaxed(&recorder.sandboxed), load_relaxed(&recorder.timeless)};
    if ((before.sandboxed && before.timeless >= timeless) || !recorder_ready())
        return before;
    struct process *p = recorder.process;
    if (!before.sandboxed && p->alive && p->file->pid != (uint32_t)sys(SYS_getpid, 0, 0, 0, 0, 0, 0))
        return before; /* a child of vfork shares its parent's memory */
    if (timeless && p->alive && !recorder.cut)
        stop_recording(HL_CUT_TIMELESS);
    store_release(&recorder.timeless, timeless);
    if (before.sandboxed)
        return before;
    block_signals(&signals);
    lock(&recorder.modules_lock);
    lock(&p->lock);
    if (p->alive && !recorder.cut) {
        lock(&p->records_lock);
        bool backed = back_everything(p);
        unlock(&p->records_lock);
        if (!backed)
            stop_recording(HL_CUT_NO_SPACE);
        if (recorder.depth && (!rule_table || rules_bits(rule_table) < RULES_BITS_SANDBOXED)) {
            rules_with_room();
            rules_grow(RULES_BITS_SANDBOXED);
        }
    }
    store_release(&recorder.sandboxed, 1);
    unlock(&p->lock);
    unlock(&recorder.modules_lock);
    restore_signals(&signals);
    return before;
}

static long entered_sandbox(long result, struct unlocked before)
{
    if (result < 0) {
        store_release(&recorder.timeless, before.timeless);
        store_release(&recorder.sandboxed, before.sandboxed);
    }
    return result;
}

static uint64_t counter_or_0(void) { return load_relaxed(&recorder.timeless) ? 0 : counter(); }

/* Whether the drainer has told the time lately; for processes that cannot ask for its lock. */
COLD static bool drainer_ticks(void)
{
    const struct hl_control *control = recorder.control;
    uint64_t end = load_relaxed(&control->end_counter), end_ns = load_relaxed(&control->end_ns), ticks = end - control->origin_counter;
    uint64_t ns = end_ns - control->origin_ns, last = end ? end : control->origin_counter;
    /* before the drainer has told the time once: assume a counter of 1 GHz */
    uint64_t silence = end && ns >> 20 ? ticks / (ns >> 20) * (SILENCE_NS >> 20) : SILENCE_NS;
    return (int64_t)(counter() - last) < (int64_t)silence;
}

/* The request of a sandboxing call. */
struct sandbox {
    bool is_one, timeless;
};

ALWAYS_INLINE struct sandbox sandbox_of_prctl(long option, long mode)
{
    if (option == PR_SET_TSC)
        return (struct sandbox){mode == PR_TSC_SIGSEGV, true};
    return (struct sandbox){option == PR_SET_SECCOMP, mode == SECCOMP_MODE_STRICT};
}

/* The same for syscall(). */
static struct sandbox sandbox_of_syscall(long number, long a, long b)
{
    if (number == SYS_prctl)
        return sandbox_of_prctl(a, b);
    return (struct sandbox){number == SYS_seccomp && (a == SECCOMP_SET_MODE_STRICT || a == SECCOMP_SET_MODE_FILTER), a == SECCOMP_SET_MODE_STRICT};
}

EXPORT int heaplab_prctl(int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d) __asm__("prctl");

int heaplab_prctl(int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d)
{
    if (!next_prctl)
        next_prctl = (__typeof__(next_prctl))dlsym(RTLD_NEXT, "prctl");
    struct sandbox wanted = sandbox_of_prctl(option, (long)a);
    if (likely(!wanted.is_one))
        return next_prctl(option, a, b, c, d);
    struct unlocked before = enter_sandbox(wanted.timeless);
    return (int)entered_sandbox(next_prctl(option, a, b, c, d), before);
}
