// Packs records into blocks and writes blocks to the file. Written blocks survive a killed process;
// a block cut in the middle ends the stream.

#define _GNU_SOURCE
#include "stream.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

// Bounds one record: a kind, six numbers and four texts.
enum { RECORD_BYTES_MAX = 128 + 4 * TEXT_BYTES_MAX };

static uint32_t crc32(const uint8_t *bytes, size_t length) {
    static uint32_t table[256];
    if (!table[1]) {
        // Two threads may fill the table at once, with equal values; row 1 is written last.
        for (uint32_t row = 256; row-- > 1;) {
            uint32_t value = row;
            for (int bit = 0; bit < 8; bit++) value = value >> 1 ^ (value & 1 ? 0xedb88320 : 0);
            __atomic_store_n(&table[row], value, __ATOMIC_RELEASE);
        }
    }
    uint32_t crc = ~0u;
    for (size_t at = 0; at < length; at++) crc = crc >> 8 ^ table[(crc ^ bytes[at]) & 255];
    return ~crc;
}

bool stream_open(struct stream *stream, const char *path) {
    stream->file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600);
    stream->failed = stream->file < 0;
    stream->used = 0;
    return !stream->failed;
}

static void write_whole(struct stream *stream, const void *from, size_t length) {
    const char *at = from;
    while (length > 0 && !stream->failed) {
        ssize_t written = write(stream->file, at, length);
        if (written < 0 && errno != EINTR) {
            stream->failed = true;
        } else if (written > 0) {
            at += written;
            length -= written;
        }
    }
}

void stream_flush(struct stream *stream) {
    if (!stream->used) return;
    uint32_t head[3] = {STREAM_MAGIC, stream->used, crc32(stream->payload, stream->used)};
    write_whole(stream, head, sizeof head);
    write_whole(stream, stream->payload, stream->used);
    stream->used = 0;
}

void stream_record(struct stream *stream, uint8_t kind) {
    if (stream->used + RECORD_BYTES_MAX > BLOCK_BYTES) stream_flush(stream);
    stream->payload[stream->used++] = kind;
}

void stream_number(struct stream *stream, uint64_t number) {
    for (; number > 127; number >>= 7) stream->payload[stream->used++] = number | 128;
    stream->payload[stream->used++] = number;
}

void stream_text(struct stream *stream, const char *text) {
    size_t length = strnlen(text ? text : "", TEXT_BYTES_MAX);
    stream_number(stream, length);
    if (length) memcpy(stream->payload + stream->used, text, length);
    stream->used += length;
}
