/* Allocates from under recursions of 0 to 999 calls: 1,000 blocks of one size from one place. */
#include <stdlib.h>

__attribute__((noinline)) int down(int n)
{
    volatile int kept = n;
    if (n == 0)
        free(malloc(4321));
    else
        kept += down(n - 1);
    return kept;
}

int main(void)
{
    for (int n = 0; n < 1000; n++)
        down(n);
    return 0;
}
