//! The savings of a change, predicted from a recording and compared with the same program built
//! with that change; and the document's own fixes as changes of its workloads.
//!
//! `traces/what-if/record.sh` made the recordings: three programs, each unchanged (`before`) and
//! changed (`after`). The comparison uses figures that do not differ from run to run: requests,
//! bytes requested, and the bytes that each allocator's size classes give at the peak.

use crate::workloads::Workload;
use anyhow::Result;
use heaplab_profile::Profile;
use heaplab_size_class::Allocator;
use heaplab_study::in_tree;
use heaplab_text::words::count;
use heaplab_trace::bundle::{Bundle, Selection};
use heaplab_trace::source::Slice;
use heaplab_trace::tables::Tables;
use heaplab_trace::{Event, EventSource};
use heaplab_what_if::{Change, Changer, Growth, Place, Rule, SizeRow, Sizes};

/// SQLite without the eight bytes in front of every block.
pub fn sqlite() -> Result<String> {
    predicted("sqlite", &[Rule::size("*:-8")?])
}

/// gawk's strings, which every `s = s t` makes just large enough, in powers of two. The patch does
/// not change the copies that `concat_exp` makes within r_interpret, so the rule leaves them out.
pub fn gawk() -> Result<String> {
    let rule = Rule::grow("r_interpret=pow2")?;
    predicted("gawk", &[Rule { except: vec!["concat_exp".into()], ..rule }])
}

/// zstd's context, made once instead of for every frame.
pub fn zstd() -> Result<String> {
    predicted("zstd", &[Rule::reuse("ZSTD_createCCtx")?, Rule::reuse("ZSTD_compressCCtx")?])
}

/// A workload's requests, and its blocks at the peak.
#[derive(Clone, Copy, Debug)]
struct Asked {
    requests: u64,
    total_bytes: u64,
    peak_bytes: u64,
    /// Usable bytes at the peak on jemalloc and mimalloc.
    usable: [u64; 2],
}

const ALLOCATORS: [Allocator; 2] = [Allocator::Jemalloc, Allocator::Mimalloc];

impl Asked {
    fn of(tables: &Tables, source: &mut impl EventSource) -> Result<Asked> {
        let options = heaplab_profile::ProfileOptions::default();
        let profile = Profile::of(tables, source, &options)?;
        let usable = |allocator: Allocator| {
            let sizes = profile.sizes.iter();
            sizes.map(|row| row.at_peak.objects * allocator.usable(row.request, 1)).sum()
        };
        Ok(Asked {
            requests: profile.totals.requests,
            total_bytes: profile.totals.requested_bytes,
            peak_bytes: profile.peak.live.bytes,
            usable: ALLOCATORS.map(usable),
        })
    }

    fn parts(&self) -> [(&'static str, u64); 5] {
        let [jemalloc, mimalloc] = self.usable;
        [
            ("peak", self.peak_bytes),
            ("on jemalloc", jemalloc),
            ("on mimalloc", mimalloc),
            ("over the run", self.total_bytes),
            ("requests", self.requests),
        ]
    }
}

fn predicted(program: &str, rules: &[Rule]) -> Result<String> {
    let open = |which: &str| {
        let path = format!("traces/what-if/{program}-{which}.heaplab");
        Bundle::open(&in_tree(&path))
    };
    let (before, after) = (open("before")?, open("after")?);
    let mut events = Vec::new();
    let mut changer = Changer::new(before.tables(), rules, None)?;
    before.events(Selection::default())?.for_each(|event| changer.push(event, &mut events))?;
    changer.finish(&mut events)?;
    let asked =
        |bundle: &Bundle| Asked::of(bundle.tables(), &mut bundle.events(Selection::default())?);
    let would_be = Asked::of(before.tables(), &mut Slice(&events))?;
    Ok(beside(&asked(&before)?, &would_be, &asked(&after)?))
}

/// Each part's change, predicted and real, with the prediction's error.
fn beside(before: &Asked, predicted: &Asked, real: &Asked) -> String {
    let parts = before.parts().into_iter().zip(predicted.parts().into_iter().zip(real.parts()));
    let words = parts.map(|((what, was), ((_, predicted), (_, real)))| {
        let change = |now: u64| now as i64 - was as i64;
        let (predicted, real) = (change(predicted), change(real));
        let off = match real {
            0 if predicted == 0 => "none".to_owned(),
            0 => "none was real".to_owned(),
            _ => {
                let off = (predicted - real) as f64 / real.abs() as f64 * 100.0;
                format!("{:.1} % off", off.abs())
            }
        };
        format!("{what} {} for {} ({off})", signed(predicted), signed(real))
    });
    words.collect::<Vec<_>>().join("; ")
}

fn signed(number: i64) -> String {
    let sign = if number < 0 { "-" } else { "+" };
    if number == 0 { "0".into() } else { format!("{sign}{}", count(number.unsigned_abs())) }
}

/// One change of a generated workload; all requests have the same stack.
fn changed(workload: &Workload, change: Change) -> Result<Vec<Event>> {
    let place = Place::Stacks { name: "it".into(), stacks: vec![1] };
    let rules = [Rule { place, except: Vec::new(), change }];
    let mut changer = Changer::new(&workload.tables(), &rules, None)?;
    let mut events = Vec::new();
    for event in &workload.events {
        changer.push(event, &mut events)?;
    }
    changer.finish(&mut events)?;
    Ok(events)
}

/// The document's buffer of 1 MiB that grows by whole pages, changed to double.
pub fn doubling() -> Result<String> {
    let mut workload = Workload::default();
    let buffer = workload.allocate(4_096);
    (2..=256).for_each(|pages| workload.reallocate(buffer, pages * 4_096));
    let events = changed(&workload, Change::Grow(Growth::Factor(2.0)))?;
    let bytes = |events: &[Event]| events.iter().map(|event| event.size).sum::<u64>();
    Ok(format!("{} -> {}", count(bytes(&workload.events)), count(bytes(&events))))
}

/// The 24 buffers of Necko's cache without the extra word, on the allocator of 2011.
pub fn necko() -> Result<String> {
    let mut workload = Workload::default();
    (0..24).for_each(|_| {
        workload.allocate(32 * 1024 + 8);
    });
    let events = changed(&workload, Change::Sizes(Sizes::Less(8)))?;
    let usable = |events: &[Event]| {
        events.iter().map(|event| Allocator::Firefox2011.usable(event.size, 1)).sum::<u64>()
    };
    Ok(format!("-{} KB", (usable(&workload.events) - usable(&events)) / 1024))
}

/// 40 MB in arenas of 4,096 bytes and a header of 32, and in arenas of 4,096 with the header
/// inside: the prediction of the finding's fix, and the arenas with that fix.
pub fn plarena() -> Result<String> {
    const PAYLOAD: u64 = 40_000_000;
    const HEADER: u64 = 32;
    let arenas = |payload: u64| {
        let mut workload = Workload::default();
        (0..PAYLOAD.div_ceil(payload)).for_each(|_| {
            workload.allocate(payload + HEADER);
        });
        workload
    };
    let (outside, inside) = (arenas(4_096), arenas(4_096 - HEADER));
    let row = SizeRow { from: 4_096 + HEADER, to: 4_096, beside: 0, displaces: true };
    let events = changed(&outside, Change::Sizes(Sizes::Table(vec![row])))?;
    let usable = |events: &[Event]| {
        events.iter().map(|event| Allocator::Firefox2011.usable(event.size, 1)).sum::<u64>()
    };
    let [was, would_be, real] =
        [&outside.events[..], &events, &inside.events].map(|events| usable(events) as i64);
    Ok(format!("{} for {}", signed(would_be - was), signed(real - was)))
}
