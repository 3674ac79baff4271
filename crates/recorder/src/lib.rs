//! The preload object that records a program's allocations, and the layout of the memory it shares with the recording process.
