//! A program that says what it keeps in memory: a cache of pages, users by name, and a journal that
//! two reporters claim. `cargo run -p reporters`, then `heaplab about PID` in another terminal;
//! `heaplab pressure PID` empties the cache. It ends when its standard input does.

use heaplab_reporter::{Kind, Measure, Sink, SizeOf, Units, mark, on_pressure, register, serve};
use std::collections::{BTreeMap, HashMap};
use std::io::Read;
use std::sync::{Arc, Mutex};

/// What the program keeps.
#[derive(Default)]
struct Store {
    /// Pages that were read, and can be read again.
    cache: HashMap<u64, Box<[u8]>>,
    users: BTreeMap<String, Vec<u64>>,
    journal: Vec<String>,
    /// What its author forgot to report.
    forgotten: Vec<Vec<u8>>,
}

impl Store {
    fn filled() -> Store {
        let mut store = Store::default();
        for number in 0..200 {
            store.cache.insert(number, vec![0; 16 << 10].into());
            store.users.insert(format!("user {number}"), (0..number).collect());
            store.journal.push(format!("page {number} was read, and it had sixteen kibibytes"));
        }
        store.forgotten = vec![vec![0; 100_000]; 8];
        store
    }
}

type Shared = Arc<Mutex<Store>>;

/// Every reporter waits for nobody: who holds the lock says so.
fn report(store: &Shared, sink: &mut Sink, with: impl FnOnce(&Store, &mut Sink, &mut Measure)) {
    match store.try_lock() {
        Ok(store) => with(&store, sink, &mut Measure::new()),
        Err(_) => sink.skip("the store is in use"),
    }
}

fn main() -> std::io::Result<()> {
    let store: Shared = Arc::new(Mutex::new(Store::filled()));
    let (main, journal, cache) = (Arc::clone(&store), Arc::clone(&store), Arc::clone(&store));
    let _store = register(move |sink| {
        report(&main, sink, |store, sink, measure| {
            let mut heap = |path: &str, bytes: usize, description: &str| {
                sink.bytes(path, Kind::Heap, bytes as i64, description);
            };
            heap("explicit/store/cache", store.cache.heap_bytes(measure), "Pages read before.");
            heap("explicit/store/users", store.users.heap_bytes(measure), "Users by name.");
            heap("explicit/store/journal", store.journal.heap_bytes(measure), "What was done.");
            let pages = store.cache.len() as i64;
            sink.report("cached-pages", Kind::Other, Units::Count, pages, "Pages in the cache.");
        });
    });
    // A second author did not know of the first.
    let _journal = register(move |sink| {
        report(&journal, sink, |store, sink, measure| {
            let bytes = store.journal.heap_bytes(measure) as i64;
            sink.bytes("explicit/log/lines", Kind::Heap, bytes, "Lines of the log.");
        });
    });
    let _pressure = on_pressure(move || {
        if let Ok(mut store) = cache.lock() {
            store.cache = HashMap::new();
        }
    });
    let _serving = serve()?;
    mark("loaded");
    println!("heaplab about {}", std::process::id());
    std::io::stdin().read_to_end(&mut Vec::new())?;
    let left = store.lock().map_or(0, |store| store.forgotten.len());
    println!("{left} blocks were forgotten");
    Ok(())
}
