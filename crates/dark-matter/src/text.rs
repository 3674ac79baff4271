//! Dark matter in a terminal, as DMD's output: lists by bytes, with stacks.

use crate::{Blocks, DarkMatter, Group, List};
use heaplab_text::lines::{cut, one_line};
use heaplab_text::paint::{Look, Paint};
use heaplab_text::words::{bytes, count, duration, percent, plural, so_many};

/// Frames that tell a person where a block comes from, as in DMD's output.
pub const FRAMES: usize = 8;

/// The lists as text, each with as many groups as `look` allows.
pub fn render(found: &DarkMatter, process: &str, look: &Look) -> String {
    let mut out = Paint::new(look.width, look.colour);
    out.title(&cut(&format!("Dark matter of {process}"), look.width));
    section(&mut out, found, look);
    out.finish()
}

/// The lists below the caller's own heading.
pub fn section(out: &mut Paint, found: &DarkMatter, look: &Look) {
    let when = duration(found.time_ns);
    let asked = match (found.asked, &found.mark) {
        (times, Some(mark)) => {
            format!("The reporters were asked {}, at the mark {mark} at {when}", so_often(times))
        }
        (1, None) => format!("The reporters were asked once at {when}"),
        (times, None) => format!("The reporters were asked {}, last at {when}", so_often(times)),
    };
    out.wrapped("", &format!("{asked}: {} were live then.", amount(found.live)));
    if !found.is_whole {
        out.warning("the recording ends before they had answered: what they had not reached counts as unreported");
    }
    list(out, "Reported twice or more", &found.twice, found, look);
    list(out, "Unreported", &found.unreported, found, look);
    list(out, "Reported once", &found.once, found, look);
    if !found.of_nothing.is_empty() {
        let all = found.of_nothing.iter().map(|(count, _)| count).sum();
        out.heading(&so_many(all, "[report names|reports name] no live block"));
        out.wrapped("", "A block that was freed before, or an address that never was a block's:");
        for (times, stack) in found.of_nothing.iter().take(look.top) {
            out.line(&format!("  {}", plural(*times, "report")));
            frames(out, "reported at", stack, look.width);
        }
    }
}

fn so_often(times: u64) -> String {
    if times == 1 { "once".into() } else { format!("{} times", count(times)) }
}

fn amount(blocks: Blocks) -> String {
    format!("{} in {}", bytes(blocks.usable_bytes), plural(blocks.count, "block"))
}

fn list(out: &mut Paint, title: &str, list: &List, found: &DarkMatter, look: &Look) {
    let part = |part: u64, whole: u64| percent(part as f64 / whole.max(1) as f64);
    let all = list.blocks;
    let share = part(all.usable_bytes, found.live.usable_bytes);
    out.heading(&format!("{title}: {} ({share} of live bytes)", amount(all)));
    for (index, group) in list.groups.iter().take(look.top).enumerate() {
        let Group { blocks, allocated_at, reported_at } = group;
        let share = part(blocks.usable_bytes, all.usable_bytes);
        let slop = bytes(blocks.slop_bytes);
        out.line(&format!("{:>3}. {} ({share}), slop {slop}", index + 1, amount(*blocks)));
        frames(out, "allocated at", allocated_at, look.width);
        for stack in reported_at {
            frames(out, "reported at", stack, look.width);
        }
    }
    let left = list.groups.len().saturating_sub(look.top);
    if left > 0 {
        out.dim(&format!("     {} more", plural(left as u64, "group")));
    }
}

fn frames(out: &mut Paint, title: &str, stack: &[String], width: usize) {
    out.dim(&format!("     {title}"));
    if stack.is_empty() {
        out.line("       (no stack)");
    }
    for frame in stack {
        out.line(&format!("       {}", cut(&one_line(frame), width.saturating_sub(7))));
    }
}
