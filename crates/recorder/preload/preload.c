/* The preload object as one translation unit, so that hot paths are inlined across its files. In the order in which they build on
 * one another: the kernel, the process file, modules, unwinding, stacks, rings, hooks. layout.h says what is shared with whom. */
#define _GNU_SOURCE
#include <sys/cdefs.h>
/* glibc's headers promise the compiler that its functions call nothing in the file that calls them ("leaf"), so that a store to
 * a static variable may be moved behind such a call. dlsym, on_exit and pthread_setspecific allocate: they do call us. */
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
#include "operators.c"
#include "exec.c"
#include "sanitizer.c"
#include "start.c"
