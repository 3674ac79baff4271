/* Allocates and frees COUNT times (argument), each time under a new stack of 17 frames: the bits of
 * I times an odd number choose between two functions at each level of stack I. Prints "done". */
#include <stdio.h>
#include <stdlib.h>

static int left(unsigned bits, int frames);

static __attribute__((noinline)) int right(unsigned bits, int frames)
{
    if (frames) {
        int below = bits & 1 ? right(bits >> 1, frames - 1) : left(bits >> 1, frames - 1);
        __asm__ volatile("");
        return below + 1;
    }
    void *volatile block = malloc(24);
    free(block);
    return 0;
}

static __attribute__((noinline)) int left(unsigned bits, int frames)
{
    int below = frames && !(bits & 1) ? left(bits >> 1, frames - 1) : right(bits >> 1, frames ? frames - 1 : 0);
    __asm__ volatile("");
    return below + 2;
}

int main(int count, char **arguments)
{
    long n = count > 1 ? atol(arguments[1]) : 0;
    for (long i = 0; i < n; i++)
        left((unsigned)i * 40503u, 16);
    puts("done");
    return 0;
}
