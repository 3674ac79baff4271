/* Starts the program that it is given in every way there is, each once, and another one that does not exist. Ends with how often that went
 * otherwise than it should. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

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
    *strrchr(path, '/') = 0;
    wrong += chdir(path) != 0;
    setenv("PATH", "/no/such/folder::/", 1);
    STARTED_BY(fork, execvp(name, arguments));
    STARTED_BY(vfork, execvpe(name, arguments, environ));
    STARTED_BY(fork, execlp(name, name, "a", NULL));
    STARTED_BY(fork, execveat(open(path, O_RDONLY), name, arguments, environ, 0));
    wrong += posix_spawnp(NULL, name, NULL, NULL, arguments, environ) != 0;
    ended(-1);
    return wrong;
}
