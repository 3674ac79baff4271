/* AddressSanitizer's runtime ends a program unless the runtime is the first library in its list:
 * every program built with gcc's -fsanitize=address would end before main. The runtime's option
 * verify_asan_link_order=0 switches this check off. The runtime asks a function for a program's
 * default options and finds the definition below. The program's environment and the user's
 * ASAN_OPTIONS, which override the defaults, stay unchanged. If the program defines the function
 * itself, the runtime finds the program's; record passes the option through ASAN_OPTIONS to
 * programs that it starts itself (spawn.rs). Source: compiler-rt's lib/asan/asan_linux.cpp and
 * asan_flags.cpp; the interface is sanitizer/asan_interface.h. The runtime calls the function
 * before any constructor has run: the function must do nothing. */
#include "state.h"

EXPORT const char *__asan_default_options(void);

const char *__asan_default_options(void)
{
    return "verify_asan_link_order=0";
}
