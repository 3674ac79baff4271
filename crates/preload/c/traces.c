/* Known stacks, recognised by the words that prove them.
 *
 * After the cache of the last stack (stacks.c) a walk still steps through every changed frame. But
 * programs come back to earlier stacks: the same frames at the same addresses. A trace is such a
 * stack: the registers (ip, sp, fp) of its innermost frame, the words that unwinding read from
 * there outwards, and its node. If all words hold, unwinding would give the same frames, by the
 * same induction as in stacks.c. So the node is known after a load and a compare a word, and no
 * load waits for another. The words are those of the innermost `depth` frames: readers use no frame
 * further out (layout.h).
 *
 * The choice of a trace is a guess; a wrong guess costs only time. The guess is the trace that
 * followed the last one when a call came from the same place. After a wrong guess the stack is
 * walked, which costs less than searching further: traces lie far apart in memory. The walk's node
 * then shows whether its trace exists already; then only the follower is updated.
 *
 * Traces pay in programs that repeat themselves. One that does not (a compiler) pays for wrong
 * guesses, and its cache of the last stack goes stale while guesses are right. So if more than one
 * in TRACE_WRONG_ONE_IN of TRACE_TRIES guesses were wrong, guessing rests for a while, each time
 * twice as long.
 *
 * Traces lie one behind the other in a ring of words; the newest overwrites the oldest. A trace's
 * name is its first word's number, counted over the thread's life. A trace is valid only if it
 * still lies there, if it is not older than `floor` (which moves up when the thread or a module
 * changes), and if its node in the ring is still defined as it was. A handler that never returns
 * may leave any operation here half done: so a trace gets its name after its words are written, and
 * its room is taken before.
 *
 * A pass over the memory reporters (reports.c) makes most of these words certain: frames outside of
 * it wait for its end, so their words stay as they are. During a pass a trace whose words have all
 * held once is proved by the words inside alone. The last one so proved stands apart (`proved`),
 * ready for the next block of a loop, until a pass, a trace or a node begins.
 *
 * Only lasting stacks have traces (bounds.c): on others the readable words are not known. Stacks
 * that may end in young generated code have none either: only there a rule is not a function of the
 * address alone. */
#include "arch.h"

#define TRACE_WORDS_MIN ((uint32_t)(sizeof(struct trace) / 8))
#define TRACE_TRIES 2048
#define TRACE_WRONG_ONE_IN 8
#define TRACE_REST_MAX (1u << 18) /* in stacks */

struct trace {
    struct registers at;
    struct node node;
    uint32_t pass; /* all words have held during this pass; 0: none */
    uint16_t checks, settled; /* multiples of four; the first `settled` hold until the pass ends */
    bool fp_matters;
    uint64_t values[]; /* then their places: words from sp, 16 bits each */
};

ALWAYS_INLINE struct trace *trace_at(const struct traces *traces, uint32_t first)
{
    return (struct trace *)(traces->words + (first & (traces->room - 1)));
}

/* Whether the words of the stack at these offsets have these values. */
ALWAYS_INLINE bool words_hold(const uint64_t *stack, const uint64_t *value, const uint64_t *end, const uint16_t *offset)
{
    for (; value < end; value += 4, offset += 4)
        if ((stack[offset[0]] ^ value[0]) | (stack[offset[1]] ^ value[1]) | (stack[offset[2]] ^ value[2]) | (stack[offset[3]] ^ value[3]))
            return false;
    return true;
}

/* Whether the words behind the first `settled` hold. */
ALWAYS_INLINE bool trace_holds(const struct trace *trace, uint32_t settled)
{
    const uint64_t *end = trace->values + trace->checks;
    return words_hold((const uint64_t *)trace->at.sp, trace->values + settled, end, (const uint16_t *)end + settled);
}

/* The node of the stack at `at` if the trace `first` matches, else 0. `pass`: the thread's, 0: in
   none. */
ALWAYS_INLINE uint32_t trace_node(const struct thread *t, uint32_t first, struct registers at, uint32_t pass)
{
    const struct traces *traces = &t->traces;
    const struct trace *trace = trace_at(traces, first);
    if (first < traces->floor || traces->head - first > traces->room)
        return 0;
    if ((trace->at.ip ^ at.ip) | (trace->at.sp ^ at.sp) | ((trace->at.fp ^ at.fp) & -(uint64_t)trace->fp_matters))
        return 0;
    const struct known *known = &t->known[trace->node.number - 1];
    if (known->definition != trace->node.definition || !known->key)
        return 0;
    if (pass && trace->pass != pass) /* a constant but in reports.c */
        return 0;
    return likely(trace_holds(trace, pass ? trace->settled : 0)) ? trace->node.number : 0;
}

/* Notes the last trace as proved, which trace_node() has just matched within the pass. */
ALWAYS_INLINE void trace_is_proved(struct traces *traces)
{
    const struct trace *trace = trace_at(traces, traces->last);
    const uint64_t *end = trace->values + trace->checks;
    const uint16_t *offsets = (const uint16_t *)end + trace->settled;
    traces->proved.at.ip = 0;
    signal_fence();
    traces->proved = (struct proved){{0, trace->at.sp, trace->at.fp}, -(uint64_t)trace->fp_matters, trace->values + trace->settled, end,
                                     offsets, trace->node.number};
    signal_fence();
    traces->proved.at.ip = trace->at.ip;
}

/* Whether the stack at `at` is the proved one. */
ALWAYS_INLINE bool is_proved(const struct thread *t, struct registers at)
{
    const struct proved *proved = &t->traces.proved;
    if ((proved->at.ip ^ at.ip) | (proved->at.sp ^ at.sp) | ((proved->at.fp ^ at.fp) & proved->fp_mask))
        return false;
    if (unlikely(t->generation != load_acquire(&recorder.generation)))
        return false;
    return likely(words_hold((const uint64_t *)at.sp, proved->values, proved->end, proved->offsets));
}

/* The slot of the trace that followed the last one at `at`. */
ALWAYS_INLINE struct follower *follower(const struct traces *traces, struct registers at)
{
    uint64_t key = ((at.ip * SPREAD ^ at.sp) * SPREAD ^ traces->last) * SPREAD;
    return &traces->followers[key >> (64 - traces->follower_bits)];
}

/* The node of the stack at `at` if the guess is right, else 0. */
ALWAYS_INLINE uint32_t traced(struct thread *t, struct registers at, uint32_t pass)
{
    struct follower guess = *follower(&t->traces, at);
    const char *trace = (const char *)trace_at(&t->traces, guess.first);
    /* all at once: the addresses of the last loads depend on the first */
    __builtin_prefetch(&t->known[guess.node]);
    __builtin_prefetch(trace + 64);
    __builtin_prefetch(trace + 128);
    __builtin_prefetch(trace + 192);
    uint32_t node = trace_node(t, guess.first, at, pass);
    if (likely(node))
        t->traces.last = guess.first;
    return node;
}

/* Takes room for a trace of `words`; returns its name. */
static uint32_t trace_room(struct traces *traces, uint32_t words)
{
    traces->proved.at.ip = 0; /* its words may be overwritten */
    uint32_t first = traces->head, left = traces->room - (first & (traces->room - 1));
    if (first > UINT32_MAX / 2) { /* names restart */
        memset(traces->followers, 0, sizeof *traces->followers << traces->follower_bits);
        memset(traces->of_nodes, 0, sizeof *traces->of_nodes << traces->node_bits);
        signal_fence();
        first = traces->floor = traces->room;
    } else if (words > left) {
        first += left;
    }
    traces->head = first + words;
    signal_fence();
    return first;
}

/* Makes a trace of the stack at `at`, which the cache holds. Returns its name; 0: the stack cannot
   have one. */
static uint32_t trace_make(struct thread *t, struct registers at)
{
    struct traces *traces = &t->traces;
    const struct frame *innermost = &t->frames[t->frame_count - 1];
    const struct check *from = t->checks + (t->frame_count > recorder.depth ? t->frames[t->frame_count - recorder.depth].checks : 0);
    const uint32_t count = (uint32_t)(t->checks + t->check_count - from), checks = (count + 3) & ~3u;
    const uint32_t words = TRACE_WORDS_MIN + checks + checks / 4;
    if (at.sp % 8 || words > traces->room / 4)
        return 0;
    for (uint32_t i = 0; i < count; i++)
        if (((uintptr_t)from[i].slot - at.sp) / 8 > UINT16_MAX)
            return 0;
    uint32_t first = trace_room(traces, words);
    struct trace *trace = trace_at(traces, first);
    *trace = (struct trace){.at = at, .node = innermost->node, .checks = (uint16_t)checks, .fp_matters = innermost->fp_matters};
    uint16_t *offsets = (uint16_t *)(trace->values + checks);
    for (uint32_t i = 0; i < checks; i++) {
        const struct check *check = &from[i < count ? i : count - 1];
        trace->values[i] = check->value;
        offsets[i] = (uint16_t)(((uintptr_t)check->slot - at.sp) / 8);
    }
    signal_fence();
    return first;
}

/* Notes that the stack at `at` followed the last one, after a wrong guess. The cache holds the
   stack; its node is `node`. */
static __attribute__((noinline)) void trace_follows(struct thread *t, struct registers at, uint32_t node)
{
    struct traces *traces = &t->traces;
    uint32_t *of_node = &traces->of_nodes[(node ^ at.sp >> 4) & (((uint32_t)1 << traces->node_bits) - 1)], first = *of_node;
    if (trace_node(t, first, at, 0) != node && !(first = trace_make(t, at)))
        return;
    *of_node = first;
    *follower(traces, at) = (struct follower){first, node - 1};
    traces->last = first;
}

/* After a round of tries, or a rest: decides whether to guess from here on. */
COLD static bool traces_judge(struct traces *traces)
{
    if (traces->are_tried && traces->wrong > TRACE_TRIES / TRACE_WRONG_ONE_IN) {
        traces->left = traces->rest;
        traces->rest *= traces->rest < TRACE_REST_MAX ? 2 : 1;
        traces->are_tried = false;
    } else {
        traces->rest = traces->are_tried ? TRACE_TRIES : traces->rest;
        traces->left = TRACE_TRIES;
        traces->are_tried = true;
    }
    traces->wrong = 0;
    return traces->are_tried;
}

/* Whether to guess for this stack. */
ALWAYS_INLINE bool traces_pay(struct traces *traces)
{
#ifdef TRACE_ALWAYS
    (void)traces_judge;
    return true;
#endif
    return likely((int32_t)--traces->left > 0) ? traces->are_tried : traces_judge(traces);
}

/* Settles the last stack's trace for the thread's pass, if it is that of the stack at `at`. Its
 * outermost words come first. The last two of those outside of the pass stay compared: they are the
 * return address and fp of the frame that asks the reporters, and show a stack that is not its. */
static __attribute__((noinline)) void trace_settle(struct thread *t, struct registers at)
{
    const uintptr_t outside = t->pass.sp;
    if (!t->stack.lasts || at.sp >= outside || !is_on(&t->stack, at.sp) || !is_on(&t->stack, outside))
        return;
    if (!trace_node(t, t->traces.last, at, 0))
        return;
    struct trace *trace = trace_at(&t->traces, t->traces.last);
    const uint16_t *offsets = (const uint16_t *)(trace->values + trace->checks);
    uint32_t count = 0;
    while (count < trace->checks && at.sp + 8 * (uintptr_t)offsets[count] >= outside)
        count++;
    trace->settled = (uint16_t)(count > 2 ? (count - 2) & ~3u : 0);
    signal_fence();
    trace->pass = t->pass.number;
}

/* Whether stacks are guessed now. */
ALWAYS_INLINE bool traces_are_tried(const struct traces *traces)
{
#ifdef TRACE_ALWAYS
    (void)traces;
    return true;
#endif
    return traces->are_tried;
}

/* Makes all traces invalid. */
static void traces_forget(struct traces *traces)
{
    traces->proved.at.ip = 0;
    traces->head += traces->head == 0; /* 0 is no name */
    traces->floor = traces->head;
}
