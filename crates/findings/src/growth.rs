//! Buffers that grow by too little.
