/* The calls by which a program maps memory past malloc: mmap, munmap, mremap, brk and sbrk.
 *
 * libc's own calls (malloc's heaps, thread stacks, loaded files) bypass the public names and do
 * not come here. Another allocator's calls do come here, while it may hold its locks. They are
 * recorded without a stack, and only if the thread's ring is open already, because making a ring
 * allocates. For the same reason a handler that maps memory while its thread is inside the
 * allocator makes no ring.
 *
 * Until the next definitions have been looked up, the hooks map memory by the system call and
 * record nothing. The recorder does not see calls past the C library (raw system calls). */
#include <stdarg.h>
#include "arch.h"

static struct {
    void *(*mmap)(void *, size_t, int, int, int, off_t);
    int (*munmap)(void *, size_t);
    void *(*mremap)(void *, size_t, size_t, int, ...);
    int (*brk)(void *);
    void *(*sbrk)(intptr_t);
} next_map;

static void resolve_maps(void)
{
    next_map.mmap = (__typeof__(next_map.mmap))dlsym(RTLD_NEXT, "mmap");
    next_map.munmap = (__typeof__(next_map.munmap))dlsym(RTLD_NEXT, "munmap");
    next_map.mremap = (__typeof__(next_map.mremap))dlsym(RTLD_NEXT, "mremap");
    next_map.brk = (__typeof__(next_map.brk))dlsym(RTLD_NEXT, "brk");
    next_map.sbrk = (__typeof__(next_map.sbrk))dlsym(RTLD_NEXT, "sbrk");
}

static long with_errno(long result)
{
    if (!failed(result))
        return result;
    errno = (int)-result;
    return -1;
}

/* Whether this caller's call may be recorded. */
static bool may_record_map(struct registers at, bool *is_allocators)
{
    *is_allocators = in_range(next.internal, at.ip);
    if (load_acquire(&recorder.ready) == 2 || resolving != 2)
        return false;
    return *is_allocators ? self->limit >= self->head + 4 : self->ring || !inside;
}

static void write_map(uint64_t *to, uint64_t stamp, const void *start, size_t bytes, uint64_t owner, uint64_t node)
{
    to[1] = ((uintptr_t)start & ((1ull << HL_ADDRESS_BITS) - 1)) | owner << HL_MAP_OWNER_SHIFT;
    to[2] = bytes;
    to[3] = node;
    to[0] = stamp << 4 | HL_MAP;
}

COLD static void nested_map(struct registers at, const void *start, size_t bytes)
{
    uint32_t node;
    uint64_t stamp, words, *to = enter_nested_with_stack(4, at, &node, &stamp, &words);
    if (!to)
        return;
    write_map(to, stamp, start, bytes, HL_MAP_PROGRAM, node);
    leave_nested(words);
}

COLD static void record_map(struct registers at, const void *start, size_t bytes)
{
    int error = errno;
    bool is_allocators;
    if (!may_record_map(at, &is_allocators))
        return;
    struct thread *t = enter(4, at.sp);
    if (t) {
        uint64_t node = 0;
        t->stamp = 0;
        if (t->wants_stacks && !is_allocators)
            node = stack_node(t, at, 4);
        write_map(room(t), t->stamp ? t->stamp : counter(), start, bytes, is_allocators ? HL_MAP_ALLOCATOR : HL_MAP_PROGRAM, node);
        leave(t, 4);
    } else if (!is_allocators) {
        nested_map(at, start, bytes);
    }
    errno = error;
}

/* `before` is read before the call: the range may be another thread's right after it. */
COLD static void record_unmap(struct registers at, uint64_t before, const void *start, size_t bytes)
{
    int error = errno;
    bool is_allocators;
    if (!bytes || !before || !may_record_map(at, &is_allocators))
        return;
    struct thread *t = enter(3, at.sp);
    uint64_t *to = t ? room(t) : is_allocators ? NULL : enter_nested(3);
    if (to) {
        to[1] = (uintptr_t)start & ((1ull << HL_ADDRESS_BITS) - 1);
        to[2] = bytes;
        to[0] = before << 4 | HL_UNMAP;
        if (t)
            leave(t, 3);
        else
            leave_nested(3);
    }
    errno = error;
}

EXPORT void *mmap(void *start, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    struct registers at = CALLER();
    if (unlikely(!next_map.mmap))
        return (void *)with_errno(sys_always(SYS_mmap, (long)start, (long)bytes, protection, flags, fd, offset));
    void *mapped = next_map.mmap(start, bytes, protection, flags, fd, offset);
    if (mapped != MAP_FAILED)
        record_map(at, mapped, bytes);
    return mapped;
}

EXPORT void *mmap64(void *start, size_t bytes, int protection, int flags, int fd, off_t offset) __attribute__((alias("mmap")));

EXPORT int munmap(void *start, size_t bytes)
{
    struct registers at = CALLER();
    if (unlikely(!next_map.munmap))
        return (int)with_errno(sys_always(SYS_munmap, (long)start, (long)bytes, 0, 0, 0, 0));
    uint64_t before = counter_or_0();
    int result = next_map.munmap(start, bytes);
    if (!result)
        record_unmap(at, before, start, bytes);
    return result;
}

EXPORT void *mremap(void *old, size_t old_bytes, size_t bytes, int flags, ...)
{
    struct registers at = CALLER();
    va_list arguments;
    va_start(arguments, flags);
    void *wanted = flags & MREMAP_FIXED ? va_arg(arguments, void *) : NULL;
    va_end(arguments);
    if (unlikely(!next_map.mremap))
        return (void *)with_errno(sys_always(SYS_mremap, (long)old, (long)old_bytes, (long)bytes, flags, (long)wanted, 0));
    uint64_t before = counter_or_0();
    void *moved = next_map.mremap(old, old_bytes, bytes, flags, wanted);
    if (moved != MAP_FAILED) {
        /* with MREMAP_DONTUNMAP the old range stays mapped, without its pages */
        record_unmap(at, before, old, old_bytes);
        record_map(at, moved, bytes);
    }
    return moved;
}

/* The program's part of the heap that libc's malloc shares. */
static void record_break(struct registers at, uint64_t before, const uint8_t *was, const uint8_t *is)
{
    if (is > was)
        record_map(at, was, (size_t)(is - was));
    else
        record_unmap(at, before, is, (size_t)(was - is));
}

EXPORT int brk(void *end)
{
    struct registers at = CALLER();
    if (unlikely(!next_map.brk || !next_map.sbrk) && (!resolve() || !next_map.brk || !next_map.sbrk))
        return errno = ENOMEM, -1;
    uint64_t before = counter_or_0();
    const uint8_t *was = next_map.sbrk(0);
    int result = next_map.brk(end);
    if (!result && was != (void *)-1)
        record_break(at, before, was, end);
    return result;
}

EXPORT void *sbrk(intptr_t change)
{
    struct registers at = CALLER();
    if (unlikely(!next_map.sbrk) && (!resolve() || !next_map.sbrk))
        return errno = ENOMEM, (void *)-1;
    uint64_t before = counter_or_0();
    uint8_t *was = next_map.sbrk(change);
    if (was != (void *)-1 && change)
        record_break(at, before, was, was + change);
    return was;
}
