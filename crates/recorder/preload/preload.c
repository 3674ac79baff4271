/* The preload object as one translation unit, so that hot paths are inlined across its files. In the order in which they build on
 * one another: the kernel, the process file, modules, unwinding, stacks, rings, hooks. layout.h says what is shared with whom. */
#define _GNU_SOURCE
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
#include "stacks.c"
#include "ring.c"
#include "hooks.c"
#include "operators.c"
#include "start.c"
