/* A program with a gap between its code segments: linked at a fixed address, with one function far
   from the others. */
#include <stdlib.h>

__attribute__((section("distant"), aligned(2 << 20), noinline)) static void *far_away(size_t size)
{
    void *volatile block = malloc(size);
    return block;
}

__attribute__((noinline)) static void *close_by(size_t size)
{
    void *volatile block = malloc(size);
    return block;
}

int main(void)
{
    free(close_by(1001));
    free(far_away(1002));
    return 0;
}
