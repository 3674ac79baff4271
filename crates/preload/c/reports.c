/* The recorder's interface for the library of memory reporters (crates/reporter): the usable
 * size of a block, without a record that the program asked for it; the allocator behind the
 * hooks; and, if the drainer wants them (HL_CONTROL_REPORTS), records of the blocks that
 * reporters name.
 *
 * Reporters are asked between two marks, so that readers know which records belong together. */

/* heaplab_report_pass */
#define BEGINS 1u
#define STAYS 2u
/* heaplab_report_block */
#define REPORTED 1u
#define INSIDE 2u

static void (*on_mark)(void);

static bool wants_reports(void) { return load_acquire(&recorder.ready) == 1 && recorder.control->flags & HL_CONTROL_REPORTS; }

COLD static void nested_report(struct registers at, const void *block, uint64_t inside_word)
{
    uint32_t node;
    uint64_t stamp, words, *to = enter_nested_with_stack(3, at, &node, &stamp, &words);
    if (!to)
        return;
    to[1] = block_word(block, 0);
    to[2] = inside_word | node;
    to[0] = stamp << 4 | HL_REPORT;
    leave_nested(words);
}

/* The node of the stack at `at`. Within a pass few words prove it, as a rule (traces.c). A loop over
 * blocks reports them from one stack, so the last trace is tried before the one that followed it:
 * measured faster even where two places of a loop alternate. */
ALWAYS_INLINE uint32_t reported_node(struct thread *t, struct registers at)
{
    const bool in_pass = t->pass.sp != 0 && traces_are_tried(&t->traces);
    const uint32_t pass = t->pass.number;
    uint32_t node = 0;
    if (likely(in_pass) && likely(t->generation == load_acquire(&recorder.generation))) {
        if ((node = trace_node(t, t->traces.last, at, pass)))
            trace_is_proved(&t->traces);
        else
            node = traced(t, at, pass);
    }
    if (unlikely(!node)) {
        node = stack_node(t, at, 3);
        if (in_pass)
            trace_settle(t, at);
        return node;
    }
    t->stamp = counter();
#ifdef HEAPLAB_VERIFY
    verify(t, at, node, true);
#endif
    return node;
}

static void record_report(struct registers at, const void *block, uint64_t inside_word)
{
    struct thread *t = enter(3, at.sp);
    if (unlikely(!t)) {
        nested_report(at, block, inside_word);
        return;
    }
    uint64_t node = 0;
    t->stamp = 0;
    if (t->wants_stacks)
        node = reported_node(t, at);
    uint64_t *to = room(t);
    to[1] = block_word(block, 0);
    to[2] = inside_word | node;
    to[0] = (t->stamp ? t->stamp : counter()) << 4 | HL_REPORT;
    leave(t, 3);
}

ALWAYS_INLINE size_t reported_usable(const void *block, uint32_t flags)
{
    return flags & INSIDE || !resolve() ? 0 : next.malloc_usable_size((void *)block);
}

static __attribute__((noinline)) size_t report_the_long_way(const void *block, uint32_t flags, uintptr_t ip, uintptr_t sp, uintptr_t fp)
{
    record_report((struct registers){ip, sp, fp}, block, flags & INSIDE ? (uint64_t)HL_REPORT_INSIDE << 32 : 0);
    return reported_usable(block, flags);
}

static __attribute__((noinline)) size_t asked_usable(struct thread *t, const void *block)
{
    return recorder.plain ? ask_usable(t, (void *)block, ((const size_t *)block)[-1]) : next.malloc_usable_size((void *)block);
}

/* For the proved stack: a loop reports its blocks from one stack. As in plain.c, the long way is a
   jump, and few registers need saving. */
static __attribute__((noinline)) size_t report_the_short_way(const void *block, uint32_t flags, uintptr_t ip, uintptr_t sp, uintptr_t fp)
{
    struct registers at = {ip, sp, fp};
    struct thread *t = self;
    uint64_t head, limit = t->limit;
    if (unlikely(!limit) || unlikely(!block))
        return report_the_long_way(block, flags, ip, sp, fp);
    close_ring(t, sp);
    head = t->head;
    if (unlikely(head + 3 > limit) || unlikely(!is_proved(t, at))) {
        open_ring(t);
        return report_the_long_way(block, flags, ip, sp, fp);
    }
    uint64_t *to = t->data + (head & t->mask);
    to[1] = block_word(block, 0);
    to[2] = t->traces.proved.node;
    to[0] = counter() << 4 | HL_REPORT;
#ifdef HEAPLAB_VERIFY
    t->stamp = to[0] >> 4;
    verify(t, at, t->traces.proved.node, true);
#endif
    leave_plain(t, head + 3);
    size_t header;
    if (unlikely(t->header_trials) || unlikely((header = ((const size_t *)block)[-1]) & BLOCK_IS_A_MAPPING))
        return asked_usable(t, block);
    return size_of_header(header);
}

/* The usable size of a block. With REPORTED a reporter names the block. With INSIDE the address
   lies inside a block: nothing reads it, and the size is 0. */
EXPORT size_t heaplab_report_block(const void *block, uint32_t flags)
{
    struct registers at = CALLER();
    /* many allocators keep the size there: it arrives while the report is written */
    __builtin_prefetch((const char *)block - 8);
    if (flags == REPORTED && self->traces.proved.at.ip == at.ip)
        return report_the_short_way(block, flags, at.ip, at.sp, at.fp);
    if (flags & REPORTED && wants_reports())
        return report_the_long_way(block, flags, at.ip, at.sp, at.fp);
    return reported_usable(block, flags);
}

/* Traces of this thread may rely on the frames outside of `sp` from here on. */
static void pass_begins(uintptr_t sp)
{
    struct thread *t = self;
    /* a Python frame changes without a word of the stack */
    if (!t->ring || !t->wants_stacks || t->wants_python)
        return;
    if (!++t->pass.number) { /* numbers begin anew */
        traces_forget(&t->traces);
        t->pass.number = 1;
    }
    signal_fence();
    t->pass.sp = sp;
}

/* Marks the begin or the end of a pass over the reporters. With STAYS the calling function itself
   runs the reporters and ends the pass. */
EXPORT void heaplab_report_pass(uint32_t flags)
{
    const uintptr_t sp = (uintptr_t)__builtin_dwarf_cfa();
    struct thread *t = self;
    if (t->ring)
        t->pass.sp = t->traces.proved.at.ip = 0;
    if (!wants_reports())
        return;
    mark(flags & BEGINS ? "heaplab: reporters asked" : "heaplab: reporters answered", sp);
    if (flags == (BEGINS | STAYS))
        pass_begins(sp);
}

/* Registers `ask` to be called after each mark that the program itself sets. Returns whether it
   will be called. */
EXPORT uint32_t heaplab_report_on_mark(void (*ask)(void))
{
    if (!recorder_ready() || !wants_reports())
        return 0;
    store_release(&on_mark, ask);
    return 1;
}

EXPORT void *heaplab_report_allocator(void) { return resolve() ? (void *)next.malloc : NULL; }

EXPORT void heaplab_mark(const char *name)
{
    mark(name, (uintptr_t)__builtin_dwarf_cfa());
    void (*ask)(void) = load_acquire(&on_mark);
    if (unlikely(ask != NULL))
        ask();
}
