// The addon for `heaplab record --node`. Node loads it (`--require`, in NODE_OPTIONS) before the
// program's own code, in every main thread and worker.
//
// The addon puts the heap under V8's sampling heap profiler (heap.c). It makes every collection a
// full one (`--gc-global`) and keeps the young generation at its first size: a full collection then
// follows after a fixed number of bytes. It writes births and deaths into a stream in the spool
// (stream.c). The addon is C and loads no library, not even a C library: Node has one, glibc or
// musl. Without a spool it does nothing.

#define _GNU_SOURCE
#include "heap.h"
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { FORMAT = 1, OLDEST = 18, NEWEST = 24 };

// File in the spool, beside the streams; holds the depth of stacks.
static const char SETTINGS[] = "node-settings";

struct node_version {
    uint32_t major, minor, patch;
    const char *release;
};

static bool read_stack_depth(const char *spool, unsigned *stack_depth) {
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/%s", spool, SETTINGS) >= (int)sizeof path) return false;
    FILE *file = fopen(path, "re");
    if (!file) return false;
    bool is_read = fscanf(file, "%u", stack_depth) == 1;
    fclose(file);
    return is_read;
}

static long thread_number(void) { return syscall(SYS_gettid); }

static bool open_stream(struct heap *heap, const char *spool) {
    char path[PATH_MAX];
    // An exec keeps the process number, and the kernel reuses thread numbers.
    for (int more = 0; more < 1000; more++) {
        if (snprintf(path, sizeof path, "%s/node-%d-%ld-%d", spool, getpid(), thread_number(), more) >= (int)sizeof path) return false;
        if (stream_open(&heap->stream, path)) return true;
        if (errno != EEXIST) return false;
    }
    return false;
}

// The command line, as far as it fits a text.
static void write_command(struct stream *stream) {
    char text[TEXT_BYTES_MAX + 1] = "";
    ssize_t length = readlink("/proc/self/exe", text, TEXT_BYTES_MAX);
    text[length > 0 ? length : 0] = 0;
    stream_text(stream, text);
    FILE *file = fopen("/proc/self/cmdline", "re");
    length = file ? fread(text, 1, TEXT_BYTES_MAX, file) : 0;
    if (file) fclose(file);
    // Each argument ends in a zero byte.
    for (ssize_t at = 0; at < length; at++) {
        if (!text[at]) text[at] = at + 1 < length ? 0x1f : 0;
    }
    text[length] = 0;
    stream_text(stream, text);
}

static void write_head(struct heap *heap, const struct node_version *node) {
    char version[64];
    snprintf(version, sizeof version, "%u.%u.%u", node->major, node->minor, node->patch);
    stream_record(&heap->stream, RECORD_HEAD);
    stream_number(&heap->stream, FORMAT);
    stream_number(&heap->stream, now_ns());
    stream_number(&heap->stream, getpid());
    stream_number(&heap->stream, getppid());
    stream_number(&heap->stream, thread_number());
    stream_text(&heap->stream, version);
    stream_text(&heap->stream, heap->v8->version ? heap->v8->version() : "");
    write_command(&heap->stream);
}

static void refuse(struct heap *heap, const char *why, const char *name) {
    char text[256];
    snprintf(text, sizeof text, "%s%s", why, name);
    stream_record(&heap->stream, RECORD_REFUSED);
    stream_text(&heap->stream, text);
    stream_flush(&heap->stream);
}

// Makes every collection a full one without increments, keeps the young generation at its first
// size, and samples every object of an interval.
static void set_flags(const struct v8 *v8) {
    static const char *const FLAGS[] = {
        "--sampling-heap-profiler-suppress-randomness", "--gc-global", "--no-incremental-marking", "--semi-space-growth-factor=1",
        // V8 drops the bytecode of functions that no call used for some collections, and compiles
        // them again later. Under recording collections are more frequent.
        "--no-flush-bytecode",
    };
    for (size_t at = 0; at < sizeof FLAGS / sizeof FLAGS[0]; at++) v8->set_flags(FLAGS[at]);
}

static void at_exit(void *data) { heap_end(data, ""); }

static void begin(struct heap *heap, unsigned stack_depth) {
    void *scope[8];
    heap->v8->open_scope(scope, heap->isolate);
    set_flags(heap->v8);
    if (heap_begin(heap, stack_depth)) {
        heap->v8->at_exit(heap->v8->environment(heap->v8->context(heap->isolate)), at_exit, heap);
        stream_flush(&heap->stream);
    } else {
        refuse(heap, "V8's sampling heap profiler is in use already (is it --heap-prof?)", "");
    }
    heap->v8->close_scope(scope);
}

__attribute__((visibility("default"))) void *napi_register_module_v1(void *napi, void *exports);

void *napi_register_module_v1(void *napi, void *exports) {
    static struct v8 v8;
    const char *spool = getenv("HEAPLAB_SPOOL");
    unsigned stack_depth;
    if (!spool || !read_stack_depth(spool, &stack_depth)) return exports;
    const char *missing = v8_find(&v8);
    // Never freed: V8 may collect until the process ends.
    struct heap *heap = calloc(1, sizeof *heap);
    if (!heap || !v8.node_version) return exports;
    heap->v8 = &v8;
    if (!open_stream(heap, spool)) return exports;
    const struct node_version *node = NULL;
    static const struct node_version unknown;
    v8.node_version(napi, (const void **)&node);
    write_head(heap, node ? node : &unknown);
    if (!node || node->major < OLDEST || node->major > NEWEST) {
        refuse(heap, "its version is not one of 18 to 24", "");
    } else if (missing) {
        refuse(heap, "it does not export ", missing);
    } else {
        heap->isolate = v8.isolate();
        begin(heap, stack_depth);
    }
    return exports;
}
