/* Holds 40 MiB while its parent, the recorder, is stopped: no sample can see them. Ends by exit(). */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int is_stopped(pid_t pid)
{
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "r");
    size_t got = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file)
        fclose(file);
    text[got] = 0;
    const char *name_end = strrchr(text, ')');
    return name_end && name_end[1] == ' ' && name_end[2] == 'T';
}

int main(void)
{
    const size_t bytes = 40u << 20;
    const pid_t recorder = getppid();
    if (kill(recorder, SIGSTOP) != 0)
        return 1;
    while (!is_stopped(recorder))
        usleep(1000);
    char *block = malloc(bytes);
    if (block)
        memset(block, 1, bytes);
    free(block);
    kill(recorder, SIGCONT);
    return block ? 0 : 2;
}
