//! The page in a real browser, through what `crates/report/tests/browser` installs.

use heaplab_compare::{Reducer, page};
use heaplab_report::{Shown, analyse};
use heaplab_trace::bundle::{Bundle, Selection};
use std::path::Path;

#[test]
fn the_page_shows_what_it_should_in_chromium() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let Some(mut node) = heaplab_oracle::browser_tests() else { return };
    let mut reducer = Reducer::default();
    // Chromium breaks a path at hyphens only.
    let folder = tempfile::tempdir().unwrap();
    let traces = folder
        .path()
        .join("a_folder_whose_name_is_wider_than_a_phone_and_has_no_place_to_break_at");
    std::os::unix::fs::symlink(here.join("../../traces/what-if"), &traces).unwrap();
    let [before, after] = ["before", "after"].map(|side| {
        let path = traces.join(format!("gawk-{side}.heaplab"));
        let bundle = Bundle::open(&path).unwrap();
        let analysis =
            analyse(&bundle, Selection::default(), None, Vec::new(), &mut |_| {}).unwrap();
        vec![reducer.reduce(&bundle, &analysis, &Shown::Nothing)]
    });
    let file = folder.path().join("compare.html");
    std::fs::write(&file, page::html(&reducer.compare(before, after, "peak"))).unwrap();
    let status = node.arg(here.join("tests/page.test.mjs")).env("HEAPLAB_PAGE", &file).status();
    assert!(status.expect("node starts").success(), "the browser saw something else: see above");
}
