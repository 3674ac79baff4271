/* Marks by the macro and by a signal; without the recorder a mark does nothing, and the program
   links against nothing. */
#include <signal.h>
#include <stdlib.h>
#include "heaplab.h"

int main(int count, char **arguments)
{
    void *volatile p;
    HEAPLAB_MARK("loaded");
    p = malloc(12345);
    if (count > 1)
        raise(atoi(arguments[1]));
    free(p);
    HEAPLAB_MARK("the end, with a name that is longer than a word");
    return 0;
}
