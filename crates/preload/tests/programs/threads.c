/* THREADS short threads, WAVE at a time; each allocates 10 blocks and frees the 10 of the thread
 * before it. The destructor of a thread-specific value frees one more block. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>

#define THREADS 600
#define WAVE 4
static void *volatile blocks[THREADS + 1][10];
static pthread_key_t key;

static void destructor(void *value)
{
    free(value);
    static __thread int again;
    if (again++ < 6) /* more often than the rounds of destructors */
        pthread_setspecific(key, malloc(501));
}

static void *run(void *argument)
{
    long n = (long)argument;
    pthread_setname_np(pthread_self(), "short one");
    pthread_setspecific(key, malloc(500));
    for (int i = 0; i < 10; i++)
        blocks[n][i] = malloc(600);
    for (int i = 0; n >= WAVE && i < 10; i++)
        free(blocks[n - WAVE][i]);
    return NULL;
}

int main(void)
{
    pthread_t threads[WAVE];
    pthread_key_create(&key, destructor);
    for (long first = 0; first < THREADS; first += WAVE) {
        for (long i = 0; i < WAVE; i++)
            pthread_create(&threads[i], NULL, run, (void *)(first + i));
        for (long i = 0; i < WAVE; i++)
            pthread_join(threads[i], NULL);
    }
    return 0;
}
