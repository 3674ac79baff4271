/* fork without exec: the child frees and grows inherited blocks, allocates, forks once more, and
 * leaves by _exit; the parent goes on meanwhile. Sizes tell the requester: 7,000 + n before the
 * fork, 8,000 + n in the child, 9,000 + n in the parent. */
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

int main(int argc, char **argv)
{
    void *blocks[100];
    if (argc > 1 && !strcmp(argv[1], "leaf")) {
        free(malloc(6000));
        return 5;
    }
    for (int i = 0; i < 100; i++)
        blocks[i] = malloc(7000 + i);
    pid_t child = fork();
    if (child == 0) {
        for (int i = 0; i < 50; i++)
            free(blocks[i]);
        blocks[50] = realloc(blocks[50], 8050);
        for (int i = 0; i < 20; i++)
            blocks[i] = malloc(8000 + i);
        pid_t grandchild = fork();
        if (grandchild == 0) {
            free(blocks[0]);
            free(blocks[99]);
            _exit(0);
        }
        int status;
        waitpid(grandchild, &status, 0);
        _exit(WEXITSTATUS(status) + 4);
    }
    for (int i = 0; i < 100; i++)
        free(blocks[i]);
    for (int i = 0; i < 10; i++)
        free(malloc(9000 + i));
    int status, leaf;
    waitpid(child, &status, 0);
    char *arguments[] = {argv[0], "leaf", NULL};
    pid_t spawned;
    if (posix_spawn(&spawned, argv[0], NULL, NULL, arguments, environ))
        return 9;
    waitpid(spawned, &leaf, 0);
    pid_t vforked = vfork();
    if (vforked == 0) {
        execv(argv[0], arguments);
        _exit(9);
    }
    waitpid(vforked, &leaf, 0);
    printf("%d %d\n", WEXITSTATUS(status), WEXITSTATUS(leaf));
    fflush(stdout);
    execv(argv[0], arguments);
    return 9;
}
