//! Buddy chunks and commit granules: the arithmetic that heaplab's elastic arenas and HotSpot's elastic metaspace share.
//! It touches no memory, so it runs under Miri.
