//! Address space: reserve it, commit and uncommit parts of it, count what that costs the kernel, with a limit and
//! faults that a test can place at any call.
