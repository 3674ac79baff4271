/* Makes children of every kind; with an argument, only by fork. Sizes say who allocated: 1000000 +
   n the parent, 2000000 + n child n. */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
static void *volatile of_parent, *volatile own;

static void end_child(pid_t child, int expected)
{
    int status;
    if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != expected)
        abort();
}

int main(int count, char **words)
{
    (void)words;
    of_parent = malloc(1000001);
    pid_t child = fork();
    if (child == 0) { /* frees its parent's block and leaves by _exit */
        free(of_parent);
        own = malloc(2000001);
        pid_t grandchild = fork();
        if (grandchild == 0) {
            own = malloc(2000002);
            exit(3);
        }
        end_child(grandchild, 3);
        _exit(4);
    }
    end_child(child, 4);
    if (count > 1)
        return 0;
    child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0); /* bypasses pthread_atfork */
    if (child == 0) {
        own = malloc(2000003);
        free(of_parent);
        syscall(SYS_exit_group, 5);
    }
    end_child(child, 5);
    child = vfork(); /* shares the parent's memory */
    if (child == 0) {
        own = malloc(1000004);
        _exit(6);
    }
    end_child(child, 6);
    own = malloc(1000005);
    char *arguments[] = {"true", NULL};
    if (posix_spawnp(&child, "true", NULL, NULL, arguments, environ))
        abort();
    end_child(child, 0);
    child = fork();
    if (child == 0) {
        for (int fd = 0; fd < 100; fd++)
            close(fd);
        own = malloc(2000006);
        execlp("true", "true", NULL);
        _exit(1);
    }
    end_child(child, 0);
    own = malloc(1000007);
    free(of_parent);
    return 0;
}
