//! The elastic metaspace of JDK 16 and later (JEP 387): buddy chunks from outside headers, committed granule by granule.
