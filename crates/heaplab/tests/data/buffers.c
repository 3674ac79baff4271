// Twenty buffers that one function grows by hand (allocate more, copy, free the old one), in turn,
// and a queue of texts of any length. CAPACITY says how much is allocated where NEEDED bytes are.
#include <stdlib.h>
#include <string.h>

#define APART __attribute__((noinline))

enum { BUFFERS = 20, LINE = 48, QUEUED = 7 };

struct buffer {
    char *bytes;
    size_t used, capacity;
};

static unsigned next_random(void) {
    static unsigned state = 1;
    state = state * 1103515245 + 12345;
    return state >> 16;
}

static size_t larger(size_t a, size_t b) {
    return a > b ? a : b;
}

APART void grow(struct buffer *buffer, size_t needed) {
    size_t capacity = CAPACITY(buffer->capacity, needed);
    char *bytes = malloc(capacity);
    if (buffer->bytes) {
        memcpy(bytes, buffer->bytes, buffer->used);
        free(buffer->bytes);
    }
    buffer->bytes = bytes;
    buffer->capacity = capacity;
}

APART void append(struct buffer *buffer) {
    size_t needed = buffer->used + LINE;
    if (needed > buffer->capacity) {
        grow(buffer, needed);
    }
    memset(buffer->bytes + buffer->used, 'x', LINE);
    buffer->used = needed;
}

APART char *text(void) {
    size_t length = 1 + next_random() % 900;
    return memset(malloc(length), 't', length);
}

int main(void) {
    static struct buffer buffers[BUFFERS];
    static char *queue[QUEUED];
    for (int step = 0; step < 4000; step++) {
        append(&buffers[next_random() % BUFFERS]);
        char *added = text();
        free(queue[step % QUEUED]);
        queue[step % QUEUED] = added;
    }
    int sum = larger(buffers[0].used, 1) == 0;
    for (int nth = 0; nth < BUFFERS; nth++) {
        free(buffers[nth].bytes);
    }
    return sum;
}
