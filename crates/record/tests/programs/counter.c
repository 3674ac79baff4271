/* Counts a program's calls of the allocator, independently of the recorder: no ring, no unwinder,
 * no clock, none of its code. Loaded behind the recorder: both see the same run. The counts lie in
 * the mapped file HEAPLAB_COUNT, which includes the last free of the process. The process that
 * started last has the file's name: a file that another process has mapped is left to that process
 * and never cut. The file is an array of 64-bit numbers: one a function (enum below), then one a
 * requested size. See tests/counted_programs.rs. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

enum { MALLOC, CALLOC, REALLOC, REALLOC_OF_NULL, REALLOC_TO_ZERO, ALIGNED, FREE, FREE_OF_NULL, USABLE, KINDS };
#define SIZES 65536
static _Atomic uint64_t before_mapping[KINDS + SIZES], *counts;

/* Calls no libc function that allocates. */
static _Atomic uint64_t *mapped(void)
{
    const char *path = counts ? NULL : getenv("HEAPLAB_COUNT");
    if (path) {
        unlink(path);
        int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        void *map = fd < 0 || ftruncate(fd, sizeof before_mapping) ? MAP_FAILED : mmap(NULL, sizeof before_mapping, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        close(fd);
        if (map != MAP_FAILED) {
            memcpy(map, before_mapping, sizeof before_mapping);
            counts = map;
        }
    }
    return counts ? counts : before_mapping;
}

static void count(int kind, size_t size)
{
    _Atomic uint64_t *to = mapped();
    to[kind]++;
    if (kind <= ALIGNED && kind != REALLOC_TO_ZERO && size < SIZES)
        to[KINDS + size]++;
}

void *malloc(size_t size)
{
    count(MALLOC, size);
    return __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
    count(CALLOC, n * size);
    return __libc_calloc(n, size);
}

void *realloc(void *block, size_t size)
{
    void *result = __libc_realloc(block, size);
    count(!block ? REALLOC_OF_NULL : !size && !result ? REALLOC_TO_ZERO : REALLOC, size);
    return result;
}

void *reallocarray(void *block, size_t n, size_t size) { return realloc(block, n * size); }

void free(void *block)
{
    count(block ? FREE : FREE_OF_NULL, 0);
    __libc_free(block);
}

void *memalign(size_t alignment, size_t size)
{
    count(ALIGNED, size);
    return __libc_memalign(alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }

int posix_memalign(void **block, size_t alignment, size_t size)
{
    void *result = memalign(alignment, size);
    if (result)
        *block = result;
    return result ? 0 : 12;
}

size_t malloc_usable_size(void *block)
{
    static size_t (*next)(void *);
    if (!next)
        next = (size_t(*)(void *))dlsym(RTLD_NEXT, "malloc_usable_size");
    if (block)
        count(USABLE, 0);
    return next(block);
}
