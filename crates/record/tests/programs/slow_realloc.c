/* Another thread uses an address that a reallocation released, before the reallocation has
 * returned: a library beside libc (-DLIBRARY) stays in `realloc` for 30 ms after moving the block.
 * The call's stack is new, and its nodes are stamped after the return. Exits with 0 if the address
 * was used in between. */
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#ifdef LIBRARY

void *__libc_realloc(void *block, size_t size);
volatile int moved;

void *realloc(void *block, size_t size)
{
    void *to = __libc_realloc(block, size);
    if (to != block) {
        __atomic_store_n(&moved, 1, __ATOMIC_RELEASE);
        usleep(30000);
    }
    return to;
}

#else

extern volatile int moved;
static void *taken;
static volatile int ready;

static void *take(void *unused)
{
    (void)unused;
    /* makes the thread's cache first, which would otherwise be cut from the block */
    free(malloc(1));
    __atomic_store_n(&ready, 1, __ATOMIC_RELEASE);
    while (!__atomic_load_n(&moved, __ATOMIC_ACQUIRE))
        ;
    taken = malloc(5000);
    free(taken);
    return NULL;
}

int main(void)
{
    mallopt(M_ARENA_MAX, 1);
    /* The block's neighbours are in use: it can neither grow in place nor join a larger free
       block. */
    void *before = malloc(5000);
    void *old = malloc(5000);
    void *behind = malloc(5000);
    uintptr_t where = (uintptr_t)old;
    pthread_t taker;
    if (pthread_create(&taker, NULL, take, NULL))
        return 9;
    while (!__atomic_load_n(&ready, __ATOMIC_ACQUIRE))
        ;
    old = realloc(old, 90000);
    pthread_join(taker, NULL);
    free(old);
    free(before);
    free(behind);
    return (uintptr_t)taken == where ? 0 : 8;
}

#endif
