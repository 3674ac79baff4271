//! Live objects by id.
