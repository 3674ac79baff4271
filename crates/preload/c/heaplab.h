/* Marks the phases of a program for heaplab: `HEAPLAB_MARK("loaded");`. Links against nothing:
 * without `heaplab record` the call is one branch. */
#ifndef HEAPLAB_H
#define HEAPLAB_H

#ifdef __cplusplus
extern "C"
#else
extern
#endif
void heaplab_mark(const char *name) __attribute__((weak));

#define HEAPLAB_MARK(name) ((void)(heaplab_mark ? heaplab_mark(name) : (void)0))

#endif
