/* Rings: how far a thread may write, waiting for room, and making a ring. The producer keeps the
 * consumer's tail as part of its limit and reads the shared one only when it reaches the limit. */
#include <time.h>
#include "arch.h"

struct recorder recorder;

#define WAIT_NS_MIN 20000
#define WAIT_NS_MAX 1000000
#define WAIT_SPINS 4096 /* for threads that cannot sleep */
/* waits between two checks of the drainer's lock and of this image's .unread file */
#define CHECK_DRAINER_COUNT 64

/* Bytes of a ring's data that get memory at first; more follow as the thread writes. */
#define RING_BYTES_FIRST (4u << 10)

/* Whether the drainer still holds its lock on the control file. */
COLD static bool drainer_lives(void)
{
    if (load_relaxed(&recorder.sandboxed))
        return drainer_ticks();
    char path[sizeof recorder.spool + 16];
    append_text(path, append_text(path, 0, sizeof path, recorder.spool), sizeof path, "/control");
    long fd = sys(SYS_openat, AT_FDCWD, (long)path, O_RDWR | O_CLOEXEC, 0, 0, 0);
    if (!failed(fd)) {
        struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        long result = sys(SYS_fcntl, fd, F_OFD_GETLK, (long)&whole, 0, 0, 0);
        sys_always(SYS_close, fd, 0, 0, 0, 0, 0);
        if (!failed(result))
            return whole.l_type != F_UNLCK;
    }
    return sys(SYS_kill, (long)recorder.control->drainer_pid, 0, 0, 0, 0, 0) != -ESRCH;
}

/* Whether the drainer has marked this image's files as unreadable. */
COLD static bool is_unread(void)
{
    struct spool_path path;
    spool_path(&path, recorder.pid, recorder.seq, ".unread", -1);
    return !failed(sys(SYS_faccessat, AT_FDCWD, (long)path.text, F_OK, 0, 0, 0));
}

/* The end of a lap, where the data wrap. Records are written in one piece, so none crosses it. */
static uint64_t lap_end(const struct thread *t) { return (t->head | t->mask) + 1; }

/* The end of the words that the thread may write: the drainer's unread words, the end of the lap,
 * and on the first lap the end of the backed memory. */
static uint64_t limit_now(const struct thread *t)
{
    uint64_t limit = load_acquire(&t->ring->tail) + t->mask + 1, end = lap_end(t);
    if (t->backed_words <= t->mask && limit > t->backed_words)
        limit = t->backed_words;
    return limit < end ? limit : end;
}

static void pad(uint64_t *to, uint64_t words)
{
    uint64_t stamp = counter() << 4 | HL_PAD;
    while (words--)
        *to++ = stamp;
}

/* Doubles the backed part of the ring's data. False: no memory left. */
COLD static bool back_more(struct thread *t, uint64_t words)
{
    uint64_t all = t->mask + 1, now = t->backed_words, then = 2 * now;
    while (then < t->head + words)
        then *= 2;
    if (then > all)
        then = all;
    /* already there */
    if (!populate(t->data + now, (then - now) * 8) && !load_acquire(&recorder.sandboxed))
        return false;
    t->backed_words = then;
    return true;
}

/* Recording was cut. Takes back what was filled: the room from before may be promised to an event
   without its stack. */
static bool no_room(struct thread *t, uint64_t head)
{
    t->head = head;
    t->held_limit = limit_now(t);
    return false;
}

/* Waits until the ring has room for `words`. False: recording was cut. Signal handlers may run and
   allocate. */
COLD static bool wait_for_room(struct thread *t, uint64_t words)
{
    const uint64_t began = counter(), head = t->head;
    struct timespec pause_time = {0, WAIT_NS_MIN};
    for (unsigned count = 1;; count++) {
        t->held_limit = limit_now(t);
        if (t->head + words <= t->held_limit)
            return true;
        if (load_relaxed(&recorder.cut))
            return no_room(t, head);
        if (t->held_limit == lap_end(t)) { /* too near the end: the record begins the next lap */
            uint64_t left = t->held_limit - t->head;
            pad(t->data + (t->head & t->mask), left);
            t->head += left; /* published together with the record */
            continue;
        }
        if (t->backed_words <= t->mask) {
            if (!back_more(t, words)) {
                process_cut(HL_CUT_NO_SPACE, began);
                return no_room(t, head);
            }
            continue;
        }
        if (load_relaxed(&recorder.control->state) == HL_CONTROL_STOPPED) {
            process_cut(HL_CUT_STOPPED, began);
            return no_room(t, head);
        }
        if (load_relaxed(&recorder.process->file->left)) {
            process_cut(HL_CUT_LEFT, began);
            return no_room(t, head);
        }
        if (count % CHECK_DRAINER_COUNT == 0) {
            bool lives = drainer_lives();
            if (!lives || is_unread()) {
                process_cut(lives ? HL_CUT_UNREAD : HL_CUT_DRAINER_DEAD, began);
                return no_room(t, head);
            }
        }
        if (failed(sys(SYS_nanosleep, (long)&pause_time, 0, 0, 0, 0, 0)))
            spin(WAIT_SPINS);
        if (pause_time.tv_nsec < WAIT_NS_MAX)
            pause_time.tv_nsec *= 2;
    }
}

static size_t round_to_page(size_t bytes) { return (bytes + recorder.page - 1) & ~((size_t)recorder.page - 1); }

/* Bytes of a new ring's data that get memory at once. */
static uint64_t ring_first_bytes(void)
{
    uint64_t first = round_to_page(RING_BYTES_FIRST), data = recorder.control->ring_bytes;
    return first < data ? first : data;
}

/* Fills a ring's header: `data_bytes` of data lie at `data_at` of its file, and the nested ring's
   data behind them. */
static void ring_describe(struct hl_ring *ring, uint32_t number, uint64_t data_at, uint64_t data_bytes)
{
    ring->version = HL_VERSION;
    ring->number = number;
    ring->pid = recorder.pid;
    ring->seq = recorder.seq;
    ring->data_offset = data_at;
    ring->data_bytes = data_bytes;
    ring->nested_offset = data_at + ring->data_bytes;
    ring->nested_bytes = recorder.control->nested_bytes;
    store_release(&ring->magic, HL_RING_MAGIC);
}

/* Makes a ring's file; NULL: failed. An existing file of this name stays unchanged: it may be
   another thread's ring. */
static uint8_t *ring_file(uint32_t number, bool *whole)
{
    uint64_t bytes = recorder.page + recorder.control->ring_bytes + recorder.control->nested_bytes;
    long error;
    int fd = spool_open(recorder.pid, recorder.seq, ".ring", number, O_RDWR | O_CREAT | O_EXCL);
    uint8_t *area = map_file(fd, bytes, recorder.page + ring_first_bytes(), bytes, whole, &error);
    if (!area) {
        if (fd >= 0) /* the next try uses the same name */
            spool_remove(recorder.pid, recorder.seq, ".ring", number);
        refuse(HL_STEP_RING_FILE, error);
        return NULL;
    }
    ring_describe((struct hl_ring *)area, number, recorder.page, recorder.control->ring_bytes);
    return area;
}

/* Gives the thread a new ring. The process's first ring lies in the process file, which exists. */
static bool ring_make(struct thread *t, struct process *p, bool is_first)
{
    struct hl_process *file = p->file;
    bool whole = p->whole;
    uint8_t *area = is_first ? (uint8_t *)file : ring_file(p->ring_count, &whole);
    if (!area)
        return false;
    t->ring = is_first ? &file->first_ring : (struct hl_ring *)area;
    t->data = (uint64_t *)(area + recorder.page);
    t->mask = (is_first ? recorder.control->first_ring_bytes : recorder.control->ring_bytes) / 8 - 1;
    t->nested_data = t->data + t->mask + 1;
    t->nested_words = recorder.control->nested_bytes / 8;
    t->backed_words = whole ? t->mask + 1 : ring_first_bytes() / 8;
    t->nested_backed = whole;
    if (!is_first) {
        store_release(&file->ring_count, ++p->ring_count);
        announce();
    }
    return true;
}
