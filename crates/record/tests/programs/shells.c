/* Has the C library start shells, some of them after removing the recorder from the environment. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

int main(void)
{
    char line[16] = "";
    int wrong = system("exit 3") != 3 << 8;
    unsetenv("LD_PRELOAD");
    wrong += system("exit 3") != 3 << 8;
    FILE *pipe = popen("echo one", "r");
    wrong += !pipe || !fgets(line, sizeof line, pipe) || line[0] != 'o' || pclose(pipe);
    signal(SIGCHLD, SIG_IGN);
    errno = 0;
    wrong += system("exit 3") != -1 || errno != ECHILD;
    errno = 0;
    wrong += system(NULL) != 0 || errno != ECHILD;
    return wrong;
}
