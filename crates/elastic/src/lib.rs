//! Elastic arenas: very many lifetimes that share one pool of chunks, commit memory as it is touched and give it back
//! when they die.
