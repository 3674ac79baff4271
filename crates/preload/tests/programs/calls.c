/* Calls every function once, with sizes that no other code asks for, and makes system calls, which
 * pass through the recorder too. Prints each result: "name address usable". */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Weak, as in a program that uses the function if present. */
extern int pidfd_spawn(int *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *, char *const *, char *const *)
    __attribute__((weak));

static char out[65536];
static size_t used;
static void say(const char *name, void *block) { used += snprintf(out + used, sizeof out - used, "%s %lu\n", name, (unsigned long)(uintptr_t)block); }

int main(void)
{
    void *volatile p;
    void *m;
    say("malloc", p = malloc(100001));
    free(p);
    say("calloc", p = calloc(3, 100002));
    say("realloc", p = realloc(p, 400003));
    say("reallocarray", p = reallocarray(p, 5, 100004));
    say("usable", p);
    if (malloc_usable_size(p) < 500020)
        return 1;
    p = realloc(p, 0);
    say("realloc0", p);
    say("aligned_alloc", p = aligned_alloc(256, 102400));
    free(p);
    if (posix_memalign(&m, 4096, 100006) || posix_memalign(&m, 3, 100006) != EINVAL)
        return 2;
    say("posix_memalign", m);
    free(m);
    say("memalign", p = memalign(64, 100007));
    free(p);
    say("valloc", p = valloc(100008));
    free(p);
    say("pvalloc", p = pvalloc(100009));
    free(p);
    say("realloc_null", p = realloc(NULL, 100010));
    errno = 0;
    void *volatile failed = malloc(SIZE_MAX / 2 - 1);
    if (failed || errno != ENOMEM)
        return 3;
    failed = realloc(p, SIZE_MAX / 2 - 2);
    if (failed)
        return 4;
    errno = 77;
    free(p);
    free(NULL);
    if (errno != 77)
        return 5;
    char text[] = "abcdef", to[8] = "", *words[] = {text, NULL};
    int ends[2];
    off_t from = 2;
    if (syscall(SYS_pipe2, ends, 0) || syscall(SYS_write, ends[1], text, 6) != 6 || syscall(SYS_read, ends[0], to, 8) != 6 || strcmp(to, text))
        return 6;
    if (syscall(SYS_lseek, ends[0], from, SEEK_SET) != -1 || errno != ESPIPE || syscall(SYS_getpid) != getpid())
        return 7;
    if (syscall(SYS_execve, "/no/such/program", words, words + 1) != -1 || errno != ENOENT)
        return 8;
    if (syscall(SYS_execveat, -1, "no-such-program", words, words + 1, 0) != -1) /* an emulator has an errno of its own */
        return 9;
    if (!pidfd_spawn != !dlvsym(dlopen("libc.so.6", RTLD_NOW), "pidfd_spawn", "GLIBC_2.39"))
        return 10;
    fwrite(out, 1, used, stdout);
    return 0;
}
