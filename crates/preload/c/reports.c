/* The recorder's interface for the library of memory reporters (crates/reporter): the usable
 * size of a block, without a record that the program asked for it; the allocator behind the
 * hooks; and, if the drainer wants them (HL_CONTROL_REPORTS), records of the blocks that
 * reporters name.
 *
 * Reporters are asked between two marks, so that readers know which records belong together. */

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
        node = stack_node(t, at, 3);
    uint64_t *to = room(t);
    to[1] = block_word(block, 0);
    to[2] = inside_word | node;
    to[0] = (t->stamp ? t->stamp : counter()) << 4 | HL_REPORT;
    leave(t, 3);
}

/* The usable size of a block. With REPORTED a reporter names the block. With INSIDE the address
   lies inside a block: nothing reads it, and the size is 0. */
EXPORT size_t heaplab_report_block(const void *block, uint32_t flags)
{
    struct registers at = CALLER();
    if (flags & REPORTED && wants_reports())
        record_report(at, block, flags & INSIDE ? (uint64_t)HL_REPORT_INSIDE << 32 : 0);
    return flags & INSIDE || !resolve() ? 0 : next.malloc_usable_size((void *)block);
}

/* Marks the begin or the end of a pass over the reporters. */
EXPORT void heaplab_report_pass(uint32_t begins)
{
    if (wants_reports())
        mark(begins ? "heaplab: reporters asked" : "heaplab: reporters answered", (uintptr_t)__builtin_dwarf_cfa());
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
