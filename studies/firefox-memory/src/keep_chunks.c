/* For LD_PRELOAD into Firefox: its garbage collector no longer gives empty chunks back.
 *
 * SpiderMonkey maps chunks of 1 MiB and unmaps those that a collection empties. Here a chunk that
 * libxul unmaps stays as it is, in memory, until libxul maps another one. The browser's malloc has
 * chunks of this size too; it calls from the program's own file and is left alone. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { CHUNK_BYTES = 1 << 20, CHUNKS_MAX = 1 << 16 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *kept[CHUNKS_MAX];
static size_t kept_count;
static size_t kept_ever;

static int is_engine(void *caller) {
    Dl_info file;
    return dladdr(caller, &file) && file.dli_fname && strstr(file.dli_fname, "libxul");
}

int munmap(void *start, size_t bytes) {
    if (bytes == CHUNK_BYTES && (uintptr_t)start % CHUNK_BYTES == 0 &&
        is_engine(__builtin_return_address(0))) {
        pthread_mutex_lock(&lock);
        int keeps = kept_count < CHUNKS_MAX;
        if (keeps) kept[kept_count++] = start;
        size_t ever = keeps ? ++kept_ever : 0;
        pthread_mutex_unlock(&lock);
        /* The study checks that it had an effect. */
        if (ever == 16) dprintf(STDERR_FILENO, "keep_chunks: kept 16 chunks\n");
        if (keeps) return 0;
    }
    return (int)syscall(SYS_munmap, start, bytes);
}

static void *map(void *start, size_t bytes, int protection, int flags, int file, off_t offset,
                 void *caller) {
    if (bytes == CHUNK_BYTES && protection == (PROT_READ | PROT_WRITE) && (flags & MAP_ANONYMOUS) &&
        !(flags & MAP_FIXED) && is_engine(caller)) {
        pthread_mutex_lock(&lock);
        void *chunk = kept_count ? kept[--kept_count] : NULL;
        pthread_mutex_unlock(&lock);
        if (chunk) return memset(chunk, 0, CHUNK_BYTES);
    }
    return (void *)syscall(SYS_mmap, start, bytes, protection, flags, file, offset);
}

void *mmap(void *start, size_t bytes, int protection, int flags, int file, off_t offset) {
    return map(start, bytes, protection, flags, file, offset, __builtin_return_address(0));
}

void *mmap64(void *start, size_t bytes, int protection, int flags, int file, off_t offset) {
    return map(start, bytes, protection, flags, file, offset, __builtin_return_address(0));
}
