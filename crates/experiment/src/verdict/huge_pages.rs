//! Huge pages in the verdict: their part of a peak, and the setting under which space is compared.

use crate::results::{HeapResult, HugePages, Results, Space};
use heaplab_text::words;

/// Huge pages are mentioned if they are this part of the resident bytes or more: a heap with few
/// blocks may have little else.
const HUGE_SHARE: u64 = 4;

/// "18.01 MiB", "4.01 MiB, of which 4.00 MiB in huge pages,".
pub fn at_peak(space: &Space) -> String {
    let (all, huge) = (space.peak_resident_bytes, space.peak_huge_page_bytes);
    if huge > 0 && huge >= all / HUGE_SHARE {
        return format!(
            "{}, of which {} in huge pages,",
            words::bytes(all),
            words::bytes(huge.min(all))
        );
    }
    words::bytes(all)
}

/// The setting of huge pages for the comparison of space, with the figures of the other.
pub fn setting(results: &Results) -> Option<String> {
    let setting = results.settings.huge_pages?;
    let spaces =
        || results.heaps.iter().filter_map(|heap| Some((&heap.heap, heap.space.as_ref()?)));
    spaces().next()?;
    let compared = match setting {
        _ if results.settings.program_without_huge_pages => {
            return Some(
                "The program switched huge pages off (PR_SET_THP_DISABLE), and so do all cells, of space and of time."
                    .into(),
            );
        }
        HugePages::None => "Space is compared without huge pages, alike for all heaps",
        HugePages::System => {
            "Space is compared with huge pages as the system gives them and each heap asks for them"
        }
    };
    let others: Vec<String> = spaces()
        .filter_map(|(heap, space)| {
            let other = space.other_huge_pages?;
            let huge = match other.peak_huge_page_bytes {
                0 => String::new(),
                bytes => format!(" ({} in huge pages)", words::bytes(bytes)),
            };
            Some(format!("{heap} {}{huge}", words::bytes(other.peak_resident_bytes)))
        })
        .collect();
    let beside = match setting {
        HugePages::None if results.machine.huge_pages.is_empty() => "With the system's".into(),
        HugePages::None => format!("With the system's ({})", results.machine.huge_pages),
        HugePages::System => "Without them".into(),
    };
    let has_huge =
        |space: &Space| space.other_huge_pages.is_some_and(|other| other.peak_huge_page_bytes > 0);
    let is_alike = setting == HugePages::None && !spaces().any(|(_, space)| has_huge(space));
    Some(match others.len() {
        0 => format!("{compared} (--huge-pages)."),
        _ if is_alike => {
            format!("{compared} (--huge-pages). {beside} nothing lies in huge pages either.")
        }
        _ => format!("{compared} (--huge-pages). {beside} the peaks are: {}.", others.join(", ")),
    })
}

/// Bytes in huge pages, which are resident whole.
pub fn resident(results: &Results) -> Option<String> {
    if results.machine.huge_pages == "never" {
        return None;
    }
    let has_some = |space: &Space| space.peak_huge_page_bytes > 0;
    let heaps = results.heaps.iter().filter_map(|heap| Some((heap, heap.space.as_ref()?)));
    let found: Vec<(&HeapResult, &Space)> = heaps.filter(|(_, space)| has_some(space)).collect();
    let parts: Vec<String> = found
        .iter()
        .map(|(heap, space)| {
            let (huge, all) = (space.peak_huge_page_bytes, space.peak_resident_bytes);
            format!("{} of the {} of {}", words::bytes(huge), words::bytes(all), heap.heap)
        })
        .collect();
    let mut switches: Vec<&str> =
        found.iter().filter_map(|(heap, _)| heap.without_huge_pages.as_deref()).collect();
    switches.dedup();
    let mut how = Vec::from_iter((!switches.is_empty()).then(|| switches.join(", ")));
    let without: Vec<&str> = found
        .iter()
        .filter(|(heap, _)| heap.without_huge_pages.is_none())
        .map(|(heap, _)| heap.heap.as_str())
        .collect();
    if !without.is_empty() {
        how.push(format!("{} has no switch for it, only the system has: /sys/kernel/mm/transparent_hugepage/enabled", without.join(", ")));
    }
    (!found.is_empty()).then(|| {
        format!(
            "At the peak {} lie in huge pages, which the kernel makes resident whole, used or not: without them the figure is another ({}).",
            parts.join(", "),
            how.join("; ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::results;
    use super::*;
    use crate::results::OtherHugePages;

    #[test]
    fn space_is_of_one_setting_of_huge_pages_and_the_other_stands_beside_it() {
        let mut results = results([18 << 20, 5 << 20], 3.6, 10, 1);
        assert_eq!(setting(&results), None, "results of before");
        results.settings.huge_pages = Some(HugePages::None);
        results.machine.huge_pages = "always".into();
        let other =
            OtherHugePages { peak_resident_bytes: 22 << 20, peak_huge_page_bytes: 18 << 20 };
        results.heaps[0].space.as_mut().unwrap().other_huge_pages = Some(other);
        assert_eq!(
            setting(&results).unwrap(),
            "Space is compared without huge pages, alike for all heaps (--huge-pages). With the system's (always) the peaks are: b 22.0 MiB (18.0 MiB in huge pages)."
        );
        results.settings.program_without_huge_pages = true;
        assert!(setting(&results).unwrap().starts_with("The program switched"));
    }
}
