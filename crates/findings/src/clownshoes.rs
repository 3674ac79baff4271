//! Requests a few bytes over a size class.
