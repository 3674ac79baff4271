/* A program in C that registers reporters: tests/c_interface.rs asks it. */
#include "heaplab_reporter.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void *cache;
static int times;

static void collect(heaplab_sink *sink, void *data)
{
    heaplab_reporter_report(sink, "explicit/cache\\pages/\x01 and \xff", HEAPLAB_HEAP, HEAPLAB_BYTES,
                            (int64_t)heaplab_reporter_size_of(cache), "Pages \"kept\".");
    heaplab_reporter_report(sink, "times", HEAPLAB_OTHER, HEAPLAB_COUNT, *(int *)data, NULL);
    heaplab_reporter_report(sink, "explicit/odd", 17, HEAPLAB_BYTES, 1, "An unknown kind.");
    heaplab_reporter_skip(sink, "half of it is in use");
}

static void drop_cache(void *data)
{
    ++*(int *)data;
    free(cache);
    cache = NULL;
}

int main(void)
{
    cache = malloc(100000);
    uint64_t first = heaplab_reporter_register(collect, &times);
    uint64_t second = heaplab_reporter_register(collect, &times);
    heaplab_reporter_on_pressure(drop_cache, &times);
    heaplab_reporter_unregister(second);
    heaplab_reporter_unregister(12345);
    if (!first || heaplab_reporter_serve() || heaplab_reporter_serve() != EALREADY || heaplab_reporter_size_of(NULL))
        return 1;
    heaplab_reporter_mark("full\n");
    puts("ready");
    fflush(stdout);
    return getchar() == 'q' ? 0 : 2;
}
