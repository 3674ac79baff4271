//! Live bytes over time in a bounded number of points.
