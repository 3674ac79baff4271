//! Where places have no names: which modules' symbols are missing, and where debuggers look for
//! them.

use crate::{Options, model::share};
use heaplab_profile::Profile;
use heaplab_text::words::percent;
use heaplab_trace::tables::Tables;
use std::collections::BTreeMap;

/// Modules that are named.
const MODULES: usize = 3;

/// A sentence for users who can install symbols; `None`: nearly all places have names.
pub(crate) fn hint(tables: &Tables, profile: &Profile, options: &Options) -> Option<String> {
    let mut by_module: BTreeMap<u32, u64> = BTreeMap::new();
    let mut asked = 0u64;
    for row in profile.stacks.iter().filter(|row| row.stack != 0) {
        asked = asked.saturating_add(row.requested.bytes);
        let frames: Vec<u32> = tables.frames_of(row.stack).take(Tables::WRAPPERS_MAX + 1).collect();
        let place = frames.get(tables.site(&frames));
        let frame = place.and_then(|frame| tables.frames.get(*frame as usize));
        if let Some(module) =
            frame.filter(|frame| frame.function.is_none()).and_then(|frame| frame.module)
        {
            let bytes = by_module.entry(module).or_default();
            *bytes = bytes.saturating_add(row.requested.bytes);
        }
    }
    let nameless: u64 = by_module.values().fold(0, |sum, bytes| sum.saturating_add(*bytes));
    if nameless == 0 || nameless < asked / options.nameless_part.max(1) {
        return None;
    }
    let mut modules: Vec<(u64, u32)> =
        by_module.into_iter().map(|(module, bytes)| (bytes, module)).collect();
    modules.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
    let names: Vec<String> = modules
        .iter()
        .take(MODULES)
        .filter_map(|(_, module)| tables.modules.get(*module as usize))
        .map(|module| match looked_for(&module.build_id) {
            Some(file) => format!("{} ({file})", module.path),
            None => module.path.clone(),
        })
        .collect();
    let more = match modules.len().saturating_sub(MODULES) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    if tables.frames.iter().all(|frame| frame.function.is_none()) {
        return Some(
            "Stacks have no names: heaplab symbolize reads them from the program's files.".into(),
        );
    }
    Some(format!(
        "{} of the bytes were asked for by functions without a name in {}{more}. Install the debug symbols of their packages (Debian: NAME-dbgsym; Fedora: debuginfo-install; any: DEBUGINFOD_URLS and debuginfod-find debuginfo BUILD-ID), then run heaplab symbolize.",
        percent(share(nameless, asked)),
        names.join(", "),
    ))
}

/// The file that holds the symbols of this build wherever distributions install them.
fn looked_for(build_id: &str) -> Option<String> {
    let is_hex = build_id.len() > 2 && build_id.bytes().all(|byte| byte.is_ascii_hexdigit());
    let (first, rest) = build_id.split_at_checked(2).filter(|_| is_hex)?;
    Some(format!("/usr/lib/debug/.build-id/{first}/{rest}.debug"))
}
