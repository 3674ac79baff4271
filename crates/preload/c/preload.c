/* The preload object as one translation unit: the compiler inlines hot paths across its files. The
 * files come in the order in which they build on one another: kernel, process file, modules,
 * unwinding, stacks, rings, hooks. layout.h describes the shared memory. */
#define _GNU_SOURCE
#include <sys/cdefs.h>
/* glibc's headers promise the compiler that glibc's functions do not call back into the calling
 * file ("leaf"). The compiler may then move a store to a static variable behind such a call. dlsym,
 * on_exit and pthread_setspecific allocate: they do call us. */
#undef __LEAF
#define __LEAF
#undef __LEAF_ATTR
#define __LEAF_ATTR

#include <errno.h>
#include <string.h>

#include "layout.h"
#include "state.h"
#include "arch.h"

#include "system.c"
#include "process.c"
#include "modules.c"
#include "dwarf.c"
#include "unwind.c"
#include "bounds.c"
#include "stacks.c"
#include "ring.c"
#include "threads.c"
#include "sandbox.c"
#include "enter.c"
#include "nested.c"
#include "hooks.c"
#include "plain.c"
#include "maps.c"
#include "operators.c"
#include "exec.c"
#include "sanitizer.c"
#include "start.c"
#include "reports.c"
