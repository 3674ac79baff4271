/* The least cost of a recorder in the target, for `cargo xtask bench recorder`. malloc, calloc,
 * realloc and free call the next definition and do nothing else. With -DSTORE they also ask for
 * the usable size, read the time stamp counter, and store a record of the recorder's length in a
 * buffer of 1 MiB that nobody reads. Threads are not told apart, handlers and forks are not
 * handled, nothing is shared. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))
#define WORDS (1u << 17)

static void *(*next_malloc)(size_t), *(*next_calloc)(size_t, size_t), *(*next_realloc)(void *, size_t);
static void (*next_free)(void *);
static size_t (*next_usable)(void *);

/* Memory for dlsym's own requests. */
static uint8_t boot_memory[16384] __attribute__((aligned(16)));
static size_t boot_used;

static void *boot(size_t size)
{
    size_t at = boot_used;
    boot_used += (size + 15) & ~(size_t)15;
    return boot_used <= sizeof boot_memory ? boot_memory + at : NULL;
}

static void resolve(void)
{
    static int resolving;
    if (resolving)
        return;
    resolving = 1;
    next_usable = (size_t(*)(void *))dlsym(RTLD_NEXT, "malloc_usable_size");
    next_free = (void (*)(void *))dlsym(RTLD_NEXT, "free");
    next_realloc = (void *(*)(void *, size_t))dlsym(RTLD_NEXT, "realloc");
    next_calloc = (void *(*)(size_t, size_t))dlsym(RTLD_NEXT, "calloc");
    next_malloc = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc");
}

#ifdef STORE
#if defined(__x86_64__)
static uint64_t counter(void)
{
    uint32_t low, high;
    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
    return (uint64_t)high << 32 | low;
}
#else
static uint64_t counter(void)
{
    uint64_t value;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(value));
    return value;
}
#endif

static uint64_t buffer[WORDS + 4] __attribute__((aligned(4096)));
static __thread uint64_t head;

static inline void born(void *block, size_t size)
{
    uint64_t usable = block ? next_usable(block) : 0, *to = buffer + (head & (WORDS - 1));
    to[0] = counter() << 4;
    to[1] = (uintptr_t)block;
    to[2] = size;
    to[3] = usable - size;
    head += 4;
}

static inline void died(void *block)
{
    uint64_t *to = buffer + (head & (WORDS - 1));
    to[0] = counter() << 4;
    to[1] = (uintptr_t)block;
    head += 2;
}
#else
#define born(block, size) ((void)0)
#define died(block) ((void)0)
#endif

EXPORT void *malloc(size_t size)
{
    if (!next_malloc)
        resolve();
    if (!next_malloc)
        return boot(size);
    void *block = next_malloc(size);
    born(block, size);
    return block;
}

EXPORT void *calloc(size_t count, size_t size)
{
    if (!next_calloc)
        resolve();
    if (!next_calloc)
        return boot(count * size);
    void *block = next_calloc(count, size);
    born(block, count * size);
    return block;
}

EXPORT void *realloc(void *old, size_t size)
{
    if (!next_realloc)
        resolve();
    void *block = next_realloc(old, size);
    born(block, size);
    return block;
}

EXPORT void free(void *block)
{
    if (!block || (uintptr_t)block - (uintptr_t)boot_memory < sizeof boot_memory)
        return;
    if (!next_free)
        resolve();
    died(block);
    next_free(block);
}
