/* The functions that the target calls instead of its allocator's. Each calls the next definition in
 * the search order (libc's, or that of an allocator preloaded or linked beside us), then records
 * request and result.
 *
 * The allocator may call its own public functions: while a hook is inside the allocator (`inside`),
 * calls from the allocator's own code pass without a record. A signal handler's calls come from
 * other code and are recorded. */
#include <dlfcn.h>
#include <gnu/libc-version.h>
#include <malloc.h>
#include "arch.h"

static void *boot_malloc(size_t size);
static void *boot_calloc(size_t count, size_t size);
static void *boot_realloc(void *block, size_t size);
static void *boot_aligned_alloc(size_t alignment, size_t size);
static int boot_posix_memalign(void **block, size_t alignment, size_t size);
static void *boot_valloc(size_t size);
static void boot_free(void *block);
static size_t boot_usable_size(void *block);
static size_t usable_not_known(void *block);

static struct {
    void *(*malloc)(size_t);
    void (*free)(void *);
    size_t (*usable)(void *); /* of malloc's allocator; else returns 0 */
    void *(*calloc)(size_t, size_t);
    void *(*realloc)(void *, size_t);
    /* the allocator's own; NULL: libc's, which calls realloc through us */
    void *(*reallocarray)(void *, size_t, size_t);
    void *(*aligned_alloc)(size_t, size_t);
    void *(*memalign)(size_t, size_t);
    int (*posix_memalign)(void **, size_t, size_t);
    void *(*valloc)(size_t);
    void *(*pvalloc)(size_t);
    size_t (*malloc_usable_size)(void *);
    /* FOREIGN for a function of libc when malloc is of another allocator */
    uint64_t foreign_aligned_alloc, foreign_memalign, foreign_posix_memalign, foreign_valloc, foreign_pvalloc;
    struct range allocator; /* the module that malloc lies in */
    /* the same; empty for libc, whose malloc calls no public name and whose strdup may be a
       handler's */
    struct range internal;
    struct range recorder;  /* this object */
} next __attribute__((aligned(64))) = {
    .malloc = boot_malloc,
    .free = boot_free,
    .usable = usable_not_known,
    .calloc = boot_calloc,
    .realloc = boot_realloc,
    .aligned_alloc = boot_aligned_alloc,
    .memalign = boot_aligned_alloc,
    .posix_memalign = boot_posix_memalign,
    .valloc = boot_valloc,
    .pvalloc = boot_valloc,
    .malloc_usable_size = boot_usable_size,
};

/* dlsym's own allocations during the lookup come from here and are never freed. */
static uint8_t boot_memory[16384] __attribute__((aligned(64)));
static size_t boot_used;
static uint32_t resolving; /* 1: looking up; 2: done */

ALWAYS_INLINE bool of_boot(const void *block) { return (uintptr_t)block - (uintptr_t)boot_memory < sizeof boot_memory; }

static void *boot_take(size_t alignment, size_t size)
{
    size_t at = (boot_used + 16 + alignment - 1) & ~(alignment - 1);
    if (size > sizeof boot_memory || at > sizeof boot_memory - size) {
        errno = ENOMEM;
        return NULL;
    }
    boot_used = at + size;
    return boot_memory + at;
}

/* The code range of the function's module. */
static struct range code_of(void *function)
{
    Dl_info info;
    struct link_map *map;
    struct found_object found;
    /* dladdr1 looks at every symbol of the module */
    if (function && find_object && !find_object(function, &found))
        return (struct range){(uintptr_t)found.start, (uintptr_t)found.end};
    if (!function || !dladdr1(function, &info, (void **)&map, RTLD_DL_LINKMAP))
        return (struct range){0, 0};
    struct module module = {.start = (uintptr_t)info.dli_fbase};
    const Elf64_Ehdr *elf = info.dli_fbase;
    const Elf64_Phdr *headers = (const Elf64_Phdr *)(module.start + elf->e_phoff);
    for (unsigned i = 0; i < elf->e_phnum; i++)
        if (headers[i].p_type == PT_LOAD)
            module.end = (uintptr_t)map->l_addr + headers[i].p_vaddr + headers[i].p_memsz;
    return (struct range){module.start, module.end};
}

static void resolve_operators(void);
static void resolve_maps(void);
static void resolve_starters(void);

/* In a block's properties: the allocator does not know the block's usable size. */
#define FOREIGN (1ull << 63)
_Static_assert(HL_FAMILY_SHIFT + 2 < 63, "block words have no place for FOREIGN");

static struct range code_of(void *function);

/* The next definition of a function that the C library has had from its first version on. A
 * program's call names this version. The call binds to the first library in the search order that
 * has the version, even if the library hides the symbol from lookups without a version
 * (libc_malloc_debug.so). */
static void *next_of_first_version(const char *name)
{
    void *found = dlsym(RTLD_NEXT, name), *versioned = NULL;
    if (in_range(code_of((void *)gnu_get_libc_version), (uintptr_t)found))
        versioned = dlvsym(RTLD_NEXT, name, LIBC_VERSION);
    return versioned ? versioned : found;
}

/* Looks up the next definitions, once: in our constructor, or earlier when another constructor
 * allocates. The process has one thread then. */
static bool resolve(void)
{
    if (resolving)
        return resolving == 2;
    int error = errno;
    resolving = 1;
#define LOOK_UP(name) __typeof__(next.name) name##_found = (__typeof__(next.name))next_of_first_version(#name)
#define LOOK_UP_ANY(name) __typeof__(next.name) name##_found = (__typeof__(next.name))dlsym(RTLD_NEXT, #name)
#define JUDGE(name) next.foreign_##name = in_range(next.allocator, (uintptr_t)name##_found) ? 0 : FOREIGN
#define TAKE(name) next.name = name##_found ? name##_found : next.name
    LOOK_UP(malloc);
    LOOK_UP(free);
    LOOK_UP(calloc);
    LOOK_UP(realloc);
    LOOK_UP_ANY(reallocarray);
    LOOK_UP_ANY(aligned_alloc);
    LOOK_UP(memalign);
    LOOK_UP(posix_memalign);
    LOOK_UP(valloc);
    LOOK_UP(pvalloc);
    LOOK_UP(malloc_usable_size);
    next.allocator = code_of((void *)malloc_found);
    if (!in_range(next.allocator, (uintptr_t)dlsym(RTLD_NEXT, "strdup")))
        next.internal = next.allocator;
    next.recorder = code_of((void *)resolve);
    JUDGE(aligned_alloc);
    JUDGE(memalign);
    JUDGE(posix_memalign);
    JUDGE(valloc);
    JUDGE(pvalloc);
    /* the allocator lacks this function: libc's would misread its blocks */
    if (in_range(next.allocator, (uintptr_t)malloc_usable_size_found))
        next.usable = malloc_usable_size_found;
    recorder.plain = !next.internal.end && next.usable == malloc_usable_size_found;
    TAKE(calloc);
    TAKE(realloc);
    if (in_range(next.internal, (uintptr_t)reallocarray_found))
        next.reallocarray = reallocarray_found;
    TAKE(aligned_alloc);
    TAKE(memalign);
    TAKE(posix_memalign);
    TAKE(valloc);
    TAKE(pvalloc);
    TAKE(malloc_usable_size);
    TAKE(free);
    TAKE(malloc);
    resolve_operators();
    resolve_starters();
    resolve_maps();
    resolving = 2;
    errno = error;
    return true;
}

static void *boot_malloc(size_t size) { return resolve() ? next.malloc(size) : boot_take(16, size); }
static void *boot_calloc(size_t count, size_t size)
{
    if (resolve())
        return next.calloc(count, size);
    return size && count > sizeof boot_memory / size ? NULL : boot_take(16, count * size);
}
static void *boot_realloc(void *block, size_t size)
{
    if (resolve())
        return next.realloc(block, size);
    void *to = boot_take(16, size);
    if (to && block)
        memmove(to, block, (uintptr_t)boot_memory + boot_used - (uintptr_t)block < size ? 0 : size);
    return to;
}
static void *boot_aligned_alloc(size_t alignment, size_t size) { return resolve() ? next.aligned_alloc(alignment, size) : boot_take(alignment, size); }
static int boot_posix_memalign(void **block, size_t alignment, size_t size)
{
    if (resolve())
        return next.posix_memalign(block, alignment, size);
    return (*block = boot_take(alignment, size)) ? 0 : ENOMEM;
}
static void *boot_valloc(size_t size) { return resolve() ? next.valloc(size) : boot_take(4096, size); }
static void boot_free(void *block)
{
    if (resolve() && next.free != boot_free)
        next.free(block);
}
static size_t boot_usable_size(void *block)
{
    return resolve() && next.malloc_usable_size != boot_usable_size ? next.malloc_usable_size(block) : 0;
}
static size_t usable_not_known(void *block)
{
    (void)block;
    return 0;
}

/* Whether a call that arrives while a hook is inside the allocator is the allocator's own. The
 * recorder never calls the public names. So a call with a return address in the recorder is the
 * allocator's tail call (jemalloc's delete jumps to free). */
COLD static bool internal_call(uintptr_t caller)
{
    return in_range(next.internal, caller) || (next.internal.end && in_range(next.recorder, caller));
}

#define ENTERED(at) (unlikely(inside) && internal_call((at).ip))

/* Calls the allocator and sets `inside` meanwhile. */
#define CALL_NEXT(at, call)                                                                                                       \
    ({                                                                                                                            \
        uintptr_t outer_ = inside;                                                                                                \
        inside = (at).sp;                                                                                                         \
        __typeof__(call) result_ = (call);                                                                                        \
        inside = outer_;                                                                                                          \
        result_;                                                                                                                  \
    })

ALWAYS_INLINE uint64_t block_word(const void *block, uint64_t properties)
{
    return ((uintptr_t)block & ((1ull << HL_ADDRESS_BITS) - 1)) | (properties & ~FOREIGN);
}

ALWAYS_INLINE uint64_t slack_word(void *block, size_t size, uint64_t properties)
{
    size_t usable = block && !(properties & FOREIGN) ? next.usable(block) : 0;
    size_t slack = usable - size;
    return (usable < size || slack >= HL_SLACK_UNKNOWN || (!usable && !size) ? (uint64_t)HL_SLACK_UNKNOWN : slack) << 32;
}

COLD static void nested_allocation(struct registers at, void *block, size_t size, uint64_t properties)
{
    uint32_t node;
    uint64_t stamp, words, *to = enter_nested_with_stack(4, at, &node, &stamp, &words);
    if (!to)
        return;
    to[1] = block_word(block, properties);
    to[2] = size;
    to[3] = slack_word(block, size, properties) | node;
    to[0] = stamp << 4 | (block ? HL_ALLOC : HL_ALLOC_FAILED);
    leave_nested(words);
}

ALWAYS_INLINE void record_allocation(struct registers at, void *block, size_t size, uint64_t properties)
{
    struct thread *t = enter(4, at.sp);
    if (unlikely(!t)) {
        nested_allocation(at, block, size, properties);
        return;
    }
    uint64_t slack = slack_word(block, size, properties), node = 0;
    t->stamp = 0;
    if (t->wants_stacks)
        node = stack_node(t, at, 4);
    uint64_t *to = room(t);
    to[1] = block_word(block, properties);
    to[2] = size;
    to[3] = slack | node;
    to[0] = (t->stamp ? t->stamp : counter()) << 4 | (likely(block != NULL) ? HL_ALLOC : HL_ALLOC_FAILED);
    leave(t, 4);
}

COLD static void nested_pair(void *block, uint32_t kind)
{
    uint64_t *to = enter_nested(2);
    if (!to)
        return;
    to[0] = counter() << 4 | kind;
    to[1] = block_word(block, 0);
    leave_nested(2);
}

ALWAYS_INLINE void record_pair(struct registers at, void *block, uint32_t kind)
{
    if (kind == HL_FREE && unlikely(load_relaxed(&python.deaths)))
        python_freed(block);
    struct thread *t = enter(2, at.sp);
    if (unlikely(!t)) {
        nested_pair(block, kind);
        return;
    }
    uint64_t *to = room(t);
    to[0] = counter() << 4 | kind;
    to[1] = block_word(block, 0);
    leave(t, 2);
}

COLD static void nested_reallocation(struct registers at, uint64_t before, void *old, void *block, size_t size)
{
    uint32_t node;
    uint64_t stamp, words, *to = enter_nested_with_stack(6, at, &node, &stamp, &words);
    if (!to)
        return;
    to[0] = before << 4 | (block ? HL_REALLOC : HL_REALLOC_FAILED);
    to[1] = block_word(block, 0);
    to[2] = size;
    to[3] = slack_word(block, size, 0) | node;
    to[4] = block_word(old, 0);
    to[5] = stamp;
    leave_nested(words);
}

ALWAYS_INLINE void record_reallocation(struct registers at, uint64_t before, void *old, void *block, size_t size)
{
    struct thread *t = enter(6, at.sp);
    if (unlikely(!t)) {
        nested_reallocation(at, before, old, block, size);
        return;
    }
    uint64_t node = 0;
    t->stamp = 0;
    if (t->wants_stacks)
        node = stack_node(t, at, 6);
    uint64_t *to = room(t);
    to[0] = before << 4 | (likely(block != NULL) ? HL_REALLOC : HL_REALLOC_FAILED);
    to[1] = block_word(block, 0);
    to[2] = size;
    to[3] = slack_word(block, size, 0) | node;
    to[4] = block_word(old, 0);
    to[5] = t->stamp ? t->stamp : counter();
    leave(t, 6);
}

EXPORT void *calloc(size_t count, size_t size)
{
    struct registers at = CALLER();
    size_t bytes;
    if (ENTERED(at))
        return next.calloc(count, size);
    void *block = CALL_NEXT(at, next.calloc(count, size));
    if (__builtin_mul_overflow(count, size, &bytes))
        bytes = SIZE_MAX;
    record_allocation(at, block, bytes, 1ull << HL_ZEROED_SHIFT);
    return block;
}

/* Records every reallocation. Without an old block it is an allocation; with size 0 and no new
   block, a free. */
ALWAYS_INLINE void *reallocated(struct registers at, uint64_t before, void *old, void *block, size_t size, bool overflow)
{
    if (unlikely(!old)) {
        record_allocation(at, block, size, 0);
    } else if (unlikely(!size && !block && !overflow)) {
        struct thread *t = enter(2, at.sp);
        if (!t) {
            nested_pair(old, HL_FREE);
            return block;
        }
        uint64_t *to = room(t);
        to[0] = before << 4 | HL_FREE;
        to[1] = block_word(old, 0);
        leave(t, 2);
    } else {
        record_reallocation(at, before, old, block, size);
    }
    return block;
}

COLD static void *realloc_of_boot(void *old, size_t size)
{
    void *block = next.malloc(size);
    size_t most = (uintptr_t)boot_memory + sizeof boot_memory - (uintptr_t)old;
    if (block)
        memcpy(block, old, size < most ? size : most);
    return block;
}

EXPORT void *realloc(void *old, size_t size)
{
    struct registers at = CALLER();
    if (ENTERED(at))
        return next.realloc(old, size);
    if (unlikely(of_boot(old))) {
        void *block = realloc_of_boot(old, size);
        record_allocation(at, block, size, 0);
        return block;
    }
    uint64_t before = counter_or_0();
    void *block = CALL_NEXT(at, next.realloc(old, size));
    return reallocated(at, before, old, block, size, false);
}

EXPORT void *reallocarray(void *old, size_t count, size_t size)
{
    struct registers at = CALLER();
    size_t bytes;
    bool overflow = __builtin_mul_overflow(count, size, &bytes);
    if (ENTERED(at))
        return overflow ? NULL : next.realloc(old, bytes);
    if (unlikely(of_boot(old)) && !overflow) {
        void *block = realloc_of_boot(old, bytes);
        record_allocation(at, block, bytes, 0);
        return block;
    }
    uint64_t before = counter_or_0();
    void *block;
    if (next.reallocarray)
        block = CALL_NEXT(at, next.reallocarray(old, count, size));
    else if (!overflow)
        block = CALL_NEXT(at, next.realloc(old, bytes));
    else
        errno = ENOMEM, block = NULL;
    return reallocated(at, before, old, block, overflow ? SIZE_MAX : bytes, overflow);
}

ALWAYS_INLINE uint64_t aligned_properties(size_t alignment)
{
    uint64_t log2 = alignment ? 63 - (unsigned)__builtin_clzll(alignment) : 0;
    return log2 << HL_ALIGN_SHIFT | (uint64_t)HL_FAMILY_ALIGNED << HL_FAMILY_SHIFT;
}

EXPORT void *aligned_alloc(size_t alignment, size_t size)
{
    struct registers at = CALLER();
    if (ENTERED(at))
        return next.aligned_alloc(alignment, size);
    void *block = CALL_NEXT(at, next.aligned_alloc(alignment, size));
    record_allocation(at, block, size, aligned_properties(alignment) | next.foreign_aligned_alloc);
    return block;
}

EXPORT void *memalign(size_t alignment, size_t size)
{
    struct registers at = CALLER();
    if (ENTERED(at))
        return next.memalign(alignment, size);
    void *block = CALL_NEXT(at, next.memalign(alignment, size));
    record_allocation(at, block, size, aligned_properties(alignment) | next.foreign_memalign);
    return block;
}

EXPORT int posix_memalign(void **block, size_t alignment, size_t size)
{
    struct registers at = CALLER();
    if (ENTERED(at))
        return next.posix_memalign(block, alignment, size);
    int error = CALL_NEXT(at, next.posix_memalign(block, alignment, size));
    if (error != EINVAL)
        record_allocation(at, error ? NULL : *block, size, aligned_properties(alignment) | next.foreign_posix_memalign);
    return error;
}

EXPORT void *valloc(size_t size)
{
    struct registers at = CALLER();
    if (ENTERED(at))
        return next.valloc(size);
    void *block = CALL_NEXT(at, next.valloc(size));
    record_allocation(at, block, size, aligned_properties(recorder.page) | next.foreign_valloc);
    return block;
}

EXPORT void *pvalloc(size_t size)
{
    struct registers at = CALLER();
    if (ENTERED(at))
        return next.pvalloc(size);
    void *block = CALL_NEXT(at, next.pvalloc(size));
    record_allocation(at, block, size, aligned_properties(recorder.page) | next.foreign_pvalloc);
    return block;
}

EXPORT size_t malloc_usable_size(void *block)
{
    struct registers at = CALLER();
    if (likely(block != NULL) && !ENTERED(at))
        record_pair(at, block, HL_USABLE_SIZE);
    return next.malloc_usable_size(block);
}
