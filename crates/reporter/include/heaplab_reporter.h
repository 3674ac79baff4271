/* Memory reporters for C and C++: what a program says of its own memory, for `heaplab about PID`.
 *
 *   static void collect(heaplab_sink *sink, void *data)
 *   {
 *       struct cache *cache = data;
 *       heaplab_reporter_report(sink, "explicit/cache/pages", HEAPLAB_HEAP, HEAPLAB_BYTES,
 *                               heaplab_reporter_size_of(cache->pages), "Pages kept for later.");
 *   }
 *   uint64_t number = heaplab_reporter_register(collect, cache);
 *   heaplab_reporter_serve();
 *
 * A callback runs on the server's thread while the program runs: it takes the locks that guard what
 * it reads, and only those. It must not throw or longjmp out. */
#ifndef HEAPLAB_REPORTER_H
#define HEAPLAB_REPORTER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Whose memory: the program's own mappings, its allocator's blocks, anything else. */
enum { HEAPLAB_NONHEAP = 0, HEAPLAB_HEAP = 1, HEAPLAB_OTHER = 2 };
/* The unit of an amount; a percentage counts hundredths of a percent. */
enum { HEAPLAB_BYTES = 0, HEAPLAB_COUNT = 1, HEAPLAB_COUNT_CUMULATIVE = 2, HEAPLAB_PERCENTAGE = 3 };

typedef struct heaplab_sink heaplab_sink;

/* Registers a reporter, which may report any number of paths. The number unregisters it. */
uint64_t heaplab_reporter_register(void (*collect)(heaplab_sink *sink, void *data), void *data);

/* Registers a callback that drops caches: `heaplab pressure PID`. */
uint64_t heaplab_reporter_on_pressure(void (*callback)(void *data), void *data);

/* Unregisters either. It returns once the callback no longer runs, unless the callback itself
   calls; then `data` may be freed. */
void heaplab_reporter_unregister(uint64_t number);

/* Within a reporter: one line of the tree. `path` has names with '/' between them; below
   "explicit/" stand bytes of kind heap or non-heap, each byte once. The texts are copied. */
void heaplab_reporter_report(heaplab_sink *sink, const char *path, int kind, int units, int64_t amount, const char *description);

/* Within a reporter: says why nothing is reported (a lock that is held). */
void heaplab_reporter_skip(heaplab_sink *sink, const char *why);

/* The usable bytes of a live block of malloc, 0 for NULL. Within a reporter the block counts as
   reported: `heaplab record --dmd` finds the others. */
size_t heaplab_reporter_size_of(const void *block);

/* Names this moment and keeps what the reporters say now, on this thread: `heaplab about PID --at
   NAME`. The last 16 are kept. Under `heaplab record` it is HEAPLAB_MARK too. */
void heaplab_reporter_mark(const char *name);

/* Names the allocator where malloc is not the one. `allocated` gives the bytes of all blocks, or a
   negative number; it may be NULL. 0: one is named already. */
int heaplab_reporter_allocator(size_t (*usable)(const void *block), int64_t (*allocated)(void));

/* Starts the thread that answers `heaplab about PID` until the program ends; 0, or an errno
   (EALREADY: it runs). A forked child has no server until it calls this. */
int heaplab_reporter_serve(void);

#ifdef __cplusplus
}
#endif

#endif
