//! Operation lists on V8's heap: objects keep their contents wherever they are moved, what dies is
//! found, and every free byte is in one place after each collection.
//!
//! The first byte chooses a strategy: one by name, or one from a file, which the three bytes behind
//! describe. The next byte chooses version, compaction and the other parameters; then five bytes an
//! operation.

use crate::operations::operations;
use heaplab_heap::collected_conformance::drive;
use heaplab_v8::own::OwnPage;
use heaplab_v8::strategy::Strategy;
use heaplab_v8::{Spec, V8Heap, described, documented};

/// Half of what a page may hold at most as one object; what is larger has pages of its own.
const LARGEST_REGULAR_BYTES: usize = 131_072;
/// Small semi-spaces and limits, so that few births make a collector work.
const PARAMETERS: [&str; 17] = [
    "semi_space=512k,compact=never",
    "semi_space=512k,compact=always",
    "semi_space=512k,compact=regular",
    "semi_space=512k,compact=never,version=7.8",
    "semi_space=512k,compact=always,version=8.1",
    "semi_space=512k,compact=always,version=8.4",
    "semi_space=512k,compact=never,version=8.4,shape=plain",
    "semi_space=512k,compact=always,version=7.8,shape=plain,limit=3m",
    "semi_space=1m,limit=2m",
    "semi_space=512k,limit=6m,compact=never,overhead=10",
    "semi_space=512k,limit=4m,compact=always",
    "semi_space=512k,tasks=3",
    "semi_space=512k,tasks=8,compact=always,limit=8m",
    "semi_space=512k,every=20,categories=true",
    "semi_space=512k,sweeping=whole,every=30",
    "semi_space=512k,sweeping=whole,maps=linked-last,limit=3m,compact=always",
    "semi_space=512k,base=261000+100+24r,compact=always",
];

/// One input.
pub fn run(input: &[u8]) {
    let [choice, parameters, rest @ ..] = input else { return };
    let mut known = documented::all();
    let own = usize::from(*choice).checked_sub(known.len());
    let (strategy, rest) = match own.zip(rest.split_first_chunk::<3>()) {
        Some((_, (ways, rest))) => (strategy(*ways), rest),
        None => (known.swap_remove(usize::from(*choice) % known.len()), rest),
    };
    let text = PARAMETERS[usize::from(*parameters) % PARAMETERS.len()];
    let mut spec = Spec::parse(text).expect("known parameters");
    spec.strategy = strategy;
    // In half of all lists the runtime's own objects are known, and move.
    if *parameters > 127 {
        let area_bytes = spec.version.area_bytes as u32;
        spec.base = Some((0..3).map(|number| own_page(number, area_bytes)).collect());
    }
    let operations = operations(rest, LARGEST_REGULAR_BYTES);
    drive(V8Heap::new(spec).expect("address space"), &operations).expect("a sound heap");
}

/// A page full of the runtime's own objects, as `node` leaves them: what is left of a page with
/// holes would serve the workload. The first one is cut short, and stays.
fn own_page(number: u32, area_bytes: u32) -> OwnPage {
    let cut_bytes = if number == 0 { 100_000 } else { 0 };
    let end = area_bytes - cut_bytes;
    let (mut objects, mut at) = (Vec::new(), 0);
    while at < end {
        let bytes = 1_496 + 8 * number + 32 * (objects.len() as u32 % 40);
        let bytes = if end - at < 2 * bytes { end - at } else { bytes };
        objects.push((at, bytes));
        at += bytes;
    }
    let remembered = number == 1;
    OwnPage { live_bytes: end, objects, cut_bytes, stays: number == 0, remembered }
}

/// A strategy as a file describes it: categories that grow by a factor, and ways to search, to
/// switch, to steal and to order pages.
fn strategy([first, growth, ways]: [u8; 3]) -> Strategy {
    const SEARCHES: [&str; 8] = [
        "\"precise\"",
        "\"exhaustive\"",
        "\"largest-first\"",
        "\"fast-path\"",
        "[{ from = { room_bytes = 64 }, before = \"last\", look = \"top\" }, { from = \"last\", look = \"all\" }]",
        "[{ from = \"last\", look = \"all\" }, { from = \"own\", look = \"top\" }]",
        "[{ from = \"last\", down_to = \"own\", look = \"all\", request_bytes_max = 512 }, { from = \"last\", look = \"all\" }]",
        "[{ from = \"own\", to = \"last\", look = \"all\", unless_last = \"own\" }, { from = \"last\", look = \"all\" }]",
    ];
    let grow = |bytes: &usize| {
        Some(bytes * (9 + usize::from(growth % 24)) / 8)
            .map(|next| next.next_multiple_of(8))
            .filter(|next| next > bytes && *next < 1 << 17)
    };
    let minimums: Vec<usize> =
        std::iter::successors(Some(24 + 8 * usize::from(first)), grow).collect();
    let search = |ways: u8| SEARCHES[usize::from(ways) % SEARCHES.len()];
    let steal = ["next-above", "largest-first"][usize::from(ways >> 4) % 2];
    let pages = ["linked-last", "fullest-first", "emptiest-first"][usize::from(ways >> 5) % 3];
    let guarantee = ["category-minimum", "category-below"][usize::from(ways >> 3) % 2];
    let condition = ["pressure", "allocated"][usize::from(ways >> 7)];
    let text = format!(
        "minimums = {minimums:?}\nsearch = {}\nruntime = {}\ncollector = {}\nsteal = \"{steal}\"\n\
         pages = \"{pages}\"\nguarantee = \"{guarantee}\"\nroom_bytes = {}\n[switch]\n\
         {condition}_percent = 50\nsearch = {}",
        search(ways),
        search(growth),
        search(ways >> 2),
        usize::from(growth) << (first % 8),
        search(first),
    );
    described::from_toml(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}
