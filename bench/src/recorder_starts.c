/* Starts processes, one after the other: `forks` children that allocate once and end, or `execs`
   of this program. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void work(void)
{
    void *volatile block = malloc(100);
    free(block);
}

int main(int count, char **arguments)
{
    int status, starts = count > 2 ? atoi(arguments[2]) : 0;
    if (!starts) {
        work();
        return 0;
    }
    for (int i = 0; i < starts; i++) {
        pid_t child = fork();
        if (child < 0)
            return 1;
        if (child == 0) {
            if (!strcmp(arguments[1], "execs"))
                execl(arguments[0], arguments[0], (char *)NULL);
            work();
            _exit(0);
        }
        if (waitpid(child, &status, 0) != child || status)
            return 1;
    }
    return 0;
}
