/* The recorder's file. Nothing here allocates, calls back or lets another thread run: to the program's threads an event
   is written at once or not at all. */
#define CAML_NAME_SPACE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <caml/mlvalues.h>
#include <caml/version.h>

static int file = -1;
static pid_t owner;
static struct timespec began;

/* 0, or what went wrong (errno). A new file, where `fresh`. */
value heaplab_open(value name, value fresh) {
  int flags = O_WRONLY | O_CREAT | O_CLOEXEC | (Bool_val(fresh) ? O_EXCL : O_TRUNC);
  file = open(String_val(name), flags, 0666);
  owner = getpid();
  clock_gettime(CLOCK_MONOTONIC, &began);
  return Val_int(file < 0 ? errno : 0);
}

/* Writes the first bytes of a buffer. 0; or -1 in a fork of the program, which is not recorded; or errno. */
value heaplab_write(value buffer, value length) {
  const char *at = (const char *) Bytes_val(buffer);
  size_t left = (size_t) Long_val(length);
  if (getpid() != owner) return Val_int(-1);
  while (left > 0) {
    ssize_t written = write(file, at, left);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      int error = errno;
      fprintf(stderr, "heaplab: cannot write the recording, which ends here: %s\n", strerror(error));
      return Val_int(error);
    }
    at += written;
    left -= (size_t) written;
  }
  return Val_int(0);
}

value heaplab_close(value unit) {
  close(file);
  file = -1;
  return unit;
}

/* Microseconds since the file was opened. */
value heaplab_now(value unit) {
  struct timespec now;
  (void) unit;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return Val_long((now.tv_sec - began.tv_sec) * 1000000L + (now.tv_nsec - began.tv_nsec) / 1000);
}

/* The number of the domain that runs; 0 before OCaml 5. */
#if OCAML_VERSION >= 50000
extern value caml_ml_domain_id(value unit);
value heaplab_domain(value unit) { return caml_ml_domain_id(unit); }
#else
value heaplab_domain(value unit) {
  (void) unit;
  return Val_int(0);
}
#endif
