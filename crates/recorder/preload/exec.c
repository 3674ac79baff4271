/* Programs that the target starts. One that is static, of another C library or of raised privileges does not load this object and says
 * nothing of itself, and most are gone before anybody could look. So a line in the spool's file `execs` (layout.h) says
 * what is about to be started; who finishes the recording compares it with the images that there are.
 *
 * Called in signal handlers, in children of vfork (which write nothing of their parent's memory here but their own stack) and of raw
 * clone: system calls and local variables only. What the C library starts by itself does not come here: system() and popen(), whose shell
 * then does as a rule, and system calls that a program makes itself. */
#include <spawn.h>
#include <stdarg.h>
#include <sys/stat.h>
#include "arch.h"

#define EXEC_PATH_BYTES 1024
#define EXEC_LINE_BYTES 2048

static struct {
    int (*execve)(const char *, char *const *, char *const *);
    int (*execv)(const char *, char *const *);
    int (*execvp)(const char *, char *const *);
    int (*execvpe)(const char *, char *const *, char *const *);
    int (*fexecve)(int, char *const *, char *const *);
    int (*execveat)(int, const char *, char *const *, char *const *, int);
    int (*posix_spawn)(pid_t *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *, char *const *, char *const *);
    int (*posix_spawnp)(pid_t *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *, char *const *, char *const *);
} starters;

static void resolve_starters(void)
{
#define STARTER(name) starters.name = (__typeof__(starters.name))dlsym(RTLD_NEXT, #name)
    STARTER(execve);
    STARTER(execv);
    STARTER(execvp);
    STARTER(execvpe);
    STARTER(fexecve);
    STARTER(execveat);
    STARTER(posix_spawn);
    STARTER(posix_spawnp);
}

/* Appends one line, whole or not at all. */
static void append_exec_line(const char *line, size_t bytes)
{
    char path[sizeof recorder.spool + 16];
    struct {
        uint64_t now, most;
    } limit;
    append_text(path, append_text(path, 0, sizeof path, recorder.spool), sizeof path, "/execs");
    long fd = sys(SYS_openat, AT_FDCWD, (long)path, O_WRONLY | O_APPEND | O_CLOEXEC, 0, 0, 0);
    if (failed(fd))
        return;
    /* Beyond the target's limit (ulimit -f) the kernel would not only refuse but send SIGXFSZ. */
    long end = sys(SYS_lseek, fd, 0, SEEK_END, 0, 0, 0);
    long result = sys(SYS_prlimit64, 0, RLIMIT_FSIZE, 0, (long)&limit, 0, 0);
    if (!failed(end) && !failed(result) && (uint64_t)end + (64u << 10) < limit.now)
        sys(SYS_write, fd, (long)line, (long)bytes, 0, 0, 0);
    sys(SYS_close, fd, 0, 0, 0, 0, 0);
}

/* "KIND COUNTER PID": what every line begins with. */
static size_t exec_line(char *line, char kind, uint64_t when, uint64_t pid)
{
    char word[] = {kind, ' ', 0};
    size_t at = append_text(line, 0, EXEC_LINE_BYTES, word);
    at = append_number(line, at, EXEC_LINE_BYTES, when);
    at = append_text(line, at, EXEC_LINE_BYTES, " ");
    return append_number(line, at, EXEC_LINE_BYTES, pid);
}

/* Whether a program that starts with this environment is asked to load the recorder, and told where to. */
static bool asks_for_recorder(char *const *environment)
{
    bool loads = false, told = false;
    for (; environment && *environment; environment++) {
        const char *entry = *environment;
        if (!strncmp(entry, "LD_PRELOAD=", 11))
            loads = strstr(entry, "heaplab-recorder-") != NULL;
        else if (!strncmp(entry, "HEAPLAB_SPOOL=", 14))
            told = !strcmp(entry + 14, recorder.spool);
    }
    return loads && told;
}

/* A line about the program at `path`, taken from the folder that the descriptor `at` is (or AT_FDCWD). A path that is too long is cut
 * off, and its program is then not found by who reads it. */
static void note_exec(uint64_t when, uint64_t pid, int at, const char *path, char *const *environment)
{
    static const char digits[] = "0123456789ABCDEF";
    char line[EXEC_LINE_BYTES], whole[EXEC_PATH_BYTES];
    size_t bytes = 0;
    if (path[0] != '/') {
        char link[64];
        append_text(link, 0, sizeof link, "/proc/self/cwd");
        if (at != AT_FDCWD)
            append_number(link, append_text(link, 0, sizeof link, "/proc/self/fd/"), sizeof link, (uint64_t)at);
        long got = sys(SYS_readlinkat, AT_FDCWD, (long)link, (long)whole, sizeof whole - 1, 0, 0);
        bytes = failed(got) ? 0 : (size_t)got;
        whole[bytes] = 0;
        if (path[0])
            bytes = append_text(whole, bytes, sizeof whole, "/");
    }
    append_text(whole, bytes, sizeof whole, path);
    size_t end = exec_line(line, asks_for_recorder(environment) ? 'e' : 'n', when, pid);
    line[end++] = ' ';
    for (const uint8_t *byte = (const uint8_t *)whole; *byte && end + 4 < sizeof line; byte++) {
        if (*byte > ' ' && *byte < 0x7f && *byte != '%') {
            line[end++] = (char)*byte;
        } else {
            line[end++] = '%';
            line[end++] = digits[*byte >> 4];
            line[end++] = digits[*byte & 15];
        }
    }
    line[end++] = '\n';
    append_exec_line(line, end);
}

static bool may_execute(const char *path)
{
    struct stat about;
    return !failed(sys(SYS_newfstatat, AT_FDCWD, (long)path, (long)&about, 0, 0, 0)) && S_ISREG(about.st_mode) && about.st_mode & 0111;
}

/* Where execvp() will find `file`, which may be in `found`; NULL where it will not. */
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

/* What is about to be started: when that is, 0 where nothing is noted. */
static uint64_t noted_exec(int at, const char *path, char *const *environment, bool search)
{
    char found[EXEC_PATH_BYTES];
    __asm__("" : "+r"(path)); /* the compiler takes it for certain that nobody passes NULL */
    if (load_acquire(&recorder.ready) != 1 || !path)
        return 0;
    if (search && !(path = searched(path, found)))
        return 0;
    uint64_t when = counter();
    note_exec(when, (uint64_t)sys(SYS_getpid, 0, 0, 0, 0, 0, 0), at, path, environment);
    return when;
}

/* It was not started after all. Gives `result`, and leaves errno as it is. */
static int not_started(int result, uint64_t when)
{
    char line[EXEC_LINE_BYTES];
    if (when) {
        size_t end = exec_line(line, 'f', when, (uint64_t)sys(SYS_getpid, 0, 0, 0, 0, 0, 0));
        line[end++] = '\n';
        append_exec_line(line, end);
    }
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

/* The words of a call that lists them, from `first` on, as an array; `list` then stands behind their end. As in the C library they lie on the
 * stack: these functions are for signal handlers too. */
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

/* The child's number is known when it has been started; `when` is before that, so that whatever it does is later. */
static void note_spawned(int result, uint64_t when, pid_t child, const char *path, char *const *environment, bool search)
{
    char found[EXEC_PATH_BYTES];
    if (result || load_acquire(&recorder.ready) != 1)
        return;
    if (search && !(path = searched(path, found)))
        return;
    note_exec(when, (uint64_t)child, AT_FDCWD, path, environment);
}

EXPORT int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attributes,
                       char *const *arguments, char *const *environment)
{
    NEXT_STARTER(posix_spawn, ENOSYS);
    uint64_t when = counter();
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
    uint64_t when = counter();
    pid_t child;
    int result = starters.posix_spawnp(&child, file, actions, attributes, arguments, environment);
    note_spawned(result, when, child, file, environment, true);
    if (!result && pid)
        *pid = child;
    return result;
}
