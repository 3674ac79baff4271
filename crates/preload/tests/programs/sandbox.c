/* Allocates, enters a sandbox, and goes on allocating. MODE: strict (allows read, write and exit),
 * timeless, filter (a list of allowed calls; all others kill), syscall (the same by syscall()),
 * fork or thread (a list of calls that kill; starts a child or a thread), refused (an invalid
 * filter). Allocates and frees BLOCKS of 48 bytes in the sandbox. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define COUNT(list) (sizeof(list) / sizeof *(list))

static const int allowed[] = {SYS_read, SYS_write, SYS_exit, SYS_exit_group, SYS_brk, SYS_mmap, SYS_munmap, SYS_rt_sigreturn};
static const int forbidden[] = {SYS_openat, SYS_ftruncate, SYS_fallocate, SYS_nanosleep, SYS_faccessat, SYS_fcntl, SYS_kill, SYS_prlimit64, SYS_sigaltstack};

/* Matching calls get one answer, all others the other. */
static long lock_up(const int *calls, size_t count, unsigned matching, unsigned others, int by_syscall)
{
    struct sock_filter filter[64] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
    struct sock_fprog program = {1, filter};
    for (size_t i = 0; i < count; i++) {
        filter[program.len++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[i], 0, 1);
        filter[program.len++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, matching);
    }
    filter[program.len++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, others);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    return by_syscall ? syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) : prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static void *blocks(void *count)
{
    void *volatile keep[64] = {0};
    for (long i = 0; i < (long)count; i++) {
        free(keep[i % 64]);
        keep[i % 64] = malloc(48);
    }
    for (int i = 0; i < 64; i++)
        free(keep[i]);
    return NULL;
}

static void *other_blocks(void *count)
{
    for (long i = 0; i < (long)count; i++) {
        void *volatile block = malloc(56);
        free(block);
    }
    return NULL;
}

static void say(const char *text) { (void)!write(1, text, strlen(text)); }

int main(int argc, char **argv)
{
    const char *mode = argv[1];
    void *count = (void *)atol(argv[2]);
    void *volatile before = malloc(100);
    pthread_t thread;
    free(before);
    free(malloc(1 << 20)); /* later blocks fit into the heap without a system call */
    long result = -1;
    if (argc != 3)
        return 2;
    if (!strcmp(mode, "strict"))
        result = prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
    else if (!strcmp(mode, "timeless"))
        result = prctl(PR_SET_TSC, PR_TSC_SIGSEGV);
    else if (!strcmp(mode, "filter") || !strcmp(mode, "syscall"))
        result = lock_up(allowed, COUNT(allowed), SECCOMP_RET_ALLOW, SECCOMP_RET_KILL_PROCESS, *mode == 's');
    else if (!strcmp(mode, "fork") || !strcmp(mode, "thread"))
        result = lock_up(forbidden, COUNT(forbidden), SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_ALLOW, 0);
    else if (!strcmp(mode, "refused"))
        result = prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL) == -1 && errno == EFAULT ? 0 : -1;
    if (result)
        return 3;
    if (!strcmp(mode, "fork")) {
        int status;
        pid_t child = fork();
        if (!child) {
            other_blocks((void *)1000);
            _exit(5);
        }
        if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 5)
            return 4;
    }
    if (!strcmp(mode, "thread") && (pthread_create(&thread, NULL, other_blocks, (void *)1000) || pthread_join(thread, NULL)))
        return 4;
    blocks(count);
    say("done\n");
    syscall(SYS_exit, 0);
}
