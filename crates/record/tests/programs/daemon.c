/* A daemon: the started process ends at once, and its child goes on. The child allocates ARGUMENT 1
   times. */
#include <stdlib.h>
#include <unistd.h>

int main(int count, char **arguments)
{
    long times = count > 1 ? atol(arguments[1]) : 0;
    if (fork())
        _exit(0);
    for (long i = 0; i < times; i++) {
        void *volatile block = malloc(100);
        free(block);
    }
    return 0;
}
