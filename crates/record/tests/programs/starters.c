/* Starts the given program in every possible way, once each, and a program that does not exist.
 * Exits with the number of wrong results. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <spawn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#if !__GLIBC_PREREQ(2, 39) /* pidfd_spawn.c has them */
int pidfd_spawn(int *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *, char *const *, char *const *);
int pidfd_spawnp(int *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *, char *const *, char *const *);
#endif
#ifndef P_PIDFD
#define P_PIDFD 3
#endif

extern char **environ;
static int wrong;

static void ended(pid_t child)
{
    int status;
    wrong += waitpid(child, &status, 0) < 1 || !WIFEXITED(status) || WEXITSTATUS(status) != 7;
}

#define STARTED_BY(make, call) \
    do { \
        pid_t child = make(); \
        if (!child) { \
            execl("/no/such/program", "x", NULL); \
            call; \
            _exit(1); \
        } \
        ended(child); \
    } while (0)

static void ended_by_descriptor(int descriptor)
{
    siginfo_t how;
    wrong += waitid(P_PIDFD, (id_t)descriptor, &how, WEXITED) || how.si_code != CLD_EXITED || how.si_status != 7;
    close(descriptor);
}

/* Makes the kernel refuse new processes from now on; false if impossible. */
static int forbid_processes(void)
{
    struct sock_filter words[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAGAIN),
    };
    struct sock_fprog filter = {.len = sizeof words / sizeof *words, .filter = words};
    return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) && !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
}

/* The kernel, and nothing before it, refuses unreadable pointers. */
static void by_bad_pointers(const char *path, char *const *arguments)
{
    long page = sysconf(_SC_PAGESIZE);
    char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    wrong += pages == MAP_FAILED || mprotect(pages + page, page, PROT_NONE);
    /* a text and a list that lead into unreadable memory */
    char *unfinished = memset(pages + page - 8, '/', 8);
    char *bad[] = {pages + page, unfinished, (char *)1, (char *)-1, (char *)(1ull << 62)};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char *entries[] = {"A=b", bad[i], NULL};
        errno = 0;
        wrong += execve(bad[i], arguments, environ) != -1 || errno != EFAULT;
        errno = 0;
        wrong += execve(path, arguments, entries) != -1 || errno != EFAULT;
        errno = 0;
        wrong += i != 1 && (execve(path, arguments, (char **)bad[i]) != -1 || errno != EFAULT);
        errno = 0;
        wrong += syscall(SYS_execve, bad[i], arguments, environ) != -1 || errno != EFAULT;
        errno = 0;
        wrong += execveat(AT_FDCWD, bad[i], arguments, environ, 0) != -1 || errno != EFAULT;
    }
    *(char **)unfinished = "A=b";
    errno = 0;
    wrong += execve(path, arguments, (char **)unfinished) != -1 || errno != EFAULT;
    munmap(pages, 2 * page);
}

/* By the shell, which starts or fails to start. */
static void by_shell(const char *path)
{
    char command[4096], line[100] = "";
    snprintf(command, sizeof command, "'%s' a; exit $?", path);
    errno = ENOTTY;
    int status = system(command);
    wrong += !WIFEXITED(status) || WEXITSTATUS(status) != 7 || errno != ENOTTY;
    wrong += system(NULL) != 1;
    FILE *pipe = popen(command, "r");
    wrong += !pipe || !fgets(line, sizeof line, pipe) || strcmp(line, "to standard output\n");
    wrong += WEXITSTATUS(pclose(pipe)) != 7;
    errno = 0;
    wrong += popen(command, "x") != NULL || errno != EINVAL;
    pid_t child = fork();
    if (!child) {
        if (forbid_processes()) {
            errno = 0;
            status = system(command);
            wrong += !WIFEXITED(status) || WEXITSTATUS(status) != 127 || errno != EAGAIN;
            wrong += system(NULL) != 0;
            wrong += popen(command, "r") != NULL;
        }
        _exit(wrong);
    }
    wrong += waitpid(child, &status, 0) < 1 || status;
}

int main(int count, char **words)
{
    char *path = words[1], *name = strrchr(path, '/') + 1, *arguments[] = {name, "a", NULL};
    pid_t child;
    (void)count;
    STARTED_BY(fork, execve(path, arguments, environ));
    STARTED_BY(vfork, execv(path, arguments));
    STARTED_BY(fork, execl(path, name, "a", "b", NULL));
    STARTED_BY(vfork, execle(path, name, "a", NULL, environ));
    STARTED_BY(fork, fexecve(open(path, O_RDONLY), arguments, environ));
    wrong += posix_spawn(&child, path, NULL, NULL, arguments, environ) != 0;
    ended(child);
    wrong += posix_spawn(&child, "/no/such/program", NULL, NULL, arguments, environ) == 0;
    STARTED_BY(fork, syscall(SYS_execve, path, arguments, environ));
    STARTED_BY(fork, syscall(SYS_execveat, open(path, O_RDONLY), "", arguments, environ, AT_EMPTY_PATH));
    errno = 0;
    wrong += syscall(SYS_execve, "/no/such/program", arguments, environ) != -1 || errno != ENOENT;
    wrong += syscall(SYS_getpid) != getpid() || syscall(-1) != -1 || errno != ENOSYS;
    int descriptor = -1;
    wrong += pidfd_spawn(&descriptor, path, NULL, NULL, arguments, environ) != 0;
    ended_by_descriptor(descriptor);
    wrong += pidfd_spawn(&descriptor, "/no/such/program", NULL, NULL, arguments, environ) != ENOENT;
    by_bad_pointers(path, arguments);
    by_shell(path);
    *strrchr(path, '/') = 0;
    wrong += chdir(path) != 0;
    setenv("PATH", "/no/such/folder::/", 1);
    STARTED_BY(fork, execvp(name, arguments));
    STARTED_BY(vfork, execvpe(name, arguments, environ));
    STARTED_BY(fork, execlp(name, name, "a", NULL));
    STARTED_BY(fork, execveat(open(path, O_RDONLY), name, arguments, environ, 0));
    wrong += posix_spawnp(NULL, name, NULL, NULL, arguments, environ) != 0;
    ended(-1);
    wrong += pidfd_spawnp(&descriptor, name, NULL, NULL, arguments, environ) != 0;
    ended_by_descriptor(descriptor);
    return wrong;
}
