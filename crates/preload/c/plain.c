/* malloc and free, nearly all events, with a short way for events without a stack (t->plain,
 * t->plain_free) on an allocator that calls none of the names defined here. Large programs run out
 * of instruction cache first: the cost of an event is the cache lines of code and data that it
 * touches. The short way jumps to the long one and leaves the caller's registers unchanged. What
 * enter.c says of handlers holds here too. */
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

/* The cases that the short way leaves: a failure; a full, closed or missing ring. */
COLD static void *record_malloc(void *block, size_t size, uintptr_t frame)
{
    record_allocation((struct registers){.sp = frame}, block, size, 0);
    return block;
}

/* Libc keeps a block's size in the word before the block, 8 bytes of it for itself.
 * malloc_usable_size gives the same number, after a call and a look into the next block for the
 * in-use bit. So the short way reads the word, once both agree on a thread's first HEADER_TRIALS
 * blocks. If they differ in one (memory tagging), this thread goes on calling
 * malloc_usable_size. */
#define HEADER_DIFFERS UINT16_MAX
#define BLOCK_IS_A_MAPPING 2ul /* flag beside the size: the block's head takes two words */

static size_t size_of_header(size_t header) { return (header & ~(size_t)7) - sizeof header; }

COLD static size_t ask_usable(struct thread *t, void *block, size_t header)
{
    size_t usable = next.usable(block);
    if (t->header_trials && t->header_trials != HEADER_DIFFERS && !(header & BLOCK_IS_A_MAPPING))
        t->header_trials = usable == size_of_header(header) ? t->header_trials - 1 : HEADER_DIFFERS;
    return usable;
}

ALWAYS_INLINE size_t usable_of(struct thread *t, void *block)
{
    size_t header = ((size_t *)block)[-1];
    if (unlikely(t->header_trials) || unlikely(header & BLOCK_IS_A_MAPPING))
        return ask_usable(t, block, header);
    return size_of_header(header);
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
    /* asked before entering the ring: few registers need saving meanwhile */
    size_t slack = usable_of(t, block) - size;
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
