/* Programs that the target starts. A static program, one of another C library, or one of raised
 * privileges does not load this object and reports nothing, and most have ended before anybody
 * could look. So the hooks here append a line to the spool's file `execs` (layout.h) before each
 * start. Finishing compares these lines with the recorded images.
 *
 * These hooks run in signal handlers, in children of vfork and of raw clone, on stacks that may be
 * small. They use system calls, local variables, and one shared text (struct exec_text). The C
 * library starts the shell of system() and popen() by itself and keeps the shell's process number;
 * such lines name the parent. Not seen: the shell of wordexp(), and system calls made without the C
 * library. */
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include "arch.h"

#define EXEC_PATH_BYTES 1024
#define EXEC_LINE_BYTES 2048
#define EXEC_TEXT_BYTES_MAX (128u << 10)
/* Kinds of lines, with and without an environment that loads the recorder: of a process of known
   number, and of a child of it. */
#define OWN_LINE "en"
#define CHILD_LINE "cd"
#define SHELL "/bin/sh"

static struct {
    int (*execve)(const char *, char *const *, char *const *);
    int (*execv)(const char *, char *const *);
    int (*execvp)(const char *, char *const *);
    int (*execvpe)(const char *, char *const *, char *const *);
    int (*fexecve)(int, char *const *, char *const *);
    int (*execveat)(int, const char *, char *const *, char *const *, int);
    int (*posix_spawn)(pid_t *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *, char *const *, char *const *);
    int (*posix_spawnp)(pid_t *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *, char *const *, char *const *);
    int (*pidfd_spawn)(int *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *, char *const *, char *const *);
    int (*pidfd_spawnp)(int *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *, char *const *, char *const *);
    int (*system)(const char *);
    FILE *(*popen)(const char *, const char *);
} starters;
static long (*next_syscall)(long number, ...) __attribute__((used)); /* arch.h's entry of syscall() jumps there */

#define STARTER(name) starters.name = (__typeof__(starters.name))dlsym(RTLD_NEXT, #name)
#define VERSIONED_STARTER(name) starters.name = (__typeof__(starters.name))dlvsym(RTLD_NEXT, #name, "GLIBC_2.39")

static void resolve_starters(void)
{
    STARTER(execve);
    STARTER(execv);
    STARTER(execvp);
    STARTER(execvpe);
    STARTER(fexecve);
    STARTER(execveat);
    STARTER(posix_spawn);
    STARTER(posix_spawnp);
    VERSIONED_STARTER(pidfd_spawn);
    VERSIONED_STARTER(pidfd_spawnp);
    STARTER(system);
    STARTER(popen);
    next_syscall = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
}

/* Buffers for one line. The writer may have little stack: a child of clone() has as much as its
 * parent thinks exec needs, and its parent's memory lies below. So all writers share one, and use
 * the stack only while the shared one is taken. */
struct exec_text {
    char path[sizeof recorder.spool + 16];
    char line[EXEC_LINE_BYTES], whole[EXEC_PATH_BYTES], found[EXEC_PATH_BYTES];
};
static struct exec_text exec_text;
/* taken by trylock only: a handler may have struck its owner, or its owner was killed */
static uint32_t exec_text_lock;

/* Appends the first `bytes` of the line, whole or not at all. */
static void append_exec_line(struct exec_text *text, size_t bytes)
{
    char *path = text->path;
    const char *line = text->line;
    struct {
        uint64_t now, most;
    } limit;
    append_text(path, append_text(path, 0, sizeof text->path, recorder.spool), sizeof text->path, "/execs");
    long fd = sys(SYS_openat, AT_FDCWD, (long)path, O_WRONLY | O_APPEND | O_CLOEXEC, 0, 0, 0);
    if (failed(fd))
        return;
    /* Beyond the target's limit (ulimit -f) the kernel refuses the write and also sends SIGXFSZ. */
    long result = sys(SYS_prlimit64, 0, RLIMIT_FSIZE, 0, (long)&limit, 0, 0);
    long end = failed(result) || limit.now == UINT64_MAX ? 0 : sys(SYS_lseek, fd, 0, SEEK_END, 0, 0, 0);
    if (!failed(end) && !failed(result) && (uint64_t)end + (64u << 10) < limit.now)
        sys(SYS_write, fd, (long)line, (long)bytes, 0, 0, 0);
    sys_always(SYS_close, fd, 0, 0, 0, 0, 0);
}

/* "KIND COUNTER PID": the start of every line. */
static size_t exec_line(char *line, char kind, uint64_t when, uint64_t pid)
{
    char word[] = {kind, ' ', 0};
    size_t at = append_text(line, 0, EXEC_LINE_BYTES, word);
    at = append_number(line, at, EXEC_LINE_BYTES, when);
    at = append_text(line, at, EXEC_LINE_BYTES, " ");
    return append_number(line, at, EXEC_LINE_BYTES, pid);
}

/* Whether the memory at an address is readable. A program may hand the kernel any address and gets
 * EFAULT; the recorder must not crash on such an address. The check asks the kernel for a change of
 * the signal mask of an invalid kind: the kernel reads the mask first, then refuses. `*page` is the
 * page asked for last, 0 before. */
static bool is_readable(const void *at, uintptr_t *page)
{
    uintptr_t address = (uintptr_t)at & ~(uintptr_t)7, of = address & -(uintptr_t)recorder.page;
    if (of && of == *page)
        return true;
    if (!of || sys(SYS_rt_sigprocmask, -1, (long)address, 0, 8, 0, 0) == -EFAULT)
        return false;
    *page = of;
    return true;
}

/* The same for a text, up to its end or the kernel's longest path. */
static bool is_readable_text(const char *text, uintptr_t *page)
{
    for (size_t i = 0; i < EXEC_TEXT_BYTES_MAX; i++) {
        if (!is_readable(text + i, page))
            return false;
        if (!text[i])
            break;
    }
    return true;
}

/* Whether a program with this environment loads the recorder and knows the spool folder. */
static bool asks_for_recorder(char *const *environment)
{
    bool loads = false, told = false, is_own = environment == environ; /* surely readable */
    uintptr_t page = 0, text_page = 0;
    for (; environment; environment++) {
        if (!is_own && !is_readable(environment, &page))
            return false;
        const char *entry = *environment;
        if (!entry)
            break;
        if (!is_own && !is_readable_text(entry, &text_page))
            return false;
        if (!strncmp(entry, "LD_PRELOAD=", 11))
            loads = strstr(entry, "heaplab-preload-") != NULL;
        else if (!strncmp(entry, "HEAPLAB_SPOOL=", 14))
            told = !strcmp(entry + 14, recorder.spool);
    }
    return loads && told;
}

/* The folder from which process `pid` resolves a relative path: that of its descriptor `at`, or
 * (AT_FDCWD) its working directory. Returns the length of the folder's name; 0: unknown. */
static size_t folder_of(uint64_t pid, int at, char *folder, size_t capacity)
{
    char link[64];
    size_t end = append_text(link, 0, sizeof link, "/proc/");
    if (at != AT_FDCWD)
        append_number(link, append_text(link, end, sizeof link, "self/fd/"), sizeof link, (uint64_t)at);
    else
        append_text(link, append_number(link, end, sizeof link, pid), sizeof link, "/cwd");
    long got = sys(SYS_readlinkat, AT_FDCWD, (long)link, (long)folder, (long)capacity - 1, 0, 0);
    if (failed(got) && at == AT_FDCWD) /* it has ended already */
        got = sys(SYS_readlinkat, AT_FDCWD, (long)"/proc/self/cwd", (long)folder, (long)capacity - 1, 0, 0);
    folder[failed(got) ? 0 : got] = 0;
    return failed(got) ? 0 : (size_t)got;
}

/* Writes a line about the program at `path`, relative to the folder of descriptor `at` (or
 * AT_FDCWD). A path that is too long is cut; readers then do not find its program. `kinds`: the
 * line's kind with and without an environment that loads the recorder. */
static void note_exec(struct exec_text *text, const char *kinds, uint64_t when, uint64_t pid, int at, const char *path, char *const *environment)
{
    static const char digits[] = "0123456789ABCDEF";
    char *line = text->line, *whole = text->whole;
    size_t bytes = 0;
    if (path[0] != '/') {
        bytes = folder_of(pid, at, whole, sizeof text->whole);
        if (path[0])
            bytes = append_text(whole, bytes, sizeof text->whole, "/");
    }
    append_text(whole, bytes, sizeof text->whole, path);
    size_t end = exec_line(line, kinds[!asks_for_recorder(environment)], when, pid);
    line[end++] = ' ';
    for (const uint8_t *byte = (const uint8_t *)whole; *byte && end + 4 < sizeof text->line; byte++) {
        if (*byte > ' ' && *byte < 0x7f && *byte != '%') {
            line[end++] = (char)*byte;
        } else {
            line[end++] = '%';
            line[end++] = digits[*byte >> 4];
            line[end++] = digits[*byte & 15];
        }
    }
    line[end++] = '\n';
    append_exec_line(text, end);
}

static bool may_execute(const char *path)
{
    struct stat about;
    return !failed(sys(SYS_newfstatat, AT_FDCWD, (long)path, (long)&about, 0, 0, 0)) && S_ISREG(about.st_mode) && about.st_mode & 0111;
}

/* The file that execvp() will run for `file`; may point into `found`. NULL: none. */
static const char *searched(const char *file, char *found)
{
    const char *folders = "/bin:/usr/bin";
    if (!*file || strchr(file, '/'))
        return file;
    for (char **entry = environ; entry && *entry; entry++)
        if (!strncmp(*entry, "PATH=", 5))
            folders = *entry + 5;
    for (;; folders++) {
        size_t at = 0;
        for (; *folders && *folders != ':'; folders++)
            if (at + 2 < EXEC_PATH_BYTES)
                found[at++] = *folders;
        found[at] = 0;
        if (at)
            at = append_text(found, at, EXEC_PATH_BYTES, "/");
        append_text(found, at, EXEC_PATH_BYTES, file);
        if (may_execute(found))
            return found;
        if (!*folders)
            return NULL;
    }
}

/* The subject of a line: process `pid` (or a child of it) starts `path`, at `when`. NULL retracts
   the earlier line of `when` and `pid`: the exec failed. */
struct starting {
    const char *kinds;
    uint64_t when, pid;
    int at;
    const char *path;
    char *const *environment;
    bool search;
};

/* Returns whether a line was written. */
static bool note_with(struct exec_text *text, struct starting of)
{
    if (!of.path) {
        size_t end = exec_line(text->line, 'f', of.when, of.pid);
        text->line[end++] = '\n';
        append_exec_line(text, end);
        return true;
    }
    if (of.search && !(of.path = searched(of.path, text->found)))
        return false;
    note_exec(text, of.kinds, of.when, of.pid, of.at, of.path, of.environment);
    return true;
}

static __attribute__((noinline)) bool note_on_stack(struct starting of)
{
    struct exec_text text;
    return note_with(&text, of);
}

static bool note(struct starting of)
{
    if (!try_lock(&exec_text_lock))
        return note_on_stack(of);
    bool noted = note_with(&exec_text, of);
    unlock(&exec_text_lock);
    return noted;
}

static uint64_t own_number(void) { return (uint64_t)sys(SYS_getpid, 0, 0, 0, 0, 0, 0); }

static bool notes_starts(void) { return load_acquire(&recorder.ready) == 1 && !recorder.sandboxed; }

/* Writes the line of an exec that is about to happen. Returns its time; 0: nothing written. */
static uint64_t noted_exec(int at, const char *path, char *const *environment, bool search)
{
    __asm__("" : "+r"(path)); /* the compiler assumes that nobody passes NULL */
    uintptr_t page = 0;
    if (!notes_starts() || !is_readable_text(path, &page))
        return 0;
    uint64_t when = counter();
    return note((struct starting){OWN_LINE, when, own_number(), at, path, environment, search}) ? when : 0;
}

/* Retracts the line of an exec that failed. Returns `result` and keeps errno. */
static int not_started(int result, uint64_t when)
{
    if (when)
        note((struct starting){.when = when, .pid = own_number()});
    return result;
}

#define NEXT_STARTER(name, failure) \
    if (!starters.name) \
        STARTER(name); \
    if (!starters.name) { \
        errno = ENOSYS; \
        return failure; \
    }

EXPORT int execve(const char *path, char *const *arguments, char *const *environment)
{
    NEXT_STARTER(execve, -1);
    uint64_t when = noted_exec(AT_FDCWD, path, environment, false);
    return not_started(starters.execve(path, arguments, environment), when);
}

EXPORT int execv(const char *path, char *const *arguments)
{
    NEXT_STARTER(execv, -1);
    uint64_t when = noted_exec(AT_FDCWD, path, environ, false);
    return not_started(starters.execv(path, arguments), when);
}

EXPORT int execvp(const char *file, char *const *arguments)
{
    NEXT_STARTER(execvp, -1);
    uint64_t when = noted_exec(AT_FDCWD, file, environ, true);
    return not_started(starters.execvp(file, arguments), when);
}

EXPORT int execvpe(const char *file, char *const *arguments, char *const *environment)
{
    NEXT_STARTER(execvpe, -1);
    uint64_t when = noted_exec(AT_FDCWD, file, environment, true);
    return not_started(starters.execvpe(file, arguments, environment), when);
}

EXPORT int fexecve(int fd, char *const *arguments, char *const *environment)
{
    NEXT_STARTER(fexecve, -1);
    uint64_t when = noted_exec(fd, "", environment, false);
    return not_started(starters.fexecve(fd, arguments, environment), when);
}

EXPORT int execveat(int at, const char *path, char *const *arguments, char *const *environment, int flags)
{
    NEXT_STARTER(execveat, -1);
    uint64_t when = noted_exec(at, path, environment, false);
    return not_started(starters.execveat(at, path, arguments, environment, flags), when);
}

/* The words of a call that lists them, from `first` on, as an array; afterwards `list` stands
 * behind their end. The array lies on the stack, as in the C library: signal handlers call these
 * functions too. */
#define TAKE_WORDS(words, list, first) \
    va_list list; \
    size_t count = 0; \
    va_start(list, first); \
    for (const char *word = first; word; word = va_arg(list, const char *)) \
        count++; \
    va_end(list); \
    char *words[count + 1]; \
    words[0] = (char *)first; \
    va_start(list, first); \
    for (size_t i = 1; i <= count; i++) \
        words[i] = va_arg(list, char *)

EXPORT int execl(const char *path, const char *first, ...)
{
    TAKE_WORDS(words, list, first);
    va_end(list);
    return execv(path, words);
}

EXPORT int execlp(const char *file, const char *first, ...)
{
    TAKE_WORDS(words, list, first);
    va_end(list);
    return execvp(file, words);
}

EXPORT int execle(const char *path, const char *first, ...)
{
    TAKE_WORDS(words, list, first);
    char *const *environment = va_arg(list, char *const *);
    va_end(list);
    return execve(path, words, environment);
}

/* The child's number is known only after its start. `when` is taken before the start: everything
   the child does is later. */
static void note_spawned(int result, uint64_t when, pid_t child, const char *path, char *const *environment, bool search)
{
    if (!result && notes_starts())
        note((struct starting){OWN_LINE, when, (uint64_t)child, AT_FDCWD, path, environment, search});
}

EXPORT int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attributes,
                       char *const *arguments, char *const *environment)
{
    NEXT_STARTER(posix_spawn, ENOSYS);
    uint64_t when = counter_or_0();
    pid_t child;
    int result = starters.posix_spawn(&child, path, actions, attributes, arguments, environment);
    note_spawned(result, when, child, path, environment, false);
    if (!result && pid)
        *pid = child;
    return result;
}

EXPORT int posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attributes,
                        char *const *arguments, char *const *environment)
{
    NEXT_STARTER(posix_spawnp, ENOSYS);
    uint64_t when = counter_or_0();
    pid_t child;
    int result = starters.posix_spawnp(&child, file, actions, attributes, arguments, environment);
    note_spawned(result, when, child, file, environment, true);
    if (!result && pid)
        *pid = child;
    return result;
}

/* The process of a pidfd, as the kernel tells; 0 if the process has gone. */
static uint64_t process_of_descriptor(int descriptor)
{
    char path[64], text[512];
    append_number(path, append_text(path, 0, sizeof path, "/proc/self/fdinfo/"), sizeof path, (uint64_t)descriptor);
    long fd = sys(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC, 0, 0, 0);
    if (failed(fd))
        return 0;
    long got = sys(SYS_read, fd, (long)text, sizeof text - 1, 0, 0, 0);
    sys_always(SYS_close, fd, 0, 0, 0, 0, 0);
    text[failed(got) ? 0 : got] = 0;
    const char *digit = strstr(text, "\nPid:\t");
    uint64_t pid = 0;
    for (digit = digit ? digit + 6 : text + got; !failed(got) && *digit >= '0' && *digit <= '9'; digit++)
        pid = pid * 10 + (uint64_t)(*digit - '0');
    return pid;
}

static void note_spawned_by_descriptor(int result, uint64_t when, const int *descriptor, const char *path, char *const *environment, bool search)
{
    uint64_t child = result || !descriptor ? 0 : process_of_descriptor(*descriptor);
    if (child)
        note_spawned(0, when, (pid_t)child, path, environment, search);
}

/* In the C library from 2.39 on, and only under this version. A program that tests for these
 * functions must not find ours under an older library, so ours do not have the plain names
 * (preload.map). */
__asm__(".symver heaplab_pidfd_spawn, pidfd_spawn@GLIBC_2.39\n.symver heaplab_pidfd_spawnp, pidfd_spawnp@GLIBC_2.39");
EXPORT int heaplab_pidfd_spawn(int *descriptor, const char *path, const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attributes,
                               char *const *arguments, char *const *environment);
EXPORT int heaplab_pidfd_spawnp(int *descriptor, const char *file, const posix_spawn_file_actions_t *actions,
                                const posix_spawnattr_t *attributes, char *const *arguments, char *const *environment);

int heaplab_pidfd_spawn(int *descriptor, const char *path, const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attributes,
                        char *const *arguments, char *const *environment)
{
    if (!starters.pidfd_spawn)
        return ENOSYS;
    uint64_t when = counter_or_0();
    int result = starters.pidfd_spawn(descriptor, path, actions, attributes, arguments, environment);
    note_spawned_by_descriptor(result, when, descriptor, path, environment, false);
    return result;
}

int heaplab_pidfd_spawnp(int *descriptor, const char *file, const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attributes,
                         char *const *arguments, char *const *environment)
{
    if (!starters.pidfd_spawnp)
        return ENOSYS;
    uint64_t when = counter_or_0();
    int result = starters.pidfd_spawnp(descriptor, file, actions, attributes, arguments, environment);
    note_spawned_by_descriptor(result, when, descriptor, file, environment, true);
    return result;
}

/* Writes the line of the shell that the C library is about to start as a child. Returns its time;
   0: nothing written. */
static uint64_t noted_shell(void)
{
    if (!notes_starts())
        return 0;
    uint64_t when = counter();
    note((struct starting){CHILD_LINE, when, own_number(), AT_FDCWD, SHELL, environ, false});
    return when;
}

EXPORT int system(const char *command)
{
    NEXT_STARTER(system, -1);
    uint64_t when = noted_shell();
    int error = errno;
    errno = 0; /* without errno, a shell that could not start looks like one that ended with 127 */
    int result = starters.system(command);
    bool started = command ? result != -1 && !(result == 127 << 8 && errno) : result != 0 || !errno;
    /* with SIGCHLD ignored the shell ran, and nobody knows how it ended */
    started |= errno == ECHILD;
    if (!errno)
        errno = error;
    return started ? result : not_started(result, when);
}

EXPORT FILE *popen(const char *command, const char *type)
{
    NEXT_STARTER(popen, NULL);
    uint64_t when = noted_shell();
    FILE *stream = starters.popen(command, type);
    if (!stream)
        not_started(0, when);
    return stream;
}

/* Handles syscall() for numbers that start a program or may put it into a sandbox. Entered by a
   jump from syscall()'s entry. */
static __attribute__((used)) long syscall_that_matters(long number, long a, long b, long c, long d, long e, long f)
{
    if (!next_syscall)
        next_syscall = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
    struct sandbox wanted = sandbox_of_syscall(number, a, b);
    if (wanted.is_one) {
        struct unlocked before = enter_sandbox(wanted.timeless);
        return entered_sandbox(next_syscall(number, a, b, c, d, e, f), before);
    }
    if (number != SYS_execve && number != SYS_execveat)
        return next_syscall(number, a, b, c, d, e, f);
    uint64_t when = number == SYS_execve ? noted_exec(AT_FDCWD, (const char *)a, (char *const *)c, false)
                                         : noted_exec((int)a, (const char *)b, (char *const *)d, false);
    long result = next_syscall(number, a, b, c, d, e, f);
    not_started(0, when);
    return result;
}

/* The same before this object is set up. */
static __attribute__((used)) long syscall_at_first(long number, long a, long b, long c, long d, long e, long f)
{
    next_syscall = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
    return next_syscall(number, a, b, c, d, e, f);
}

SYSCALL_ENTRY(SYS_execve, SYS_execveat, SYS_seccomp, SYS_prctl);
