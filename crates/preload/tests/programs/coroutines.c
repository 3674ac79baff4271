/* Allocates on stacks with neighbours in the same mapping that go away, or become unreadable, and
 * on a stack where the outermost frame's unwind information leads beyond the stack's end. Prints
 * what backtrace() saw of all but the last stack, as stacks.c does. */
#define _GNU_SOURCE
#include <execinfo.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

enum { STACK_BYTES = 256 << 10, DEEPEST = 64 };
static struct noted {
    size_t size;
    int count;
    void *ips[DEEPEST];
} noted[200];
static int notes;

static __attribute__((noinline)) void take(void)
{
    struct noted *n = &noted[notes];
    n->size = 1000000 + notes++;
    n->count = backtrace(n->ips, DEEPEST);
    free(malloc(n->size));
    __asm__ volatile("");
}

static __attribute__((noinline)) int deep(int n)
{
    volatile char room[700]; /* some of these frames lie on each page */
    room[n] = 1;
    if (n == 0)
        take();
    else
        room[1] += deep(n - 1);
    return room[n];
}

static ucontext_t outside, lower, upper;
static char *half;
static void (*leave)(char *);

static void unmap(char *start) { munmap(start, STACK_BYTES); }
static void protect(char *start) { mprotect(start, STACK_BYTES, PROT_NONE); }

static void on_upper(void)
{
    deep(20);
    swapcontext(&upper, &outside);
}

static void on_lower(void)
{
    deep(3);
    swapcontext(&lower, &upper);
    for (int i = 0; i < 60; i += 9)
        deep(i);
    swapcontext(&lower, &outside);
}

static void *in_large;

static __attribute__((noinline)) void note_caller(char *room)
{
    room[0] = 1;
    in_large = __builtin_return_address(0);
}

static __attribute__((noinline)) int large(void)
{
    char room[8 << 10];
    note_caller(room);
    return room[0];
}

/* Runs as if called from a function with a large frame that does not exist above. */
static __attribute__((noinline, optimize("no-omit-frame-pointer"))) void on_lower_from_nowhere(void)
{
    void **frame = __builtin_frame_address(0);
    frame[1] = in_large;
    free(malloc(999999));
    swapcontext(&lower, &outside);
    free(malloc(999998));
    swapcontext(&lower, &outside);
}

static void begin(ucontext_t *context, char *stack, void (*function)(void))
{
    getcontext(context);
    context->uc_stack.ss_sp = stack;
    context->uc_stack.ss_size = STACK_BYTES;
    context->uc_link = &outside;
    makecontext(context, function, 0);
}

static char *two_halves(void)
{
    return mmap(NULL, 2 * STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void handler(int signal)
{
    (void)signal;
    deep(5);
}

static void coroutines(void)
{
    half = two_halves();
    begin(&lower, half, on_lower);
    begin(&upper, half + STACK_BYTES, on_upper);
    swapcontext(&outside, &lower);
    leave(half + STACK_BYTES);
    swapcontext(&outside, &lower);
}

static void alternate(void)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    half = two_halves();
    stack_t stack = {.ss_sp = half, .ss_size = STACK_BYTES};
    sigaltstack(&stack, NULL);
    sigaction(SIGUSR1, &action, NULL);
    raise(SIGUSR1);
    begin(&upper, half + STACK_BYTES, on_upper);
    swapcontext(&outside, &upper);
    leave(half + STACK_BYTES);
    raise(SIGUSR1);
    deep(1);
}

static void from_nowhere(void)
{
    half = two_halves();
    begin(&lower, half, on_lower_from_nowhere);
    swapcontext(&outside, &lower);
    leave(half + STACK_BYTES);
    swapcontext(&outside, &lower);
}

int main(void)
{
    void *warm[4];
    backtrace(warm, 4); /* loads libgcc */
    large();
    void (*leaving[])(char *) = {unmap, protect};
    for (int i = 0; i < 2; i++) {
        leave = leaving[i];
        coroutines();
        alternate();
        from_nowhere();
    }
    for (int i = 0; i < notes; i++) {
        printf("%zu", noted[i].size);
        for (int k = 0; k < noted[i].count; k++)
            printf(" %lu", (unsigned long)noted[i].ips[k]);
        printf("\n");
    }
    return 0;
}
