/* A program in C that uses every function of elastic.h; prints "passed" and returns 0 where all is as the header says. */
#include "elastic.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPECT(condition) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "%s:%d: expected %s\n", __FILE__, __LINE__, #condition); \
            exit(1); \
        } \
    } while (0)

static elastic_space *space;

static void *worker(void *seed) {
    unsigned state = (unsigned)(size_t)seed;
    for (int round = 0; round < 200; round++) {
        elastic_arena *arena;
        unsigned char *blocks[50];
        size_t sizes[50];
        EXPECT(elastic_arena_new(space, NULL, 0, &arena) == ELASTIC_OK);
        for (int nth = 0; nth < 50; nth++) {
            state = state * 1103515245u + 12345u;
            sizes[nth] = 1 + (state >> 16) % 700;
            blocks[nth] = elastic_allocate(arena, sizes[nth], 0);
            EXPECT(blocks[nth] != NULL && (size_t)blocks[nth] % 16 == 0);
            memset(blocks[nth], nth + 1, sizes[nth]);
        }
        for (int nth = 0; nth < 50; nth++)
            for (size_t at = 0; at < sizes[nth]; at++) EXPECT(blocks[nth][at] == nth + 1);
        elastic_arena_free(arena);
    }
    return NULL;
}

static void limits(void) {
    elastic_options options = {0};
    elastic_space *small;
    elastic_arena *arena;
    void *block = &options;
    options.limit_bytes = 64 << 10;
    options.reclaim = ELASTIC_RECLAIM_AT_TRIM;
    EXPECT(elastic_space_new(&options, &small) == ELASTIC_OK);
    EXPECT(elastic_arena_new(small, (const size_t[]){1024, 512}, 2, &arena) == ELASTIC_OK);
    EXPECT(elastic_try_allocate(arena, 1 << 20, 0, &block) == ELASTIC_LIMIT);
    EXPECT(block == &options);
    EXPECT(elastic_try_allocate(arena, (size_t)-1, 8, &block) == ELASTIC_LAYOUT);
    EXPECT(elastic_try_allocate(arena, 8, 24, &block) == ELASTIC_LAYOUT);
    EXPECT(elastic_allocate(arena, 1 << 20, 0) == NULL);
    EXPECT(elastic_allocate(arena, 100, 4096) != NULL);
    elastic_space_free(small); /* the arena keeps its space */
    EXPECT(elastic_allocate(arena, 100, 0) != NULL);
    elastic_arena_free(arena);
    options.granule_bytes = 100;
    EXPECT(elastic_space_new(&options, &small) == ELASTIC_OPTIONS);
    EXPECT(strlen(elastic_message(ELASTIC_LIMIT)) > 10);
    EXPECT(elastic_message((elastic_status)-1) == elastic_message(ELASTIC_OPTIONS));
}

int main(void) {
    pthread_t threads[2];
    elastic_arena *arena;
    char text[4096];
    size_t bytes = 0;
    EXPECT(elastic_space_new(NULL, &space) == ELASTIC_OK);
    for (size_t nth = 0; nth < 2; nth++) EXPECT(pthread_create(&threads[nth], NULL, worker, (void *)(nth + 1)) == 0);
    for (size_t nth = 0; nth < 2; nth++) EXPECT(pthread_join(threads[nth], NULL) == 0);
    EXPECT(elastic_arena_new(space, NULL, 0, &arena) == ELASTIC_OK);
    void *first = elastic_allocate(arena, 64, 0);
    EXPECT(elastic_allocate(arena, 32, 0) != NULL);
    elastic_deallocate(arena, first, 64);
    elastic_deallocate(arena, NULL, 5);
    EXPECT(elastic_allocate(arena, 64, 0) == first);
    elastic_arena_reset(arena);
    EXPECT(elastic_space_committed_bytes(space) > 0);
    EXPECT(elastic_space_report(space, text, sizeof text) < sizeof text && strstr(text, "committed"));
    EXPECT(elastic_space_report(space, text, 10) > 10 && strlen(text) == 9);
    elastic_arena_free(arena);
    elastic_arena_free(NULL);
    EXPECT(elastic_space_trim(space, &bytes) == ELASTIC_OK && elastic_space_committed_bytes(space) == 0);
    elastic_space_free(space);
    elastic_space_free(NULL);
    limits();
    puts("passed");
    return 0;
}
