//! What one pass over a workload gives: live bytes over time, by size and by stack, peaks and lifetimes.
