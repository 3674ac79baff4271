/* Numbers for Python's code objects, and their names for the drainer. Everything here runs under
   python.lock, with signals blocked. */
#include "arch.h"

static size_t append_letter(char *to, size_t at, size_t capacity, uint32_t letter)
{
    uint8_t bytes[4];
    size_t count = letter < 0x80 ? 1 : letter < 0x800 ? 2 : letter < 0x10000 ? 3 : 4;
    if (letter > 0x10ffff || at + count > capacity)
        return capacity;
    for (size_t i = count; i-- > 1; letter >>= 6)
        bytes[i] = (uint8_t)(0x80 | (letter & 0x3f));
    bytes[0] = (uint8_t)(count == 1 ? letter : (0xf00u >> count & 0xf0) | letter);
    memcpy(to + at, bytes, count);
    return at + count;
}

/* A string of Python as UTF-8, at most `capacity` bytes; returns their number. */
static uint32_t python_text(uintptr_t text, char *to, size_t capacity)
{
    if (!text || READ(uintptr_t, text, 8) != python.text_type)
        return 0;
    uint64_t bytes, length = READ(uint64_t, text, 16);
    const uint8_t *letters = python_letters(text, &bytes);
    uint64_t kind = length ? bytes / length : 0;
    if (!letters || (kind != 1 && kind != 2 && kind != 4))
        return 0;
    size_t at = 0;
    for (uint64_t i = 0; i < length && at < capacity; i++) {
        uint32_t letter = kind == 1 ? letters[i] : kind == 2 ? ((const uint16_t *)letters)[i] : ((const uint32_t *)letters)[i];
        size_t next = append_letter(to, at, capacity, letter);
        if (next == capacity && at + 4 > capacity)
            break;
        at = next;
    }
    return (uint32_t)at;
}

/* The number of code objects like this one; 0: none left. Under the lock. */
static uint32_t code_number(uintptr_t object, uint64_t identity)
{
    static char name[PYTHON_NAME_BYTES], file[PYTHON_FILE_BYTES]; /* too large for small stacks */
    if (!python.codes && !(python.codes = map_private(sizeof *python.codes << CODES_BITS, 0)))
        return 0;
    uint32_t at = (uint32_t)(identity >> (64 - CODES_BITS)), mask = (1u << CODES_BITS) - 1;
    for (; python.codes[at].number; at = (at + 1) & mask)
        if (python.codes[at].identity == identity)
            return python.codes[at].number;
    if (python.codes_numbered == PYTHON_CODES_NUMBERED)
        return 0;
    if (python.codes_kept == CODES_MAX) {
        memset(python.codes, 0, sizeof *python.codes << CODES_BITS);
        python.codes_kept = 0;
        at = (uint32_t)(identity >> (64 - CODES_BITS));
    }
    python.codes_kept++;
    python.codes[at] = (struct python_code){identity, ++python.codes_numbered};
    uint32_t name_bytes = python_text(READ(uintptr_t, object, python.layout.qualname), name, sizeof name);
    uint32_t file_bytes = python_text(READ(uintptr_t, object, python.layout.file), file, sizeof file);
    struct hl_code record = {.head = {.kind = HL_RECORD_CODE},
                             .number = python.codes_numbered,
                             .line = READ(uint32_t, object, python.layout.line),
                             .name_bytes = name_bytes,
                             .file_bytes = file_bytes};
    record_append(&record.head, &record, sizeof record, name, name_bytes, file, file_bytes);
    return python.codes_numbered;
}

static uint8_t *code_mark(uintptr_t block) { return &python.marks[block * SPREAD >> (64 - MARKS_BITS)]; }

/* Notes that threads' caches hold this code object. Debug allocators put two words before it. */
static void code_is_kept(uintptr_t code)
{
    store_relaxed(code_mark(code), 1);
    store_relaxed(code_mark(code - 16), 1);
}

/* Before a block is freed: if it may be a code object, all threads clear their caches. */
static void python_freed(const void *block)
{
    uint8_t *mark = code_mark((uintptr_t)block);
    if (likely(!load_relaxed(mark)))
        return;
    store_relaxed(mark, 0);
    __atomic_fetch_add(&python.deaths, 1, __ATOMIC_RELEASE);
}

/* The address that stands for a Python frame; no code has it. */
static uint64_t python_ip(struct python_thread *p, const struct python_frame *frame)
{
    uint64_t sketch = code_sketch(frame->code);
    struct python_place *known = &p->places[python_mix(sketch, frame->place) >> (64 - PLACES_BITS)];
    if (known->ip && known->place == frame->place && known->sketch == sketch)
        return known->ip;
    code_is_kept(frame->code);
    int line = python.line_of((void *)frame->code, (int)frame->place);
    uint64_t number = code_number(frame->code, code_identity(frame->code));
    uint64_t ip = HL_PYTHON_FRAME | number << HL_PYTHON_LINE_BITS | (line < 0 ? 0 : (uint32_t)line > PYTHON_LINE_MAX ? PYTHON_LINE_MAX : (uint32_t)line);
    *known = (struct python_place){sketch, ip, frame->place};
    return ip;
}

/* In a forked child: numbers codes anew. */
static void python_record_again(void)
{
    if (!python.found)
        return;
    python.lock = 0; /* another thread of the parent may have held it at the fork */
    python.codes_numbered = python.codes_kept = 0;
    if (python.codes)
        memset(python.codes, 0, sizeof *python.codes << CODES_BITS);
    if (python.found == 2)
        python_record(HL_PYTHON_READ);
}
