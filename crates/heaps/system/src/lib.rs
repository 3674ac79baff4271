//! The allocators of this system as they are: glibc, jemalloc, mimalloc, and any shared library.
