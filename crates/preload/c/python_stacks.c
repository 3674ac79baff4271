/* Puts Python's frames between the native ones of a stack, and remembers the joined stacks
   (python.c says how). */
#include "arch.h"

/* Joins the frames of two stacks into `ips`, innermost first. */
struct joint {
    const struct step *steps;
    uint32_t step_count, step; /* native frames, and those already taken */
    uint64_t *ips;
    uint32_t count, most;
    bool in_python; /* a Python frame was taken already */
};

static void joint_add(struct joint *j, uint64_t ip)
{
    if (j->count < j->most)
        j->ips[j->count++] = ip;
}

/* Takes native frames up to index `end`. */
static void joint_native(struct joint *j, uint32_t end)
{
    bool keeps_all = recorder.control->flags & HL_CONTROL_INTERPRETER;
    for (; j->step < end; j->step++) {
        uintptr_t ip = j->steps[j->step].at.ip;
        if (!j->in_python || keeps_all || !in_range(python.module, ip))
            joint_add(j, ip);
    }
}

/* The index of the native frame of the loop that ends with `entry`; step_count: not found. */
static uint32_t joint_loop(const struct joint *j, const struct python_frame *entry)
{
    for (uint32_t i = j->step; i < j->step_count; i++) {
        const struct registers *at = &j->steps[i].at;
        if (!entry->mark ? in_range(python.loop, at->ip - 1)
                         : entry->mark >= at->sp && i + 1 < j->step_count && entry->mark < j->steps[i + 1].at.sp)
            return i;
    }
    return j->step_count;
}

/* Puts `count` Python frames between the native ones of t->steps; returns how many frames are in
   p->ips. Signals are blocked. */
static uint32_t put_together(struct thread *t, struct python_thread *p, uint32_t count)
{
    struct joint j = {.steps = t->steps, .step_count = t->step_count, .ips = p->ips, .most = recorder.depth + WALK_MORE};
    lock(&python.lock);
    for (uint32_t first = 0; first < count && j.count < j.most;) {
        uint32_t last = first;
        while (last + 1 < count && !p->frames[last].is_entry)
            last++;
        uint32_t loop = p->frames[last].is_entry ? joint_loop(&j, &p->frames[last]) : j.step_count;
        joint_native(&j, loop);
        j.in_python = true;
        for (; first <= last; first++)
            joint_add(&j, python_ip(p, &p->frames[first]));
        /* the loop has no further Python frames */
        joint_native(&j, loop < j.step_count ? loop + 1 : loop);
    }
    joint_native(&j, j.step_count);
    unlock(&python.lock);
    return j.count;
}

COLD static bool python_thread_make(struct thread *t)
{
    return (t->python = map_private(sizeof *t->python, MADV_WIPEONFORK)) != NULL;
}

static void python_forget(struct thread *t)
{
    if (t->python)
        memset(t->python, 0, offsetof(struct python_thread, frames));
}

static struct joined *joined_place(struct thread *t, uint64_t frames, uint32_t native)
{
    return &t->python->joined[python_mix(frames, native) >> (64 - JOINED_BITS)];
}

/* Puts all native frames of the stack at `at` into t->steps. The cache usually has them, because
   the stack's native node was found just before. */
static void native_steps(struct thread *t, struct registers at)
{
    struct walk w = {.kept = 0};
    t->step_count = 0;
    if (is_on(&t->stack, at.sp)) {
        walk(t, at, t->frame_count, &w);
        uint32_t total = w.kept + t->step_count;
        if (w.kept && (total > recorder.depth + KEEP_MORE || (!w.complete && total < recorder.depth)))
            walk(t, at, 0, &w);
    }
    for (uint32_t i = w.kept; i-- > 0;)
        t->steps[t->step_count++] = (struct step){.at = t->frames[i].at};
    if (!t->step_count)
        t->steps[t->step_count++] = (struct step){.at = at};
}

/* Joins a stack that is not remembered, and returns its node. `node` is the native stack's. 0:
   recording was cut. */
static __attribute__((noinline)) uint32_t python_join(struct thread *t, struct registers at, const uint8_t *thread, uint64_t hash, uint32_t node, uint64_t words)
{
    struct python_thread *p = t->python;
    struct python_walk w = python_begin(thread);
    uint32_t count = 0, native_definition = t->known[node - 1].definition;
    uint64_t signals;
    while (count < recorder.depth && python_next(&w, &p->frames[count]))
        count++;
    native_steps(t, at);
    block_signals(&signals);
    uint32_t frames = put_together(t, p, count);
    restore_signals(&signals);
    if (!room_for_steps(t, frames, words))
        return 0;
    /* From here on the cache of the last stack holds the joined one, so that define() spares its
       nodes. walk() could not use this stack. */
    t->frame_count = 0;
    struct node made = {0, 0};
    uint32_t path = 0;
    for (uint32_t i = frames; i-- > 0;) {
        path = path_of(path, p->ips[i]);
        made = node_of(t, made, p->ips[i], known_places(t, path), frames - 1 - i);
        t->frames[frames - 1 - i].node = made;
    }
    t->overwritten = false;
    *joined_place(t, hash, native_definition) = (struct joined){hash, native_definition, made.number, made.definition};
    return made.number;
}

/* The node of the stack at `at` with its Python frames; `node` is the native stack's. 0: recording
   was cut. */
COLD static uint32_t with_python(struct thread *t, struct registers at, uint32_t node, uint64_t words)
{
    uint32_t found = load_acquire(&python.found);
    if (!node || (found != 1 && found != 2) || (!t->python && !python_thread_make(t)))
        return node;
    const uint8_t *thread = python_thread_state();
    if (!thread)
        return node;
    if (unlikely(found == 1)) {
        python_try(thread);
        if (load_acquire(&python.found) != 2)
            return node;
    }
    uint32_t deaths = load_acquire(&python.deaths);
    if (unlikely(t->python->deaths != deaths)) {
        python_forget(t);
        t->python->deaths = deaths;
    }
    uint64_t hash = python_hash(thread);
    if (!hash)
        return node;
    uint32_t native = t->known[node - 1].definition;
    const struct joined *j = joined_place(t, hash, native);
    if (likely(j->frames == hash && j->native == native && j->node && t->known[j->node - 1].definition == j->definition && t->known[j->node - 1].key))
        return j->node;
    return python_join(t, at, thread, hash, node, words);
}
