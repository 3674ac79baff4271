/* Maps memory past malloc in every way, prints what it asked for and got, and then lets a timer's
   handler map and unmap wherever it strikes. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

#define PAGE 65536 /* a multiple of every machine's */

static volatile long struck, failed;

static void *anonymous(size_t bytes)
{
    return mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void handler(int signal)
{
    (void)signal;
    int before = errno;
    void *p = anonymous(3 * PAGE);
    failed += p == MAP_FAILED || munmap(p, 3 * PAGE);
    failed += errno != before;
    struck++;
}

int main(void)
{
    void *p = anonymous(5 * PAGE);
    printf("map %lx %x\n", (long)p, 5 * PAGE);
    printf("unmap %lx %x\n", (long)p + PAGE, PAGE);
    failed += munmap((char *)p + PAGE, PAGE);
    void *fixed = mmap64((char *)p + PAGE, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    printf("map %lx %x\n", (long)fixed, PAGE);
    void *moved = mremap((char *)p + 4 * PAGE, PAGE, 9 * PAGE, MREMAP_MAYMOVE);
    printf("unmap %lx %x\nmap %lx %x\n", (long)p + 4 * PAGE, PAGE, (long)moved, 9 * PAGE);
    char *end = sbrk(2 * PAGE);
    printf("map %lx %x\n", (long)end, 2 * PAGE);
    failed += brk(end + PAGE);
    printf("unmap %lx %x\n", (long)end + PAGE, PAGE);
    /* a failed call changes only errno */
    errno = 0;
    failed += anonymous(0) != MAP_FAILED || errno != EINVAL;
    failed += munmap((void *)1, PAGE) != -1 || errno != EINVAL;
    failed += sbrk(0) != end + PAGE;
    fflush(stdout);
    struct sigaction action = {.sa_handler = handler};
    struct itimerval once = {{0, 0}, {0, 0}}, never = {{0, 0}, {0, 0}};
    sigaction(SIGALRM, &action, NULL);
    long allocated = 0;
    for (long wound = -1; struck < 1000 && allocated < 900000; allocated++) {
        if (wound != struck) {
            wound = struck;
            once.it_value.tv_usec = 20 + wound % 61;
            setitimer(ITIMER_REAL, &once, NULL);
        }
        free(malloc(55));
    }
    setitimer(ITIMER_REAL, &never, NULL);
    printf("%ld %ld %ld\n", struck, allocated, failed);
    return 0;
}
