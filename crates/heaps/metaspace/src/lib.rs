//! HotSpot's metaspace, old (JDK 11) and elastic (JDK 16, 17, 18), as heaps that any workload can run on.
