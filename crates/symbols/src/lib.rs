//! From module and offset to function, file, line and inlined frames.
