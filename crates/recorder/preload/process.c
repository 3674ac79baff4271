/* The process file: made when an image begins, appended to when something about the process is learned, marked when recording
 * is cut short. See layout.h for what it holds. */
#include "arch.h"

#ifndef RECORDS_CAPACITY
#define RECORDS_CAPACITY (8u << 20) /* besides the page with the header */
#endif
#define RECORDS_RESERVED_BYTES (64u << 10) /* where memory cannot be asked for as it is needed */
#define RECORDS_CHUNK_PAGES 2 /* that get memory at a time, after the first page, which holds the header too */

static void refuse(uint32_t step, long error)
{
    struct hl_control *control = recorder.control;
    if (!control)
        return;
    store_relaxed(&control->refused_pid, (uint32_t)sys(SYS_getpid, 0, 0, 0, 0, 0, 0));
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

/* Opens SPOOL/PID-SEQ[-NUMBER]SUFFIX; a file descriptor or the negative errno. */
static int spool_open(uint32_t pid, uint32_t seq, const char *suffix, int64_t number, int flags)
{
    char path[sizeof recorder.spool + 64];
    size_t at = append_text(path, 0, sizeof path, recorder.spool);
    at = append_text(path, at, sizeof path, "/");
    at = append_number(path, at, sizeof path, pid);
    at = append_text(path, at, sizeof path, "-");
    at = append_number(path, at, sizeof path, seq);
    if (number >= 0) {
        at = append_text(path, at, sizeof path, "-");
        at = append_number(path, at, sizeof path, (uint64_t)number);
    }
    append_text(path, at, sizeof path, suffix);
    return (int)sys(SYS_openat, AT_FDCWD, (long)path, flags | O_CLOEXEC, 0600, 0, 0);
}

/* Gives the open file its size, maps it for this process alone, puts memory behind its first bytes, and closes it. NULL where that fails;
 * *error says why. */
static void *map_file(int fd, uint64_t bytes, uint64_t first_bytes, long *error)
{
    long result = resize_file(fd, bytes), map = result;
    if (!failed(result))
        result = map = sys(SYS_mmap, 0, (long)bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (!failed(map)) {
        advise_shared((void *)map, bytes);
        result = populate_now((void *)map, first_bytes);
        if (result == -EINVAL)
            result = reserve_file(fd, RECORDS_RESERVED_BYTES);
        else if (failed(result))
            result = -ENOSPC;
        if (failed(result))
            sys(SYS_munmap, map, (long)bytes, 0, 0, 0, 0);
    }
    sys(SYS_close, fd, 0, 0, 0, 0, 0);
    *error = result;
    return failed(result) ? NULL : (void *)map;
}

/* Field 22 of /proc/self/stat, behind the last ')' (the name may hold any). */
static uint64_t start_ticks(void)
{
    char text[1024];
    long fd = sys(SYS_openat, AT_FDCWD, (long)"/proc/self/stat", O_RDONLY | O_CLOEXEC, 0, 0, 0);
    if (failed(fd))
        return 0;
    long got = sys(SYS_read, fd, (long)text, sizeof text - 1, 0, 0, 0);
    sys(SYS_close, fd, 0, 0, 0, 0, 0);
    long i = got;
    while (i > 0 && text[i - 1] != ')')
        i--;
    uint64_t ticks = 0;
    for (int field = 2; i < got && field < 22; i++)
        field += text[i] == ' ';
    for (; i < got && text[i] >= '0' && text[i] <= '9'; i++)
        ticks = ticks * 10 + (uint64_t)(text[i] - '0');
    return ticks;
}

/* Appends a record: head, payload_bytes of it in all, then two texts. Signals are blocked. */
static void record_append(struct hl_record *head, const void *payload, uint32_t payload_bytes, const void *text1, uint32_t bytes1,
                          const void *text2, uint32_t bytes2)
{
    struct process *p = recorder.process;
    uint32_t bytes = (payload_bytes + bytes1 + bytes2 + 7) & ~7u;
    head->bytes = bytes;
    head->counter = counter();
    lock(&p->records_lock);
    uint64_t used = p->file->records_used;
    uint8_t *area = (uint8_t *)p->file + p->file->records_offset;
    while (used + bytes > p->records_reserved && p->records_reserved < p->file->records_capacity &&
           populate(area + p->records_reserved, RECORDS_CHUNK_PAGES * recorder.page))
        p->records_reserved += RECORDS_CHUNK_PAGES * recorder.page;
    if (used + bytes > p->records_reserved) {
        lose(HL_LOST_RECORDS_FULL);
    } else {
        memcpy(area + used, payload, payload_bytes);
        memcpy(area + used + payload_bytes, text1, bytes1);
        memcpy(area + used + payload_bytes + bytes1, text2, bytes2);
        store_release(&p->file->records_used, used + bytes);
    }
    unlock(&p->records_lock);
}

static void record_text(uint32_t kind, const char *text, uint32_t bytes)
{
    struct hl_text record = {.head = {.kind = kind}, .text_bytes = bytes};
    record_append(&record.head, &record, sizeof record, text, bytes, "", 0);
}

/* Which program this is, with what arguments: a fork's child is what its parent was started as. */
static struct {
    bool known;
    uint32_t executable_bytes, command_line_bytes;
    char executable[4096], command_line[4096];
} identity;

static void find_identity(void)
{
    long got = sys(SYS_readlinkat, AT_FDCWD, (long)"/proc/self/exe", (long)identity.executable, sizeof identity.executable - 1, 0, 0);
    identity.executable_bytes = failed(got) ? 0 : (uint32_t)got;
    long fd = sys(SYS_openat, AT_FDCWD, (long)"/proc/self/cmdline", O_RDONLY | O_CLOEXEC, 0, 0, 0);
    got = failed(fd) ? 0 : sys(SYS_read, fd, (long)identity.command_line, sizeof identity.command_line, 0, 0, 0);
    if (!failed(fd))
        sys(SYS_close, fd, 0, 0, 0, 0, 0);
    identity.command_line_bytes = failed(got) ? 0 : (uint32_t)got;
    identity.known = true;
}

/* Whether image pid-seq is of the process that started at `ticks`: then what begins now was exec'd over it. */
static bool same_process(uint32_t pid, uint32_t seq, uint64_t ticks)
{
    struct hl_process before;
    int fd = spool_open(pid, seq, ".process", -1, O_RDONLY);
    if (fd < 0)
        return false;
    long got = sys(SYS_pread64, fd, (long)&before, sizeof before, 0, 0, 0);
    sys(SYS_close, fd, 0, 0, 0, 0, 0);
    return got == (long)sizeof before && ticks && before.start_ticks == ticks;
}

/* Makes the files of a new image. False where it cannot be recorded, which is then said in the control page. Signals are blocked. */
static bool process_begin(uint32_t began)
{
    struct process *p = recorder.process;
    uint32_t pid = (uint32_t)sys(SYS_getpid, 0, 0, 0, 0, 0, 0), seq = 0;
    int fd;
    while ((fd = spool_open(pid, seq, ".process", -1, O_RDWR | O_CREAT | O_EXCL)) == -EEXIST)
        seq++;
    long error = fd;
    uint64_t ticks = start_ticks();
    if (began == HL_BEGAN_STARTED && seq > 0 && same_process(pid, seq - 1, ticks))
        began = HL_BEGAN_EXEC;
    const uint32_t header = (sizeof(struct hl_process) + 7) & ~7u;
    struct hl_process *file = fd < 0 ? NULL : map_file(fd, recorder.page + RECORDS_CAPACITY, recorder.page, &error);
    if (!file) {
        refuse(HL_STEP_PROCESS_FILE, error);
        return false;
    }
    file->version = HL_VERSION;
    file->pid = pid;
    file->seq = seq;
    file->ppid = (uint32_t)sys(SYS_getppid, 0, 0, 0, 0, 0, 0);
    file->began = began;
    file->parent_pid = began == HL_BEGAN_FORK ? recorder.pid : 0;
    file->parent_seq = began == HL_BEGAN_FORK ? recorder.seq : 0;
    file->architecture = HL_ARCHITECTURE;
    file->start_ticks = ticks;
    /* What lives in the child is what lived in the parent at the fork; the parent has gone on since. */
    file->begin_counter = began == HL_BEGAN_FORK && recorder.fork_counter ? recorder.fork_counter : counter();
    file->cut_counter = UINT64_MAX;
    file->page_bytes = recorder.page;
    file->records_offset = header;
    file->records_capacity = recorder.page + RECORDS_CAPACITY - header; /* all of the file: memory is given by pages of it */
    file->state = HL_PROCESS_RECORDING;
    p->file = file;
    p->records_reserved = recorder.page - header;
    if (!identity.known)
        find_identity();
    record_text(HL_RECORD_EXECUTABLE, identity.executable, identity.executable_bytes);
    record_text(HL_RECORD_COMMAND_LINE, identity.command_line, identity.command_line_bytes);
    recorder.pid = pid;
    recorder.seq = seq;
    recorder.modules_lock = 0; /* another thread of the parent may have held it at the fork */
    modules_record_again();
    store_release(&file->magic, HL_PROCESS_MAGIC);
    store_release(&p->alive, 1);
    announce();
    return true;
}

/* Ends recording for good. Several threads may find the drainer gone: the earliest moment counts, because what is complete is
 * complete only up to there. */
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
