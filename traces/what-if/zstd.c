/* Compresses standard input in pieces of 16 KiB, each a frame of its own. */
#include <stdio.h>
#include <stdlib.h>
#include <zstd.h>
#define PIECE (16 * 1024)
int main(void) {
  size_t bound = ZSTD_compressBound(PIECE), bytes, sum = 0;
  char *in = malloc(PIECE), *out = malloc(bound);
  ZSTD_CCtx *context = NULL;
  while ((bytes = fread(in, 1, PIECE, stdin)) > 0) {
    if (!context) context = ZSTD_createCCtx();
    sum += ZSTD_compressCCtx(context, out, bound, in, bytes, 3);
#ifndef REUSE
    ZSTD_freeCCtx(context);
    context = NULL;
#endif
  }
  ZSTD_freeCCtx(context);
  printf("%zu\n", sum);
  free(in);
  free(out);
  return 0;
}
