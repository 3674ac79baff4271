/* Blocks pass between threads, and their addresses are reused at once: argv[1] threads, argv[2]
 * turns each. Slots are exchanged atomically: each thread frees and grows the others' blocks. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static void *slots[64];
static long turns;

static void *work(void *seed)
{
    uint64_t random = 88172645463325252ull ^ ((uint64_t)(uintptr_t)seed << 32);
    for (long turn = 0; turn < turns; turn++) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        void *mine = __atomic_exchange_n(&slots[random % 64], NULL, __ATOMIC_ACQ_REL);
        if (mine && random & 64)
            mine = realloc(mine, 1 + (random >> 24) % 3000);
        else if (mine)
            free(mine), mine = NULL;
        else
            mine = malloc(1 + (random >> 24) % 300);
        free(__atomic_exchange_n(&slots[(random >> 8) % 64], mine, __ATOMIC_ACQ_REL));
    }
    return NULL;
}

int main(int argc, char **argv)
{
    int count = argc > 2 ? atoi(argv[1]) : 4;
    turns = argc > 2 ? atol(argv[2]) : 10000;
    pthread_t *threads = calloc(count, sizeof *threads);
    for (int i = 0; i < count; i++)
        if (pthread_create(&threads[i], NULL, work, (void *)(uintptr_t)(i + 1)))
            return 9;
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 64; i++)
        free(slots[i]);
    free(threads);
    puts("joined");
    return 0;
}
