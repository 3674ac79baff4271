/* AddressSanitizer's runtime library ends a program in whose list of libraries it is not the first, so that every program built with gcc's
 * -fsanitize=address would end before main. Its option verify_asan_link_order=0 switches the check off. The runtime asks a function for the
 * options that a program has by default, and finds the definition below: neither the environment of the program, nor ASAN_OPTIONS of its
 * user, which come after the defaults, change. A program with a definition of its own is searched first; record gives one that it starts
 * itself the option through ASAN_OPTIONS (spawn.rs). Source: compiler-rt's lib/asan/asan_linux.cpp and asan_flags.cpp; the interface is
 * sanitizer/asan_interface.h. The runtime calls the function before any constructor has run: it must do nothing. */
#include "state.h"

EXPORT const char *__asan_default_options(void);

const char *__asan_default_options(void)
{
    return "verify_asan_link_order=0";
}
