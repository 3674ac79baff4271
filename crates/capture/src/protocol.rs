//! Commands and events of the DevTools protocol, one command at a time.

use crate::websocket::{Lost, WebSocket};
use crate::{CaptureError, Endpoint, Options};
use serde::Deserialize;
use serde_json::{Value, json};
use std::time::Duration;

/// A connection to one target.
#[derive(Debug)]
pub struct Connection {
    socket: WebSocket,
    commands: u64,
    silence: Duration,
}

/// What a target says of its own accord.
#[derive(Debug)]
pub enum Event {
    /// The next part of a snapshot's text.
    Chunk(String),
    /// How far the walk over the heap is.
    Walked {
        /// Objects visited, in V8's own count.
        done: u64,
        /// Objects to visit, an estimate.
        total: u64,
    },
    /// The walk is done; the text follows.
    WalkFinished,
}

#[derive(Deserialize)]
struct Incoming {
    id: Option<u64>,
    method: Option<String>,
    params: Option<Params>,
    result: Option<Value>,
    error: Option<Refusal>,
}

/// The parameters of the events that are looked at.
#[derive(Deserialize)]
struct Params {
    chunk: Option<String>,
    done: Option<f64>,
    total: Option<f64>,
    finished: Option<bool>,
}

#[derive(Deserialize)]
struct Refusal {
    message: String,
}

impl Connection {
    /// Connects to a target.
    ///
    /// # Errors
    /// Nobody listens there, or it is no inspector.
    pub fn open(endpoint: &Endpoint, options: &Options) -> Result<Connection, CaptureError> {
        let socket = WebSocket::open(&endpoint.address, options)?;
        Ok(Connection { socket, commands: 0, silence: options.silence })
    }

    /// Sends a command and gives its answer; `event` takes what comes before it.
    ///
    /// # Errors
    /// The target is gone or silent, refuses the command, or `event` fails.
    pub fn call(
        &mut self,
        method: &str,
        parameters: &Value,
        event: &mut dyn FnMut(Event) -> Result<(), CaptureError>,
    ) -> Result<Value, CaptureError> {
        self.commands += 1;
        let command = json!({"id": self.commands, "method": method, "params": parameters}).to_string();
        self.socket.send(command).map_err(|lost| self.lost(lost, method))?;
        loop {
            let message = self.socket.receive().map_err(|lost| self.lost(lost, method))?;
            let incoming: Incoming =
                serde_json::from_str(&message).map_err(|error| CaptureError::Protocol(format!("a message is no JSON: {error}")))?;
            drop(message);
            match (incoming.id, incoming.method, incoming.error) {
                (Some(id), _, Some(refusal)) if id == self.commands => {
                    return Err(CaptureError::Refused { method: method.into(), message: refusal.message });
                }
                (Some(id), _, None) if id == self.commands => return Ok(incoming.result.unwrap_or_default()),
                (None, Some(name), _) => {
                    for each in incoming.params.into_iter().flat_map(|params| events(&name, params)) {
                        event(each)?;
                    }
                }
                // The answer to a command that was given up.
                _ => {}
            }
        }
    }

    /// Sends a command and gives its answer, whatever happens meanwhile.
    ///
    /// # Errors
    /// As [`Connection::call`].
    pub fn ask(&mut self, method: &str, parameters: &Value) -> Result<Value, CaptureError> {
        self.call(method, parameters, &mut |_| Ok(()))
    }

    /// The value of a JavaScript expression that gives a number.
    ///
    /// # Errors
    /// As [`Connection::call`], or it gives something else.
    pub fn number(&mut self, expression: &str) -> Result<f64, CaptureError> {
        let parameters = json!({"expression": expression, "includeCommandLineAPI": true, "returnByValue": true, "silent": true});
        let answer = self.ask("Runtime.evaluate", &parameters)?;
        answer["result"]["value"].as_f64().ok_or_else(|| {
            let said = answer["exceptionDetails"]["exception"]["description"].as_str().unwrap_or("no number");
            CaptureError::Protocol(format!("{expression} gives {said}"))
        })
    }

    fn lost(&self, lost: Lost, doing: &str) -> CaptureError {
        let doing = doing.to_string();
        match lost {
            Lost::Closed => CaptureError::Gone { doing },
            Lost::Silent => CaptureError::Silent { doing, silence: self.silence },
            Lost::Failed(source) => CaptureError::Network { doing, source },
            Lost::Wrong(what) => CaptureError::Protocol(what),
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.socket.close();
    }
}

fn events(name: &str, params: Params) -> Vec<Event> {
    match name {
        "HeapProfiler.addHeapSnapshotChunk" => params.chunk.map(Event::Chunk).into_iter().collect(),
        "HeapProfiler.reportHeapSnapshotProgress" => {
            let count = |number: Option<f64>| number.unwrap_or(0.0).max(0.0) as u64;
            let walked = Event::Walked { done: count(params.done), total: count(params.total) };
            let finished = params.finished.unwrap_or(false).then_some(Event::WalkFinished);
            std::iter::once(walked).chain(finished).collect()
        }
        _ => Vec::new(),
    }
}
