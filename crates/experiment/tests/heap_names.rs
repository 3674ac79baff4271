//! Names of heaps that users type, and the answer to those that are wrong.

use heaplab_arena::Arenas;
use heaplab_experiment::HeapCell;
use heaplab_heap::FamilyError;
use heaplab_metaspace::Metaspaces;
use heaplab_replay::{Families, Of, Selected};
use heaplab_system::Allocators;

const FAMILIES: Families = Families(&[&Of(Allocators), &Of(Metaspaces), &Of(Arenas)]);

fn parse_list(list: &str) -> Result<Vec<Box<dyn Selected>>, FamilyError> {
    FAMILIES.parse_list(list)
}

#[test]
fn huge_pages_are_kept_away_by_each_heaps_own_switch() {
    let switch =
        |name: &str| HeapCell::of(&*parse_list(name).unwrap()[0], false).without_huge_pages;
    for (heap, expected) in [
        ("glibc", None),
        ("glibc:hugetlb=1", Some("glibc:hugetlb=0")),
        ("jemalloc:narenas=1", Some("jemalloc:thp=never")),
        ("jemalloc:thp=never", None),
        ("mimalloc", Some("mimalloc:allow_thp=false")),
        ("mimalloc:allow_thp=false", None),
        ("lib:/a/libx.so", None),
        ("elastic", None),
        ("elastic:huge_pages=true", Some("elastic:huge_pages=false")),
        ("bump", None),
        ("metaspace:jdk17", None),
    ] {
        let switch = switch(heap);
        assert_eq!(switch.as_deref(), expected, "{heap}");
        // It can be typed, and is the end of it.
        assert!(switch.is_none_or(|named| {
            HeapCell::of(&*parse_list(&named).unwrap()[0], false).without_huge_pages.is_none()
        }));
    }
}

#[test]
fn parameters_belong_to_the_heap_before_them() {
    let names =
        |list: &str| parse_list(list).unwrap().iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(names("glibc,jemalloc, mimalloc"), ["glibc", "jemalloc", "mimalloc"]);
    assert_eq!(
        names("jemalloc:narenas=1,dirty_decay_ms=0,glibc:arena_max=1,lib:/a/libx.so,CONF=a:b"),
        ["jemalloc:narenas=1,dirty_decay_ms=0", "glibc:arena_max=1", "lib:/a/libx.so,CONF=a:b"]
    );
    assert_eq!(
        names(
            "metaspace:jdk17,reclaim=aggressive,elastic,elastic:granule=64k,growth=fast,malloc,bump,metaspace:jdk11"
        ),
        [
            "metaspace:jdk17,reclaim=aggressive",
            "elastic",
            "elastic:granule=64k,growth=fast",
            "glibc",
            "bump",
            "metaspace:jdk11"
        ]
    );
    // A comma and a colon mean the same.
    assert_eq!(names("metaspace:jdk17:reclaim=aggressive"), ["metaspace:jdk17,reclaim=aggressive"]);
    assert_eq!(names("glibc,arena_max=1,bump"), ["glibc:arena_max=1", "bump"]);
}

#[test]
fn what_is_wrong_is_said_with_what_was_meant() {
    for (list, expected) in [
        ("metaspace:jdk9", "there are jdk11"),
        ("metaspace", "there are jdk11"),
        (
            "elastic:speed=1",
            "it has granule, growth, reclaim, keep, interval, huge_pages, limit; for example elastic:growth=fast",
        ),
        ("elastic:grwoth=fast", "did you mean growth?"),
        ("bump:x=1", "bump has no parameters"),
        ("malloc,glibc", "named twice"),
        ("", "no heap"),
        ("glibc,glibc", "named twice"),
        ("null", "leave it out"),
        ("glib", "there is no heap \"glib\"; did you mean glibc? heaplab heaps lists all"),
        ("tcmalloc", "there is no heap \"tcmalloc\"; "),
        ("./libmine.so", "a library is named lib:./libmine.so"),
        ("libmine.so", "a library is named lib:libmine.so"),
    ] {
        let error = parse_list(list).unwrap_err().to_string();
        assert!(error.contains(expected), "{list}: {error}");
    }
}
