/* Stacks met before, told by the words that say so.
 *
 * The cache of the last stack (stacks.c) leaves to a walk what has changed since, frame by frame. But programs come back to the stacks they had: the
 * same frames at the same addresses. A trace is such a stack: where its innermost frame was (ip, sp, fp), the words that unwinding read from there
 * outwards, and its node. Where all of them hold, unwinding would give the same frames, by the same induction as in stacks.c, so that the node is known
 * after a load and a compare a word, none of which waits for another. The words are those of the innermost `depth` frames: of what lies further out a
 * node says more than anybody reads (layout.h).
 *
 * Which trace to try is a guess, and a wrong one costs time only. The first is the one that followed upon the last one when that was followed by a call
 * from the same place. Else those are tried whose stacks begin with the same few return addresses, which takes unwinding them.
 *
 * Traces lie one behind the other in a ring of words, so that the oldest goes when there is no more room. They are named by their first word's number,
 * counted over the thread's life. One counts only if it still lies there, if it is not older than `floor`, which moves up when the thread or a module
 * changes, and if the ring's node that it names is still defined as it was. A handler that never returns may leave the middle of anything here: so a
 * trace is named after it is written, and room is taken before it is written to.
 *
 * Only stacks that last have traces (bounds.c): on others it is not known which words may be read. */
#include "arch.h"

#define TRACE_PREFIX 4 /* return addresses that the second guess is made from */
#define TRACE_WORDS_MIN ((uint32_t)(sizeof(struct trace) / 8))
#define HASH 0x9e3779b97f4a7c15ull

struct trace {
    struct registers at;
    struct node node;
    uint32_t checks; /* a multiple of four */
    bool fp_matters;
    uint64_t values[]; /* and behind them where they lie: words from sp, 16 bits each */
};

ALWAYS_INLINE struct trace *trace_at(const struct traces *traces, uint32_t first)
{
    return (struct trace *)(traces->words + (first & (traces->room - 1)));
}

ALWAYS_INLINE bool trace_holds(const struct trace *trace)
{
    const uint64_t *stack = (const uint64_t *)trace->at.sp, *value = trace->values, *end = value + trace->checks;
    for (const uint16_t *offset = (const uint16_t *)end; value < end; value += 4, offset += 4)
        if ((stack[offset[0]] ^ value[0]) | (stack[offset[1]] ^ value[1]) | (stack[offset[2]] ^ value[2]) | (stack[offset[3]] ^ value[3]))
            return false;
    return true;
}

/* The node of the stack at `at` if the trace named `first` is of it, else 0. */
ALWAYS_INLINE uint32_t trace_node(const struct thread *t, uint32_t first, struct registers at)
{
    const struct traces *traces = &t->traces;
    if (first < traces->floor || traces->head - first > traces->room)
        return 0;
    const struct trace *trace = trace_at(traces, first);
    if ((trace->at.ip ^ at.ip) | (trace->at.sp ^ at.sp) | ((trace->at.fp ^ at.fp) & -(uint64_t)trace->fp_matters))
        return 0;
    const struct known *known = &t->known[trace->node.number - 1];
    if (known->definition != trace->node.definition || !known->key)
        return 0;
    return likely(trace_holds(trace)) ? trace->node.number : 0;
}

/* The place of the first guess's name. */
ALWAYS_INLINE uint32_t *follower(const struct traces *traces, struct registers at)
{
    uint64_t key = ((at.ip * HASH ^ at.sp) * HASH ^ traces->last) * HASH;
    return &traces->followers[key >> (64 - traces->follower_bits)];
}

/* The places of the second guess's names. */
ALWAYS_INLINE struct trace_places *alike(const struct thread *t, struct registers at)
{
    const uintptr_t high = t->stack.end;
    uint64_t key = at.ip * HASH ^ at.sp;
    for (unsigned i = 0; i < TRACE_PREFIX; i++) {
        packed rule = rule_known(at.ip);
        uintptr_t cfa = at.sp + (uintptr_t)rule_cfa_offset(rule);
        if (unlikely(!(rule & RULE_WITHIN) || cfa > high))
            break;
        at.ip = strip(*(const uintptr_t *)(cfa + (uintptr_t)rule_ra_offset(rule)));
        at.sp = cfa;
        key = (key ^ at.ip) * HASH;
    }
    return &t->traces.places[(key ^ key >> 29) * HASH >> (64 - t->traces.place_bits)];
}

static __attribute__((noinline)) uint32_t trace_alike(struct thread *t, struct registers at, uint32_t *following)
{
    const struct trace_places *places = alike(t, at);
    for (unsigned i = 0; i < TRACE_WAYS; i++) {
        uint32_t node = trace_node(t, places->first[i], at);
        if (!node)
            continue;
        t->traces.last = *following = places->first[i];
        return node;
    }
    return 0;
}

/* The node of the stack at `at`, if there is a trace of it, else 0. */
ALWAYS_INLINE uint32_t traced(struct thread *t, struct registers at)
{
    uint32_t *following = follower(&t->traces, at), first = *following;
    uint32_t node = trace_node(t, first, at);
    if (unlikely(!node))
        return trace_alike(t, at, following);
    t->traces.last = first;
    return node;
}

/* Room for a trace of so many words: its name. */
static uint32_t trace_room(struct traces *traces, uint32_t words)
{
    uint32_t first = traces->head, left = traces->room - (first & (traces->room - 1));
    if (first > UINT32_MAX / 2) { /* names begin anew */
        memset(traces->followers, 0, sizeof *traces->followers << traces->follower_bits);
        memset(traces->places, 0, sizeof *traces->places << traces->place_bits);
        first = traces->floor = traces->room;
    } else if (words > left) {
        first += left;
    }
    traces->head = first + words;
    signal_fence();
    return first;
}

/* Makes a trace of the stack at `at`, which the cache holds. */
static __attribute__((noinline)) void trace_add(struct thread *t, struct registers at)
{
    struct traces *traces = &t->traces;
    const struct frame *innermost = &t->frames[t->frame_count - 1];
    const struct check *from = t->checks + (t->frame_count > recorder.depth ? t->frames[t->frame_count - recorder.depth].checks : 0);
    const uint32_t count = (uint32_t)(t->checks + t->check_count - from), checks = (count + 3) & ~3u;
    const uint32_t words = TRACE_WORDS_MIN + checks + checks / 4;
    if (at.sp % 8 || words > traces->room / 4)
        return;
    uint32_t first = trace_room(traces, words);
    struct trace *trace = trace_at(traces, first);
    *trace = (struct trace){at, innermost->node, checks, innermost->fp_matters};
    uint16_t *offsets = (uint16_t *)(trace->values + checks);
    for (uint32_t i = 0; i < checks; i++) {
        const struct check *check = &from[i < count ? i : count - 1];
        uintptr_t offset = ((uintptr_t)check->slot - at.sp) / 8;
        if (offset > UINT16_MAX)
            return;
        trace->values[i] = check->value;
        offsets[i] = (uint16_t)offset;
    }
    signal_fence();
    struct trace_places *places = alike(t, at);
    unsigned oldest = 0;
    for (unsigned i = 1; i < TRACE_WAYS; i++)
        oldest = places->first[i] < places->first[oldest] ? i : oldest;
    places->first[oldest] = first;
    *follower(traces, at) = first;
    traces->last = first;
}

/* What is known no longer counts. */
static void traces_forget(struct traces *traces)
{
    traces->head += traces->head == 0; /* 0 names none */
    traces->floor = traces->head;
}
