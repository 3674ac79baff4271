/* Allocates from stacks of many shapes. Before each allocation of a size that no other code asks
 * for, notes the stack by glibc's backtrace(); at the end prints all: "size ip ip ...". Built
 * without frame pointers. */
#define _GNU_SOURCE
#include <alloca.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DEEPEST 200
static struct noted {
    size_t size;
    int count;
    void *ips[DEEPEST];
} *noted;
static int notes;

__attribute__((noinline)) void take(void)
{
    struct noted *n = &noted[notes];
    n->size = 1000000 + notes++;
    n->count = backtrace(n->ips, DEEPEST);
    free(malloc(n->size));
    __asm__ volatile("");
}

__attribute__((noinline)) int deep(int n)
{
    if (n == 0) {
        take();
        return 1;
    }
    return deep(n - 1) + n;
}

__attribute__((noinline)) int variable(int n)
{
    volatile char *room = alloca((size_t)n * 32 + 1);
    room[n] = 1;
    take();
    return room[n] + deep(n % 5);
}

#ifdef __x86_64__
__attribute__((target("avx")))
#endif
__attribute__((noinline)) double realigned(double x)
{
    volatile double values[8] __attribute__((aligned(64))) = {x};
    take();
    return values[0] + deep(2);
}

static int compare(const void *a, const void *b)
{
    static int calls;
    if (calls++ < 5)
        take();
    return *(const int *)a - *(const int *)b;
}

__attribute__((noinline)) int other(int n)
{
    take();
    return deep(n) + 1;
}

static void handler(int signal)
{
    (void)signal;
    take();
    deep(3);
}

static void *thread(void *argument)
{
    take();
    deep(10);
    return argument;
}

int main(int count, char **arguments)
{
    noted = calloc(4000, sizeof *noted);
    void *warm[4];
    backtrace(warm, 4); /* loads libgcc */
    for (int i = 0; i < 100; i++)
        deep(i % 37 + (i % 3) * 20);
    for (int i = 0; i < 20; i++)
        variable(i);
    deep(150);
    for (int i = 150; i > 0; i -= 7)
        deep(i);
    realigned(2);
    int numbers[16] = {5, 3, 9, 1, 7, 2, 8, 4, 6};
    qsort(numbers, 16, sizeof *numbers, compare);
    for (int i = 0; i < 10; i++)
        other(i);
    signal(SIGUSR1, handler);
    raise(SIGUSR1);
    deep(4);
    static char alternate[65536];
    stack_t stack = {.ss_sp = alternate, .ss_size = sizeof alternate};
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    sigaltstack(&stack, NULL);
    sigaction(SIGUSR2, &action, NULL);
    raise(SIGUSR2);
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) {
        pthread_create(&threads[i], NULL, thread, NULL);
        pthread_join(threads[i], NULL);
    }
    for (int i = 1; i < count; i++) {
        void *library = dlopen(arguments[i], RTLD_NOW);
        int (*call)(void (*)(void)) = (int (*)(void (*)(void)))dlsym(library, "call");
        call(take);
        dlclose(library);
    }
    for (int i = 0; i < notes; i++) {
        printf("%zu", noted[i].size);
        for (int k = 0; k < noted[i].count; k++)
            printf(" %lu", (unsigned long)noted[i].ips[k]);
        printf("\n");
    }
    return 0;
}
