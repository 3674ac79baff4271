/* The call stack of an event, as a node of the tree.
 *
 * The verified cache. A thread keeps the frames of its last stack: for each the registers (ip, sp, fp) at which unwinding found
 * it, its node, and the words of the stack that unwinding from there outwards read ("checks"). When a new walk arrives at the
 * same (ip, sp, fp) as a kept frame and every word that was read further out still holds the same value, then going on would
 * give the same frames: a rule is a function of ip alone, each step a function of the rule, the registers and the words it
 * reads, and by induction every outer step has the same inputs as before. So the rest of the stack is the kept node: no
 * guess, and a load and a compare a frame instead of unwinding it. fp is compared (and its words checked) only where a frame
 * further out depends on it, because in optimised code it is an ordinary register that changes all the time.
 *
 * Rules change when a module goes away: recorder.generation then empties the cache. Frames that were interrupted by a signal
 * are walked but not kept.
 *
 * Length. A stack longer than `depth` need not be walked to its end, but where it is cut must not change with every call, or
 * nothing would be shared: a walk from scratch takes depth + 16 frames, and the cache may grow to depth + 48 before it is
 * begun anew, or shrink to depth. So a node has at least `depth` frames, if there are so many, and who wants exactly
 * that cuts the outer ones (layout.h). */
#include "arch.h"

#define WALK_MORE 16
#define KEEP_MORE 48
#define MAIN_STACK_BYTES (120ull << 20) /* the kernel keeps this much below the main stack's top free of other mappings */

struct stack_search {
    uintptr_t sp;
    struct range found;
};

static bool visit_for_stack(const struct mapping *mapping, void *context)
{
    struct stack_search *search = context;
    if (search->sp < mapping->start || search->sp >= mapping->end)
        return true;
    search->found = (struct range){mapping->start, mapping->end};
    if (mapping->stack && mapping->end - mapping->start < MAIN_STACK_BYTES)
        search->found.start = mapping->end - MAIN_STACK_BYTES; /* it grows */
    return false;
}

/* Makes t->stack the memory that sp lies in: the thread's own stack, an alternate one, a coroutine's. */
COLD static bool find_stack(struct thread *t, uintptr_t sp)
{
    struct stack_search search = {.sp = sp};
    t->frame_count = t->check_count = 0;
    for (unsigned i = 0; i < STACKS_KNOWN; i++) {
        if (sp >= t->stacks[i].start && sp < t->stacks[i].end) {
            t->stack = t->stacks[i];
            return true;
        }
    }
    visit_mappings(visit_for_stack, &search);
    if (!search.found.end) {
        lose(HL_LOST_STACK_BOUNDS);
        return false;
    }
    t->stack = t->stacks[t->stacks_next++ % STACKS_KNOWN] = search.found;
    return true;
}

ALWAYS_INLINE uint64_t node_hash(uint32_t parent, uint64_t ip) { return (ip ^ (uint64_t)parent << 40 ^ parent) * 0x9e3779b97f4a7c15ull; }

/* Backs the next slots with disk blocks. */
COLD static bool reserve_nodes(struct process *p, uint32_t node)
{
    const uint32_t chunk = 4096;
    uint64_t signals;
    bool have = true;
    block_signals(&signals);
    lock(&p->nodes_lock);
    while (have && node >= p->nodes_reserved) {
        have = p->nodes_reserved + chunk <= p->file->node_capacity && populate(p->nodes + p->nodes_reserved, chunk * sizeof *p->nodes);
        if (have)
            store_release(&p->nodes_reserved, p->nodes_reserved + chunk);
    }
    unlock(&p->nodes_lock);
    restore_signals(&signals);
    return have;
}

/* Finds or makes the node; 0 where there is no room. Two threads may make the same one at once: the loser's slot stays zero. */
static uint32_t node_global(uint32_t parent, uint64_t ip)
{
    struct process *p = recorder.process;
    uint32_t *head = &p->node_heads[node_hash(parent, ip) >> (64 - NODE_HEADS_BITS)];
    uint32_t first = load_acquire(head), seen = 0, made = 0;
    for (;;) {
        for (uint32_t n = first; n && n != seen; n = load_relaxed(&p->nodes[n].link)) {
            if (p->nodes[n].ip == ip && p->nodes[n].parent == parent) {
                if (made)
                    p->nodes[made] = (struct hl_node){0};
                return n;
            }
        }
        if (!made) {
            if (load_relaxed(&p->file->node_count) >= p->file->node_capacity)
                return 0;
            made = add_relaxed(&p->file->node_count, 1);
            if (made >= load_acquire(&p->nodes_reserved) && !reserve_nodes(p, made))
                return 0;
        }
        p->nodes[made] = (struct hl_node){.ip = ip, .parent = parent, .link = first};
        seen = first;
        if (__atomic_compare_exchange_n(head, &first, made, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
            return made;
    }
}

ALWAYS_INLINE uint32_t node_of(struct thread *t, uint32_t parent, uint64_t ip)
{
    struct node_cached *cached = &t->node_cache[node_hash(parent, ip) >> (64 - NODE_CACHE_BITS)];
    if (likely(cached->ip == ip && cached->parent == parent))
        return cached->node;
    uint32_t node = node_global(parent, ip);
    if (node)
        *cached = (struct node_cached){ip, parent, node};
    return node;
}

/* Takes nodes of an unloaded range out of the hash, so that what is loaded there later gets nodes of its own. Their
 * children can then no longer be found either. Only one thread at a time is here; others may add nodes in front. */
static void nodes_unlink(uintptr_t start, uintptr_t end)
{
    struct process *p = recorder.process;
    if (!p->nodes)
        return;
    for (uint32_t i = 0; i < 1u << NODE_HEADS_BITS; i++) {
        uint32_t n = load_acquire(&p->node_heads[i]), kept = 0;
        while (n) {
            uint32_t next = p->nodes[n].link, expected = n;
            bool gone = p->nodes[n].ip >= start && p->nodes[n].ip <= end;
            if (!gone) {
                kept = n;
            } else if (kept) {
                store_release(&p->nodes[kept].link, next);
            } else if (!__atomic_compare_exchange_n(&p->node_heads[i], &expected, next, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
                n = expected; /* someone added in front: begin again there */
                continue;
            }
            n = next;
        }
    }
}

/* A finished walk: steps[0 .. step_count) innermost first, upon `kept` frames of the cache. */
struct walk {
    uint32_t kept;
    struct outward last; /* how frame kept - 1 was found; without kept frames, what ended the walk */
    bool complete, interrupted;
};

/* How many of the first `count` checks hold. */
ALWAYS_INLINE uint32_t holding(const struct check *checks, uint32_t count)
{
    uint32_t i = 0;
    while (i < count && *checks[i].slot == checks[i].value)
        i++;
    return i;
}

/* Goes on behind a handler's frame; false: the walk ends. The interrupted code may run on another stack. */
COLD static bool walk_through_signal(struct thread *t, struct walk *w, struct registers *at, uintptr_t *high, struct outward *out)
{
    uintptr_t lr;
    struct registers from;
    if (!step_signal(*at, *high, &from, &lr))
        return false;
    w->interrupted = true;
    if (from.sp < t->stack.start || from.sp >= t->stack.end) {
        if (!find_stack(t, from.sp))
            return false;
        *high = t->stack.end;
    }
    packed rule = rule_miss(from.ip, true);
    t->steps[t->step_count++] = (struct step){.at = {from.ip + 1, from.sp, from.fp}, .rule = rule};
    *out = (struct outward){.at = {.fp = from.fp}};
    if (rule_kind(rule) == RULE_LEAF) {
        out->at = (struct registers){strip(lr), from.sp + (uintptr_t)rule_cfa_offset(rule), from.fp};
        *at = out->at;
        return out->at.ip != 0;
    }
    if ((rule_kind(rule) != RULE_STEP && rule_kind(rule) != RULE_FRAME_POINTER) || !step_out(rule, from, *high, out))
        return false;
    *at = out->at;
    return true;
}

/* Walks outwards until the cache knows the rest, the stack ends, or enough frames are there. */
static void walk(struct thread *t, struct registers at, uint32_t frames, struct walk *w)
{
    struct outward out = {.at = at};
    uintptr_t high = t->stack.end;
    uint32_t good = UINT32_MAX; /* so many checks are known to hold, once tried */
    const uint32_t most = recorder.depth + WALK_MORE;
    const struct frame *kept = t->frames;
    t->step_count = 0;
    w->complete = true;
    w->interrupted = false;
    for (;;) {
        while (frames && kept[frames - 1].at.sp < at.sp)
            frames--;
        if (frames && kept[frames - 1].at.sp == at.sp) {
            const struct frame *f = &kept[frames - 1];
            if (f->at.ip == at.ip && (f->at.fp == at.fp || !f->fp_matters)) {
                if (good == UINT32_MAX)
                    good = holding(t->checks, f->checks);
                if (f->checks <= good) {
                    w->complete = t->complete;
                    break;
                }
            }
            frames--;
        }
        packed rule = rule_of(at.ip);
        if (unlikely(rule_kind(rule) == RULE_UNKNOWN)) {
            out.stopped_at = (const uintptr_t *)out.ip_slot;
            frames = 0;
            break;
        }
        t->steps[t->step_count++] = (struct step){at, out.ip_slot, out.fp_slot, out.cfa_slot, rule};
        if (unlikely(t->step_count >= most)) {
            w->complete = false;
            frames = 0;
            break;
        }
        out.ip_slot = 0;
        if (likely(rule_kind(rule) == RULE_STEP || rule_kind(rule) == RULE_FRAME_POINTER)) {
            if (likely(step_out(rule, at, high, &out))) {
                at = out.at;
                continue;
            }
        } else if (rule_kind(rule) == RULE_SIGNAL && walk_through_signal(t, w, &at, &high, &out)) {
            frames = 0;
            continue;
        }
        frames = 0;
        break;
    }
    w->kept = frames;
    w->last = out;
}

/* Notes the words from which the frame at `at` was read; the frames inside of it depend on them. */
ALWAYS_INLINE uint32_t note_checks(struct thread *t, uint32_t count, uintptr_t ip_slot, uintptr_t fp_slot, uintptr_t cfa_slot, bool fp_matters)
{
    if (ip_slot)
        t->checks[count++] = (struct check){(const uintptr_t *)ip_slot, *(const uintptr_t *)ip_slot};
    if (fp_slot && fp_matters)
        t->checks[count++] = (struct check){(const uintptr_t *)fp_slot, *(const uintptr_t *)fp_slot};
    if (unlikely(cfa_slot))
        t->checks[count++] = (struct check){(const uintptr_t *)cfa_slot, *(const uintptr_t *)cfa_slot};
    return count;
}

ALWAYS_INLINE bool depends_on_fp(packed rule, bool outer)
{
    if (rule_kind(rule) == RULE_FRAME_POINTER)
        return true;
    return rule_kind(rule) == RULE_STEP && (rule_cfa(rule) != CFA_SP || rule_fp(rule) == FP_AT_FP || (rule_fp(rule) == FP_SAME && outer));
}

/* Puts the walk's frames on top of the kept ones, from the outermost, and returns the innermost's node. */
static uint32_t keep(struct thread *t, const struct walk *w)
{
    uint32_t frames = w->kept, checks = 0, node = 0;
    bool fp_matters = false;
    if (frames) {
        const struct frame *outer = &t->frames[frames - 1];
        node = outer->node;
        fp_matters = outer->fp_matters;
        checks = outer->checks;
        if (t->step_count)
            checks = note_checks(t, checks, w->last.ip_slot, w->last.fp_slot, w->last.cfa_slot, fp_matters);
    } else if (w->last.stopped_at) {
        t->checks[checks++] = (struct check){w->last.stopped_at, *w->last.stopped_at};
    }
    for (uint32_t i = t->step_count; i-- > 0;) {
        const struct step *s = &t->steps[i];
        node = node_of(t, node, s->at.ip);
        if (unlikely(!node)) {
            lose(HL_LOST_NODES_FULL);
            frames = checks = 0;
            break;
        }
        fp_matters = depends_on_fp(s->rule, fp_matters);
        t->frames[frames++] = (struct frame){s->at, node, checks, fp_matters};
        if (i)
            checks = note_checks(t, checks, s->ip_slot, s->fp_slot, s->cfa_slot, fp_matters);
    }
    t->frame_count = w->interrupted ? 0 : frames;
    t->check_count = checks;
    t->complete = w->complete;
    return node;
}

#ifdef HEAPLAB_VERIFY
#include "verify.c"
#endif

/* The node of the stack at whose innermost frame the registers are `at`. */
static uint32_t stack_node(struct thread *t, struct registers at)
{
    struct walk w;
    uint32_t generation = load_acquire(&recorder.generation);
    if (unlikely(t->generation != generation)) {
        t->generation = generation;
        t->frame_count = 0;
        memset(t->node_cache, 0, sizeof t->node_cache);
    }
    if (unlikely(!recorder.process->nodes))
        return 0;
    if (unlikely(at.sp < t->stack.start || at.sp >= t->stack.end) && !find_stack(t, at.sp))
        return node_of(t, 0, at.ip);
    walk(t, at, t->frame_count, &w);
    uint32_t total = w.kept + t->step_count;
    if (unlikely(total > recorder.depth + KEEP_MORE || (!w.complete && total < recorder.depth))) {
        if (w.kept)
            walk(t, at, 0, &w);
    }
#ifdef HEAPLAB_VERIFY
    uint32_t node = keep(t, &w);
    verify(t, at, node);
    return node;
#else
    return keep(t, &w);
#endif
}
