//! The installed Nodes.

use heaplab_node::{NodeError, Spec, find};

/// The versions that CI installs.
const REQUIRED: [&str; 2] = ["13.14.0", "14.21.3"];

/// Whether this Node is installed. If not, prints a line, or fails with `HEAPLAB_REQUIRE_ORACLES=1`
/// for the versions that CI installs.
pub fn have(version: &str) -> bool {
    let found = Spec::parse(&format!("version={version}"))
        .map_err(|error| error.to_string())
        .and_then(|spec| find::node(&spec).map_err(|error: NodeError| error.to_string()));
    let Err(error) = found else { return true };
    let required = REQUIRED.contains(&version)
        && std::env::var("HEAPLAB_REQUIRE_ORACLES").as_deref() == Ok("1");
    assert!(!required, "{error}");
    eprintln!("skipped: {error}");
    false
}
