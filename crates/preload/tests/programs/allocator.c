/* A small allocator to preload beside the recorder: safe in signal handlers, calls its own public
 * malloc (as careless allocators do), and has an operator new that bypasses malloc (-DPUBLIC: calls
 * its public malloc, as jemalloc's do). With -DWITH_STRDUP the recorder takes it for libc. Never
 * gives memory back. */
#define _GNU_SOURCE
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static uint8_t area[256 << 20] __attribute__((aligned(64)));
static size_t used;

static void *take(size_t alignment, size_t size)
{
    size_t bytes = (size + 32 + alignment) & ~(size_t)15;
    if (size > sizeof area)
        return NULL;
    size_t at = __atomic_fetch_add(&used, bytes, __ATOMIC_RELAXED);
    if (at + bytes > sizeof area)
        return NULL;
    uintptr_t block = ((uintptr_t)area + at + 16 + alignment - 1) & ~(uintptr_t)(alignment - 1);
    ((size_t *)block)[-1] = size;
    return (void *)block;
}
void *malloc(size_t size)
{
    void *block = take(16, size);
    if (!block)
        errno = ENOMEM;
    return block;
}
void free(void *block) { (void)block; }
void *calloc(size_t count, size_t size) { return malloc(count * size); }
size_t malloc_usable_size(void *block) { return block ? ((size_t *)block)[-1] + 7 : 0; }
void *realloc(void *old, size_t size)
{
    void *block = malloc(size);
    if (old && block)
        memcpy(block, old, ((size_t *)old)[-1] < size ? ((size_t *)old)[-1] : size);
    free(old);
    return block;
}
#ifdef WITH_STRDUP
char *strdup(const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *copy = malloc(bytes);
    return copy ? memcpy(copy, text, bytes) : NULL;
}
#endif
void *memalign(size_t alignment, size_t size) { return take(alignment, size); }
void *aligned_alloc(size_t alignment, size_t size) { return take(alignment, size); }
int posix_memalign(void **block, size_t alignment, size_t size) { return (*block = take(alignment, size)) ? 0 : ENOMEM; }
#ifdef PUBLIC
#define TAKE malloc
#define GIVE free
#else
#define TAKE(size) take(16, size)
#define GIVE(block) (void)(block)
#endif
void *_Znwm(size_t size) { return TAKE(size); }
void *_Znam(size_t size) { return TAKE(size); }
void *_ZnwmSt11align_val_t(size_t size, size_t alignment) { return aligned_alloc(alignment, size); }
void _ZdlPv(void *block) { GIVE(block); }
void _ZdlPvm(void *block, size_t size) { GIVE(block), (void)size; }
void _ZdlPvmSt11align_val_t(void *block, size_t size, size_t alignment) { GIVE(block), (void)size, (void)alignment; }
void _ZdaPv(void *block) { GIVE(block); }
void _ZdaPvm(void *block, size_t size) { GIVE(block), (void)size; }
