/* Takes memory in every way that a process can, in known amounts, and writes down its own smaps.
   Arguments: a folder. Writes smaps (the parent's), child (a forked child's), thread (an address on
   a thread's stack) and behind (bytes mapped right behind the recorder's mappings) there, and then
   holds still. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

extern void heaplab_mark(const char *name) __attribute__((weak));
#define APART __attribute__((noinline))
#define K 1024

static char text[1 << 20];
static char path[4][512];
static volatile uintptr_t thread_address;
static volatile int thread_ready;

static void touch(char *start, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += 4096)
        ((volatile char *)start)[i] = 1;
}

static char *anonymous(size_t bytes)
{
    char *start = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED)
        _exit(2);
    return start;
}

static char *partly;

APART static void map_partly(void)
{
    partly = anonymous(8192 * K);
    touch(partly, 3072 * K);
}

APART static void map_over(void)
{
    char *start = mmap(partly + 1024 * K, 1024 * K, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    if (start == MAP_FAILED)
        _exit(2);
    touch(start + 512 * K, 300 * K);
}

APART static void map_holed(void)
{
    char *start = anonymous(4096 * K);
    touch(start, 4096 * K);
    munmap(start + 1024 * K, 1024 * K);
}

APART static void map_moved(void)
{
    char *start = anonymous(1024 * K);
    touch(start, 1024 * K);
    start = mremap(start, 1024 * K, 5120 * K, MREMAP_MAYMOVE);
    if (start == MAP_FAILED)
        _exit(2);
    touch(start + 2048 * K, 1536 * K);
}

APART static void map_file(const char *folder)
{
    char name[600];
    snprintf(name, sizeof name, "%s/mapped file", folder);
    int fd = open(name, O_RDWR | O_CREAT, 0600);
    for (int i = 0; i < 256; i++)
        if (write(fd, text, 4096) != 4096)
            _exit(2);
    char *start = mmap(NULL, 1024 * K, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    close(fd);
    for (size_t i = 0; i < 1024 * K; i += 4096)
        text[0] += start[i];
    touch(start, 256 * K);
}

APART static void map_break(void)
{
    char *start = sbrk(1024 * K);
    touch(start + 4096, 700 * K);
}

static unsigned long bytes_behind;

/* Maps memory right behind mappings of the recorder's that have room there, as the kernel does by
   chance. */
APART static void map_behind(void)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    unsigned long start, end, before = 0;
    int is_recorders = 0;
    char line[1024], *places[64];
    int count = 0;
    while (fgets(line, sizeof line, maps) && sscanf(line, "%lx-%lx", &start, &end) == 2) {
        int is_unnamed = !strchr(line, '/') && !strchr(line, '[');
        if (is_recorders && start > before && count < 64)
            places[count++] = (char *)before;
        /* zeroed data follows the library, private memory some files of the spool */
        is_recorders = strstr(line, "heaplab-preload-") || strstr(line, ".spool/") || (is_recorders && is_unnamed && start == before);
        before = end;
    }
    fclose(maps);
    for (int i = 0; i < count; i++) {
        char *got = mmap(places[i], 12 * K, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        if (got != places[i])
            continue;
        touch(got, 12 * K);
        bytes_behind += 12 * K;
    }
}

static void *thread(void *unused)
{
    char big[2048 * K];
    touch(big, sizeof big);
    thread_address = (uintptr_t)big;
    thread_ready = 1;
    for (;;)
        pause();
    return unused;
}

/* Without allocations, which would change what is written down. */
static long read_own(void)
{
    long all = 0, got;
    int fd = open("/proc/self/smaps", O_RDONLY);
    while ((got = read(fd, text + all, sizeof text - all)) > 0)
        all += got;
    close(fd);
    return all;
}

static void write_down(const char *to)
{
    read_own(); /* what this touches is touched from now on */
    long all = read_own();
    int fd = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (write(fd, text, all) != all)
        _exit(2);
    close(fd);
}

int main(int count, char **arguments)
{
    if (count != 2 || prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0))
        return 2;
    memset(text, 1, sizeof text);
    const char *names[] = {"smaps", "child", "thread", "behind"};
    for (int i = 0; i < 4; i++)
        snprintf(path[i], sizeof path[i], "%s/%s", arguments[1], names[i]);
    static char *blocks[1000];
    for (int i = 0; i < 1000; i++)
        memset(blocks[i] = malloc(1000), 1, 1000);
    for (int i = 0; i < 1000; i += 2)
        free(blocks[i]);
    memset(malloc(5120 * K), 1, 5120 * K);
    if (!malloc(3072 * K))
        return 2;
    map_partly();
    map_over();
    map_holed();
    map_moved();
    map_file(arguments[1]);
    pthread_attr_t attributes;
    pthread_t started;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 16384 * K);
    pthread_create(&started, &attributes, thread, NULL);
    while (!thread_ready)
        usleep(1000);
    map_break();
    FILE *file = fopen(path[2], "w");
    fprintf(file, "%lx", (unsigned long)thread_address);
    fclose(file);
    map_behind();
    file = fopen(path[3], "w");
    fprintf(file, "%lu", bytes_behind);
    fclose(file);
    pid_t child = fork();
    if (!child) {
        touch(partly, 100 * K);
        usleep(100000); /* the recorder looks at the child's file meanwhile */
        write_down(path[1]);
        sleep(3);
        _exit(0);
    }
    usleep(300000); /* the child has touched what it shares with its parent */
    write_down(path[0]);
    if (heaplab_mark)
        heaplab_mark("still");
    sleep(3);
    waitpid(child, NULL, 0);
    return 0;
}
