/* A timer's handler leaves the interrupted code by longjmp, even in the middle of a record. Runs
 * with an allocator that allows this. Then allocates in peace, from the same frame. Prints the
 * number of strikes. */
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>

static volatile long struck, allocated;
static sigjmp_buf back;
static void handler(int signal)
{
    (void)signal;
    struck++;
    siglongjmp(back, 1);
}

static __attribute__((noinline)) void *from_below(void)
{
    volatile char room[4 << 10];
    room[0] = 1;
    void *p = malloc(55);
    room[1] = room[0];
    return p;
}

int main(void)
{
    struct sigaction action = {.sa_handler = handler};
    struct itimerval every = {{0, 50}, {0, 50}}, never = {{0, 0}, {0, 0}};
    if (sigsetjmp(back, 1) == 0) {
        sigaction(SIGALRM, &action, NULL);
        setitimer(ITIMER_REAL, &every, NULL);
    }
    for (; struck < 500 && allocated < 900000; allocated++) {
        void *volatile p = from_below();
        free(p);
    }
    action.sa_handler = SIG_IGN;
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &never, NULL);
    for (int n = 0; n < 100; n++) {
        void *volatile p = malloc(333);
        free(p);
    }
    printf("%ld\n", struck);
    return 0;
}
