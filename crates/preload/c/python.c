/* Python's frames in the stacks of events, for `record --python`.
 *
 * CPython keeps its frames in memory of its own. This file reads them there, at each event,
 * without a lock and without a call that could allocate, and puts them between the native frames
 * of the same stack. A Python frame stands at the place of the interpreter's loop that runs it.
 *
 * Rejected: a shadow stack kept by PyEval_SetProfile, as memray has. It needs no layout. But it
 * costs a callback a call, slows the interpreter's loop down, is visible to sys.getprofile(),
 * and ends when the program sets a profile function of its own (coverage, cProfile). Rejected:
 * `perf` trampolines (-X perf), which only 3.12 has, and which change the running code.
 * Rejected: a sitecustomize module, which programs see in sys.modules, and which -I and -S leave
 * out. Reading costs nothing between events, and the program can neither notice nor disturb it.
 *
 * The price is layouts. 3.8 to 3.12 have a table here; 3.13 describes its own
 * (_Py_DebugOffsets). For the first stack with Python frames each read asks the kernel whether
 * the memory is there, and the stack must look right to its end: each frame's code is of type
 * PyCode_Type, names are of type PyUnicode_Type, and the instruction lies in the code. Otherwise
 * no Python frame is recorded, and the recording says so. Later walks still check each code's
 * type.
 *
 * Speed. The native stack is found as always (stacks.c). A hash of all Python frames and the
 * native stack's definition lead to a stack in the thread's `joined` stacks; only a new pair is
 * joined. Code dies, and other code takes its address: when a block that held code is freed, all
 * threads clear their caches. CPython takes long to find an instruction's line, so a thread
 * keeps the addresses of Python's frames in `places`.
 *
 * Place. From 3.11 on a loop leaves a mark on the native stack, and its outermost Python frame
 * leads to this mark (3.11: _PyCFrame; later: the entry frame). The native frame around the mark
 * is the loop's. Before 3.11 each Python frame has a loop of its own, found by the function's
 * address.
 *
 * A frame whose function has not begun (it makes its cells, or a coroutine of itself) is left
 * out, as in Python's own tracebacks: the request counts as its caller's.
 *
 * Deviations. Native frames of the interpreter's own file outside of the innermost Python frame
 * are left out unless HL_CONTROL_INTERPRETER asks for them. Beyond the depth of the native walk
 * Python frames stand without native ones. Events in a signal handler inside a record (nested.c)
 * have no Python frames. Before 3.12 a subinterpreter's frames are those of the code that runs
 * it. Only the first interpreter seen in a process is read. */
#include <elf.h>
#include "arch.h"

#define JOINED_BITS 12
#define PLACES_BITS 11
#define CODES_BITS 16
#define MARKS_BITS 16
#define CODES_MAX ((uint32_t)3 << (CODES_BITS - 2))
#define PYTHON_LINE_MAX 0xffffffu
#define PYTHON_CODES_NUMBERED 0xffffffu
#define PYTHON_NAME_BYTES 512
#define PYTHON_FILE_BYTES 1024

/* The sign of a loop's outermost Python frame. */
enum python_entry { ENTRY_EACH, ENTRY_FLAG, ENTRY_FRAME };

/* Offsets in bytes. */
struct python_layout {
    enum python_entry entry;
    bool has_chain;            /* the thread leads to a _PyCFrame, which leads to the frame */
    bool place_is_index;       /* the instruction is a number, counted in place_scale bytes */
    uint16_t place_scale;
    uint16_t thread_frame;     /* in PyThreadState: the frame, or the _PyCFrame */
    uint16_t chain_frame, chain_previous;
    uint16_t previous, code, place, owner; /* in a frame; the flag of ENTRY_FLAG lies before `owner` */
    uint16_t line, file, name, qualname, lines, instructions; /* in PyCodeObject */
    uint16_t ascii_bytes, unicode_bytes; /* a string's head */
};
#define OWNED_BY_GENERATOR 1
#define OWNED_BY_C_STACK 3
/* From 3.11 on co_extra and _co_firsttraceable lie between it and the instructions. */
#define FIRST_TRACEABLE_BEFORE 16

/* Sources: Include/cpython/frameobject.h (3.8 to 3.10), Include/internal/pycore_frame.h (3.11
   on), Include/cpython/pystate.h and code.h of each version. */
static const struct python_layout python_layouts[] = {
    [8] = {ENTRY_EACH, false, true, 1, 24, 0, 0, 24, 32, 104, 0, 40, 104, 112, 112, 120, 0, 48, 72},
    [9] = {ENTRY_EACH, false, true, 1, 24, 0, 0, 24, 32, 104, 0, 40, 104, 112, 112, 120, 0, 48, 72},
    [10] = {ENTRY_EACH, false, true, 2, 24, 0, 0, 24, 32, 96, 0, 40, 104, 112, 112, 120, 0, 48, 72},
    [11] = {ENTRY_FLAG, true, false, 1, 56, 8, 16, 48, 32, 56, 69, 72, 112, 120, 128, 136, 184, 48, 72},
    [12] = {ENTRY_FRAME, true, false, 1, 56, 0, 8, 8, 0, 56, 70, 68, 112, 120, 128, 136, 192, 40, 56},
    [13] = {ENTRY_FRAME, false, false, 1, 72, 0, 0, 8, 0, 56, 70, 68, 112, 120, 128, 136, 200, 40, 56},
};
#define PYTHON_MINOR_MAX (sizeof python_layouts / sizeof *python_layouts - 1)

struct python_code {
    uint64_t identity; /* code_identity */
    uint32_t number;   /* 0: empty */
};

static struct {
    uint32_t found; /* 1: an interpreter's module is known; 2: its frames are read; 3: refused */
    uint32_t lock;  /* guards the fields below, except those stored before `found` */
    struct python_layout layout;
    struct range module, loop;
    uintptr_t code_type, text_type;
    void *(*current_thread)(void);
    void *(*own_thread)(void);
    int (*line_of)(void *code, int place);
    uint32_t version;
    uint32_t codes_numbered, codes_kept;
    struct python_code *codes; /* 1 << CODES_BITS places */
    uint32_t deaths; /* of blocks that may have been code objects, from 1; 0: no interpreter */
    uint8_t marks[1u << MARKS_BITS]; /* code_is_kept */
} python;

/* A Python frame, and the place of its loop. */
struct python_frame {
    uintptr_t code;
    uint32_t place;  /* of the instruction, in bytes of code */
    bool is_entry;   /* the loop's outermost Python frame */
    uintptr_t mark;  /* an address in the loop's native frame; 0: not known */
};

/* A joined stack. */
struct joined {
    uint64_t frames; /* hash of the Python frames */
    uint32_t native, node, definition;
};

/* The address (python_ip) of a place in a code object. */
struct python_place {
    uint64_t sketch; /* of the code object */
    uint64_t ip;     /* 0: empty */
    uint32_t place;
};

struct python_thread {
    uint32_t deaths; /* value of python.deaths when this thread last cleared its caches */
    struct joined joined[1u << JOINED_BITS];
    struct python_place places[1u << PLACES_BITS];
    struct python_frame frames[HL_STACK_DEPTH_MAX];
    uint64_t ips[HL_STACK_DEPTH_MAX + KEEP_MORE];
};

#define READ(type, base, offset) (*(const type *)((uintptr_t)(base) + (offset)))

/* The exports of a module. */
struct exports {
    const Elf64_Sym *symbols;
    const char *names;
    const uint32_t *hash; /* DT_GNU_HASH */
    uintptr_t bias;
};

static uintptr_t dynamic_pointer(const struct module *module, uint64_t value)
{
    /* glibc adds the bias in place, other linkers do not */
    return value < module->start ? value + module->bias : value;
}

static bool find_exports(const struct module *module, struct exports *exports)
{
    const Elf64_Ehdr *elf = (const Elf64_Ehdr *)module->start;
    if (!module->code_end) /* inspect() found the module damaged */
        return false;
    const Elf64_Phdr *headers = (const Elf64_Phdr *)(module->start + elf->e_phoff);
    *exports = (struct exports){.bias = module->bias};
    for (unsigned i = 0; i < elf->e_phnum; i++) {
        if (headers[i].p_type != PT_DYNAMIC)
            continue;
        const Elf64_Dyn *d = (const Elf64_Dyn *)(headers[i].p_vaddr + module->bias), *end = d + headers[i].p_memsz / sizeof *d;
        for (; d < end && d->d_tag != DT_NULL; d++) {
            uintptr_t at = dynamic_pointer(module, d->d_un.d_ptr);
            if (d->d_tag == DT_SYMTAB)
                exports->symbols = (const Elf64_Sym *)at;
            else if (d->d_tag == DT_STRTAB)
                exports->names = (const char *)at;
            else if (d->d_tag == DT_GNU_HASH)
                exports->hash = (const uint32_t *)at;
        }
    }
    return exports->symbols && exports->names && exports->hash && exports->hash[0];
}

static struct range export_of(const struct exports *exports, const char *name)
{
    uint32_t hash = 5381, buckets = exports->hash[0], first = exports->hash[1];
    for (const char *letter = name; *letter; letter++)
        hash = hash * 33 + (uint8_t)*letter;
    const uint32_t *bucket = exports->hash + 4 + 2 * (size_t)exports->hash[2], *chain = bucket + buckets;
    for (uint32_t i = bucket[hash % buckets]; i >= first && i; i++) {
        const Elf64_Sym *symbol = &exports->symbols[i];
        if ((chain[i - first] | 1) == (hash | 1) && !strcmp(exports->names + symbol->st_name, name) && symbol->st_shndx != SHN_UNDEF) {
            uintptr_t start = exports->bias + symbol->st_value;
            return (struct range){start, start + symbol->st_size};
        }
        if (chain[i - first] & 1)
            break;
    }
    return (struct range){0, 0};
}

static void python_record(uint32_t verdict)
{
    struct hl_python record = {.head = {.kind = HL_RECORD_PYTHON}, .verdict = verdict, .version = python.version};
    record_append(&record.head, &record, sizeof record, "", 0, "", 0);
}

static void python_refuse(uint32_t verdict)
{
    store_release(&python.found, 3);
    python_record(verdict);
}

/* From 3.13 on the interpreter describes its own layout, in words behind a cookie. Order: Python
   3.13, Include/internal/pycore_debug_offsets.h. */
static bool take_debug_offsets(const uint64_t *words, struct python_layout *layout)
{
    if (!words || memcmp(words, "xdebugpy", 8) != 0 || words[1] >> 16 != python.version >> 16 || words[2] /* free-threaded */ || words[45] != 8)
        return false;
    for (int i = 23; i < 45; i++)
        if (words[i] > 4096)
            return false;
    layout->thread_frame = (uint16_t)words[23];
    layout->previous = (uint16_t)words[29];
    layout->code = (uint16_t)words[30];
    layout->place = (uint16_t)words[31];
    layout->owner = (uint16_t)words[33];
    layout->file = (uint16_t)words[35];
    layout->name = (uint16_t)words[36];
    layout->qualname = (uint16_t)words[37];
    layout->lines = (uint16_t)words[38];
    layout->line = (uint16_t)words[39];
    layout->instructions = (uint16_t)words[43];
    return true;
}

/* "3.11.2 (main, ...)" as 0x030b0200; 0: another form. */
static uint32_t version_of(const char *text)
{
    uint32_t parts[3] = {0}, part = 0;
    for (; part < 3; text++) {
        if (*text >= '0' && *text <= '9' && parts[part] < 100)
            parts[part] = parts[part] * 10 + (uint32_t)(*text - '0');
        else if (*text == '.' && part < 2)
            part++;
        else
            break;
    }
    return parts[0] > 255 || parts[1] > 255 || parts[2] > 255 ? 0 : parts[0] << 24 | parts[1] << 16 | parts[2] << 8;
}

/* Checks whether a new module is a Python interpreter. Runs under recorder.modules_lock, with
   signals blocked. */
COLD static void python_look_at(const struct module *module)
{
    struct exports exports;
    if (load_relaxed(&python.found) || !find_exports(module, &exports))
        return;
    struct range loop = export_of(&exports, "_PyEval_EvalFrameDefault");
    const char *(*version)(void) = (const char *(*)(void))export_of(&exports, "Py_GetVersion").start;
    if (!version)
        return;
    python.version = version_of(version());
    python.loop = loop;
    python.module = (struct range){module->code_start, module->code_end};
    uint32_t minor = python.version >> 16 & 255;
    if (export_of(&exports, "PyPyThreadState_Get").start || export_of(&exports, "PyPy_FatalErrorFunc").start) {
        python_refuse(HL_PYTHON_NOT_CPYTHON);
        return;
    }
    if (python.version >> 24 != 3 || minor > PYTHON_MINOR_MAX || !python_layouts[minor].previous) {
        python_refuse(HL_PYTHON_VERSION);
        return;
    }
    python.layout = python_layouts[minor];
    python.code_type = export_of(&exports, "PyCode_Type").start;
    python.text_type = export_of(&exports, "PyUnicode_Type").start;
    python.line_of = (__typeof__(python.line_of))export_of(&exports, "PyCode_Addr2Line").start;
    python.own_thread = (__typeof__(python.own_thread))export_of(&exports, "PyGILState_GetThisThreadState").start;
    python.current_thread = (__typeof__(python.current_thread))export_of(&exports, "_PyThreadState_UncheckedGet").start;
    if (!python.current_thread)
        python.current_thread = (__typeof__(python.current_thread))export_of(&exports, "PyThreadState_GetUnchecked").start;
    bool has_all = loop.start && python.code_type && python.text_type && python.line_of && python.own_thread && python.current_thread;
    if (!has_all) {
        python_refuse(HL_PYTHON_SYMBOLS);
        return;
    }
    /* tp_itemsize: code follows the object; tp_basicsize: its offset */
    bool fits = minor < 11 || READ(intptr_t, python.code_type, 32) == python.layout.instructions;
    if (minor >= 13)
        fits = take_debug_offsets((const uint64_t *)export_of(&exports, "_PyRuntime").start, &python.layout);
    if (!fits) {
        python_refuse(HL_PYTHON_LAYOUT);
        return;
    }
    store_relaxed(&python.deaths, 1);
    store_release(&python.found, 1);
}
