//! Numbers in sentences.
