// What the addon writes: one file a JavaScript heap, of checksummed blocks of records (docs/spool-format.md, "The stream of a Node").

#ifndef HEAPLAB_STREAM_H
#define HEAPLAB_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// A block is 12 bytes (magic, payload bytes, CRC-32 of the payload) and whole records, at most this many bytes of them.
enum { STREAM_MAGIC = 0x31736e68, BLOCK_BYTES = 256 << 10, TEXT_BYTES_MAX = 4096 };

// The first byte of each record.
enum {
    RECORD_HEAD = 'H',       // format, time, pid, parent's pid, thread's number; versions of Node and V8, executable, arguments (0x1f between)
    RECORD_REFUSED = 'R',    // why nothing is recorded of this heap
    RECORD_NODE = 'N',       // node, its parent, line, column; function, script
    RECORD_BIRTH = 'B',      // bytes, node
    RECORD_OWN = 'O',        // births of the recording's own, to be skipped
    RECORD_UNSEEN = 'U',     // births of objects that were dead before they could be seen
    RECORD_COLLECTION = 'C', // a collection begins: time, kind
    RECORD_DEATH = 'D',      // noticed at the last collection: the sample's number less that of the last death of this collection
    RECORD_END = 'E',        // time, why
};

struct stream {
    int file;
    bool failed;
    size_t used;
    uint8_t payload[BLOCK_BYTES];
};

// Makes the file, which must not be there.
bool stream_open(struct stream *, const char *path);
// Begins a record of at most six numbers and four texts; writes the block out first where it might not fit.
void stream_record(struct stream *, uint8_t kind);
void stream_number(struct stream *, uint64_t number);
// At most TEXT_BYTES_MAX bytes of it.
void stream_text(struct stream *, const char *text);
// Writes what there is to the file.
void stream_flush(struct stream *);

#endif
