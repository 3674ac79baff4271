//! Arenas as a user sees them.

mod model;
