// One JavaScript heap (of a main thread or a worker) under the sampling heap profiler, and the
// known objects of this heap.

#ifndef HEAPLAB_HEAP_H
#define HEAPLAB_HEAP_H

#include "stream.h"
#include "v8.h"

// A set of sample numbers, one bit a number.
struct bits {
    uint64_t *words;
    size_t count;
};

struct heap {
    const struct v8 *v8;
    void *isolate, *profiler;
    struct stream stream;
    // The largest sample number seen.
    uint64_t last;
    // Sample numbers of the last profile, ascending; only the program's own.
    uint64_t *live;
    size_t live_count, live_room;
    // Samples of the current profile, and the nodes already written.
    struct bits seen, nodes;
    // Births of the current profile, by number.
    struct birth *births;
    size_t births_room;
    // Profiles read so far, and the sizes that V8 gives the two marking strings.
    uint64_t profiles;
    bool has_ended;
};

// Begins to record the heap of this thread's isolate. False: V8 does not sample this heap, or
// memory is short.
bool heap_begin(struct heap *, int stack_depth);
// Reads the profile and writes the deaths of the last collection and the births since.
void heap_read(struct heap *);
// Writes that a collection of this kind begins.
void heap_collects(struct heap *, int kind);
// Collects, reads the last deaths, and writes the end.
void heap_end(struct heap *, const char *why);
// Nanoseconds on CLOCK_MONOTONIC.
uint64_t now_ns(void);

#endif
