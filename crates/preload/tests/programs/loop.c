/* Allocates and frees COUNT times (argument), then prints "done"; with a second argument it kills
   itself instead. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

int main(int count, char **arguments)
{
    long n = atol(arguments[1]);
    for (long i = 0; i < n; i++) {
        void *volatile p = malloc(60000 + (size_t)(i % 7));
        free(p);
    }
    if (count > 2)
        raise(SIGKILL);
    puts("done");
    return 0;
}
