/* One block, one line, status 7. */
#include <stdio.h>
#include <stdlib.h>

int main(void)
{
    free(malloc(1234));
    fprintf(stderr, "to standard error\n");
    printf("to standard output\n");
    return 7;
}
