//! The counts table, and slop by allocator.
