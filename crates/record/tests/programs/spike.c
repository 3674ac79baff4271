/* Holds 40 MiB for a moment, perhaps between two samples of its memory, and ends by exit(). */
#include <stdlib.h>
#include <string.h>

int main(void)
{
    const size_t bytes = 40u << 20;
    char *block = malloc(bytes);
    memset(block, 1, bytes);
    free(block);
    return 0;
}
