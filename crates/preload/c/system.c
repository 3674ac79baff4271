/* System calls without libc's wrappers: the wrappers are cancellation points, the target may
   interpose them, and some allocate. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "arch.h"

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* Returns the result or the negative errno; leaves errno alone. For calls of the program itself,
   and for ending what was begun. */
static long sys_always(long number, long a, long b, long c, long d, long e, long f)
{
#if defined(__x86_64__)
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
#else
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;
    __asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
    return x0;
#endif
}

/* The same for the recorder's own calls: in a sandbox it makes none (sandbox.c). */
static long sys(long number, long a, long b, long c, long d, long e, long f)
{
    return load_relaxed(&recorder.sandboxed) ? -EPERM : sys_always(number, a, b, c, d, e, f);
}

static bool failed(long result) { return (unsigned long)result > -4096ul; }

/* Anonymous memory; NULL: none. `advice` is about fork. */
static void *map_private(size_t bytes, int advice)
{
    long result = sys(SYS_mmap, 0, (long)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (failed(result))
        return NULL;
    if (advice)
        sys(SYS_madvise, result, (long)bytes, advice, 0, 0, 0);
    /* readers of /proc/PID/smaps tell the recorder's memory by this flag and MAP_NORESERVE's */
    sys(SYS_madvise, result, (long)bytes, MADV_DONTDUMP, 0, 0, 0);
    return (void *)result;
}

/* The linker's names of where zeroed data begins and ends. */
extern uint8_t __bss_start[] __attribute__((visibility("hidden"))), _end[] __attribute__((visibility("hidden")));

/* Flags the recorder's pages of zeroed data, which the loader has mapped. Without the flag the
 * kernel joins them with a mapping of the program's behind them, and /proc/PID/smaps shows one. */
static void flag_zeroed_data(void)
{
    size_t start = round_to_page((uintptr_t)__bss_start), end = round_to_page((uintptr_t)_end);
    if (start < end)
        sys(SYS_madvise, (long)start, (long)(end - start), MADV_DONTDUMP, 0, 0, 0);
}

/* Gives an open file its size. Beyond the target's limit (ulimit -f) the kernel refuses and also
   sends SIGXFSZ. */
static long resize_file(int fd, uint64_t bytes)
{
    struct {
        uint64_t now, most;
    } limit;
    long result = sys(SYS_prlimit64, 0, RLIMIT_FSIZE, 0, (long)&limit, 0, 0);
    if (!failed(result) && bytes > limit.now)
        return -EFBIG;
    return sys(SYS_ftruncate, fd, (long)bytes, 0, 0, 0, 0);
}

/* Backs pages of a file's mapping with memory and with blocks (or a promise of blocks) now, where
 * lack of space is an error and not a SIGBUS later. -EINVAL: kernels before 5.14 lack the call. */
static long populate_now(void *start, size_t bytes)
{
    return sys(SYS_madvise, (long)start, (long)bytes, MADV_POPULATE_WRITE, 0, 0, 0);
}

/* The same for a file with reserved blocks, which works without populate_now(). */
static bool populate(void *start, size_t bytes)
{
    long result = populate_now(start, bytes);
    return !failed(result) || result == -EINVAL;
}

/* Reserves all blocks of a file, if the file system can. */
static long reserve_file(int fd, uint64_t bytes)
{
    long result = sys(SYS_fallocate, fd, 0, 0, (long)bytes, 0, 0);
    return result == -EOPNOTSUPP || result == -ENOSYS ? 0 : result;
}

/* Advises the kernel not to read ahead in a mapping that only this process uses. At the first touch
 * the kernel would read up to some MB of zeros, which takes longer than a short process. */
static void advise_shared(void *start, size_t bytes)
{
    sys(SYS_madvise, (long)start, (long)bytes, MADV_DONTFORK, 0, 0, 0);
    sys(SYS_madvise, (long)start, (long)bytes, MADV_RANDOM, 0, 0, 0);
}

static bool try_lock(uint32_t *word) { return __atomic_exchange_n(word, 1, __ATOMIC_ACQUIRE) == 0; }

static void lock(uint32_t *word)
{
    for (unsigned tries = 0; !try_lock(word); tries++) {
        if (tries < 64)
            spin_pause();
        else
            sys(SYS_sched_yield, 0, 0, 0, 0, 0, 0);
    }
}

static void spin(unsigned times)
{
    while (times--)
        spin_pause();
}

static void unlock(uint32_t *word) { store_release(word, 0); }

#define NOT_BLOCKED (~0ull) /* no mask from the kernel: SIGKILL is in none */

/* In a sandbox signals stay open. Code that takes a lock there must be able to do without it,
   because a handler may have struck its owner. */
static void block_signals(uint64_t *old)
{
    *old = NOT_BLOCKED;
    /* SIGSEGV and its kin stay open: a fault must kill under its own name */
    uint64_t all = ~(1ull << (SIGSEGV - 1) | 1ull << (SIGBUS - 1) | 1ull << (SIGILL - 1) | 1ull << (SIGFPE - 1) | 1ull << (SIGTRAP - 1));
    sys(SYS_rt_sigprocmask, SIG_SETMASK, (long)&all, (long)old, sizeof all, 0, 0);
}

static void restore_signals(const uint64_t *old)
{
    if (*old != NOT_BLOCKED)
        sys_always(SYS_rt_sigprocmask, SIG_SETMASK, (long)old, 0, sizeof *old, 0, 0);
}

static size_t append_text(char *to, size_t at, size_t capacity, const char *text)
{
    while (*text && at + 1 < capacity)
        to[at++] = *text++;
    to[at] = 0;
    return at;
}

static size_t append_number(char *to, size_t at, size_t capacity, uint64_t number)
{
    char digits[24];
    unsigned i = sizeof digits;
    digits[--i] = 0;
    do
        digits[--i] = (char)('0' + number % 10);
    while (number /= 10);
    return append_text(to, at, capacity, digits + i);
}

static const char *hexadecimal(const char *text, uint64_t *value)
{
    for (*value = 0;; text++) {
        unsigned digit = *text >= '0' && *text <= '9' ? (unsigned)(*text - '0') : *text >= 'a' && *text <= 'f' ? (unsigned)(*text - 'a' + 10) : 16;
        if (digit == 16)
            return text;
        *value = *value << 4 | digit;
    }
}

/* "start-end rwxp offset major:minor inode   name" */
static bool parse_mapping(const char *line, struct mapping *m)
{
    uint64_t value;
    line = hexadecimal(line, &value);
    m->start = value;
    if (*line++ != '-')
        return false;
    line = hexadecimal(line, &value);
    m->end = value;
    if (*line++ != ' ')
        return false;
    m->readable = line[0] == 'r';
    m->executable = line[0] && line[1] && line[2] == 'x';
    for (int i = 0; i < 5; i++)
        if (!*line++)
            return false;
    line = hexadecimal(line, &m->offset);
    for (int spaces = 0; spaces < 2; line++) {
        if (!*line)
            return false;
        spaces += *line == ' ';
    }
    for (m->inode = 0; *line >= '0' && *line <= '9'; line++)
        m->inode = m->inode * 10 + (uint64_t)(*line - '0');
    while (*line == ' ')
        line++;
    append_text(m->name, 0, sizeof m->name, line);
    m->stack = m->name[0] == '[' && m->name[1] == 's' && m->name[2] == 't';
    return true;
}

/* Visits the lines of /proc/self/maps; false if the file cannot be read. Takes no lock that the
 * target knows, unlike dl_iterate_phdr. */
static bool visit_mappings(mapping_visitor visitor, void *context)
{
    char buffer[2048];
    struct mapping mapping;
    size_t held = 0;
    long fd = sys(SYS_openat, AT_FDCWD, (long)"/proc/self/maps", O_RDONLY | O_CLOEXEC, 0, 0, 0);
    if (failed(fd))
        return false;
    for (bool more = true, any = false; more;) {
        long got = sys(SYS_read, fd, (long)(buffer + held), (long)(sizeof buffer - 1 - held), 0, 0, 0);
        if (!got && !any) { /* /proc/self/maps is empty once the process's first thread has ended */
            sys_always(SYS_close, fd, 0, 0, 0, 0, 0);
            fd = sys(SYS_openat, AT_FDCWD, (long)"/proc/thread-self/maps", O_RDONLY | O_CLOEXEC, 0, 0, 0);
            if (failed(fd))
                return false;
            any = true;
            continue;
        }
        if (got <= 0)
            break;
        any = true;
        held += (size_t)got;
        size_t line = 0;
        for (size_t i = 0; i < held && more; i++) {
            if (buffer[i] != '\n')
                continue;
            buffer[i] = 0;
            more = !parse_mapping(buffer + line, &mapping) || visitor(&mapping, context);
            line = i + 1;
        }
        held -= line;
        if (held == sizeof buffer - 1)
            held = 0; /* a path longer than the buffer: skip its line */
        for (size_t i = 0; i < held; i++)
            buffer[i] = buffer[line + i];
    }
    sys_always(SYS_close, fd, 0, 0, 0, 0, 0);
    return true;
}
