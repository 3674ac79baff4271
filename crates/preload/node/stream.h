// The addon's output: one file a JavaScript heap, made of checksummed blocks of records
// (docs/spool-format.md, "The stream of a Node").

#ifndef HEAPLAB_STREAM_H
#define HEAPLAB_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// A block is 12 bytes (magic, payload bytes, CRC-32 of the payload), then whole records of at most
// BLOCK_BYTES.
enum { STREAM_MAGIC = 0x31736e68, BLOCK_BYTES = 256 << 10, TEXT_BYTES_MAX = 4096 };

// The first byte of each record.
enum {
    RECORD_HEAD = 'H',       // format, time, pid, parent's pid, thread's number; versions of Node and V8, executable, arguments (0x1f between)
    RECORD_REFUSED = 'R',    // why this heap is not recorded
    RECORD_NODE = 'N',       // node, its parent, line, column; function, script
    RECORD_BIRTH = 'B',      // bytes, node
    RECORD_OWN = 'O',        // births of the recording's own; readers skip them
    RECORD_UNSEEN = 'U',     // births of objects that died before a profile showed them
    RECORD_COLLECTION = 'C', // a collection begins: time, kind
    // seen at the last collection: the sample's number less that of the collection's death before
    RECORD_DEATH = 'D',
    RECORD_END = 'E',        // time, why
};

struct stream {
    int file;
    bool failed;
    size_t used;
    uint8_t payload[BLOCK_BYTES];
};

// Creates the file; fails if the file exists.
bool stream_open(struct stream *, const char *path);
// Begins a record of at most six numbers and four texts. Writes the block out first if the record
// might not fit.
void stream_record(struct stream *, uint8_t kind);
void stream_number(struct stream *, uint64_t number);
// Appends at most TEXT_BYTES_MAX bytes of the text.
void stream_text(struct stream *, const char *text);
// Writes the pending block to the file.
void stream_flush(struct stream *);

#endif
