/* Thousands of threads, one after the other and eight at a time; each allocates 5,000 + its number bytes once and frees them. */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

static void *once(void *number)
{
    free(malloc(5000 + (uintptr_t)number));
    return NULL;
}

int main(void)
{
    pthread_t threads[8];
    for (uintptr_t n = 0; n < 2000; n += 8) {
        for (int i = 0; i < 8; i++)
            if (pthread_create(&threads[i], NULL, once, (void *)(n + i)))
                return 9;
        for (int i = 0; i < 8; i++)
            pthread_join(threads[i], NULL);
    }
    return 0;
}
