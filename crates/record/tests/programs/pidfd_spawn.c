/* Stands in for glibc's functions of 2.39 and later, under the same version (pidfd_spawn.map), on
 * an older glibc. As there, the C library itself starts the process, unseen. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <unistd.h>

#if !__GLIBC_PREREQ(2, 39)
typedef int starter(pid_t *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *, char *const *, char *const *);

#define STANDS_IN(name, whole) \
    int name(int *descriptor, const char *path, const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attributes, \
             char *const *arguments, char *const *environment) \
    { \
        pid_t child; \
        int result = ((starter *)dlsym(dlopen("libc.so.6", RTLD_LAZY), #whole))(&child, path, actions, attributes, arguments, environment); \
        if (!result && (*descriptor = (int)syscall(SYS_pidfd_open, child, 0)) < 0) \
            result = errno; \
        return result; \
    }
STANDS_IN(pidfd_spawn, posix_spawn)
STANDS_IN(pidfd_spawnp, posix_spawnp)
#endif
