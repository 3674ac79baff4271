/* For tests only (HEAPLAB_VERIFY): compares stacks with a walk without the cache and with libgcc's
 * unwinder. Counts the verdicts in unused slots of hl_process.lost, and writes the first
 * disagreements to verify.txt in the spool. */
#include <unwind.h>

#define VERIFY_TRACED 11  /* stacks told without a walk */
#define VERIFY_SAME 12    /* stacks equal to libgcc's to the end, or to `depth` */
#define VERIFY_CACHE 13   /* stacks that differ from a walk from scratch: a broken cache */
#define VERIFY_DIFFER 14  /* stacks with a frame that differs from libgcc's */
#define VERIFY_SHORT 15   /* stacks that end before libgcc's */
#define VERIFY_ALL 20000  /* after this many of a process, one in 29 */

struct reference {
    uintptr_t ips[HL_STACK_DEPTH_MAX + 64];
    uint32_t count;
    uintptr_t first;
    bool begun;
};

static _Unwind_Reason_Code reference_frame(struct _Unwind_Context *context, void *argument)
{
    struct reference *r = argument;
    int before = 0;
    uintptr_t ip = _Unwind_GetIPInfo(context, &before);
    r->begun |= ip == r->first;
    if (r->begun && ip && r->count < sizeof r->ips / sizeof *r->ips)
        r->ips[r->count++] = before ? ip + 1 : ip;
    return _URC_NO_REASON;
}

static void verify_report(const char *what, const struct reference *r, const uintptr_t *ours, uint32_t count)
{
    static uint32_t reports;
    char text[4096];
    if (add_relaxed(&reports, 1) >= 20)
        return;
    size_t at = append_text(text, 0, sizeof text, what);
    for (uint32_t i = 0; i < (count > r->count ? count : r->count); i++) {
        at = append_text(text, at, sizeof text, "\n  ");
        at = append_number(text, at, sizeof text, i < count ? ours[i] : 0);
        at = append_text(text, at, sizeof text, i < count && i < r->count && ours[i] == r->ips[i] ? " = " : " X ");
        at = append_number(text, at, sizeof text, i < r->count ? r->ips[i] : 0);
    }
    at = append_text(text, at, sizeof text, "\n");
    char path[sizeof recorder.spool + 16];
    append_text(path, append_text(path, 0, sizeof path, recorder.spool), sizeof path, "/verify.txt");
    long fd = sys(SYS_openat, AT_FDCWD, (long)path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600, 0, 0);
    sys(SYS_write, fd, (long)text, (long)at, 0, 0, 0);
    sys(SYS_close, fd, 0, 0, 0, 0, 0);
}

/* A reader's view of the ring's definitions. */
#define VERIFY_NODES_MAX (1u << 26)
static struct {
    uint64_t ip;
    uint32_t parent;
} *verify_tree;
static uint32_t verify_tree_count;

static void verify_define(struct thread *t, uint32_t number, uint32_t parent, uint64_t ip)
{
    uint64_t signals;
    block_signals(&signals);
    lock(&recorder.process->lock);
    if (!verify_tree)
        verify_tree = map_private(VERIFY_NODES_MAX * sizeof *verify_tree, 0);
    if (!t->verify_nodes)
        t->verify_nodes = map_private((sizeof *t->verify_nodes << t->known_bits) + sizeof *t->verify_nodes, 0);
    unlock(&recorder.process->lock);
    restore_signals(&signals);
    uint32_t node = add_relaxed(&verify_tree_count, 1) + 1;
    if (node >= VERIFY_NODES_MAX)
        __builtin_trap();
    verify_tree[node].ip = ip;
    verify_tree[node].parent = t->verify_nodes[parent];
    t->verify_nodes[number] = node;
}

static void verify(struct thread *t, struct registers at, uint32_t node, bool traced)
{
    static __thread struct reference r;
    static __thread uintptr_t ours[HL_STACK_DEPTH_MAX + 64];
    static uint32_t seen;
    struct walk w;
    uint32_t count = 0, number = add_relaxed(&seen, 1);
    if (number > VERIFY_ALL && number % 29)
        return;
    if (traced)
        lose(VERIFY_TRACED);
    for (uint32_t n = node ? t->verify_nodes[node] : 0; n && count < recorder.depth; n = verify_tree[n].parent)
        ours[count++] = verify_tree[n].ip;

    uint32_t frames = t->frame_count, checks = t->check_count;
    bool complete = t->complete;
    struct stack stack = t->stack;
    if (!is_on(&t->stack, at.sp)) /* the walk went through a handler */
        find_stack(t, at.sp);
    walk(t, at, 0, &w);
    bool same = count == (t->step_count < recorder.depth ? t->step_count : recorder.depth);
    for (uint32_t i = 0; i < count && same; i++)
        same = t->steps[i].at.ip == ours[i];
    r.count = 0;
    if (!same) {
        for (uint32_t i = 0; i < t->step_count; i++)
            r.ips[r.count++] = t->steps[i].at.ip;
        lose(VERIFY_CACHE);
        verify_report("cache (left) and walk from scratch (right)", &r, ours, count);
    }
    t->frame_count = frames;
    t->check_count = checks;
    t->complete = complete;
    t->stack = stack;

    r.count = 0;
    r.begun = false;
    r.first = at.ip;
    _Unwind_Backtrace(reference_frame, &r);
    uint32_t common = count < r.count ? count : r.count, equal = 0;
    while (equal < common && r.ips[equal] == ours[equal])
        equal++;
    if (equal < common) {
        lose(VERIFY_DIFFER);
        verify_report("recorder (left) and libgcc (right) differ", &r, ours, count);
    } else if (count < r.count && count < recorder.depth) {
        lose(VERIFY_SHORT);
        verify_report("recorder (left) ends before libgcc (right)", &r, ours, count);
    } else {
        lose(VERIFY_SAME);
    }
}
