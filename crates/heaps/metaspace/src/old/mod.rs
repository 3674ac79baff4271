//! The metaspace of JDK 15 and before: three chunk sizes and humongous chunks, headers inside the chunks.
