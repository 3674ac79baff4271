/* A forked child that can have no file in the spool, as on a disk that filled up since its parent
 * began: its limit on file sizes forbids one. The child allocates all the same, in two threads, and
 * ends as usual; the parent returns 0 if it sees that end. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static void ask(void)
{
    for (int i = 0; i < 1000; i++)
        free(malloc(5000 + i));
}

static void *other(void *unused)
{
    ask();
    return unused;
}

int main(void)
{
    struct rlimit limit;
    pthread_t thread;
    int status;
    ask();
    if (getrlimit(RLIMIT_FSIZE, &limit))
        return 1;
    limit.rlim_cur = 1 << 20;
    if (setrlimit(RLIMIT_FSIZE, &limit))
        return 1;
    pid_t child = fork();
    if (child == 0) {
        ask();
        if (pthread_create(&thread, NULL, other, NULL))
            _exit(1);
        ask();
        pthread_join(thread, NULL);
        ask();
        _exit(9);
    }
    if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 9) {
        fprintf(stderr, "the child ended with %x\n", status);
        return 1;
    }
    return 0;
}
