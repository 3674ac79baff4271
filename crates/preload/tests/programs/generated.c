/* Allocates below code that it generates at run time, as a JIT compiler does, right after the
 * recorder looked for generated code. Blocks of 100000 bytes come from below the first function,
 * then for some seconds blocks of 200000 and now and then of 300000 bytes from below the second,
 * with others in between. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

/* calls its first argument with its second, in a frame that a frame pointer leads to */
#if defined(__x86_64__)
static const unsigned char code[] = {0x55, 0x48, 0x89, 0xe5, 0x48, 0x89, 0xf8, 0x48, 0x89, 0xf7, 0xff, 0xd0, 0x5d, 0xc3};
#else
static const unsigned code[] = {0xa9bf7bfd, 0x910003fd, 0xaa0003e2, 0xaa0103e0, 0xd63f0040, 0xa8c17bfd, 0xd65f03c0};
#endif
typedef void (*generated)(void (*)(size_t), size_t);

static __attribute__((noinline)) void take(size_t size)
{
    free(malloc(size));
    __asm__ volatile("");
}

static generated make(void)
{
    char *to = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(to, code, sizeof code);
    __builtin___clear_cache(to, to + sizeof code);
    return (generated)to;
}

static __attribute__((noinline)) void below(generated function, size_t size)
{
    function(take, size);
    __asm__ volatile("");
}

int main(void)
{
    below(make(), 100000);
    /* makes the next mapping a separate one */
    mmap(NULL, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    generated second = make();
    struct timespec begun, now;
    clock_gettime(CLOCK_MONOTONIC, &begun);
    int i = 0;
    do {
        /* from one place: one stack leads to all of them */
        below(second, i % 1000 == 999 ? 300000 : 200000);
        if (i++ % 3 == 0)
            take(7);
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while (now.tv_sec < begun.tv_sec + 2 || i % 1000);
    return 0;
}
