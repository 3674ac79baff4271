/* Reads the steps of driver.ml from standard input, and writes the runtime's counters to standard output.

   Nothing here allocates, neither in OCaml's heap nor in malloc's between chunks of it: the input goes through a static
   buffer, because a mapping would move the runtime's chunks. */
#define CAML_NAME_SPACE
#define CAML_INTERNALS
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <caml/mlvalues.h>
#include <caml/domain_state.h>
#include <caml/freelist.h>
#include <caml/major_gc.h>
#include <caml/minor_gc.h>
#include <caml/memory.h>
#include <caml/roots.h>

enum { END = -4, EXIT_INPUT = 3 };

static int32_t buffer[1 << 14];
static size_t filled, at;
static int32_t words;

static void fail(const char *what) {
  fprintf(stderr, "heaplab: %s\n", what);
  exit(EXIT_INPUT);
}

/* False at the end of the input. */
static int take(int32_t *number) {
  if (at == filled) {
    size_t got = 0;
    while (got < sizeof buffer) {
      ssize_t count = read(0, (char *) buffer + got, sizeof buffer - got);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) fail(strerror(errno));
      if (count == 0) break;
      got += (size_t) count;
    }
    if (got % sizeof buffer[0] != 0) fail("the workload ends within a number");
    filled = got / sizeof buffer[0];
    at = 0;
    if (filled == 0) return 0;
  }
  *number = buffer[at++];
  return 1;
}

value heaplab_slots(value unit) {
  static char output[1 << 12];
  int32_t slots;
  (void) unit;
  setvbuf(stdout, output, _IOFBF, sizeof output);
  if (!take(&slots) || slots <= Max_young_wosize) fail("the workload does not begin with the number of slots");
  return Val_long(slots);
}

value heaplab_next_slot(value unit) {
  int32_t slot;
  (void) unit;
  if (!take(&slot)) fail("the workload has no end");
  if (!take(&words)) fail("the workload ends within a step");
  return Val_long(slot);
}

value heaplab_next_words(value unit) {
  (void) unit;
  return Val_long(words);
}

/* FNV-1a over the place of each slot's object: its chunk's number and its distance from the
 * chunk's start. */
static uint64_t placement(value slots) {
  uint64_t hash = 0xcbf29ce484222325;
  for (mlsize_t slot = 0; slot < Wosize_val(slots); slot++) {
    value object = Field(slots, slot);
    uint64_t place = 0;
    if (Is_block(object) && Is_young(object)) {
      place = (uint64_t) ((char *) object - (char *) Caml_state->young_start) | 1;
    } else if (Is_block(object)) {
      char *chunk = caml_heap_start;
      uint64_t number = 0;
      while ((char *) object < chunk || (char *) object >= chunk + Chunk_size(chunk)) {
        chunk = Chunk_next(chunk);
        number++;
      }
      place = (number << 40) + (uint64_t) ((char *) object - chunk);
    }
    hash = (hash ^ place) * 0x100000001b3;
  }
  return hash;
}

value heaplab_report(value slots) {
  caml_domain_state *state = Caml_state;
  printf("{\"minor_words\":%.0f,\"promoted_words\":%.0f,\"major_words\":%.0f,\"minor_collections\":%ld,"
         "\"major_collections\":%ld,\"forced_major_collections\":%ld,\"compactions\":%ld,\"heap_words\":%ld,"
         "\"heap_chunks\":%ld,\"top_heap_words\":%ld,\"free_words\":%ld,\"placement\":%lu}\n",
         state->stat_minor_words + (double) (state->young_alloc_end - state->young_ptr), state->stat_promoted_words,
         state->stat_major_words + (double) caml_allocated_words, (long) state->stat_minor_collections,
         (long) state->stat_major_collections, (long) state->stat_forced_major_collections,
         (long) state->stat_compactions, (long) state->stat_heap_wsz, (long) state->stat_heap_chunks,
         (long) state->stat_top_heap_wsz, (long) caml_fl_cur_wsz, (unsigned long) placement(slots));
  if (fflush(stdout) != 0) fail(strerror(errno));
  return Val_unit;
}

/* After the last step: CPU time, and the peak of resident bytes without those of files. */
value heaplab_usage(value unit) {
  struct rusage usage;
  char line[256];
  long peak = 0, file = 0, shared = 0;
  FILE *status = fopen("/proc/self/status", "r");
  while (status != NULL && fgets(line, sizeof line, status) != NULL) {
    sscanf(line, "VmHWM: %ld", &peak);
    sscanf(line, "RssFile: %ld", &file);
    sscanf(line, "RssShmem: %ld", &shared);
  }
  if (status != NULL) fclose(status);
  getrusage(RUSAGE_SELF, &usage);
  printf("{\"cpu_ns\":%lld,\"peak_anonymous_bytes\":%lld}\n",
         (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000000LL
           + (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1000LL,
         (peak - file - shared) * 1024LL);
  return unit;
}
