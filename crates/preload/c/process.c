/* The process file: made when an image begins, appended to when the recorder learns something about
 * the process, marked when recording is cut short. layout.h describes its contents. */
#include <sys/auxv.h>
#include <time.h>
#include "arch.h"

/* the C library's, which needs no system call; NULL: another library stands in front of it */
static int (*next_clock)(clockid_t, struct timespec *);

/* counter just before the fork of this thread; 0: not in a fork */
static __thread uint64_t fork_counter;
/* the kernel's clock of process starts at that moment; 0: unknown */
static __thread uint64_t fork_ticks;

#ifndef RECORDS_CAPACITY
#define RECORDS_CAPACITY (8u << 20) /* besides the records on the page with the header */
#endif
#define RECORDS_RESERVED_BYTES (64u << 10) /* on kernels that cannot give memory on demand */
#define RECORDS_CHUNK_PAGES 2 /* pages of the second area that get memory at a time */

static void refuse(uint32_t step, long error)
{
    struct hl_control *control = recorder.control;
    if (!control)
        return;
    store_relaxed(&control->refused_pid, step == HL_STEP_SANDBOX ? recorder.pid : (uint32_t)sys(SYS_getpid, 0, 0, 0, 0, 0, 0));
    store_relaxed(&control->refused_errno, (uint32_t)-error);
    store_relaxed(&control->refused_step, step);
    __atomic_fetch_add(&control->refused, 1, __ATOMIC_RELEASE);
}

static void lose(uint32_t reason)
{
    if (recorder.process && recorder.process->file)
        add_relaxed(&recorder.process->file->lost[reason], 1);
}

static void announce(void)
{
    if (recorder.control)
        __atomic_fetch_add(&recorder.control->announced, 1, __ATOMIC_RELEASE);
}

/* SPOOL/PID-SEQ[-NUMBER]SUFFIX. */
struct spool_path {
    char text[sizeof recorder.spool + 64];
};

static void spool_path(struct spool_path *path, uint32_t pid, uint32_t seq, const char *suffix, int64_t number)
{
    size_t capacity = sizeof path->text, at = append_text(path->text, 0, capacity, recorder.spool);
    at = append_text(path->text, at, capacity, "/");
    at = append_number(path->text, at, capacity, pid);
    at = append_text(path->text, at, capacity, "-");
    at = append_number(path->text, at, capacity, seq);
    if (number >= 0) {
        at = append_text(path->text, at, capacity, "-");
        at = append_number(path->text, at, capacity, (uint64_t)number);
    }
    append_text(path->text, at, capacity, suffix);
}

/* Opens such a file; returns a file descriptor or the negative errno. */
static int spool_open(uint32_t pid, uint32_t seq, const char *suffix, int64_t number, int flags)
{
    struct spool_path path;
    spool_path(&path, pid, seq, suffix, number);
    return (int)sys(SYS_openat, AT_FDCWD, (long)path.text, flags | O_CLOEXEC, 0600, 0, 0);
}

static void spool_remove(uint32_t pid, uint32_t seq, const char *suffix, int64_t number)
{
    struct spool_path path;
    spool_path(&path, pid, seq, suffix, number);
    sys(SYS_unlinkat, AT_FDCWD, (long)path.text, 0, 0, 0, 0);
}

/* Gives the open file its size, maps it for this process alone, backs its first bytes with memory,
 * and closes it. Most processes and threads write little, and memory behind a file costs time both
 * when given and when taken back. If the kernel cannot back part of a file, *whole says so, and
 * whole_bytes have their blocks. NULL: failed; *error says why. */
static uint8_t *map_file(int fd, uint64_t bytes, uint64_t first_bytes, uint64_t whole_bytes, bool *whole, long *error)
{
    *error = fd;
    if (fd < 0)
        return NULL;
    long result = resize_file(fd, bytes), map = result;
    if (!failed(result))
        result = map = sys(SYS_mmap, 0, (long)bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (!failed(map)) {
        advise_shared((void *)map, bytes);
        result = populate_now((void *)map, first_bytes);
        *whole = result == -EINVAL;
        if (*whole)
            result = reserve_file(fd, whole_bytes);
        else if (failed(result))
            result = -ENOSPC;
        if (failed(result))
            sys(SYS_munmap, map, (long)bytes, 0, 0, 0, 0);
    }
    sys_always(SYS_close, fd, 0, 0, 0, 0, 0);
    *error = result;
    return failed(result) ? NULL : (uint8_t *)map;
}

/* A process's parent and start time: fields 4 and 22 of /proc/PID/stat. */
struct birth {
    uint64_t ppid, ticks; /* ticks 0: unknown */
};

/* A field of /proc/self/stat, from the third on, counted from the last ')' (the name before may
   contain any byte). */
static uint64_t stat_field(const char *text, long bytes, int wanted)
{
    long i = bytes;
    uint64_t value = 0;
    while (i > 0 && text[i - 1] != ')')
        i--;
    for (int field = 2; i < bytes && field < wanted; i++)
        field += text[i] == ' ';
    for (; i < bytes && text[i] >= '0' && text[i] <= '9'; i++)
        value = value * 10 + (uint64_t)(text[i] - '0');
    return value;
}

static struct birth find_birth(void)
{
    char text[1024];
    long fd = sys(SYS_openat, AT_FDCWD, (long)"/proc/self/stat", O_RDONLY | O_CLOEXEC, 0, 0, 0), got = fd;
    if (!failed(fd)) {
        got = sys(SYS_read, fd, (long)text, sizeof text - 1, 0, 0, 0);
        sys_always(SYS_close, fd, 0, 0, 0, 0, 0);
    }
    if (failed(got))
        return (struct birth){(uint64_t)sys(SYS_getppid, 0, 0, 0, 0, 0, 0), 0};
    return (struct birth){stat_field(text, got, 4), stat_field(text, got, 22)};
}

/* Room for a record, and the count that publishes it; NULL: none left. The page with the header
 * takes the first records: a short process needs no other page. */
static uint8_t *records_room(struct process *p, uint32_t bytes, uint64_t **used)
{
    struct hl_process *file = p->file;
    if (!file->more_used && file->records_used + bytes <= file->records_capacity) {
        *used = &file->records_used;
        return (uint8_t *)file + file->records_offset + file->records_used;
    }
    uint8_t *area = (uint8_t *)file + file->more_offset;
    *used = &file->more_used;
    while (file->more_used + bytes > p->more_reserved && p->more_reserved < file->more_capacity &&
           populate(area + p->more_reserved, RECORDS_CHUNK_PAGES * recorder.page))
        p->more_reserved += RECORDS_CHUNK_PAGES * recorder.page;
    return file->more_used + bytes <= p->more_reserved ? area + file->more_used : NULL;
}

/* Appends a record: a head of payload_bytes in all, then two texts. Signals are blocked. */
static void record_append(struct hl_record *head, const void *payload, uint32_t payload_bytes, const void *text1, uint32_t bytes1,
                          const void *text2, uint32_t bytes2)
{
    struct process *p = recorder.process;
    uint32_t bytes = (payload_bytes + bytes1 + bytes2 + 7) & ~7u;
    head->bytes = bytes;
    head->counter = counter();
    lock(&p->records_lock);
    uint64_t *used;
    uint8_t *to = records_room(p, bytes, &used);
    if (to) {
        memcpy(to, payload, payload_bytes);
        memcpy(to + payload_bytes, text1, bytes1);
        memcpy(to + payload_bytes + bytes1, text2, bytes2);
        store_release(used, *used + bytes);
    } else {
        lose(HL_LOST_RECORDS_FULL);
    }
    unlock(&p->records_lock);
}

static void record_text(uint32_t kind, const char *text, uint32_t bytes)
{
    struct hl_text record = {.head = {.kind = kind}, .text_bytes = bytes};
    record_append(&record.head, &record, sizeof record, text, bytes, "", 0);
}

/* The program and its arguments; kept, because a fork's child runs what its parent was started
   as. */
static struct {
    bool known;
    uint32_t executable_bytes, command_line_bytes;
    char executable[4096], command_line[4096];
} identity;

/* The stack's start as the dynamic linker found it: a word, then the program's arguments. */
extern void *stack_at_start __asm__("__libc_stack_end") __attribute__((weak));

static void find_arguments(void)
{
    uint32_t at = 0;
    char **words = &stack_at_start && stack_at_start ? (char **)stack_at_start + 1 : NULL;
    for (; words && *words; words++) {
        const char *text = *words;
        do
            if (at < sizeof identity.command_line)
                identity.command_line[at++] = *text;
        while (*text++);
    }
    identity.command_line_bytes = at;
}

static void find_identity(void)
{
    long got = sys(SYS_readlinkat, AT_FDCWD, (long)"/proc/self/exe", (long)identity.executable, sizeof identity.executable - 1, 0, 0);
    identity.executable_bytes = failed(got) ? 0 : (uint32_t)got;
    find_arguments();
    identity.known = true;
}

/* The kernel's clock of process starts, in the ticks of /proc; 0 if the clock may not be the
   kernel's. */
static uint64_t clock_ticks(void)
{
    struct timespec now;
    uint64_t hertz = getauxval(AT_CLKTCK);
    if (!next_clock || !hertz || 1000000000 % hertz || next_clock(CLOCK_BOOTTIME, &now))
        return 0;
    return (uint64_t)now.tv_sec * hertz + (uint64_t)now.tv_nsec / (1000000000 / hertz);
}

/* The birth of a process forked a moment ago: if the clock shows the same tick as before the fork,
   the process started in this tick. */
static struct birth find_birth_of_fork(void)
{
    uint64_t before = fork_ticks;
    if (!before || clock_ticks() != before)
        return find_birth();
    return (struct birth){(uint64_t)sys(SYS_getppid, 0, 0, 0, 0, 0, 0), before};
}

/* Whether image pid-seq belongs to the process that started at `ticks`: then the new image follows
   it by exec. */
static bool same_process(uint32_t pid, uint32_t seq, uint64_t ticks)
{
    struct hl_process before;
    int fd = spool_open(pid, seq, ".process", -1, O_RDONLY);
    if (fd < 0)
        return false;
    long got = sys(SYS_pread64, fd, (long)&before, sizeof before, 0, 0, 0);
    sys_always(SYS_close, fd, 0, 0, 0, 0, 0);
    return got == (long)sizeof before && ticks && before.start_ticks == ticks;
}

/* Makes the file of a new image. False: the image cannot be recorded; the control page then says
   so. Signals are blocked. */
static bool process_begin(uint32_t began)
{
    struct process *p = recorder.process;
    if (!drainer_ticks() && !drainer_lives())
        return false; /* nobody would read it */
    uint32_t pid = (uint32_t)sys(SYS_getpid, 0, 0, 0, 0, 0, 0), seq = 0;
    int fd;
    while ((fd = spool_open(pid, seq, ".process", -1, O_RDWR | O_CREAT | O_EXCL)) == -EEXIST)
        seq++;
    struct birth birth = began == HL_BEGAN_FORK ? find_birth_of_fork() : find_birth();
    if (began == HL_BEGAN_STARTED && seq > 0 && same_process(pid, seq - 1, birth.ticks))
        began = HL_BEGAN_EXEC;
    uint64_t data_at = recorder.page, more_at = data_at + recorder.control->first_ring_bytes + recorder.control->nested_bytes;
    long error;
    struct hl_process *file = (struct hl_process *)map_file(fd, more_at + RECORDS_CAPACITY, data_at + ring_first_bytes(),
                                                            more_at + RECORDS_RESERVED_BYTES, &p->whole, &error);
    if (!file) {
        refuse(HL_STEP_PROCESS_FILE, error);
        return false;
    }
    file->version = HL_VERSION;
    file->pid = pid;
    file->seq = seq;
    file->ppid = (uint32_t)birth.ppid;
    file->began = began;
    file->parent_pid = began == HL_BEGAN_FORK ? recorder.pid : 0;
    file->parent_seq = began == HL_BEGAN_FORK ? recorder.seq : 0;
    file->architecture = HL_ARCHITECTURE;
    file->start_ticks = birth.ticks;
    /* The child's heap is the parent's at the fork; the parent has gone on since. */
    file->begin_counter = began == HL_BEGAN_FORK && fork_counter ? fork_counter : counter();
    file->cut_counter = UINT64_MAX;
    file->page_bytes = recorder.page;
    file->records_offset = sizeof *file;
    file->records_capacity = recorder.page - sizeof *file;
    file->more_offset = more_at;
    file->more_capacity = RECORDS_CAPACITY;
    file->state = HL_PROCESS_RECORDING;
    file->ring_count = p->ring_count = 1;
    p->file = file;
    p->more_reserved = 0;
    recorder.pid = pid;
    recorder.seq = seq;
    ring_describe(&file->first_ring, 0, data_at, recorder.control->first_ring_bytes);
    if (!identity.known)
        find_identity();
    record_text(HL_RECORD_EXECUTABLE, identity.executable, identity.executable_bytes);
    record_text(HL_RECORD_COMMAND_LINE, identity.command_line, identity.command_line_bytes);
    recorder.modules_lock = 0; /* another thread of the parent may have held the lock at the fork */
    modules_record_again();
    python_record_again();
    store_release(&file->magic, HL_PROCESS_MAGIC);
    store_release(&p->alive, 1);
    announce();
    return true;
}

/* Ends recording for good. Several threads may find the drainer gone: the earliest moment counts,
 * because the recording is complete only up to there. */
static void process_cut(uint32_t reason, uint64_t when)
{
    struct hl_process *file = recorder.process->file;
    store_release(&recorder.cut, 1);
    if (!file)
        return;
    uint64_t before = load_relaxed(&file->cut_counter);
    while (when < before && !__atomic_compare_exchange_n(&file->cut_counter, &before, when, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
    store_relaxed(&file->cut_reason, reason);
    store_release(&file->state, HL_PROCESS_CUT);
}
