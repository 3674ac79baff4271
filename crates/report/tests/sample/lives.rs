//! The ranges computed from the events one by one, to check the page's figures.

use heaplab_report::page::model;
use heaplab_trace::{Event, Op, tables::Tables};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};

/// A life: from a request to a release, `u64::MAX` for what lives at the end.
#[derive(Clone, Copy, Debug)]
struct Life {
    began: u64,
    ended: u64,
    bytes: u64,
    stack: u32,
    temporary: bool,
}

fn lives(events: &[Event]) -> Vec<Life> {
    let mut live: HashMap<u64, Life> = HashMap::new();
    let mut last: HashMap<u32, u64> = HashMap::new();
    let mut ended = Vec::new();
    for event in events.iter().filter(|event| event.counts()) {
        if !matches!(event.op, Op::Alloc | Op::Realloc | Op::Free) {
            continue;
        }
        if let Some(life) = live.remove(&event.object) {
            let temporary = event.op == Op::Free && last.get(&event.thread) == Some(&event.object);
            ended.push(Life { ended: event.time_ns, temporary, ..life });
        }
        if event.op == Op::Free {
            if last.get(&event.thread) == Some(&event.object) {
                last.remove(&event.thread);
            }
            continue;
        }
        last.insert(event.thread, event.object);
        let (began, bytes, stack) = (event.time_ns, event.size, event.stack);
        let life = Life { began, ended: u64::MAX, bytes, stack, temporary: false };
        live.insert(event.object, life);
    }
    ended.extend(live.into_values());
    ended
}

/// Three ranges of a page that counts ranges, with expectations from the events: objects and bytes
/// of every measure, and by innermost function the bytes live at its end and requested inside.
pub fn expected(page: &model::Page, tables: &Tables, events: &[Event]) -> Value {
    let Some(ranges) = &page.ranges else { return json!([]) };
    let lives = lives(events);
    let at = |step: usize| ranges.first + step as u64 * ranges.width;
    let steps = ranges.steps;
    let chosen = [(0, steps / 3), (steps / 4, steps / 2 + 1), (steps - steps.min(3), steps)];
    let of = chosen.iter().map(|(from, to)| {
        let (from, to) = (at(*from), at(*to));
        let inside = |at: u64| from <= at && at < to;
        let sum = |passes: &dyn Fn(&Life) -> bool| {
            let passing = || lives.iter().filter(|life| passes(life));
            json!({"objects": passing().count(), "bytes": passing().map(|life| life.bytes).sum::<u64>()})
        };
        let is_live = |life: &Life| life.began < to && life.ended >= to;
        let by_function = |passes: &dyn Fn(&Life) -> bool| {
            let mut sums: BTreeMap<String, u64> = BTreeMap::new();
            for life in lives.iter().filter(|life| passes(life) && life.bytes > 0) {
                let frame = tables.frames_of(life.stack).next();
                let label = frame.map_or_else(|| "(no stack recorded)".into(), |frame| tables.frame_label(frame));
                *sums.entry(label).or_default() += life.bytes;
            }
            sums
        };
        json!({
            "from": from, "to": to,
            "live": sum(&is_live),
            "kept": sum(&|life| inside(life.began) && is_live(life)),
            "asked": sum(&|life| inside(life.began)),
            "freed": sum(&|life| inside(life.ended)),
            "temporary": sum(&|life| inside(life.ended) && life.temporary),
            "before": sum(&|life| life.began < from && life.ended >= from),
            "live_by_function": by_function(&is_live),
            "asked_by_function": by_function(&|life| inside(life.began)),
        })
    });
    of.collect()
}
