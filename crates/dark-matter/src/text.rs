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
    let shown = Shown { is_difference: found.since.is_some() };
    out.wrapped("", &moment(found, shown));
    if !found.is_whole {
        out.warning("the recording ends before the reporters had answered: blocks that they had not reached count as unreported");
    }
    if found.asked == 0 {
        out.warning("no reporter named a block, so each counts as unreported: a program of yours may ask its reporters while they are there (HEAPLAB_MARK, `heaplab about PID`)");
    }
    list(out, "Reported twice or more", &found.twice, (found, shown), look);
    list(out, "Unreported", &found.unreported, (found, shown), look);
    list(out, "Reported once", &found.once, (found, shown), look);
    if !found.of_nothing.is_empty() {
        let all: u64 = found.of_nothing.iter().map(|(count, _)| count.unsigned_abs()).sum();
        out.heading(&so_many(all, "[report names|reports name] no live block"));
        out.wrapped("", "A block that was freed before, or an address that never was a block's:");
        for (times, stack) in found.of_nothing.iter().take(look.top) {
            out.line(&format!("  {}", shown.plural(*times, "report")));
            frames(out, "reported at", stack, look.width);
        }
    }
}

/// The moment that the lists are of.
fn moment(found: &DarkMatter, shown: Shown) -> String {
    let live = shown.amount(found.live);
    if let Some(before) = &found.since {
        return format!("Changes since {before}: {live} live.");
    }
    let when = duration(found.time_ns);
    let times = if found.asked <= 1 { "once".into() } else { count(found.asked) + " times" };
    let asked = match (found.asked, &found.mark) {
        (_, Some(mark)) => format!("{times}, at the mark {mark} at {when}"),
        (0 | 1, None) => format!("once at {when}"),
        (_, None) => format!("{times}, last at {when}"),
    };
    format!("The reporters were asked {asked}: {live} were live then.")
}

/// Amounts as they are, or with their signs.
#[derive(Clone, Copy)]
struct Shown {
    is_difference: bool,
}

impl Shown {
    fn sign(self, amount: i64) -> &'static str {
        match amount.signum() {
            -1 => "-",
            1 if self.is_difference => "+",
            _ => "",
        }
    }

    fn bytes(self, amount: i64) -> String {
        format!("{}{}", self.sign(amount), bytes(amount.unsigned_abs()))
    }

    fn plural(self, amount: i64, one: &str) -> String {
        format!("{}{}", self.sign(amount), plural(amount.unsigned_abs(), one))
    }

    fn amount(self, blocks: Blocks) -> String {
        format!("{} in {}", self.bytes(blocks.usable_bytes), self.plural(blocks.count, "block"))
    }

    /// The share in brackets; changes of different signs have none.
    fn share(self, part: i64, whole: i64, of: &str) -> String {
        if self.is_difference {
            return String::new();
        }
        format!(" ({}{of})", percent(part as f64 / whole.max(1) as f64))
    }
}

fn list(
    out: &mut Paint,
    title: &str,
    list: &List,
    (found, shown): (&DarkMatter, Shown),
    look: &Look,
) {
    let all = list.blocks;
    let share = shown.share(all.usable_bytes, found.live.usable_bytes, " of live bytes");
    out.heading(&format!("{title}: {}{share}", shown.amount(all)));
    for (index, group) in list.groups.iter().take(look.top).enumerate() {
        let Group { blocks, allocated_at, reported_at } = group;
        let share = shown.share(blocks.usable_bytes, all.usable_bytes, "");
        let (amount, slop) = (shown.amount(*blocks), shown.bytes(blocks.slop_bytes));
        out.line(&format!("{:>3}. {amount}{share}, slop {slop}", index + 1));
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
