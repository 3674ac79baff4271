/* Blocks of many sizes, twice, the second time cut from the blocks freed before; prints each size
 * and its malloc_usable_size. The largest are mappings of their own. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

#define BLOCKS 2000

int main(void)
{
    static size_t sizes[2 * BLOCKS], usable[2 * BLOCKS];
    static void *blocks[BLOCKS];
    for (size_t i = 0; i < 2 * BLOCKS; i++) {
        size_t place = i % BLOCKS;
        if (i >= BLOCKS && i % 3 == 0)
            free(blocks[place]);
        sizes[i] = i * 37 % (2 * BLOCKS) * 41 + 3;
        blocks[place] = malloc(sizes[i]);
        usable[i] = malloc_usable_size(blocks[place]);
    }
    for (size_t i = 0; i < 2 * BLOCKS; i++)
        printf("%zu %zu\n", sizes[i], usable[i]);
    return 0;
}
