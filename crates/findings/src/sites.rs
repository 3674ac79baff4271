//! Which stacks are one site.
