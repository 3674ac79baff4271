/* Overwrites its number of rings, as a broken program might, while one thread has a ring and before
 * another wants its own; with argument "taken" puts a file in the place of the second thread's
 * ring. THREAD n allocates blocks of 700 + n bytes. */
#include <fcntl.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "layout.h"

#define BLOCKS 20000
static pthread_barrier_t barrier;

static void allocate(size_t bytes)
{
    for (int i = 0; i < BLOCKS; i++) {
        void *volatile p = malloc(bytes);
        free(p);
    }
}

static void *first(void *unused)
{
    (void)unused;
    allocate(701);
    pthread_barrier_wait(&barrier); /* has a ring and keeps it */
    pthread_barrier_wait(&barrier);
    allocate(701);
    return NULL;
}

static void *second(void *unused)
{
    (void)unused;
    allocate(702);
    return NULL;
}

static int open_own(const char *suffix, int flags)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%d-0%s", getenv("HEAPLAB_SPOOL"), (int)getpid(), suffix);
    int fd = open(path, flags, 0600);
    if (fd < 0)
        abort();
    return fd;
}

static void run(void *(*body)(void *))
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, body, NULL) || pthread_join(thread, NULL))
        abort();
}

int main(int count, char **words)
{
    if (count > 1 && !strcmp(words[1], "taken")) {
        int fd = open_own("-1.ring", O_CREAT | O_EXCL | O_RDWR);
        char text[4] = "";
        if (write(fd, "mine", 4) != 4)
            abort();
        run(second);
        return pread(fd, text, 4, 0) != 4 || memcmp(text, "mine", 4) != 0;
    }
    pthread_t thread;
    uint32_t fewer = 1;
    pthread_barrier_init(&barrier, NULL, 2);
    if (pthread_create(&thread, NULL, first, NULL))
        abort();
    pthread_barrier_wait(&barrier);
    if (pwrite(open_own(".process", O_RDWR), &fewer, sizeof fewer, offsetof(struct hl_process, ring_count)) != sizeof fewer)
        abort();
    run(second);
    pthread_barrier_wait(&barrier);
    return pthread_join(thread, NULL) != 0;
}
