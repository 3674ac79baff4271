/* Programs that lock themselves up (seccomp): from then on most system calls fail or kill, and which ones nobody can ask.
 *
 * So before such a program's call goes to the kernel everything is made ready that could be wanted later (memory behind all rings, room for modules
 * and unwind rules), and from there on the recorder asks the kernel for nothing: sys() refuses (system.c). What that means: a thread that waits for room
 * in its ring spins, and takes the drainer for dead when it has not told the time for SILENCE_NS; signals stay open where they would be blocked, so that
 * a handler that finds a lock taken does without a rule; threads and children that begin in there are not recorded, and counted; coroutines' stacks
 * are read to the end of their first page.
 *
 * Strict mode, and PR_SET_TSC by itself, also make reading the counter deadly (prctl(2)). Without it there is nothing to record: that ends there.
 *
 * The recorder is locked up as a whole where one thread of the program is. A program that is exec'd in there begins anew, and asks the kernel for what
 * it needs, as the dynamic linker does. Deviations: who installs a filter without the C library is not seen, nor is a child of
 * vfork that does so before it execs. */
#include <linux/seccomp.h>
#include "arch.h"

#define RULES_BITS_SANDBOXED 15
#define RECORDS_BYTES_SANDBOXED (64u << 10)
#define SILENCE_NS 5000000000ull

static int (*next_prctl)(int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d);

/* Puts memory behind all that the process's rings and records may be written to. With their locks held. */
static bool back_everything(struct process *p)
{
    bool backed = true;
    for (struct thread *t = p->threads; t; t = t->next)
        backed &= populate(t->data, (t->mask + 1 + t->nested_words) * 8);
    if (p->more_reserved < RECORDS_BYTES_SANDBOXED && populate((uint8_t *)p->file + p->file->more_offset, RECORDS_BYTES_SANDBOXED))
        p->more_reserved = RECORDS_BYTES_SANDBOXED;
    return backed;
}

/* Nothing more is recorded: of this thread at once, of the others what comes later is left out. */
static void stop_recording(uint32_t reason)
{
    process_cut(reason, counter());
    if (self->ring)
        self->limit = self->held_limit = 0;
}

/* What to come back to where the call fails. */
struct unlocked {
    uint32_t sandboxed, timeless;
};

/* Before the call that locks the program up. */
static struct unlocked enter_sandbox(bool timeless)
{
    uint64_t signals;
    struct unlocked before = {load_relaxed(&recorder.sandboxed), load_relaxed(&recorder.timeless)};
    if ((before.sandboxed && before.timeless >= timeless) || !recorder_ready())
        return before;
    struct process *p = recorder.process;
    if (!before.sandboxed && p->alive && p->file->pid != (uint32_t)sys(SYS_getpid, 0, 0, 0, 0, 0, 0))
        return before; /* a child of vfork, whose memory this is not */
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

/* Whether the drainer has told the time lately, for who cannot ask for its lock. */
COLD static bool drainer_ticks(void)
{
    const struct hl_control *control = recorder.control;
    uint64_t end = load_relaxed(&control->end_counter), end_ns = load_relaxed(&control->end_ns), ticks = end - control->origin_counter;
    uint64_t ns = end_ns - control->origin_ns, last = end ? end : control->origin_counter;
    /* before it has told it once, counters of 1 GHz are as good a guess as any */
    uint64_t silence = end && ns >> 20 ? ticks / (ns >> 20) * (SILENCE_NS >> 20) : SILENCE_NS;
    return (int64_t)(counter() - last) < (int64_t)silence;
}

/* What a call asks for. */
struct sandbox {
    bool is_one, timeless;
};

ALWAYS_INLINE struct sandbox sandbox_of_prctl(long option, long mode)
{
    if (option == PR_SET_TSC)
        return (struct sandbox){mode == PR_TSC_SIGSEGV, true};
    return (struct sandbox){option == PR_SET_SECCOMP, mode == SECCOMP_MODE_STRICT};
}

/* The same of syscall(). */
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
