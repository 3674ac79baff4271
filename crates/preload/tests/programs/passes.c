/* Passes over reporters, begun on different stacks at equal addresses: some of them nested, one
 * left by longjmp, one on a thread. Reporters report from loops, at changing depths, and by two
 * callers whose frames are equal but for the return address. Each report gives the block's usable
 * size. */
#include <malloc.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>

extern size_t heaplab_report_block(const void *block, uint32_t flags) __attribute__((weak));
extern void heaplab_report_pass(uint32_t flags) __attribute__((weak));

enum { BLOCKS = 40, ENDS = 0, STAYS = 3 };
static void *blocks[BLOCKS];
static size_t usable[BLOCKS];
static __thread jmp_buf out;

#define NOT_INLINED static __attribute__((noinline, noclone))

NOT_INLINED size_t measure(int at)
{
    size_t measured = heaplab_report_block(blocks[at], 1);
    if (measured != usable[at])
        abort();
    return measured;
}

NOT_INLINED size_t tree(int depth, int at)
{
    size_t sum = measure(at % BLOCKS);
    if (depth)
        sum += tree(depth - 1, 2 * at) + tree(depth - 1, 2 * at + 1);
    __asm__ volatile("");
    return sum;
}

NOT_INLINED size_t one_way(int at) { return measure(at) + 1; }
NOT_INLINED size_t other_way(int at) { return measure(at) + 1; }

NOT_INLINED size_t reporters(void)
{
    size_t sum = tree(4, 1);
    for (int at = 0; at < 2 * BLOCKS; at++)
        sum += at < BLOCKS + 3 ? one_way(at % BLOCKS) : other_way(at % BLOCKS);
    for (int at = 0; at < BLOCKS; at++) {
        sum += at % 3 ? one_way(at) : other_way(at);
        free(malloc(at + 1)); /* its stack is found by the same traces */
    }
    __asm__ volatile("");
    return sum;
}

NOT_INLINED size_t ask(void)
{
    heaplab_report_pass(STAYS);
    size_t sum = reporters();
    heaplab_report_pass(ENDS);
    return sum;
}

/* As ask(), but outside of any pass, or within the one that was left. */
NOT_INLINED size_t ask_without(void)
{
    size_t sum = reporters();
    __asm__ volatile("");
    return sum + 1;
}

NOT_INLINED size_t ask_and_leave(void)
{
    heaplab_report_pass(STAYS);
    size_t sum = reporters();
    __asm__ volatile("" : "+r"(sum));
    longjmp(out, 1);
}

NOT_INLINED size_t ask_within(void)
{
    heaplab_report_pass(STAYS);
    size_t sum = reporters();
    sum += ask();
    sum += reporters();
    heaplab_report_pass(ENDS);
    return sum;
}

NOT_INLINED size_t within(int depth, size_t (*run)(void))
{
    size_t sum = depth ? within(depth - 1, run) : run();
    __asm__ volatile("");
    return sum + 3;
}

/* Equal frames: what runs inside runs at equal addresses. The frames between are more than those
   whose words are compared for each report. */
NOT_INLINED size_t first(size_t (*run)(void)) { return within(8, run) + 1; }
NOT_INLINED size_t second(size_t (*run)(void)) { return within(8, run) + 2; }
NOT_INLINED size_t deep(int depth, size_t (*by)(size_t (*)(void)), size_t (*run)(void))
{
    size_t sum = depth ? deep(depth - 1, by, run) : by(run);
    __asm__ volatile("");
    return sum + 1;
}

NOT_INLINED size_t everything(void)
{
    size_t sum = 0;
    for (int round = 0; round < 12; round++) {
        free(malloc(1000)); /* the guess for the first report depends on the stack before it */
        sum += deep(round % 2 * 5, round / 2 % 2 ? first : second, round % 3 ? ask : ask_within);
    }
    if (!setjmp(out))
        sum += deep(3, first, ask_and_leave);
    for (int round = 0; round < 6; round++)
        sum += deep(3, round % 2 ? first : second, ask_without);
    sum += deep(3, second, ask) + deep(3, second, ask_without);
    return sum;
}

static void *on_thread(void *unused) { return (void *)(everything() + (size_t)unused); }

int main(void)
{
    pthread_t thread;
    for (int at = 0; at < BLOCKS; at++) {
        blocks[at] = malloc(at % 9 ? 20 + at : 300000); /* some are mappings of their own */
        usable[at] = malloc_usable_size(blocks[at]);
    }
    pthread_create(&thread, NULL, on_thread, NULL);
    size_t sum = everything();
    pthread_join(thread, NULL);
    return sum == 0;
}
