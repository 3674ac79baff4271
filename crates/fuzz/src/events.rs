//! `events.parquet`: any bytes.

/// One input.
pub fn run(data: &[u8]) {
    crate::common::read_with("events.parquet", data);
}
