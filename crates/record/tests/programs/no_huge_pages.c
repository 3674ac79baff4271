/* Switches transparent huge pages off as Ruby does, and lives long enough for a look. */
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

int main(void)
{
    prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
    for (int turn = 0; turn < 30; turn++) {
        void *volatile block = malloc(1000);
        free(block);
        usleep(10000);
    }
    return 0;
}
