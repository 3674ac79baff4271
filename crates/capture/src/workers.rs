//! Threads of a target that have heaps of their own: Node's workers, a page's dedicated workers.
//!
//! A worker's messages come through its target's connection. Node wraps them as text within its own
//! messages (its `NodeWorker` domain). Chromium marks them with their session
//! (`Target.setAutoAttach`, flattened). Chromium's shared and service workers are targets of their
//! own, listed in `/json/list`. Workers that workers started are included: Node's main thread
//! announces all of them, each Chromium worker those that it started.

use serde::Deserialize;
use serde_json::{Value, json};

/// A thread with a heap of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Worker {
    /// What users call it: Node's thread number, else its place in the order in which they were
    /// found, from 1.
    pub number: u32,
    /// The worker's title; empty if it has none.
    pub title: String,
    /// Its script.
    pub url: String,
    pub(crate) session: Session,
}

impl std::fmt::Display for Worker {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}", self.number)?;
        // Chromium gives a worker without a name its address as title.
        if !self.title.is_empty() && self.title != self.url {
            write!(out, " {:?}", self.title)?;
        }
        write!(out, " {}", self.url)
    }
}

/// How messages reach a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Session {
    /// As text within messages of Node's main thread.
    Wrapped(String),
    /// With the session's name.
    Flat(String),
}

impl Session {
    /// A command to the worker, with the id `number`. A wrapping message has the id `number - 1`.
    pub(crate) fn command(&self, number: u64, method: &str, parameters: &Value) -> Value {
        let command = json!({"id": number, "method": method, "params": parameters});
        match self {
            Session::Wrapped(name) => {
                let parameters = json!({"sessionId": name, "message": command.to_string()});
                json!({"id": number - 1, "method": "NodeWorker.sendMessageToWorker", "params": parameters})
            }
            Session::Flat(name) => {
                let Value::Object(mut fields) = command else { return command };
                fields.insert("sessionId".into(), name.as_str().into());
                Value::Object(fields)
            }
        }
    }

    /// Its name.
    pub(crate) fn name(&self) -> &str {
        match self {
            Session::Wrapped(name) | Session::Flat(name) => name,
        }
    }
}

/// A worker as either domain describes it.
#[derive(Debug, Deserialize)]
pub(crate) struct Info {
    #[serde(default)]
    title: String,
    #[serde(default)]
    url: String,
    #[serde(default, rename = "type")]
    kind: String,
}

/// The attached workers, by the target's announcements.
#[derive(Debug, Default)]
pub(crate) struct Workers(Vec<Worker>);

impl Workers {
    /// Adds a target if it is a worker.
    pub(crate) fn attached(&mut self, session: Session, info: Info) {
        if info.kind == "worker" {
            let free = |number: &u32| self.0.iter().all(|worker| worker.number != *number);
            let next =
                self.0.iter().map(|worker| worker.number).max().unwrap_or(0).saturating_add(1);
            let number = thread_number(&info.title).filter(free).unwrap_or(next);
            self.0.push(Worker { number, title: info.title, url: info.url, session });
        }
    }

    /// One ended.
    pub(crate) fn detached(&mut self, session: &str) {
        self.0.retain(|worker| worker.session.name() != session);
    }

    /// Whether that one is attached.
    pub(crate) fn has(&self, session: &Session) -> bool {
        self.0.iter().any(|worker| worker.session == *session)
    }

    /// All workers, by number.
    pub(crate) fn sorted(&self) -> Vec<Worker> {
        let mut all = self.0.clone();
        all.sort_by_key(|worker| worker.number);
        all
    }
}

/// The number in `[worker 3] name` and, before Node 16, `Worker 3`.
fn thread_number(title: &str) -> Option<u32> {
    let title = title.trim_start_matches('[');
    let rest = title.strip_prefix("worker ").or_else(|| title.strip_prefix("Worker "))?;
    rest.split(|letter: char| !letter.is_ascii_digit()).next()?.parse().ok()
}

/// The most workers that a message lists.
const LISTED_MAX: usize = 20;

/// The workers, a line each.
pub fn list(workers: &[Worker]) -> String {
    workers.iter().take(LISTED_MAX).map(|worker| format!("\n  {worker}")).collect()
}

/// The heaps that `wanted` names. `None` stands for the main thread's heap, the only one by
/// default.
///
/// # Errors
/// That of [`choose`], with a list of the target's workers.
pub fn heaps(workers: Vec<Worker>, wanted: Option<&str>) -> Result<Vec<Option<Worker>>, String> {
    match wanted {
        None => Ok(vec![None]),
        Some("all") => Ok(std::iter::once(None).chain(workers.into_iter().map(Some)).collect()),
        Some(wanted) => match choose(&workers, wanted) {
            Ok(worker) => Ok(vec![Some(worker.clone())]),
            Err(why) => {
                let colon = if workers.is_empty() { "" } else { ":" };
                Err(format!("--worker {wanted}: {why}{colon}{}", list(&workers)))
            }
        },
    }
}

/// The worker that `wanted` names: by its number, or by a part of its title or address. The error
/// says why none was chosen.
///
/// # Errors
/// No worker fits, or several do.
pub fn choose<'w>(workers: &'w [Worker], wanted: &str) -> Result<&'w Worker, &'static str> {
    if let Some(worker) = wanted
        .parse()
        .ok()
        .and_then(|number: u32| workers.iter().find(|worker| worker.number == number))
    {
        return Ok(worker);
    }
    let wanted = wanted.to_lowercase();
    let mut found = workers.iter().filter(|worker| {
        worker.title.to_lowercase().contains(&wanted) || worker.url.to_lowercase().contains(&wanted)
    });
    match (found.next(), found.next()) {
        (Some(worker), None) => Ok(worker),
        (Some(_), Some(_)) => Err("there is more than one such worker"),
        (None, _) if workers.is_empty() => Err("the target has no workers"),
        (None, _) => Err("no worker fits"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workers(titles: &[&str]) -> Vec<Worker> {
        let mut workers = Workers::default();
        for (place, title) in titles.iter().enumerate() {
            let info = Info {
                title: (*title).into(),
                url: format!("file:///job{place}.js"),
                kind: "worker".into(),
            };
            workers.attached(Session::Wrapped(place.to_string()), info);
        }
        workers.sorted()
    }

    #[test]
    fn a_worker_has_the_number_of_its_thread() {
        let numbers = |titles: &[&str]| {
            workers(titles).iter().map(|worker| worker.number).collect::<Vec<_>>()
        };
        assert_eq!(numbers(&["[worker 3] mail", "[worker 1] db", "Worker 2"]), [1, 2, 3]);
        assert_eq!(numbers(&["", "https://shop.example/job.js"]), [1, 2]);
    }

    #[test]
    fn a_worker_is_chosen_where_the_choice_is_clear() {
        let all = workers(&["[worker 3] mail", "[worker 1] db", "[worker 12] db cache"]);
        assert_eq!(choose(&all, "1").unwrap().title, "[worker 1] db");
        assert_eq!(choose(&all, "MAIL").unwrap().number, 3);
        assert_eq!(choose(&all, "job2").unwrap().number, 12);
        assert_eq!(choose(&all, "db"), Err("there is more than one such worker"));
        assert_eq!(choose(&all, "4"), Err("no worker fits"));
        assert_eq!(choose(&[], "1"), Err("the target has no workers"));
    }

    #[test]
    fn a_worker_is_shown_with_the_name_that_it_has() {
        let shown = |title: &str| workers(&[title])[0].to_string();
        assert_eq!(shown("[worker 3] mail"), "3 \"[worker 3] mail\" file:///job0.js");
        assert_eq!(shown("file:///job0.js"), "1 file:///job0.js");
    }

    #[test]
    fn commands_are_wrapped_as_each_target_wants_them() {
        let wrapped = Session::Wrapped("7".into()).command(4, "A.b", &json!({"c": 1}));
        assert_eq!((&wrapped["id"], &wrapped["params"]["sessionId"]), (&3.into(), &"7".into()));
        let inner: Value =
            serde_json::from_str(wrapped["params"]["message"].as_str().unwrap()).unwrap();
        assert_eq!(inner, json!({"id": 4, "method": "A.b", "params": {"c": 1}}));
        let flat = Session::Flat("S".into()).command(4, "A.b", &json!({}));
        assert_eq!(flat, json!({"id": 4, "method": "A.b", "params": {}, "sessionId": "S"}));
    }
}
