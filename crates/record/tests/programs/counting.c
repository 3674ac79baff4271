/* Counts its own requests in a mapped file (argv[1]), so that the counts survive any end: 8 words,
 * see `struct counts`. argv[2]: number of turns; 0: until killed, or until the file argv[3] exists;
 * rests now and then once ready. One thread; a small table of blocks; a generator with a fixed
 * seed. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

struct counts {
    volatile uint64_t mallocs, callocs, reallocs, frees, requested, ready;
};

int main(int argc, char **argv)
{
    static void *blocks[1000];
    uint64_t random = 88172645463325252ull;
    int file = open(argv[1], O_RDWR | O_CREAT, 0600);
    if (argc < 3 || file < 0 || ftruncate(file, 4096))
        return 9;
    struct counts *counts = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    uint64_t turns = strtoull(argv[2], NULL, 10);
    for (uint64_t turn = 0; turns == 0 || turn < turns; turn++) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        void **at = &blocks[random % 1000];
        /* sizes that no other code of the process requests */
        size_t size = 20000 + (random >> 20) % 64;
        if (!*at && turn % 3) {
            *at = malloc(size);
            counts->mallocs++, counts->requested += size;
        } else if (!*at) {
            *at = calloc(1, size);
            counts->callocs++, counts->requested += size;
        } else if (turn % 5 == 0) {
            *at = realloc(*at, size);
            counts->reallocs++;
        } else {
            free(*at);
            counts->frees++;
            *at = NULL;
        }
        if (turn == 20000)
            counts->ready = 1;
        if (turns == 0 && turn >= 20000 && turn % 500 == 0) {
            usleep(1000);
            if (argc > 3 && access(argv[3], F_OK) == 0)
                break;
        }
    }
    printf("done\n");
    return 3;
}
