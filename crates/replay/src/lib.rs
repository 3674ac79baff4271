//! Drives a workload through any heap that fulfils a contract.
