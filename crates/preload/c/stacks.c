/* The call stack of an event, as a node of the tree.
 *
 * The verified cache. A thread keeps the frames of its last stack. Each frame has the registers
 * (ip, sp, fp) at which unwinding found it, its node, and the words of the stack that unwinding
 * from there outwards read ("checks"). Suppose a new walk arrives at the same (ip, sp, fp) as a
 * kept frame, and every word read further out still holds the same value. Then going on would
 * give the same frames: a rule is a function of ip alone, each step a function of the rule, the
 * registers and the words it reads, and by induction every outer step has the same inputs as
 * before. So the kept node is the rest of the stack, without a guess, at a load and a compare a
 * frame instead of unwinding. fp is compared (and its words checked) only if a frame further out
 * depends on fp: in optimised code fp is an ordinary register that changes all the time.
 *
 * Rules change when a module goes away: recorder.generation then empties the cache. Frames
 * interrupted by a signal are walked but not kept.
 *
 * Length. A stack longer than `depth` need not be walked to its end. But the cut must not move
 * with every call, or stacks would share nothing: a walk from scratch takes depth + 16 frames,
 * and the cache may grow to depth + 48 before it begins anew, or shrink to depth. So a node has
 * at least min(`depth`, real depth) frames; readers that want exactly `depth` cut the outer ones
 * (layout.h). */
#include "arch.h"

#define WALK_MORE 16

#ifdef HEAPLAB_VERIFY
static void verify_define(struct thread *t, uint32_t number, uint32_t parent, uint64_t ip);
#endif

/* Hash of a stack's return addresses up to `ip`, given the hash of the frames outside of `ip`. */
ALWAYS_INLINE uint32_t path_of(uint32_t outer, uint64_t ip) { return (uint32_t)(((ip ^ (uint64_t)outer << 24) * SPREAD) >> 32); }

/* The first of the KNOWN_WAYS places where the thread's node of a path may be. The path alone gives
 * the places, without the outer node: all places of a walk can be fetched at once. */
ALWAYS_INLINE struct known *known_places(const struct thread *t, uint32_t path) { return &t->known[path >> (34 - t->known_bits) << 2]; }

#define KNOWN_FRAMES_SHIFT 48
_Static_assert(KNOWN_WAYS == 4, "node_of looks at four");
_Static_assert(3 * (HL_STACK_DEPTH_MAX + KEEP_MORE + 1) < UINT16_MAX, "checks are counted in 16 bits");
_Static_assert(HL_STACK_DEPTH_MAX + KEEP_MORE < INT16_MAX, "how many frames lie outside does not fit into a node's key");

ALWAYS_INLINE uint64_t known_key(uint64_t ip, uint32_t outside) { return ip | (uint64_t)outside << KNOWN_FRAMES_SHIFT; }

/* Whether the node in a place is one of the stack's first `frames` frames: both then have equally
   many frames outside. */
static bool in_use(const struct thread *t, uint32_t frames, const struct known *place)
{
    /* the highest bit is a Python frame's */
    uint32_t outside = place->key >> KNOWN_FRAMES_SHIFT & INT16_MAX;
    if (outside >= frames)
        /* an address of the kernel's half leaves no bits for the count */
        return outside == INT16_MAX;
    return t->frames[outside].node.number == (uint32_t)(place - t->known) + 1;
}

/* Defines a node in one of `places`. Nodes of the stack's own frames keep their places: the cache
 * goes on using them. The place is empty while the record is written, because a handler that never
 * returns may end the write in the middle. */
static __attribute__((noinline)) struct node define(struct thread *t, struct known *places, struct node parent, uint64_t ip, uint32_t frames)
{
    uint32_t way = KNOWN_WAYS, first = (uint32_t)(places - t->known) + 1;
    for (uint32_t i = KNOWN_WAYS; i-- > 0;)
        way = places[i].key ? way : i;
    for (uint32_t tries = 0; way == KNOWN_WAYS && tries < KNOWN_WAYS; tries++) {
        uint32_t candidate = (t->definitions + tries) % KNOWN_WAYS;
        if (!in_use(t, frames, &places[candidate]))
            way = candidate;
    }
    if (way == KNOWN_WAYS) { /* all in use: take any but the parent's; the stack is not kept */
        way = parent.number == first;
        t->overwritten = true;
    }
    places[way].key = 0;
    t->traces.proved.at.ip = 0; /* its node may be this one */
    t->definitions++;
    signal_fence();
    uint64_t *to = t->data + (t->head & t->mask);
    to[0] = t->stamp << 4 | HL_NODE;
    to[1] = ip;
    to[2] = (first + way) | (uint64_t)parent.number << 32;
    t->head += 3; /* published together with the event */
    signal_fence();
    places[way].parent = parent.definition;
    places[way].definition = t->definitions;
    signal_fence();
#ifdef HEAPLAB_VERIFY
    verify_define(t, first + way, parent.number, ip);
    signal_fence();
#endif
    places[way].key = known_key(ip, frames);
    return (struct node){first + way, t->definitions};
}

/* The node of `ip` called from `parent`; outside of `ip` lie the first `frames` - 1 frames of the
   stack. Its places are `places`. */
ALWAYS_INLINE struct node node_of(struct thread *t, struct node parent, uint64_t ip, struct known *places, uint32_t frames)
{
    const uint64_t key = known_key(ip, frames);
    /* sums instead of branches: a processor cannot predict the place */
    uint32_t same = (uint32_t)(places[0].key == key) | (uint32_t)(places[1].key == key) << 1 | (uint32_t)(places[2].key == key) << 2 |
                    (uint32_t)(places[3].key == key) << 3;
    for (; likely(same); same &= same - 1) {
        struct known *place = &places[__builtin_ctz(same)];
        if (likely(place->parent == parent.definition))
            return (struct node){(uint32_t)(place - t->known) + 1, place->definition};
    }
    return define(t, places, parent, ip, frames);
}

/* Whether the ring has room for the definitions of `steps` frames and the event behind them. */
ALWAYS_INLINE bool room_for_steps(struct thread *t, uint32_t steps, uint64_t words)
{
    uint64_t all = 3 * (uint64_t)steps + words;
    return likely(t->head + all <= t->held_limit) || wait_for_room(t, all);
}

/* A finished walk: steps[0 .. step_count) innermost first, upon `kept` frames of the cache. */
struct walk {
    uint32_t kept;
    /* the step that found frame kept - 1; without kept frames, the step that ended the walk */
    struct outward last;
    bool complete, interrupted, unsure;
    struct blocked blocked; /* until the walk ends */
};

/* Number of the first `count` checks that hold. */
ALWAYS_INLINE uint32_t holding(const struct check *checks, uint32_t count)
{
    uint32_t i = 0;
    /* mostly all hold: one branch for four */
    for (const struct check *c = checks; i + 4 <= count; i += 4, c += 4)
        if ((*c[0].slot ^ c[0].value) | (*c[1].slot ^ c[1].value) | (*c[2].slot ^ c[2].value) | (*c[3].slot ^ c[3].value))
            break;
    while (i < count && *checks[i].slot == checks[i].value)
        i++;
    return i;
}

/* Whether the words of the first `count` checks are readable; a walk may then read up to *high. */
COLD static bool can_check(const struct thread *t, uint32_t count, uintptr_t *high)
{
    uintptr_t end = 0;
    for (uint32_t i = 0; i < count; i++)
        if ((uintptr_t)t->checks[i].slot + 8 > end)
            end = (uintptr_t)t->checks[i].slot + 8;
    return end <= *high || reach(&t->stack, high, end, CHECK_PAGES_MAX);
}

/* Goes on from a handler's frame to the interrupted code, possibly on another stack; false: the
   walk ends. */
COLD static bool walk_through_signal(struct thread *t, struct walk *w, struct registers *at, uintptr_t *high, struct outward *out)
{
    uintptr_t lr;
    struct registers from;
    if (!step_signal_on(&t->stack, *at, high, &from, &lr))
        return false;
    w->interrupted = true;
    if (!is_on(&t->stack, from.sp)) {
        if (!find_stack(t, from.sp))
            return false;
        *high = readable_end(&t->stack, from.sp);
    }
    packed rule = rule_miss(from.ip, true, &w->blocked);
    t->steps[t->step_count++] = (struct step){.at = {from.ip + 1, from.sp, from.fp}, .rule = rule};
    *out = (struct outward){.at = {.fp = from.fp}};
    if (rule_kind(rule) == RULE_LEAF) {
        out->at = (struct registers){strip(lr), from.sp + (uintptr_t)rule_cfa_offset(rule), from.fp};
        *at = out->at;
        return out->at.ip != 0;
    }
    if (rule_kind(rule) != RULE_STEP && rule_kind(rule) != RULE_FRAME_POINTER)
        return false;
    if (!step_out(rule, from, *high, out) && !step_further(&t->stack, rule, from, high, out))
        return false;
    *at = out->at;
    return true;
}

/* Walks outwards until the cache knows the rest, the stack ends, or the walk has enough frames. */
static void walk(struct thread *t, struct registers at, uint32_t frames, struct walk *w)
{
    struct outward out = {.at = at};
    uintptr_t high = readable_end(&t->stack, at.sp);
    const uint32_t most = recorder.depth + WALK_MORE;
    const struct frame *const kept = t->frames;
    struct step *const steps = t->steps;
    t->step_count = 0;
    w->complete = true;
    w->interrupted = w->unsure = false;
    w->blocked.are = false;
    while (frames && kept[frames - 1].at.sp < at.sp)
        frames--;
    if (unlikely(!t->stack.lasts) && frames && !can_check(t, kept[frames - 1].checks, &high))
        frames = 0;
    /* before the first rule is known: these loads depend on nothing, the walk's on one another */
    const uint32_t good = frames ? holding(t->checks, kept[frames - 1].checks) : 0;
    while (frames && kept[frames - 1].checks > good)
        frames--;
    for (;;) {
        while (frames && kept[frames - 1].at.sp < at.sp)
            frames--;
        if (frames && kept[frames - 1].at.sp == at.sp) {
            const struct frame *f = &kept[frames - 1];
            if (f->at.ip == at.ip && (f->at.fp == at.fp || !f->fp_matters)) {
                w->complete = t->complete;
                w->unsure = t->unsure;
                break;
            }
            frames--;
        }
        packed rule = rule_of(at.ip, &w->blocked);
        if (unlikely(rule_unknown(rule))) {
            out.stopped_at = (const uintptr_t *)out.ip_slot;
            w->unsure = rule_kind(rule) == RULE_UNSURE;
            frames = 0;
            break;
        }
        uint32_t count = t->step_count;
        steps[count] = (struct step){at, out.ip_slot, out.fp_slot, out.cfa_slot, rule, 0};
        t->step_count = ++count;
        if (unlikely(count >= most)) {
            w->complete = false;
            frames = 0;
            break;
        }
        out.ip_slot = 0;
        if (likely(rule_kind(rule) == RULE_STEP || rule_kind(rule) == RULE_FRAME_POINTER)) {
            if (likely(step_out(rule, at, high, &out)) || step_further(&t->stack, rule, at, &high, &out)) {
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
    unblock(&w->blocked);
}

/* Notes the words that gave the frame at `at`; the frames inside of it depend on these words. */
ALWAYS_INLINE uint32_t note_checks(struct check *checks, uint32_t count, uintptr_t ip_slot, uintptr_t fp_slot, uintptr_t cfa_slot, bool fp_matters)
{
    if (ip_slot)
        checks[count++] = (struct check){(const uintptr_t *)ip_slot, *(const uintptr_t *)ip_slot};
    const uintptr_t *fp = (const uintptr_t *)(fp_slot ? fp_slot : ip_slot);
    if (likely(fp)) { /* written even if unwanted: cheaper than an unpredictable branch */
        checks[count] = (struct check){fp, *fp};
        count += (fp_slot != 0) & fp_matters;
    }
    if (unlikely(cfa_slot))
        checks[count++] = (struct check){(const uintptr_t *)cfa_slot, *(const uintptr_t *)cfa_slot};
    return count;
}

ALWAYS_INLINE bool depends_on_fp(packed rule, bool outer)
{
    if (likely(rule & RULE_WITHIN))
        return outer & (rule_fp(rule) == FP_SAME);
    if (rule_kind(rule) == RULE_FRAME_POINTER)
        return true;
    return rule_kind(rule) == RULE_STEP && (rule_cfa(rule) != CFA_SP || rule_fp(rule) == FP_AT_FP || (rule_fp(rule) == FP_SAME && outer));
}

/* Puts the walk's frames on top of the kept ones, from the outermost on. Returns the innermost
   frame's node. */
__attribute__((noinline, hot)) static uint32_t keep(struct thread *t, const struct walk *w)
{
    struct frame *const kept = t->frames;
    struct step *const steps = t->steps;
    struct known *const known = t->known;
    struct check *const noted = t->checks;
    const uint32_t count = t->step_count, shift = 34 - t->known_bits;
    uint32_t frames = w->kept, checks = 0, path = frames ? kept[frames - 1].path : 0;
    for (uint32_t i = count; i-- > 0;) {
        path = steps[i].path = path_of(path, steps[i].at.ip);
        __builtin_prefetch(&known[path >> shift << 2]);
    }
    struct node node = {0, 0};
    bool fp_matters = false;
    if (!t->stamp)
        /* here, because reading the counter takes as long as fetching the places */
        t->stamp = counter();
    if (frames) {
        const struct frame *outer = &kept[frames - 1];
        node = outer->node;
        fp_matters = outer->fp_matters;
        checks = outer->checks;
        if (count)
            checks = note_checks(noted, checks, w->last.ip_slot, w->last.fp_slot, w->last.cfa_slot, fp_matters);
    } else if (w->last.stopped_at) {
        noted[checks++] = (struct check){w->last.stopped_at, *w->last.stopped_at};
    }
    for (uint32_t i = count; i-- > 0;) {
        const struct step *s = &steps[i];
        node = node_of(t, node, s->at.ip, &known[s->path >> shift << 2], frames);
        fp_matters = depends_on_fp(s->rule, fp_matters);
        kept[frames++] = (struct frame){s->at, node, s->path, (uint16_t)checks, fp_matters};
        if (i)
            checks = note_checks(noted, checks, s->ip_slot, s->fp_slot, s->cfa_slot, fp_matters);
    }
    t->frame_count = w->interrupted || t->overwritten ? 0 : frames;
    t->overwritten = false;
    t->check_count = checks;
    t->complete = w->complete;
    t->unsure = w->unsure;
    return node.number;
}

/* A stack of one frame where unwinding is impossible: it still names the caller. */
COLD static uint32_t lone_node(struct thread *t, uintptr_t ip, uint64_t words)
{
    if (!room_for_steps(t, 1, words))
        return 0;
    if (!t->stamp)
        t->stamp = counter();
    return node_of(t, (struct node){0, 0}, ip, known_places(t, path_of(0, ip)), 0).number;
}

#include "traces.c"
#include "python.c"
#include "python_frames.c"
#include "python_codes.c"
#include "python_stacks.c"

/* The node of the stack with innermost registers `at`, for an event of `words`. 0: recording was
 * cut. Sets t->stamp if t->stamp is 0. */
ALWAYS_INLINE uint32_t node_at(struct thread *t, struct registers at, uint64_t words)
{
    struct walk w;
    uint32_t generation = load_acquire(&recorder.generation);
    if (unlikely(t->generation != generation) || unlikely(t->definitions > UINT32_MAX - 2 * HL_STACK_DEPTH_MAX)) {
        t->generation = generation;
        t->frame_count = t->definitions = 0;
        traces_forget(&t->traces);
        python_forget(t);
        memset(t->known, 0, sizeof *t->known << t->known_bits);
    }
    if (unlikely(!is_on(&t->stack, at.sp)) && !find_stack(t, at.sp))
        return lone_node(t, at.ip, words);
    bool guesses = t->stack.lasts && traces_pay(&t->traces);
    uint32_t node = guesses ? traced(t, at, 0) : 0;
    if (likely(node)) {
        t->stamp = t->stamp ? t->stamp : counter();
        return node;
    }
    walk(t, at, t->frame_count, &w);
    uint32_t total = w.kept + t->step_count;
    if (unlikely(!total))
        return lone_node(t, at.ip, words);
    if (unlikely(total > recorder.depth + KEEP_MORE || (!w.complete && total < recorder.depth))) {
        if (w.kept)
            walk(t, at, 0, &w);
    }
    if (unlikely(!room_for_steps(t, t->step_count, words)))
        return 0;
    node = keep(t, &w);
    t->traces.wrong += guesses;
    if (guesses && t->frame_count && !t->unsure)
        trace_follows(t, at, node);
    return node;
}

#ifdef HEAPLAB_VERIFY
#include "verify.c"
#endif

static uint32_t stack_node(struct thread *t, struct registers at, uint64_t words)
{
#ifdef HEAPLAB_VERIFY
    t->step_count = UINT32_MAX; /* a walk restarts the count */
    uint32_t node = node_at(t, at, words);
    verify(t, at, node, t->step_count == UINT32_MAX);
#else
    uint32_t node = node_at(t, at, words);
#endif
    return unlikely(t->wants_python) ? with_python(t, at, node, words) : node;
}
