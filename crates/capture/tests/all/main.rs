//! Captures from a server that misbehaves on purpose, and from the real Node and Chromium.

mod chromium;
mod fake;
mod node;
mod server;
