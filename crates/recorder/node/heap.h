// One JavaScript heap (a main thread's, a worker's) under the sampling heap profiler, and what is known of its objects.

#ifndef HEAPLAB_HEAP_H
#define HEAPLAB_HEAP_H

#include "stream.h"
#include "v8.h"

// Samples' numbers by bit.
struct bits {
    uint64_t *words;
    size_t count;
};

struct heap {
    const struct v8 *v8;
    void *isolate, *profiler;
    struct stream stream;
    // The largest number of a sample that was seen.
    uint64_t last;
    // Numbers of the samples that were there when the last profile was read, ascending; the program's own alone.
    uint64_t *live;
    size_t live_count, live_room;
    // The samples of the profile being read, and the nodes that were said.
    struct bits seen, nodes;
    // The births of the profile being read, by number.
    struct birth *births;
    size_t births_room;
    // Profiles read so far, and the sizes that V8 gives the two strings that mark where the program's births end.
    uint64_t profiles;
    bool has_ended;
};

// Begins to record the heap of this thread's isolate. False where V8 does not sample it, or memory is short.
bool heap_begin(struct heap *, int stack_depth);
// Reads the profile: what died at the last collection, what was born since.
void heap_read(struct heap *);
// A collection is about to begin.
void heap_collects(struct heap *, int kind);
// Collects, reads the last deaths, and says the end.
void heap_end(struct heap *, const char *why);
// Nanoseconds on CLOCK_MONOTONIC.
uint64_t now_ns(void);

#endif
