/* THREADS (argument 1) threads, each with PAIRS (argument 2) pairs of malloc and free under 12 frames. */
#include <pthread.h>
#include <stdlib.h>

static long pairs;

__attribute__((noinline)) static int under(int frames, long i)
{
    if (frames) {
        int below = under(frames - 1, i);
        __asm__ volatile("");
        return below + 1;
    }
    void *volatile p = malloc(16 + (size_t)(i & 63) * 8);
    free(p);
    return 0;
}

static void *run(void *argument)
{
    for (long i = 0; i < pairs; i++)
        under(10, i);
    return argument;
}

int main(int count, char **arguments)
{
    pthread_t threads[64];
    int n = count > 2 ? atoi(arguments[1]) : 0;
    if (n < 1 || n > 64)
        return 2;
    pairs = atol(arguments[2]);
    for (int i = 0; i < n; i++)
        pthread_create(&threads[i], NULL, run, NULL);
    for (int i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
