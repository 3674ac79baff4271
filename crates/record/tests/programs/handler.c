/* A signal handler that allocates at any point of the program. glibc does not promise to survive
 * this: the program allocates only with the signal blocked, and the handler interrupts only the
 * program's own code and the recorder. */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>

static atomic_int handled;
static void *kept[100000];

static void handler(int number)
{
    (void)number;
    if (handled < 200)
        kept[handled++] = aligned_alloc(64, 4096 * 16);
}

int main(void)
{
    struct sigaction action = {.sa_handler = handler};
    struct itimerval every = {{0, 500}, {0, 500}};
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &every, NULL);
    sigset_t alarm;
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    for (long n = 0; handled < 50; n++) {
        /* the allocator is not reentrant: signals come between calls only */
        sigprocmask(SIG_BLOCK, &alarm, NULL);
        void *block = malloc(3000 + n % 10);
        free(block);
        sigprocmask(SIG_UNBLOCK, &alarm, NULL);
    }
    sigprocmask(SIG_BLOCK, &alarm, NULL);
    printf("handled %d\n", (int)(handled >= 50));
    FILE *file = fopen("handled", "w");
    fprintf(file, "%d", (int)handled);
    fclose(file);
    return 0;
}
