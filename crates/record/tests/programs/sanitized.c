/* Makes 100 blocks of 5,000 bytes and a few more, writes the value of ASAN_OPTIONS (or "none") into
   the given file, and ends with 7. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef OWN_OPTIONS
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "detect_leaks=0";
}
#endif

int main(int argc, char **argv)
{
    if (argc < 2)
        return 1;
    void *blocks[100];
    for (int at = 0; at < 100; at++) {
        blocks[at] = malloc(5000 + at);
        memset(blocks[at], 1, 5000);
    }
    for (int at = 0; at < 100; at++)
        free(blocks[at]);
    const char *options = getenv("ASAN_OPTIONS");
    FILE *file = fopen(argv[1], "w");
    fprintf(file, "%s\n", options ? options : "none");
    fclose(file);
    return 7;
}
