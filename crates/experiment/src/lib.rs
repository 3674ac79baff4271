//! Blocks and cells: which heap needs less space or time, with what interval.
