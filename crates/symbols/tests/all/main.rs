//! Tests on programs compiled here: one binary, because all share the same helpers.

mod damage;
mod dwz;
mod mini;
mod oracle;
mod split;
mod support;
