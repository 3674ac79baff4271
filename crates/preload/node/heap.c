// Births and deaths out of V8's sampling heap profiler.
//
// At interval 1 the profiler makes a numbered sample of every object at its birth. It drops the
// sample at the collection that finds the object dead. V8's prologue callback reads a profile just
// before each collection: the profile has every birth since the last collection, and lacks the
// samples of objects that the last collection found dead. Nothing is missed in between, because
// objects die only at collections. (The inspector's `HeapProfiler.getSamplingProfile` does not
// serve: its profiler collects before it answers, and the young dead are gone.)
//
// Reading a profile allocates (names, line tables of scripts), and V8 samples these allocations
// too. Two strings of odd lengths, made just before, mark the end of the program's births: later
// births are the recording's own.

#define _GNU_SOURCE
#include "heap.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct birth {
    uint64_t bytes;
    uint32_t node;
    bool is_there;
};

// Lengths of the marking strings, and their bytes in the heap: a header of 16, rounded up to words.
enum { MARK_ONE = 1511, MARK_TWO = 1213 };
enum { MARK_ONE_BYTES = 1528, MARK_TWO_BYTES = 1232 };
// More births in one interval mean that the numbers are wrong.
static const uint64_t BIRTHS_MAX = 1ull << 31;
// A v8::HandleScope and a v8::String::Utf8Value have three and two words.
enum { SCOPE_WORDS = 8 };

uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000ull + now.tv_nsec;
}

static bool bits_room(struct bits *bits, uint64_t number) {
    size_t needed = number / 64 + 1;
    if (needed <= bits->count) return true;
    size_t count = needed + needed / 2 + 1024;
    uint64_t *words = realloc(bits->words, count * sizeof *words);
    if (!words) return false;
    memset(words + bits->count, 0, (count - bits->count) * sizeof *words);
    bits->words = words;
    bits->count = count;
    return true;
}

static bool bits_has(const struct bits *bits, uint64_t number) {
    return number / 64 < bits->count && bits->words[number / 64] >> number % 64 & 1;
}

static void bits_set(struct bits *bits, uint64_t number) { bits->words[number / 64] |= 1ull << number % 64; }

static void *room(void *old, size_t *have, size_t need, size_t each) {
    if (need <= *have) return old;
    size_t now = need + need / 2;
    void *new = realloc(old, now * each);
    if (new) *have = now;
    return new;
}

static void mark(struct heap *heap, int length) {
    char text[MARK_ONE + 1];
    memset(text, ' ', sizeof text);
    int used = snprintf(text, sizeof text, "heaplab %llu", (unsigned long long)heap->profiles);
    text[used] = '.';
    heap->v8->new_string(heap->isolate, (const uint8_t *)text, INTERNALIZED, length);
}

static void write_text(struct heap *heap, void *value) {
    void *text[SCOPE_WORDS] = {0};
    heap->v8->open_text(text, heap->isolate, value, REPLACE_INVALID_UTF8);
    stream_text(&heap->stream, text[0]);
    heap->v8->close_text(text);
}

// Writes the nodes not yet written, parents first. No deeper than the profiler's stacks.
static void write_nodes(struct heap *heap, struct profile_node *node, uint32_t parent) {
    if (!bits_has(&heap->nodes, node->id) && bits_room(&heap->nodes, node->id)) {
        bits_set(&heap->nodes, node->id);
        stream_record(&heap->stream, RECORD_NODE);
        stream_number(&heap->stream, node->id);
        stream_number(&heap->stream, parent);
        stream_number(&heap->stream, node->line > 0 ? node->line : 0);
        stream_number(&heap->stream, node->column > 0 ? node->column : 0);
        write_text(heap, node->name);
        write_text(heap, node->script_name);
    }
    struct profile_node **end = node->children.end;
    for (struct profile_node **child = node->children.begin; child < end; child++) write_nodes(heap, *child, node->id);
}

// Writes the death of each live object without a sample in the profile, and forgets these objects.
static void write_deaths(struct heap *heap) {
    uint64_t before = 0;
    size_t kept = 0;
    for (size_t at = 0; at < heap->live_count; at++) {
        uint64_t number = heap->live[at];
        if (bits_has(&heap->seen, number)) {
            heap->live[kept++] = number;
            continue;
        }
        stream_record(&heap->stream, RECORD_DEATH);
        stream_number(&heap->stream, number - before);
        before = number;
    }
    heap->live_count = kept;
}

// Index of the first birth of the recording's own: at the last pair of marks; `count` without
// marks.
static size_t own_births(const struct birth *births, size_t count) {
    for (size_t at = count; at-- > 1;) {
        if (births[at - 1].bytes == MARK_ONE_BYTES && births[at].bytes == MARK_TWO_BYTES) return at - 1;
    }
    return count;
}

static void write_run(struct stream *stream, uint8_t kind, uint64_t count) {
    if (!count) return;
    stream_record(stream, kind);
    stream_number(stream, count);
}

static void write_births(struct heap *heap, size_t count) {
    size_t own = own_births(heap->births, count);
    uint64_t unseen = 0;
    for (size_t at = 0; at < own; at++) {
        const struct birth *birth = &heap->births[at];
        if (!birth->is_there) {
            unseen++;
            continue;
        }
        write_run(&heap->stream, RECORD_UNSEEN, unseen);
        unseen = 0;
        stream_record(&heap->stream, RECORD_BIRTH);
        stream_number(&heap->stream, birth->bytes);
        stream_number(&heap->stream, birth->node);
        heap->live[heap->live_count++] = heap->last + 1 + at;
    }
    write_run(&heap->stream, RECORD_UNSEEN, unseen);
    write_run(&heap->stream, RECORD_OWN, count - own);
}

// Sorts the samples by number into known and new ones. False: memory is short, or the numbers make
// no sense.
static bool sort_samples(struct heap *heap, const struct profile_sample *begin, const struct profile_sample *end, size_t *births) {
    uint64_t last = heap->last;
    for (const struct profile_sample *sample = begin; sample < end; sample++) {
        if (sample->id > last) last = sample->id;
    }
    *births = last - heap->last;
    if (*births > BIRTHS_MAX || !bits_room(&heap->seen, last)) return false;
    void *grown = room(heap->births, &heap->births_room, *births, sizeof *heap->births);
    if (!grown && *births) return false;
    heap->births = grown;
    grown = room(heap->live, &heap->live_room, heap->live_count + *births, sizeof *heap->live);
    if (!grown && heap->live_count + *births) return false;
    heap->live = grown;
    if (*births) memset(heap->births, 0, *births * sizeof *heap->births);
    if (heap->seen.count) memset(heap->seen.words, 0, heap->seen.count * sizeof *heap->seen.words);
    for (const struct profile_sample *sample = begin; sample < end; sample++) {
        if (sample->id <= heap->last) {
            bits_set(&heap->seen, sample->id);
        } else {
            heap->births[sample->id - heap->last - 1] = (struct birth){sample->size, sample->node, true};
        }
    }
    return true;
}

static void finish(struct heap *heap, const char *why) {
    heap->has_ended = true;
    stream_record(&heap->stream, RECORD_END);
    stream_number(&heap->stream, now_ns());
    stream_text(&heap->stream, why);
    stream_flush(&heap->stream);
}

void heap_read(struct heap *heap) {
    if (heap->has_ended) return;
    void *scope[SCOPE_WORDS];
    heap->v8->open_scope(scope, heap->isolate);
    mark(heap, MARK_ONE);
    mark(heap, MARK_TWO);
    heap->profiles++;
    struct profile *profile = heap->v8->profile(heap->profiler);
    size_t births = 0;
    if (!profile) {
        finish(heap, "the program stopped V8's sampling heap profiler");
    } else {
        struct vector *samples = profile->table->samples(profile);
        if (!sort_samples(heap, samples->begin, samples->end, &births)) {
            finish(heap, "there was no memory for what is known of the objects");
        } else {
            write_deaths(heap);
            write_nodes(heap, profile->table->root(profile), 0);
            write_births(heap, births);
            heap->last += births;
        }
        profile->table->delete(profile);
    }
    heap->v8->close_scope(scope);
}

void heap_collects(struct heap *heap, int kind) {
    heap_read(heap);
    if (heap->has_ended) return;
    stream_record(&heap->stream, RECORD_COLLECTION);
    stream_number(&heap->stream, now_ns());
    stream_number(&heap->stream, kind);
    stream_flush(&heap->stream);
}

static void before_collection(void *isolate, int kind, int flags, void *data) {
    (void)isolate, (void)flags;
    heap_collects(data, kind);
}

bool heap_begin(struct heap *heap, int stack_depth) {
    heap->profiler = heap->v8->profiler(heap->isolate);
    if (!heap->v8->start(heap->profiler, 1, stack_depth, SAMPLING_PLAIN)) return false;
    heap->v8->before_collections(heap->isolate, before_collection, heap, GC_COLLECTIONS);
    return true;
}

void heap_end(struct heap *heap, const char *why) {
    // The collection's callback reads the births; heap_read() below reads the deaths.
    heap->v8->set_flags("--expose-gc");
    heap->v8->collect(heap->isolate, FULL_COLLECTION);
    heap_read(heap);
    if (!heap->has_ended) finish(heap, why);
    heap->v8->no_longer_before_collections(heap->isolate, before_collection, heap);
    // V8 12 and later crash when the isolate ends under a profiler that samples.
    heap->v8->stop(heap->profiler);
}
