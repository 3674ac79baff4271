//! Which target: a process, an address with a path, or one of the pages that a browser lists.

use crate::{Address, CaptureError, Options, http, process};
use serde::Deserialize;

/// The most pages that a message lists.
const LISTED_PAGES: usize = 20;

/// The WebSocket of one target.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// The target's host, port and path.
    pub address: Address,
    /// The target's title; empty for an address with a path.
    pub title: String,
    /// The process whose inspector heaplab opened: [`Connection::end`](crate::Connection::end)
    /// closes that inspector. `None`: the inspector listened before.
    pub opened: Option<u32>,
}

/// A row of an inspector's `/json/list`.
#[derive(Clone, Debug, Deserialize)]
pub struct Page {
    /// "page", "node", "iframe", "service_worker", ...
    #[serde(default, rename = "type")]
    pub kind: String,
    /// The target's title.
    #[serde(default)]
    pub title: String,
    /// The address of the open document or script.
    #[serde(default)]
    pub url: String,
    /// Its WebSocket. Older browsers leave it out while a debugger is attached.
    #[serde(default, rename = "webSocketDebuggerUrl")]
    pub socket: Option<String>,
}

impl Endpoint {
    /// The inspector of a Node process. A process that does not listen gets `SIGUSR1`, and
    /// [`Connection::end`](crate::Connection::end) closes the inspector again.
    ///
    /// # Errors
    /// The process does not exist, is not Node, or its inspector cannot be reached.
    pub fn of_process(pid: u32, options: &Options) -> Result<Endpoint, CaptureError> {
        process::inspector(pid, options)
    }

    /// The target at an address as a user writes it. An address with a path names a target; one
    /// without is asked what there is, and `page` (a part of title or address, in any case) chooses
    /// where there are several.
    ///
    /// # Errors
    /// The text is not an address, nothing listens there, or `page` fits no target or several.
    pub fn at(text: &str, page: Option<&str>, options: &Options) -> Result<Endpoint, CaptureError> {
        let address = Address::parse(text)?;
        if !address.path.is_empty() && address.path != "/" && !address.path.starts_with("/json") {
            return Ok(Endpoint { address, title: String::new(), opened: None });
        }
        choose(&address, pages(&address, options)?, page)
    }

    /// The target's title, or else its address.
    pub fn name(&self) -> String {
        if self.title.is_empty() { self.address.to_string() } else { self.title.clone() }
    }
}

/// The targets that an inspector lists.
pub fn pages(address: &Address, options: &Options) -> Result<Vec<Page>, CaptureError> {
    let body = http::get(address, "/json/list", options)?;
    serde_json::from_slice(&body).map_err(|error| CaptureError::NoInspector {
        address: address.host_port(),
        what: format!("its /json/list is not a list of targets ({error})"),
    })
}

fn choose(
    address: &Address,
    pages: Vec<Page>,
    wanted: Option<&str>,
) -> Result<Endpoint, CaptureError> {
    let fits = |page: &Page| match wanted.map(str::to_lowercase) {
        Some(wanted) => {
            page.title.to_lowercase().contains(&wanted) || page.url.to_lowercase().contains(&wanted)
        }
        // Without a name, a user means neither a browser's own pages nor its workers.
        None => {
            matches!(page.kind.as_str(), "page" | "node")
                && !page.url.starts_with("devtools://")
                && !page.url.starts_with("chrome-extension://")
        }
    };
    let why = match pages.iter().filter(|page| fits(page)).count() {
        1 => None,
        0 if pages.is_empty() => Some("there is no target"),
        0 => Some("no target fits"),
        _ => Some("several targets fit"),
    };
    if let Some(why) = why {
        let line = |page: &Page| format!("\n  {} {:?} {}", page.kind, page.title, page.url);
        return Err(CaptureError::Pages {
            address: address.host_port(),
            why,
            list: pages.iter().take(LISTED_PAGES).map(line).collect(),
        });
    }
    let page = pages.into_iter().find(fits).expect("one fits");
    let socket = page.socket.ok_or_else(|| CaptureError::NoInspector {
        address: address.host_port(),
        what: format!("{:?} has another debugger attached; close that debugger first", page.title),
    })?;
    // Keep the host that answered: a browser in a container lists a host name of its own.
    let found = Address::parse(&socket)?;
    Ok(Endpoint {
        address: Address { path: found.path, ..address.clone() },
        title: page.title,
        opened: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(kind: &str, title: &str, url: &str) -> Page {
        Page {
            kind: kind.into(),
            title: title.into(),
            url: url.into(),
            socket: Some(format!("ws://inner:1/devtools/{title}")),
        }
    }

    #[test]
    fn a_page_is_chosen_where_the_choice_is_clear() {
        let address = Address::parse("http://127.0.0.1:9222").unwrap();
        let pages = vec![
            page("page", "Shop", "https://shop.example/"),
            page("service_worker", "sw", "https://shop.example/sw.js"),
        ];
        let chosen = choose(&address, pages.clone(), None).unwrap();
        assert_eq!(
            (chosen.address.to_string().as_str(), chosen.title.as_str()),
            ("127.0.0.1:9222/devtools/Shop", "Shop")
        );
        assert_eq!(choose(&address, pages.clone(), Some("SW.js")).unwrap().title, "sw");
        let two = choose(&address, pages.clone(), Some("shop.example")).unwrap_err().to_string();
        assert!(
            two.contains("several targets fit")
                && two.contains("\n  page \"Shop\" https://shop.example/"),
            "{two}"
        );
        assert!(
            choose(&address, pages, Some("mail"))
                .unwrap_err()
                .to_string()
                .contains("no target fits")
        );
        assert!(
            choose(&address, Vec::new(), None)
                .unwrap_err()
                .to_string()
                .contains("there is no target at")
        );
    }

    #[test]
    fn a_page_in_other_hands_says_so() {
        let address = Address::parse("127.0.0.1:9222").unwrap();
        let held = Page { socket: None, ..page("page", "Shop", "") };
        assert!(
            choose(&address, vec![held], None)
                .unwrap_err()
                .to_string()
                .contains("has another debugger attached")
        );
    }
}
