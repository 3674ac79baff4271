/* A timer's handler allocates and reallocates wherever it strikes. Runs with an allocator that
 * allows this. Prints the number of strikes and of the program's allocations. The program itself
 * winds the timer up again: if a handler takes longer than the timer (a slow or busy machine), a
 * repeating timer would leave the program no time between two strikes. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>

static volatile long struck;
static void handler(int signal)
{
    (void)signal;
    struck++;
    free(realloc(malloc(777), 888));
}

/* Allocates from far below its caller, which then frees from above: an earlier record's frame says
   nothing about the next. */
static __attribute__((noinline)) void *from_below(void)
{
    volatile char room[16 << 10];
    room[0] = 1;
    void *p = malloc(55);
    room[1] = room[0];
    return p;
}

int main(void)
{
    struct sigaction action = {.sa_handler = handler};
    struct itimerval once = {{0, 0}, {0, 0}}, never = {{0, 0}, {0, 0}};
    sigaction(SIGALRM, &action, NULL);
    long allocated = 0;
    for (long wound = -1; struck < 3000 && allocated < 900000; allocated++) {
        if (wound != struck) {
            wound = struck;
            once.it_value.tv_usec = 20 + wound % 61; // another place each time
            setitimer(ITIMER_REAL, &once, NULL);
        }
        void *volatile p = from_below();
        free(p);
    }
    setitimer(ITIMER_REAL, &never, NULL);
    printf("%ld %ld\n", struck, allocated);
    return 0;
}
