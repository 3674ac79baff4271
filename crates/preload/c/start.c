/* Starting to record, and the target's life: its constructor, fork, dlclose, exit, marks. */
#include <stdlib.h>
#include "arch.h"

extern char **environ;
EXPORT void heaplab_mark(const char *name);

static uint32_t starting;
static void (*next_exit)(int);

static const char *spool_variable(void)
{
    static const char name[] = "HEAPLAB_SPOOL=";
    for (char **entry = environ; entry && *entry; entry++)
        if (!strncmp(*entry, name, sizeof name - 1))
            return *entry + sizeof name - 1;
    return NULL;
}

/* Maps the control page. A target that may not write the page can still be recorded; it cannot
   announce or refuse. */
static struct hl_control *map_control(void)
{
    char path[sizeof recorder.spool + 16];
    append_text(path, append_text(path, 0, sizeof path, recorder.spool), sizeof path, "/control");
    long fd = sys(SYS_openat, AT_FDCWD, (long)path, O_RDWR | O_CLOEXEC, 0, 0, 0);
    if (failed(fd))
        return NULL;
    long map = sys(SYS_mmap, 0, sizeof(struct hl_control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    sys_always(SYS_close, fd, 0, 0, 0, 0, 0);
    struct hl_control *control = (struct hl_control *)map;
    if (failed(map) || load_acquire(&control->magic) != HL_CONTROL_MAGIC || control->version != HL_VERSION)
        return NULL;
    uint32_t ring = control->ring_bytes, first = control->first_ring_bytes, nested = control->nested_bytes;
    if (ring < 65536 || ring & (ring - 1) || first < 65536 || first & (first - 1) || nested < recorder.page || nested & (nested - 1) || control->stack_depth > HL_STACK_DEPTH_MAX)
        return NULL;
    return control;
}

/* Does the work of MADV_WIPEONFORK where the kernel ignores it: before Linux 4.14, and in qemu
 * (7.2), which takes it for a hint. There a child of raw clone goes unnoticed and writes into its
 * parent's files. */
static void wipe_copies(void)
{
    struct process *p = recorder.process;
    if (!p->alive || p->file->pid == (uint32_t)sys(SYS_getpid, 0, 0, 0, 0, 0, 0))
        return;
    self = &nobody; /* the only thread */
    recorder.first_thread = NULL; /* not wiped either */
    memset(p, 0, sizeof *p);
}

static void forked_child(void)
{
    int error = errno;
    uint64_t signals;
    inside = 0;
    if (load_relaxed(&recorder.ready) != 1 || recorder.cut)
        return;
    wipe_copies();
    if (recorder.process->alive)
        return;
    block_signals(&signals);
    thread_acquire(true);
    fork_counter = fork_ticks = 0;
    restore_signals(&signals);
    errno = error;
}

static void before_fork(void)
{
    if (recorder.sandboxed)
        return;
    fork_ticks = clock_ticks();
    fork_counter = counter();
}

static void after_fork(void) { fork_counter = fork_ticks = 0; }

/* The bytes of a line of /proc/self/status ("VmHWM:\t   12 kB"); 0 where there is none. */
static uint64_t status_bytes(const char *text, long got, const char *name)
{
    size_t length = strlen(name);
    for (long i = 0; i + (long)length < got; i++) {
        if ((i > 0 && text[i - 1] != '\n') || memcmp(text + i, name, length) != 0)
            continue;
        uint64_t kilobytes = 0;
        for (i += (long)length; i < got && (text[i] == '\t' || text[i] == ' '); i++)
            ;
        for (; i < got && text[i] >= '0' && text[i] <= '9'; i++)
            kilobytes = kilobytes * 10 + (uint64_t)(text[i] - '0');
        return kilobytes << 10;
    }
    return 0;
}

/* The drainer samples memory now and then and may miss a short process; an ended process has
   nothing to read. */
static void note_memory(struct hl_process *file)
{
    char text[4096];
    long fd = sys(SYS_openat, AT_FDCWD, (long)"/proc/thread-self/status", O_RDONLY | O_CLOEXEC, 0, 0, 0);
    if (failed(fd))
        return;
    long got = sys(SYS_read, fd, (long)text, sizeof text, 0, 0, 0);
    sys_always(SYS_close, fd, 0, 0, 0, 0, 0);
    file->exit_resident_bytes = status_bytes(text, got, "VmRSS:");
    file->exit_anonymous_bytes = status_bytes(text, got, "RssAnon:");
    file->exit_resident_peak_bytes = status_bytes(text, got, "VmHWM:");
}

/* Notes that the process ends. A child of vfork shares its parent's memory and must not note an
   end: the process must be the file's. */
static void note_exit(int status, bool with_memory)
{
    struct process *p = recorder.process;
    if (!p || !p->alive || (!recorder.sandboxed && p->file->pid != (uint32_t)sys(SYS_getpid, 0, 0, 0, 0, 0, 0)))
        return;
    p->file->exit_status = status;
    if (with_memory && recorder.control->flags & HL_CONTROL_MEMORY)
        note_memory(p->file);
    p->file->exit_counter = recorder.timeless ? p->file->cut_counter : counter();
    store_release(&p->file->exited, 1);
}

static void exiting(int status, void *unused)
{
    (void)unused;
    note_exit(status, true);
}

/* Notes the end of a program that ends without exit(), as most forked children do; exit() does not
 * come here. Reads no memory figures: a sandboxed child may be allowed little more than ending. */
EXPORT __attribute__((noreturn)) void _exit(int status)
{
    note_exit(status, false);
    if (next_exit)
        next_exit(status);
    for (;;)
        sys_always(SYS_exit_group, status, 0, 0, 0, 0, 0);
}

EXPORT __attribute__((noreturn)) void _Exit(int status) { _exit(status); }

static void mark(const char *name, uintptr_t sp);

static void mark_signal(int number)
{
    (void)number;
    int error = errno;
    mark("signal", (uintptr_t)__builtin_dwarf_cfa());
    errno = error;
}

static void install_mark_signal(void)
{
    struct sigaction now, action = {.sa_handler = mark_signal, .sa_flags = SA_RESTART};
    int number = (int)recorder.control->mark_signal;
    if (number && !sigaction(number, NULL, &now) && now.sa_handler == SIG_DFL)
        sigaction(number, &action, NULL);
}

/* Records the allocator's file even if no stack ever leads there: readers tell the allocator by
   this file. Signals are blocked. */
static void record_allocator(void)
{
    if (!in_range(next.allocator, (uintptr_t)next.malloc))
        return;
    lock(&recorder.modules_lock);
    module_of((uintptr_t)next.malloc);
    unlock(&recorder.modules_lock);
}

/* Maps the process's half of the state, and the first thread's. */
static void map_state(void)
{
    if (!recorder.control)
        return;
    recorder.depth = recorder.control->stack_depth;
    uint8_t *area = map_private(recorder.page + thread_parts((struct known_bits){KNOWN_BITS_FIRST}).bytes, MADV_WIPEONFORK);
    recorder.process = (struct process *)area;
    recorder.first_thread = area ? (struct thread *)(area + recorder.page) : NULL;
}

/* A library in front of the C library may have a clock of its own. */
static void find_clock(void)
{
    void *clock = dlsym(RTLD_NEXT, "clock_gettime");
    if (in_range(code_of((void *)gnu_get_libc_version), (uintptr_t)clock))
        next_clock = (int (*)(clockid_t, struct timespec *))clock;
}

/* Sets up recording. False: this process is not to be recorded (or not yet: libc has no environment
   before its own start). */
static bool begin(void)
{
    uint32_t none = 0;
    if (!environ || !resolve())
        return false;
    const char *spool = spool_variable();
    if (!__atomic_compare_exchange_n(&starting, &none, 1, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
        return load_acquire(&recorder.ready) == 1;
    int error = errno;
    next_exit = (void (*)(int))dlsym(RTLD_NEXT, "_exit");
    find_clock();
    recorder.page = (uint32_t)sysconf(_SC_PAGESIZE);
    recorder.main_locals = (uintptr_t)&self;
    size_t length = spool ? strlen(spool) : 0;
    if (length && length < sizeof recorder.spool) {
        append_text(recorder.spool, 0, sizeof recorder.spool, spool);
        recorder.control = map_control();
        map_state();
    }
    if (recorder.process) {
        flag_zeroed_data();
        have_thread_key = !pthread_key_create(&thread_key, thread_destructor);
        uint64_t signals;
        store_release(&recorder.ready, 1);
        block_signals(&signals);
        thread_acquire(true);
        if (recorder.process->alive)
            record_allocator();
        restore_signals(&signals);
        pthread_atfork(before_fork, after_fork, forked_child);
        on_exit(exiting, NULL);
        install_mark_signal();
    } else {
        store_release(&recorder.ready, 2);
    }
    errno = error;
    return recorder.ready == 1;
}

static bool recorder_ready(void)
{
    uint32_t ready = load_acquire(&recorder.ready);
    return ready == 1 || (ready == 0 && begin());
}

__attribute__((constructor(101))) static void constructed(void) { begin(); }

EXPORT int dlclose(void *handle)
{
    static int (*next_dlclose)(void *);
    if (!next_dlclose)
        next_dlclose = (int (*)(void *))dlsym(RTLD_NEXT, "dlclose");
    int result = next_dlclose(handle);
    if (load_acquire(&recorder.ready) == 1 && recorder.process->alive && !recorder.cut && recorder.depth) {
        uint64_t signals;
        block_signals(&signals);
        lock(&recorder.modules_lock);
        modules_after_unload();
        unlock(&recorder.modules_lock);
        restore_signals(&signals);
    }
    return result;
}

static void mark(const char *name, uintptr_t sp)
{
    size_t bytes = strlen(name);
    if (bytes > HL_MARK_BYTES_MAX) {
        bytes = HL_MARK_BYTES_MAX;
        if (recorder_ready())
            lose(HL_LOST_MARK_LONG);
    }
    uint64_t words = 2 + (bytes + 7) / 8, *to;
    struct thread *t = enter(words, sp);
    to = t ? room(t) : enter_nested(words);
    if (!to)
        return;
    to[0] = counter() << 4 | HL_MARK;
    to[words - 1] = 0;
    to[1] = bytes;
    memcpy(to + 2, name, bytes);
    if (t)
        leave(t, words);
    else
        leave_nested(words);
}
