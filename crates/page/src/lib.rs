//! Profile, findings and comparisons as one self-contained HTML page.
