//! Blocks that memory reporters name in their last answers.

use super::names::Names;
use crate::page::{compose::shorten, limits, model};
use heaplab_dark_matter::{DarkMatter, Group, List};

/// The section's model.
pub fn dark_matter(
    found: &DarkMatter,
    names: &mut Names,
    left_out: &mut Vec<String>,
) -> model::DarkMatter {
    let found = found.clone().with_frames(limits::STACK_FRAMES);
    let lists = [
        ("Reported twice or more", &found.twice),
        ("Unreported", &found.unreported),
        ("Reported once", &found.once),
    ];
    let lists = lists.map(|(name, list)| {
        let hidden = list.groups.len().saturating_sub(limits::LIVE_STACKS);
        if hidden > 0 {
            left_out
                .push(format!("Dark matter, {name}: the {hidden} groups with the least bytes."));
        }
        of_list(name, list, names)
    });
    model::DarkMatter {
        time_ns: found.time_ns,
        asked: found.asked,
        is_whole: found.is_whole,
        bytes: found.live.usable_bytes,
        of_nothing: found.of_nothing.iter().map(|(count, _)| count).sum(),
        lists: lists.into(),
    }
}

fn of_list(name: &'static str, list: &List, names: &mut Names) -> model::DarkList {
    let mut group = |group: &Group| model::DarkGroup {
        bytes: group.blocks.usable_bytes,
        slop_bytes: group.blocks.slop_bytes,
        blocks: group.blocks.count,
        allocated: stack(&group.allocated_at, names),
        reported: group.reported_at.iter().map(|frames| stack(frames, names)).collect(),
    };
    model::DarkList {
        name,
        bytes: list.blocks.usable_bytes,
        blocks: list.blocks.count,
        groups: list.groups.iter().take(limits::LIVE_STACKS).map(&mut group).collect(),
    }
}

fn stack(frames: &[String], names: &mut Names) -> Vec<u32> {
    let mut frame = |label: &String| {
        let label = shorten(label, limits::NAME_CHARS);
        names.add(model::Frame { label, ..model::Frame::default() })
    };
    frames.iter().map(&mut frame).collect()
}
