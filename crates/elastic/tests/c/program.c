/* A program in C that uses every function of elastic.h; prints "passed" and returns 0 where all is as the header says. */
#define _POSIX_C_SOURCE 200809L
#include "elastic.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

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

static void refused_options(void) {
    elastic_space *none = NULL;
    elastic_arena *arena = NULL;
    const size_t sizes[9] = {512, 512, 512, 512, 512, 512, 512, 512, 512};
    EXPECT(elastic_space_new(&(elastic_options){.reclaim = 77}, &none) == ELASTIC_OPTIONS);
    EXPECT(elastic_space_new(&(elastic_options){.reclaim = -1}, &none) == ELASTIC_OPTIONS);
    EXPECT(elastic_space_new(&(elastic_options){.debug = 16}, &none) == ELASTIC_OPTIONS);
    EXPECT(elastic_space_new(&(elastic_options){.huge_pages = 2}, &none) == ELASTIC_OPTIONS);
    EXPECT(none == NULL);
    EXPECT(elastic_arena_new(space, sizes, 9, &arena) == ELASTIC_OPTIONS);
    EXPECT(elastic_arena_new(space, NULL, 1, &arena) == ELASTIC_OPTIONS);
    EXPECT(arena == NULL);
    EXPECT(elastic_arena_new(space, sizes, 8, &arena) == ELASTIC_OK);
    elastic_arena_free(arena);
}

static void reallocated(void) {
    elastic_arena *arena;
    elastic_statistics has;
    EXPECT(elastic_arena_new(space, NULL, 0, &arena) == ELASTIC_OK);
    char *text = elastic_reallocate(arena, NULL, 0, 6, 1);
    EXPECT(text != NULL);
    memcpy(text, "first", 6);
    char *other = elastic_allocate(arena, 100, 0);
    text = elastic_reallocate(arena, text, 6, 5000, 1);
    EXPECT(text != NULL && strcmp(text, "first") == 0);
    memset(text + 6, 7, 4994);
    memset(other, 9, 100);
    text = elastic_reallocate(arena, text, 5000, 20, 1);
    EXPECT(text != NULL && strcmp(text, "first") == 0 && text[19] == 7);
    EXPECT(elastic_reallocate(arena, text, 20, (size_t)-1, 1) == NULL && strcmp(text, "first") == 0);
    EXPECT(elastic_reallocate(arena, text, 20, 40, 3) == NULL);
    text = elastic_reallocate(arena, text, 20, 20, 1);
    EXPECT(text != NULL && other[99] == 9);
    elastic_deallocate(arena, text, 20);
    elastic_deallocate(arena, elastic_allocate(arena, 0, 64), 0);
    elastic_arena_statistics(arena, &has);
    EXPECT(has.deallocated_bytes >= 5000);
    elastic_arena_free(arena);
}

static void changed_limit(void) {
    elastic_space *limited;
    elastic_arena *arena;
    void *block;
    EXPECT(elastic_space_new(&(elastic_options){.huge_pages = 1}, &limited) == ELASTIC_OK);
    EXPECT(elastic_arena_new(limited, NULL, 0, &arena) == ELASTIC_OK);
    elastic_space_set_limit(limited, 128 << 10);
    EXPECT(elastic_try_allocate(arena, 1 << 20, 0, &block) == ELASTIC_LIMIT);
    elastic_space_set_limit(limited, 2 << 20);
    EXPECT(elastic_try_allocate(arena, 1 << 20, 0, &block) == ELASTIC_OK);
    EXPECT(elastic_try_allocate(arena, 2 << 20, 0, &block) == ELASTIC_LIMIT);
    elastic_space_set_limit(limited, 0);
    EXPECT(elastic_try_allocate(arena, 2 << 20, 0, &block) == ELASTIC_OK);
    elastic_arena_free(arena);
    elastic_space_free(limited);
}

/* What lies idle after an arena of a megabyte has gone, by policy. */
static void policies(void) {
    const elastic_options all[] = {
        {.reclaim = ELASTIC_RECLAIM_DEFAULT},
        {.reclaim = ELASTIC_RECLAIM_AT_RETURN},
        {.reclaim = ELASTIC_RECLAIM_AT_RETURN, .keep_bytes = 4 << 20},
        {.reclaim = ELASTIC_RECLAIM_AT_TRIM},
        {.reclaim = ELASTIC_RECLAIM_BACKGROUND, .interval_ms = 1},
    };
    const int stays[] = {0, 0, 1, 1, 0};
    for (size_t nth = 0; nth < sizeof all / sizeof *all; nth++) {
        elastic_space *policy;
        elastic_arena *arena;
        size_t bytes = 0;
        EXPECT(elastic_space_new(&all[nth], &policy) == ELASTIC_OK && elastic_arena_new(policy, NULL, 0, &arena) == ELASTIC_OK);
        for (int block = 0; block < 10; block++) EXPECT(elastic_allocate(arena, 100 << 10, 0) != NULL);
        EXPECT(elastic_space_committed_bytes(policy) > 1000 << 10);
        elastic_arena_free(arena);
        if (all[nth].reclaim == ELASTIC_RECLAIM_BACKGROUND)
            for (int wait = 0; wait < 60000 && elastic_space_committed_bytes(policy) > 0; wait++) nanosleep(&(struct timespec){0, 1000000}, NULL);
        size_t left = elastic_space_committed_bytes(policy);
        EXPECT(stays[nth] ? left > 1000 << 10 : left <= 256 << 10);
        EXPECT(elastic_space_trim(policy, &bytes) == ELASTIC_OK && bytes == left && elastic_space_committed_bytes(policy) == 0);
        elastic_space_free(policy);
    }
}

static void geometry(void) {
    const elastic_options options = {.reserve_bytes = 1 << 30, .root_bytes = 32 << 20, .granule_bytes = 256 << 10};
    elastic_space *coarse;
    char text[4096];
    EXPECT(elastic_space_new(&options, &coarse) == ELASTIC_OK);
    elastic_space_report(coarse, text, sizeof text);
    EXPECT(strstr(text, "reserved:      1.00 GB") && strstr(text, "granule 256.00 KB") && strstr(text, "Usage: 0 arenas"));
    elastic_arena *arena;
    EXPECT(elastic_arena_new(coarse, NULL, 0, &arena) == ELASTIC_OK && elastic_allocate(arena, 5000, 0) != NULL);
    elastic_space_report(coarse, text, sizeof text);
    EXPECT(strstr(text, "Usage: 1 arenas") && strstr(text, "16.00 MB:            1 chunks"));
    void *block;
    while (elastic_try_allocate(arena, 7 << 20, 0, &block) == ELASTIC_OK)
        ;
    EXPECT(elastic_try_allocate(arena, 100 << 20, 0, &block) == ELASTIC_ADDRESS_SPACE);
    elastic_statistics has;
    elastic_arena_reset(arena);
    elastic_arena_statistics(arena, &has);
    EXPECT(has.used_bytes == 0);
    elastic_arena_free(arena);
    elastic_space_report(coarse, text, sizeof text);
    EXPECT(strstr(text, "Usage: 0 arenas"));
    elastic_space_free(coarse);
}

static void statistics(void) {
    elastic_statistics has;
    elastic_arena *arena;
    reallocated();
    EXPECT(elastic_arena_new(space, NULL, 0, &arena) == ELASTIC_OK);
    void *first = elastic_allocate(arena, 48, 8);
    EXPECT(first != NULL && elastic_allocate(arena, 80, 8) != NULL);
    elastic_arena_statistics(arena, &has);
    EXPECT(has.chunks == 1 && has.used_bytes == 128 && has.overhead_bytes == 56 && has.deallocated_blocks == 0);
    /* The first chunk is as large as the space's earlier arenas turned out to be. */
    EXPECT(has.owned_bytes == 4096 && has.committed_bytes == 4096);
    EXPECT(has.free_bytes == 4096 - 56 - 128);
    elastic_deallocate(arena, first, 48);
    elastic_arena_statistics(arena, &has);
    EXPECT(has.used_bytes == 80 && has.deallocated_blocks == 1 && has.deallocated_bytes == 48);
    elastic_arena_free(arena);
}

/* What two of three arenas do with their chunks, and what giving back took. */
static void usage(void) {
    const elastic_options options = {.reclaim = ELASTIC_RECLAIM_AT_TRIM};
    elastic_space *own;
    elastic_arena *arenas[4];
    elastic_statistics has[3];
    elastic_usage found;
    char text[4096];
    EXPECT(elastic_space_new(&options, &own) == ELASTIC_OK);
    for (int nth = 0; nth < 3; nth++) {
        EXPECT(elastic_arena_new(own, NULL, 0, &arenas[nth]) == ELASTIC_OK);
        for (int block = 0; block <= nth; block++) EXPECT(elastic_allocate(arenas[nth], 100, 8) != NULL);
        elastic_arena_statistics(arenas[nth], &has[nth]);
    }
    EXPECT(elastic_arena_new(space, NULL, 0, &arenas[3]) == ELASTIC_OK); /* of another space */
    EXPECT(elastic_space_usage(own, NULL, 0, &found) == ELASTIC_OK);
    EXPECT(found.arenas == 3 && found.asked_arenas == 0 && found.asked.used_bytes == 0 && found.not_asked_bytes == found.in_arenas_bytes);
    EXPECT(found.committed_bytes == found.in_arenas_bytes + found.free_lines_bytes + found.idle_bytes && found.mappings > 0);
    EXPECT(elastic_space_usage(own, arenas + 1, 3, &found) == ELASTIC_OK);
    EXPECT(found.asked_arenas == 2 && found.asked.used_bytes == 5 * 104 && found.asked.chunks == 2);
    EXPECT(found.not_asked_bytes == has[0].committed_bytes && found.reserved_bytes == (size_t)64 << 30);
    EXPECT(found.asked.free_bytes == has[1].free_bytes + has[2].free_bytes && found.asked.overhead_bytes == 2 * 56);
    EXPECT(found.uncommits == 0 && found.at_trim_ns == 0 && found.longest_ns == 0);
    EXPECT(elastic_space_report_with(own, arenas, 4, text, sizeof text) < sizeof text && strstr(text, "3 of 3 arenas asked"));
    EXPECT(elastic_space_report_with(own, NULL, 0, text, sizeof text) == elastic_space_report(own, NULL, 0));
    for (int nth = 0; nth < 4; nth++) elastic_arena_free(arenas[nth]);
    EXPECT(elastic_space_trim(own, NULL) == ELASTIC_OK && elastic_space_usage(own, NULL, 0, &found) == ELASTIC_OK);
    EXPECT(found.mmap_calls == 1 && found.mprotect_calls == 1 && found.madvise_calls >= found.uncommits);
    EXPECT(found.uncommits > 0 && found.at_trim_ns > 0 && found.longest_ns > 0 && found.longest_ns <= found.at_trim_ns);
    EXPECT(found.at_return_ns + found.background_ns + found.for_room_ns == 0 && found.in_arenas_bytes == 0);
    elastic_space_free(own);
}

static void debugging(void) {
    elastic_options options = {.debug = ELASTIC_DEBUG_CANARIES | ELASTIC_DEBUG_POISON | ELASTIC_DEBUG_NO_REUSE};
    elastic_space *checked;
    elastic_arena *arena;
    char text[200];
    EXPECT(elastic_space_new(&options, &checked) == ELASTIC_OK);
    EXPECT(elastic_arena_new(checked, NULL, 0, &arena) == ELASTIC_OK);
    unsigned char *block = elastic_allocate(arena, 24, 8);
    EXPECT(block != NULL && elastic_arena_check(arena, text, sizeof text) == 0);
    unsigned char canary = block[24];
    block[24] = (unsigned char)~canary;
    EXPECT(elastic_arena_check(arena, text, sizeof text) > 20 && strstr(text, "block of 24 bytes") && strstr(text, "offset 24"));
    EXPECT(elastic_arena_check(arena, NULL, 0) > 20);
    block[24] = canary;
    elastic_deallocate(arena, block, 24);
    EXPECT(block[0] == 0xf5 && block[23] == 0xf5 && elastic_allocate(arena, 24, 8) != block);
    block[7] = 1;
    EXPECT(elastic_arena_check(arena, text, sizeof text) > 20 && strstr(text, "freed") && strstr(text, "offset 7"));
    block[7] = 0xf5;
    elastic_arena_free(arena);
    elastic_space_free(checked);
    options.debug = ELASTIC_DEBUG_GUARD_PAGES;
    EXPECT(elastic_space_new(&options, &checked) == ELASTIC_OK);
    EXPECT(elastic_arena_new(checked, NULL, 0, &arena) == ELASTIC_OK);
    block = elastic_allocate(arena, 48, 0);
    EXPECT(block != NULL && ((size_t)block + 48) % 4096 == 0);
    elastic_arena_free(arena);
    elastic_space_free(checked);
}

int main(void) {
    pthread_t threads[2];
    elastic_arena *arena;
    char text[4096];
    size_t bytes = 0;
    EXPECT(elastic_space_new(NULL, &space) == ELASTIC_OK);
    for (size_t nth = 0; nth < 2; nth++) EXPECT(pthread_create(&threads[nth], NULL, worker, (void *)(nth + 1)) == 0);
    for (size_t nth = 0; nth < 2; nth++) EXPECT(pthread_join(threads[nth], NULL) == 0);
    reallocated();
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
    refused_options();
    policies();
    geometry();
    changed_limit();
    statistics();
    usage();
    debugging();
    EXPECT(elastic_space_trim(space, &bytes) == ELASTIC_OK && bytes > 0 && elastic_space_committed_bytes(space) == 0);
    elastic_space_free(space);
    elastic_space_free(NULL);
    limits();
    puts("passed");
    return 0;
}
