/* malloc and free, which nearly all events are, with a short way for what needs no stack (t->plain, t->plain_free) on an allocator
 * that calls none of the names defined here. Large programs run out of instruction cache first, so that what counts is how few lines
 * of code and data an event takes. The long way is reached by a jump, which leaves the caller's registers to it as they
 * were. What ring.c says of handlers holds here too. */
#include "arch.h"

ALWAYS_INLINE bool enter_plain(struct thread *t, uint64_t words, uintptr_t frame, uint64_t *head)
{
    uint64_t limit = t->limit;
    if (unlikely(!limit))
        return false;
    close_ring(t, frame);
    *head = t->head;
    if (unlikely(*head + words > limit)) {
        t->limit = limit;
        return false;
    }
    return true;
}

ALWAYS_INLINE void leave_plain(struct thread *t, uint64_t head)
{
    t->head = head;
    store_release(&t->ring->head, head);
    open_ring(t);
}

static __attribute__((noinline)) void *malloc_the_long_way(size_t size)
{
    struct registers at = CALLER();
    if (ENTERED(at))
        return next.malloc(size);
    void *block = CALL_NEXT(at, next.malloc(size));
    record_allocation(at, block, size, 0);
    return block;
}

/* What the short way leaves: a failure, a ring that is full, closed or gone. */
COLD static void *record_malloc(void *block, size_t size, uintptr_t frame)
{
    record_allocation((struct registers){.sp = frame}, block, size, 0);
    return block;
}

EXPORT void *malloc(size_t size)
{
    struct thread *t = self;
    uint64_t head;
    if (unlikely(!t->plain))
        return malloc_the_long_way(size);
    void *block = next.malloc(size);
    if (unlikely(!block))
        return record_malloc(block, size, FRAME());
    size_t slack = next.usable(block) - size; /* asked before the ring is entered, so that little need be kept meanwhile */
    if (unlikely(!enter_plain(t, 4, FRAME(), &head)))
        return record_malloc(block, size, FRAME());
    uint64_t *to = t->data + (head & t->mask);
    to[1] = block_word(block, 0);
    to[2] = size;
    to[3] = (slack < HL_SLACK_UNKNOWN ? slack : HL_SLACK_UNKNOWN) << 32;
    to[0] = counter() << 4 | HL_ALLOC;
    leave_plain(t, head + 4);
    return block;
}

static __attribute__((noinline)) void free_the_long_way(void *block)
{
    struct registers at = CALLER();
    if (unlikely(!block) || unlikely(of_boot(block)))
        return;
    if (!ENTERED(at))
        record_pair(at, block, HL_FREE);
    uintptr_t outer = inside;
    inside = at.sp;
    next.free(block);
    inside = outer;
}

EXPORT void free(void *block)
{
    struct thread *t = self;
    uint64_t head;
    if (unlikely(!t->plain_free) || unlikely(!block) || unlikely(of_boot(block)) || unlikely(!enter_plain(t, 2, FRAME(), &head))) {
        free_the_long_way(block);
        return;
    }
    uint64_t *to = t->data + (head & t->mask);
    to[0] = counter() << 4 | HL_FREE;
    to[1] = block_word(block, 0);
    leave_plain(t, head + 2);
    next.free(block);
}
