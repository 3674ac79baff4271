//! Heap snapshots of a live Node or Chromium, streamed to disk over its debugging protocol.
