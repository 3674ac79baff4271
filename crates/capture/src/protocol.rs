//! Commands and events of the DevTools protocol, one command at a time.

use crate::dialogs::Dialogs;
use crate::websocket::{Lost, WebSocket};
use crate::workers::{Info, Session, Worker, Workers};
use crate::{CaptureError, Endpoint, Options, process};
use serde::Deserialize;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// A connection to one target.
#[derive(Debug)]
pub struct Connection {
    socket: WebSocket,
    commands: u64,
    silence: Duration,
    /// The process whose inspector must be closed at the end.
    opened: Option<u32>,
    /// The worker to which commands go; none for the target itself.
    session: Option<Session>,
    workers: Workers,
    /// The target had to be stopped: it does not come to its event loop.
    is_busy: bool,
    /// What a page asked its user.
    dialogs: Dialogs,
}

/// Closes the inspector at once: a busy program never comes to a timer. Only Node 24 and later have
/// to be stopped at all.
const CLOSE_NOW: &str = "(process._debugEnd || require('inspector').close).call(process)";
/// Closes the inspector half a second after the answer, when this client has left. Node 20 can end
/// with a segmentation fault if its inspector closes while a client leaves. The timer does not keep
/// the program alive (`unref`).
const CLOSE: &str = "(() => { const close = process._debugEnd || require('inspector').close; \
    require('timers').setTimeout(() => close.call(process), 500).unref(); return 1; })()";
/// How long a target may be silent before [`Connection::call_stopping`] stops it. V8 is silent
/// during a garbage collection. Stopping the program then gains nothing, and lasts as long as the
/// snapshot takes anyway.
pub const PATIENCE: Duration = Duration::from_secs(2);
/// How V8 refuses a command to a context that is gone.
const NO_CONTEXT: &str = "Cannot find context";
/// Pause between two checks whether the inspector is closed.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// An event that a target sends during a command.
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
#[serde(rename_all = "camelCase")]
struct Incoming {
    id: Option<u64>,
    session_id: Option<String>,
    method: Option<String>,
    params: Option<Params>,
    result: Option<Value>,
    error: Option<Refusal>,
}

/// The parameters of the events that are looked at.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Params {
    session_id: Option<String>,
    /// The message of a Node worker, or the text of a page's dialog.
    message: Option<String>,
    /// The kind of a page's dialog.
    #[serde(rename = "type")]
    kind: Option<Value>,
    worker_info: Option<Info>,
    target_info: Option<Info>,
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
    /// Nothing listens at the endpoint, or the listener is not an inspector.
    pub fn open(endpoint: &Endpoint, options: &Options) -> Result<Connection, CaptureError> {
        let socket = WebSocket::open(&endpoint.address, options)?;
        let (silence, opened) = (options.silence, endpoint.opened);
        Ok(Connection {
            socket,
            commands: 0,
            silence,
            opened,
            session: None,
            workers: Workers::default(),
            is_busy: false,
            dialogs: Dialogs::default(),
        })
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
        let id = self.send(method, parameters)?;
        self.answer(id, method, None, event)
    }

    /// Like [`Connection::call`], for a command that Node 24 obeys only in its event loop. A busy
    /// program never returns to that loop. So a target that is silent for two seconds is stopped at
    /// its next statement, obeys there, and goes on.
    ///
    /// # Errors
    /// As [`Connection::call`].
    pub fn call_stopping(
        &mut self,
        method: &str,
        parameters: &Value,
        event: &mut dyn FnMut(Event) -> Result<(), CaptureError>,
    ) -> Result<Value, CaptureError> {
        let id = self.send(method, parameters)?;
        let mut stopped = false;
        let answer = self.answer(id, method, Some(&mut stopped), event);
        self.is_busy |= stopped;
        if stopped && !matches!(answer, Err(CaptureError::Gone { .. })) {
            // One that was idle all the time was not stopped, and refuses to go on.
            for method in ["Debugger.resume", "Debugger.disable"] {
                match self.ask(method, &json!({})) {
                    Ok(_) | Err(CaptureError::Refused { .. }) => {}
                    Err(error) => return answer.and(Err(error)),
                }
            }
        }
        answer
    }

    /// Sends a command and gives its number.
    fn send(&mut self, method: &str, parameters: &Value) -> Result<u64, CaptureError> {
        // A wrapped command has two numbers.
        self.commands += 1 + u64::from(self.session.is_some());
        let command = match &self.session {
            None => json!({"id": self.commands, "method": method, "params": parameters}),
            Some(session) => session.command(self.commands, method, parameters),
        };
        self.socket.send(command.to_string()).map_err(|lost| self.lost(lost, method))?;
        Ok(self.commands)
    }

    /// Waits for the answer to a command. With `stopped` a silent target is stopped, once, and
    /// that is noted there.
    fn answer(
        &mut self,
        command: u64,
        method: &str,
        mut stopped: Option<&mut bool>,
        event: &mut dyn FnMut(Event) -> Result<(), CaptureError>,
    ) -> Result<Value, CaptureError> {
        let wrapped = self.session.is_some();
        let began = Instant::now();
        loop {
            let patience = match &stopped {
                Some(stopped) if !**stopped && PATIENCE < self.silence => PATIENCE,
                _ => self.silence,
            };
            let incoming = match self.incoming(method, patience) {
                Err(CaptureError::Silent { .. })
                    if patience < self.silence && began.elapsed() < self.silence =>
                {
                    self.send("Debugger.enable", &json!({}))?;
                    self.send("Debugger.pause", &json!({}))?;
                    if let Some(stopped) = &mut stopped {
                        **stopped = true;
                    }
                    continue;
                }
                incoming => incoming?,
            };
            let Some(incoming) = incoming else { continue };
            match (incoming.id, incoming.method, incoming.error) {
                (Some(id), _, Some(refusal)) if id == command || (id + 1 == command && wrapped) => {
                    return Err(CaptureError::Refused {
                        method: method.into(),
                        message: refusal.message,
                    });
                }
                (Some(id), _, None) if id == command => {
                    return Ok(incoming.result.unwrap_or_default());
                }
                (None, Some(name), _) => {
                    for each in incoming.params.into_iter().flat_map(|params| events(&name, params))
                    {
                        event(each)?;
                    }
                }
                // The answer to a command that was given up, or that stops the target.
                _ => {}
            }
        }
    }

    /// The next message from the receiver of commands; `None`: the message was another's, or told
    /// of a dialog, which is answered here.
    fn incoming(
        &mut self,
        method: &str,
        patience: Duration,
    ) -> Result<Option<Incoming>, CaptureError> {
        let message = self.socket.receive(patience).map_err(|lost| self.lost(lost, method))?;
        let mut incoming = parsed(&message)?;
        drop(message);
        let mut from = incoming.session_id.take();
        if incoming.method.as_deref() == Some("Inspector.targetCrashed") {
            return Err(CaptureError::Page(format!("it crashed during {method}")));
        }
        if let (Some(name), Some(params)) = (&incoming.method, &mut incoming.params) {
            let session = params.session_id.take();
            match (name.as_str(), session) {
                ("NodeWorker.receivedMessageFromWorker", session) => {
                    let Some(message) = params.message.take() else { return Ok(None) };
                    incoming = parsed(&message)?;
                    from = session;
                }
                ("Page.javascriptDialogOpening", _) => {
                    let kind = params.kind.as_ref().and_then(Value::as_str).unwrap_or_default();
                    let text = params.message.take().unwrap_or_default();
                    let answer = self.dialogs.answered(kind, &text);
                    self.send("Page.handleJavaScriptDialog", &answer)?;
                    return Ok(None);
                }
                ("NodeWorker.attachedToWorker", Some(session)) => {
                    params.worker_info.take().into_iter().for_each(|info| {
                        self.workers.attached(Session::Wrapped(session.clone()), info)
                    });
                }
                ("Target.attachedToTarget", Some(session)) => {
                    params.target_info.take().into_iter().for_each(|info| {
                        self.workers.attached(Session::Flat(session.clone()), info)
                    });
                }
                ("NodeWorker.detachedFromWorker" | "Target.detachedFromTarget", Some(session)) => {
                    self.workers.detached(&session);
                    if self.session.as_ref().is_some_and(|ours| ours.name() == session) {
                        return Err(CaptureError::Gone {
                            doing: format!("{method}: the worker ended"),
                        });
                    }
                }
                _ => {}
            }
        }
        // What wraps a command to a worker is answered by the target itself, if it refuses it.
        let refused = incoming.error.is_some();
        let ours = from.as_deref() == self.session.as_ref().map(Session::name);
        Ok((ours || (refused && from.is_none())).then_some(incoming))
    }

    /// The workers of a target and the workers that those started: threads with heaps of their own.
    /// Empty if the target cannot have workers.
    ///
    /// # Errors
    /// As [`Connection::call`].
    pub fn workers(&mut self) -> Result<Vec<Worker>, CaptureError> {
        self.session = None;
        // The other kind of target has the other one, and a worker neither.
        if !self.attach("NodeWorker.enable", json!({"waitForDebuggerOnStart": false}))? {
            self.attach_all()?;
        }
        Ok(self.workers.sorted())
    }

    /// Makes a page announce its workers, and each worker the workers that it started.
    fn attach_all(&mut self) -> Result<(), CaptureError> {
        let mut asked = Vec::new();
        loop {
            self.attach(
                "Target.setAutoAttach",
                json!({"autoAttach": true, "waitForDebuggerOnStart": false, "flatten": true}),
            )?;
            asked.extend(self.session.take());
            let next = self
                .workers
                .sorted()
                .into_iter()
                .map(|worker| worker.session)
                .find(|session| !asked.contains(session));
            if next.is_none() {
                return Ok(());
            }
            self.session = next;
        }
    }

    /// Whether the receiver of commands knows the command. A receiver that ended before its answer
    /// does not.
    fn attach(&mut self, method: &str, parameters: Value) -> Result<bool, CaptureError> {
        match self.ask(method, &parameters) {
            Ok(_) => Ok(true),
            Err(CaptureError::Refused { .. }) => Ok(false),
            Err(CaptureError::Gone { .. })
                if self.session.as_ref().is_some_and(|session| !self.workers.has(session)) =>
            {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Has commands go to a worker, or with none to the target itself.
    pub fn turn_to(&mut self, worker: Option<&Worker>) {
        self.session = worker.map(|worker| worker.session.clone());
    }

    /// Sends a command and returns its answer; ignores events meanwhile.
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
        let value = self.value(expression)?;
        value.as_f64().ok_or_else(|| {
            CaptureError::Protocol(format!("{expression} gives {value}, expected a number"))
        })
    }

    /// The value of a JavaScript expression, as JSON.
    ///
    /// # Errors
    /// As [`Connection::call`], or it throws.
    pub fn value(&mut self, expression: &str) -> Result<Value, CaptureError> {
        let answer = self.ask("Runtime.evaluate", &Self::evaluation(expression));
        let mut answer = answer.map_err(|error| match error {
            // A Node that is ending has no context any more, and answers still.
            CaptureError::Refused { method, message } if message.starts_with(NO_CONTEXT) => {
                CaptureError::Gone { doing: method }
            }
            other => other,
        })?;
        match answer["exceptionDetails"].take() {
            Value::Null => Ok(answer["result"]["value"].take()),
            thrown => {
                let said = thrown["exception"]["description"].as_str().or(thrown["text"].as_str());
                Err(CaptureError::Protocol(format!(
                    "{expression} gives {}",
                    said.unwrap_or("an exception")
                )))
            }
        }
    }

    /// The dialogs that a page has opened since `Page.enable`, one a line, with the answer to each:
    /// a page with an open dialog does nothing else.
    pub fn dialogs(&self) -> impl Iterator<Item = String> + '_ {
        self.dialogs.lines()
    }

    /// Ends the connection. Closes the inspector if heaplab opened it (see [`Endpoint::opened`]). A
    /// dropped connection asks for the same without waiting.
    ///
    /// # Errors
    /// The inspector is still open after the time to connect.
    pub fn end(mut self, options: &Options) -> Result<(), CaptureError> {
        let Some(pid) = self.opened else { return Ok(()) };
        self.turn_to(None);
        // Ignore the answer: the process's sockets tell whether the inspector is closed. An ended
        // process is fine, too.
        if self.is_busy {
            let _ = self.send("Runtime.evaluate", &Self::evaluation(CLOSE_NOW));
        } else {
            let _ = self.number(CLOSE);
        }
        self.opened = None;
        drop(self);
        let until = Instant::now() + options.connect;
        while process::is_open(pid, options) {
            if Instant::now() >= until {
                let why = format!(
                    "its inspector, which was opened for this, is open still after {} s; `process._debugEnd()` in it closes it",
                    options.connect.as_secs()
                );
                return Err(CaptureError::Process { pid, why });
            }
            std::thread::sleep(LOOK_AGAIN);
        }
        Ok(())
    }

    fn evaluation(expression: &str) -> Value {
        json!({"expression": expression, "includeCommandLineAPI": true, "returnByValue": true, "silent": true})
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
        if self.opened.is_some() {
            let close = if self.is_busy { CLOSE_NOW } else { CLOSE };
            let _ = self.send("Runtime.evaluate", &Self::evaluation(close));
        }
        self.socket.close();
    }
}

fn parsed(message: &str) -> Result<Incoming, CaptureError> {
    serde_json::from_str(message)
        .map_err(|error| CaptureError::Protocol(format!("a message is not JSON: {error}")))
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
