//! Requests by size.
