// The functions of V8 and Node that the addon calls, by the names that a stock Node of 18 to 24
// exports to its addons.
//
// These are C++ names of the public headers v8-isolate.h, v8-profiler.h, v8-callbacks.h,
// v8-primitive.h and node.h, mangled as the Itanium ABI does, the same on x86-64 and aarch64. The
// addon looks the names up when Node loads it: a Node without one of them gets an error instead of
// a crash. A `Local` is one pointer and passed as one. The layouts of AllocationProfile are those
// of v8-profiler.h, equal in 18, 20, 22 and 24.

#ifndef HEAPLAB_V8_H
#define HEAPLAB_V8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// v8::GCType.
enum { GC_SCAVENGE = 1, GC_MINOR_MARK_SWEEP = 2, GC_MARK_SWEEP_COMPACT = 4 };
enum { GC_COLLECTIONS = GC_SCAVENGE | GC_MINOR_MARK_SWEEP | GC_MARK_SWEEP_COMPACT };
// v8::Isolate::GarbageCollectionType.
enum { FULL_COLLECTION = 0 };
// v8::NewStringType.
enum { INTERNALIZED = 1 };
// v8::String::WriteOptions. Before V8 12.9 the function has no such parameter and ignores it.
enum { REPLACE_INVALID_UTF8 = 8 };
// v8::HeapProfiler::SamplingFlags: reading a profile forces no collection, and the profiler drops
// samples of dead objects.
enum { SAMPLING_PLAIN = 0 };

// std::vector.
struct vector {
    void *begin, *end, *capacity;
};

// v8::AllocationProfile::Node.
struct profile_node {
    void *name, *script_name;
    int script_id, start_position, line, column;
    uint32_t id;
    struct vector children, allocations;
};

// v8::AllocationProfile::Sample.
struct profile_sample {
    uint32_t node;
    size_t size;
    unsigned count;
    uint64_t id;
};

// v8::AllocationProfile: its virtual functions in their order.
struct profile {
    const struct profile_table *table;
};
struct profile_table {
    struct profile_node *(*root)(struct profile *);
    struct vector *(*samples)(struct profile *);
    void (*destroy)(struct profile *);
    void (*delete)(struct profile *);
};

typedef void gc_callback(void *isolate, int type, int flags, void *data);

struct v8 {
    void *(*isolate)(void);
    void *(*context)(void *isolate);
    void *(*profiler)(void *isolate);
    const char *(*version)(void);
    void (*set_flags)(const char *text);
    bool (*start)(void *profiler, uint64_t interval, int depth, int flags);
    void (*stop)(void *profiler);
    struct profile *(*profile)(void *profiler);
    void (*before_collections)(void *isolate, gc_callback *, void *data, int types);
    void (*no_longer_before_collections)(void *isolate, gc_callback *, void *data);
    void (*collect)(void *isolate, int type);
    void *(*new_string)(void *isolate, const uint8_t *text, int type, int length);
    void (*open_scope)(void *scope, void *isolate);
    void (*close_scope)(void *scope);
    void *(*environment)(void *context);
    void (*at_exit)(void *environment, void (*)(void *), void *data);
    int (*node_version)(void *napi, const void **version);
    void (*open_text)(void *text, void *isolate, void *value, int options);
    void (*close_text)(void *text);
};

// Looks every function up. Returns the first missing name, or NULL.
const char *v8_find(struct v8 *v8);

#endif
