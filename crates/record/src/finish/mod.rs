//! Spool into bundle.

pub mod address_map;
pub mod live_heap;
