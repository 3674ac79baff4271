/* Reads the calling thread's Python frames in place (python.c says why). */
#include "arch.h"

/* The calling thread's state; NULL: it has none. Before 3.12 this is the thread's own state:
   without the interpreter's lock, the current state is another thread's. */
static const uint8_t *python_thread_state(void)
{
    const uint8_t *own = python.own_thread();
    if ((python.version >> 16 & 255) < 12)
        return own;
    const uint8_t *current = python.current_thread();
    return current ? current : own;
}

struct python_walk {
    uintptr_t frame, chain;
};

static struct python_walk python_begin(const uint8_t *thread)
{
    struct python_walk w = {READ(uintptr_t, thread, python.layout.thread_frame), 0};
    if (python.layout.has_chain) {
        w.chain = w.frame;
        w.frame = w.chain ? READ(uintptr_t, w.chain, python.layout.chain_frame) : 0;
    }
    return w;
}

ALWAYS_INLINE bool is_mark(uintptr_t frame)
{
    return python.layout.entry == ENTRY_FRAME && READ(uint8_t, frame, python.layout.owner) == OWNED_BY_C_STACK;
}

/* Whether the frame's function has not begun yet. *place: its instruction, in bytes of code. */
ALWAYS_INLINE bool is_incomplete(uintptr_t frame, uintptr_t code, uint32_t *place)
{
    const struct python_layout *l = &python.layout;
    if (l->place_is_index) {
        int32_t index = READ(int32_t, frame, l->place);
        *place = index < 0 ? 0 : (uint32_t)index * l->place_scale;
        return false;
    }
    intptr_t bytes = READ(intptr_t, frame, l->place) - (intptr_t)(code + l->instructions);
    *place = bytes < 0 ? 0 : (uint32_t)bytes;
    return bytes < 2 * (intptr_t)READ(int32_t, code, l->instructions - FIRST_TRACEABLE_BEFORE) &&
           READ(uint8_t, frame, l->owner) != OWNED_BY_GENERATOR;
}

/* Reads the frame at w->frame and moves on to its caller. False: there is no frame, or the words
   are not a frame. *is_whole: the frame's function has begun. */
ALWAYS_INLINE bool python_step(struct python_walk *w, struct python_frame *out, bool *is_whole)
{
    const struct python_layout *l = &python.layout;
    while (w->frame && is_mark(w->frame))
        w->frame = READ(uintptr_t, w->frame, l->previous);
    if (!w->frame)
        return false;
    out->code = READ(uintptr_t, w->frame, l->code);
    if (unlikely(!out->code || READ(uintptr_t, out->code, 8) != python.code_type))
        return false;
    *is_whole = !is_incomplete(w->frame, out->code, &out->place);
    out->mark = 0;
    out->is_entry = l->entry == ENTRY_EACH;
    if (l->entry == ENTRY_FLAG && READ(uint8_t, w->frame, l->owner - 1)) {
        out->is_entry = true;
        out->mark = w->chain;
        w->chain = w->chain ? READ(uintptr_t, w->chain, l->chain_previous) : 0;
    }
    w->frame = READ(uintptr_t, w->frame, l->previous);
    if (l->entry == ENTRY_FRAME && w->frame && is_mark(w->frame)) {
        out->is_entry = true;
        out->mark = w->frame;
    }
    return true;
}

/* python_step() to the next frame whose function has begun. */
ALWAYS_INLINE bool python_next(struct python_walk *w, struct python_frame *out)
{
    bool is_whole = false;
    while (!is_whole)
        if (!python_step(w, out, &is_whole))
            return false;
    return true;
}

ALWAYS_INLINE uint64_t python_mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * SPREAD;
    return hash ^ hash >> 29;
}

ALWAYS_INLINE uint64_t python_bytes(uint64_t hash, const uint8_t *bytes, uint64_t count)
{
    uint64_t word = 0;
    hash = (hash ^ count) * SPREAD;
    for (; count >= 8; count -= 8, bytes += 8)
        hash = hash * SPREAD + READ(uint64_t, bytes, 0);
    memcpy(&word, bytes, count);
    return python_mix(hash, word);
}

/* The letters of a Python string, and their number of bytes; NULL: the string has another form. */
ALWAYS_INLINE const uint8_t *python_letters(uintptr_t text, uint64_t *bytes)
{
    uint32_t state = READ(uint32_t, text, 32), letter_bytes = state >> 2 & 7;
    bool is_compact = state >> 5 & 1, is_ascii = state >> 6 & 1;
    *bytes = READ(uint64_t, text, 16) * letter_bytes;
    return is_compact ? (const uint8_t *)text + (is_ascii ? python.layout.ascii_bytes : python.layout.unicode_bytes) : NULL;
}

/* The identity of a code object: a hash of its qualified name, first line, file and table of
 * lines. Its address does not identify it: code that a program makes again and again gets new
 * addresses, or those of earlier code. */
static uint64_t code_identity(uintptr_t code)
{
    const struct python_layout *l = &python.layout;
    uintptr_t file = READ(uintptr_t, code, l->file), lines = READ(uintptr_t, code, l->lines);
    uint64_t bytes, hash = python_mix(READ(uint64_t, READ(uintptr_t, code, l->qualname), 24), READ(uint32_t, code, l->line));
    const uint8_t *letters = python_letters(file, &bytes);
    hash = letters ? python_bytes(hash, letters, bytes) : python_mix(hash, file);
    return python_bytes(hash, (const uint8_t *)lines + 32, READ(uint64_t, lines, 16));
}

/* A cheap hash that distinguishes most code objects from earlier ones at the same address. */
ALWAYS_INLINE uint64_t code_sketch(uintptr_t code)
{
    const struct python_layout *l = &python.layout;
    uint64_t words = READ(uint64_t, READ(uintptr_t, code, l->name), 24) ^ READ(uint64_t, code, l->file) << 7 ^ READ(uint64_t, code, l->lines) << 19;
    return words ^ (uint64_t)READ(uint32_t, code, l->line) << 40 ^ READ(uint64_t, code, l->qualname) << 3 ^ code;
}

/* A hash of the innermost frames, at most as many as a stack has; 0: there are none. */
static uint64_t python_hash(const uint8_t *thread)
{
    struct python_walk w = python_begin(thread);
    struct python_frame frame;
    uint64_t hash = 0;
    for (uint32_t count = 0; count < recorder.depth && python_next(&w, &frame); count++)
        hash = python_mix(hash, python_mix(code_sketch(frame.code), (uint64_t)frame.place << 1 | frame.is_entry)) | 1;
    return hash;
}

/* Whether the words of one frame and of its code are readable and look right. */
static bool frame_is_plausible(const struct python_walk *w)
{
    const struct python_layout *l = &python.layout;
    if (w->frame % 8 || !can_read(w->frame) || !can_read(w->frame + l->place) || !can_read(w->frame + l->previous))
        return false;
    if (l->entry == ENTRY_FLAG && (READ(uint8_t, w->frame, l->owner - 1) > 1 || w->chain % 8 || !can_read(w->chain) || !can_read(w->chain + l->chain_previous)))
        return false;
    uintptr_t code = READ(uintptr_t, w->frame, l->code), names[2];
    if (code % 8 || !can_read(code) || !can_read(code + l->lines) || READ(uintptr_t, code, 8) != python.code_type)
        return false;
    names[0] = READ(uintptr_t, code, l->file);
    names[1] = READ(uintptr_t, code, l->qualname);
    for (int i = 0; i < 2; i++)
        if (names[i] % 8 || !can_read(names[i]) || !can_read(names[i] + l->ascii_bytes - 8) || READ(uintptr_t, names[i], 8) != python.text_type)
            return false;
    uintptr_t lines = READ(uintptr_t, code, l->lines);
    if (lines % 8 || !can_read(lines) || !can_read(lines + 32))
        return false;
    if (l->place_is_index)
        return READ(int32_t, w->frame, l->place) >= -1;
    uintptr_t place = READ(uintptr_t, w->frame, l->place), start = code + l->instructions;
    uint32_t first = READ(uint32_t, code, l->instructions - FIRST_TRACEABLE_BEFORE);
    return first <= READ(uint64_t, code, 16) && place + 2 >= start && place - start + 2 <= 2 * READ(uint64_t, code, 16) + 2;
}

/* Reads the first stack with Python frames carefully. */
COLD static void python_try(const uint8_t *thread)
{
    const struct python_layout *l = &python.layout;
    uint64_t signals;
    if (load_relaxed(&recorder.sandboxed) || !can_read((uintptr_t)thread + l->thread_frame))
        return;
    struct python_walk w = python_begin(thread);
    uint32_t count = 0;
    bool good = true;
    while (good && w.frame && count < HL_STACK_DEPTH_MAX) {
        struct python_frame frame;
        bool is_whole;
        if (l->entry == ENTRY_FRAME && can_read(w.frame + l->owner) && is_mark(w.frame)) {
            w.frame = READ(uintptr_t, w.frame, l->previous);
            continue;
        }
        good = frame_is_plausible(&w) && python_step(&w, &frame, &is_whole);
        count += good;
    }
    if (good && !count)
        return;
    block_signals(&signals);
    lock(&python.lock);
    if (python.found == 1 && good) {
        python_record(HL_PYTHON_READ);
        store_release(&python.found, 2);
    } else if (python.found == 1) {
        python_refuse(HL_PYTHON_LAYOUT);
    }
    unlock(&python.lock);
    restore_signals(&signals);
}
