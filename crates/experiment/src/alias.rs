//! `NAME=lib:/path`: a short name for a library's heap, under which results show it.

use crate::results::Results;
use heaplab_heap::FamilyError;
use heaplab_replay::Selected;

/// The list without aliases, and the alias of each library in it, in order.
pub fn split(list: &str) -> (String, Vec<Option<String>>) {
    let mut aliases = Vec::new();
    let pieces: Vec<&str> = list
        .split(',')
        .map(|piece| {
            let Some((alias, heap)) = piece.split_once('=').filter(|(alias, heap)| {
                heap.starts_with("lib:") && !alias.contains([':', '/']) && !alias.is_empty()
            }) else {
                if piece.starts_with("lib:") {
                    aliases.push(None);
                }
                return piece;
            };
            aliases.push(Some(alias.to_string()));
            heap
        })
        .collect();
    (pieces.join(","), aliases)
}

/// Each alias with the full name of its heap.
///
/// # Errors
/// Two heaps would have one name.
pub fn names(
    heaps: &[Box<dyn Selected>],
    aliases: Vec<Option<String>>,
) -> Result<Vec<(String, String)>, FamilyError> {
    let full: Vec<String> = heaps.iter().map(ToString::to_string).collect();
    let libraries = full.iter().filter(|name| name.starts_with("lib:"));
    let named: Vec<(String, String)> =
        libraries.zip(aliases).filter_map(|(name, alias)| Some((alias?, name.clone()))).collect();
    for (place, (alias, _)) in named.iter().enumerate() {
        if full.contains(alias) || named[..place].iter().any(|(other, _)| other == alias) {
            let what = format!("--on: {alias} names two heaps: choose another name");
            return Err(FamilyError::Wrong(what));
        }
    }
    Ok(named)
}

/// Shows the heaps under their aliases.
pub fn rename(results: &mut Results, names: &[(String, String)]) {
    for (alias, full) in names {
        let set = |name: &mut String| {
            if name == full {
                name.clone_from(alias);
            }
        };
        for heap in &mut results.heaps {
            if heap.heap == *full {
                heap.alias_of = Some(full.clone());
            }
            set(&mut heap.heap);
        }
        for comparison in &mut results.comparisons {
            set(&mut comparison.heap);
            set(&mut comparison.baseline);
        }
    }
    if !names.is_empty() {
        results.verdict = crate::verdict::sentences(results);
        results.cautions = crate::verdict::cautions(results);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use heaplab_replay::{Families, Of};
    use heaplab_system::Allocators;

    const FAMILIES: Families = Families(&[&Of(Allocators)]);

    #[test]
    fn libraries_have_short_names() {
        let (list, aliases) =
            split("glibc:arena_max=1,mmap_threshold=65536,mine=lib:/opt/a.so,A=1,lib:/opt/b.so");
        assert_eq!(list, "glibc:arena_max=1,mmap_threshold=65536,lib:/opt/a.so,A=1,lib:/opt/b.so");
        assert_eq!(aliases, [Some("mine".into()), None]);
        assert_eq!(split("glibc,glibc:arena_max=1"), ("glibc,glibc:arena_max=1".into(), vec![]));
    }

    #[test]
    fn one_name_is_of_one_heap() {
        let named = |text: &str| {
            let (list, aliases) = split(text);
            names(&FAMILIES.parse_list(&list).unwrap(), aliases).map_err(|error| error.to_string())
        };
        assert_eq!(
            named("glibc,a=lib:/opt/a.so,b=lib:/opt/b.so"),
            Ok(vec![("a".into(), "lib:/opt/a.so".into()), ("b".into(), "lib:/opt/b.so".into())])
        );
        for twice in ["glibc=lib:/opt/a.so,glibc", "a=lib:/opt/a.so,a=lib:/opt/b.so"] {
            assert!(named(twice).unwrap_err().contains("names two heaps"), "{twice}");
        }
    }
}
