/* The preload object, one translation unit so that the hot paths are inlined. */
#include "layout.h"
