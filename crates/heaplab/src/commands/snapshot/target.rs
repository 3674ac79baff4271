//! The live heap: a process, or an inspector's address.

use anyhow::Result;
use heaplab_capture::{Connection, Endpoint, Options};
use std::time::Duration;

/// The target of `take` and `watch`.
#[derive(Clone, Debug, clap::Args)]
pub struct Target {
    /// A Node: its process id, or an address such as ws://127.0.0.1:9229/... or 127.0.0.1:9229
    #[arg(
        long,
        value_name = "PID|ADDRESS",
        conflicts_with = "chromium",
        required_unless_present = "chromium"
    )]
    node: Option<String>,
    /// A Chromium: the address of its --remote-debugging-port, such as 9222 or
    /// http://127.0.0.1:9222
    #[arg(long, value_name = "PORT|ADDRESS")]
    chromium: Option<String>,
    /// The page with this text in its title or address
    #[arg(long, value_name = "TEXT")]
    page: Option<String>,
    /// Seconds without a sign of the target after which heaplab gives up
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..))]
    timeout: u64,
}

impl Target {
    /// Ends the connection, and warns if the inspector that heaplab opened stays open.
    pub fn end(&self, connection: Connection) {
        if let Err(error) = connection.end(&Options::default()) {
            eprintln!("heaplab: {error}");
        }
    }

    /// Connects.
    pub fn connect(&self) -> Result<(Connection, String)> {
        let options = Options { silence: Duration::from_secs(self.timeout), ..Options::default() };
        let page = self.page.as_deref();
        let endpoint = match (&self.node, &self.chromium) {
            (Some(node), _) if node.contains(['.', ':']) => Endpoint::at(node, page, &options)?,
            (Some(node), _) => match node.parse() {
                Ok(pid) => Endpoint::of_process(pid, &options)?,
                Err(_) => misasked!(
                    "--node {node} is neither a process id nor an address such as 127.0.0.1:9229"
                ),
            },
            (None, Some(chromium)) => Endpoint::at(chromium, page, &options)?,
            (None, None) => misasked!("name a --node or a --chromium"),
        };
        let connection = Connection::open(&endpoint, &options)?;
        Ok((connection, endpoint.name()))
    }
}
