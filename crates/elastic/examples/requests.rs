//! Requests on threads, an arena each, as in a server that must stay small between rushes.
//!
//! Four threads answer 20,000 requests. Each parses its "body" into an arena that dies with the
//! answer; some leave a session that lives on. The example prints what the space holds in the
//! middle of the rush, after it, and when the sessions have gone.
//!
//! ```text
//! cargo run --release -p heaplab-elastic --example requests
//! ```

use allocator_api2::vec::Vec as ArenaVec;
use heaplab_elastic::{Arena, Error, Growth, Options, Reclaim, Space};
use std::collections::VecDeque;
use std::sync::Mutex;

const THREADS: usize = 4;
const REQUESTS: usize = 5_000;
const SESSIONS: usize = 200;

/// A client's session, in an arena of its own that any thread may drop.
struct Session {
    arena: Arena,
    name_bytes: usize,
}

/// Handles a request: sorts the fields of its body and builds an answer, all in the request's
/// arena.
fn answer(space: &Space, number: usize) -> Result<usize, Error> {
    let arena = space.arena(Growth::SMALL)?;
    let mut fields: ArenaVec<&str, &Arena> = ArenaVec::new_in(&arena);
    for field in 0..5 + number % 40 {
        fields.push(arena.alloc_str(&format!("field {} of request {number}", field * 7919 % 97))?);
    }
    fields.sort_unstable();
    let mut text: ArenaVec<u8, &Arena> = ArenaVec::new_in(&arena);
    for field in &fields {
        text.extend_from_slice(field.as_bytes());
    }
    Ok(text.len())
}

fn main() -> Result<(), Error> {
    // Half a megabyte may stay committed for the next requests.
    let space = Space::new(Options {
        reclaim: Reclaim::AtReturn { keep_bytes: 512 << 10 },
        ..Options::default()
    })?;
    let sessions = Mutex::new(VecDeque::new());
    let worker = &|thread: usize| -> Result<usize, Error> {
        let mut answered_bytes = 0;
        for number in 0..REQUESTS {
            answered_bytes += answer(&space, thread * REQUESTS + number)?;
            if number % 10 == 0 {
                let arena = space.arena(Growth::MICRO)?;
                let name_bytes =
                    arena.alloc_str(&format!("session {number} of thread {thread}"))?.len();
                let mut kept = sessions.lock().expect("no thread panics with it");
                kept.push_back(Session { arena, name_bytes });
                // The oldest one dies here, whichever thread made it.
                let oldest = if kept.len() > SESSIONS { kept.pop_front() } else { None };
                drop(kept);
                drop(oldest);
            }
        }
        Ok(answered_bytes)
    };
    let answered: Result<usize, Error> = std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..THREADS).map(|thread| scope.spawn(move || worker(thread))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a worker does not panic")).sum()
    });
    println!(
        "{} requests answered with {} bytes; {} sessions are left\n",
        THREADS * REQUESTS,
        answered?,
        space.arenas()
    );
    println!("{}", space.report()?);
    let mut sessions = sessions.into_inner().expect("no thread panicked");
    let of_names: usize = sessions.iter().map(|session| session.name_bytes).sum();
    let used: usize = sessions.iter().map(|session| session.arena.statistics().used_bytes).sum();
    println!("The sessions use {used} bytes for names of {of_names}.");
    sessions.clear();
    println!(
        "All sessions are gone: {} bytes are committed, {} of them idle.",
        space.committed_bytes(),
        space.idle_bytes()
    );
    let returned = space.trim()?;
    println!("A trim gave {returned} bytes back: {} are committed.", space.committed_bytes());
    Ok(())
}
