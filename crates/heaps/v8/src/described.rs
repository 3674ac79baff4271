//! Strategies from a TOML file (`v8:file=mine.toml`): everything that a built-in row states, as
//! keys. Categories are named by bytes, so that a search remains right when boundaries change.

use crate::documented::{
    PAGE_AREA_BYTES, ROOM_2K_BYTES, exhaustive, fast_path, largest_first, many, precise,
};
use crate::strategy::{
    Bound, Condition, Guarantee, Look, PageOrder, Steal, Step, Strategy, Switch, When,
};
use serde::Deserialize;

/// Most categories.
const CATEGORIES_MAX: usize = 512;
/// Most steps of a search. The heap counts the step that found a node in a byte.
const STEPS_MAX: usize = 64;
/// Most bytes that a step can ask to have left over.
const ROOM_BYTES_MAX: usize = 65_536;

/// The file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Described {
    /// Smallest block of each category, rising.
    minimums: Vec<usize>,
    /// Everybody's search, unless the keys below say otherwise.
    search: Search,
    generated: Option<Search>,
    runtime: Option<Search>,
    collector: Option<Search>,
    /// Bytes that `fast-path` leaves over.
    room_bytes: Option<usize>,
    /// Another search at times.
    switch: Option<DescribedSwitch>,
    /// The page that a compaction space takes.
    #[serde(default)]
    steal: Stealing,
    /// The order in which pages serve.
    #[serde(default)]
    pages: Pages,
    /// The promise of a sweep.
    #[serde(default)]
    guarantee: Promise,
}

/// The name of a search, or its steps.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "expected a search's name or a list of steps")]
enum Search {
    Named(String),
    Steps(Vec<toml::Table>),
}

/// A step of a search.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct DescribedStep {
    from: toml::Value,
    to: Option<toml::Value>,
    before: Option<toml::Value>,
    down_to: Option<toml::Value>,
    look: Looking,
    request_bytes_max: Option<usize>,
    own_category: Option<usize>,
    unless_last: Option<toml::Value>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Looking {
    Top,
    All,
}

/// A category from which on a block leaves room.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct DescribedRoom {
    room_bytes: usize,
    from_bytes: Option<usize>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "expected a table with a search and its condition")]
struct DescribedSwitch {
    search: Search,
    pressure_percent: Option<usize>,
    allocated_percent: Option<usize>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Stealing {
    LargestFirst,
    #[default]
    NextAbove,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Pages {
    #[default]
    LinkedLast,
    FullestFirst,
    EmptiestFirst,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Promise {
    #[default]
    CategoryMinimum,
    CategoryBelow,
}

/// The strategy that a TOML file describes; docs/collected-heaps.md lists the keys.
///
/// # Errors
/// A sentence with the mistake and a correct form.
pub fn from_toml(text: &str) -> Result<Strategy, String> {
    let described: Described =
        toml::from_str(text).map_err(|error| error.to_string().trim().to_owned())?;
    check_minimums(&described.minimums)?;
    let room_bytes = described.room_bytes.unwrap_or(ROOM_2K_BYTES);
    check_room("room_bytes", room_bytes)?;
    let mut strategy = many("file", "from a file", described.minimums, Vec::new(), Vec::new());
    let steps = |key: &str, search: &Search| {
        read_search(&strategy, room_bytes, search).map_err(|what| format!("{key}: {what}"))
    };
    let everybody = steps("search", &described.search)?;
    let of = |key: &str, search: &Option<Search>| match search {
        Some(search) => steps(key, search),
        None => Ok(everybody.clone()),
    };
    let generated = of("generated", &described.generated)?;
    let runtime = of("runtime", &described.runtime)?;
    let collector = of("collector", &described.collector)?;
    let switch = described.switch.map(|switch| {
        let when = condition(&switch).map_err(|what| format!("switch: {what}"))?;
        Ok::<_, String>(Switch { when, steps: steps("switch.search", &switch.search)? })
    });
    strategy.switch = switch.transpose()?;
    let scans_last = |step: &Step| step.look == Look::All && step.to == Bound::Last;
    strategy.guarantee = match described.guarantee {
        Promise::CategoryMinimum => Guarantee::CategoryMinimum,
        Promise::CategoryBelow => {
            let searches = [&generated, &runtime, &collector];
            let last_whole = searches.iter().all(|steps| steps.iter().any(scans_last));
            Guarantee::CategoryBelow { last_whole }
        }
    };
    strategy.steal = match described.steal {
        Stealing::LargestFirst => Steal::LargestFirst,
        Stealing::NextAbove => Steal::NextAbove,
    };
    strategy.order = match described.pages {
        Pages::LinkedLast => PageOrder::LinkedLast,
        Pages::FullestFirst => PageOrder::FullestFirst,
        Pages::EmptiestFirst => PageOrder::EmptiestFirst,
    };
    let strategy = Strategy { generated, runtime, collector, ..strategy };
    check_empty_page(&strategy)?;
    Ok(strategy)
}

/// Every search must find the block of an empty page, or the heap takes page after page and ends
/// with nothing found.
fn check_empty_page(strategy: &Strategy) -> Result<(), String> {
    let last = strategy.categories() - 1;
    let switch = strategy.switch.as_ref().map(|switch| ("switch.search", &switch.steps));
    let searches = [
        ("generated", &strategy.generated),
        ("runtime", &strategy.runtime),
        ("collector", &strategy.collector),
    ];
    for (key, steps) in searches.into_iter().chain(switch) {
        let finds = |bytes: &usize| strategy.looked_at(steps, last, *bytes).is_some();
        let mut requests = (strategy.minimum_block()..=PAGE_AREA_BYTES).step_by(8);
        if let Some(bytes) = requests.find(|bytes| !finds(bytes)) {
            return Err(format!(
                "{key}: a request of {bytes} bytes does not look at the block of an empty page; end \
                 the search with {{ from = \"last\", look = \"all\" }}"
            ));
        }
    }
    Ok(())
}

fn check_minimums(minimums: &[usize]) -> Result<(), String> {
    if minimums.is_empty() || minimums.len() > CATEGORIES_MAX {
        return Err(format!(
            "minimums has {} categories, expected 1 to {CATEGORIES_MAX}",
            minimums.len()
        ));
    }
    let fits =
        |minimum: &&usize| minimum.is_multiple_of(8) && (24..=PAGE_AREA_BYTES).contains(*minimum);
    if let Some(wrong) = minimums.iter().find(|minimum| !fits(minimum)) {
        return Err(format!(
            "minimums has {wrong}, expected multiples of 8 from 24 (a free block's header and \
             link) to {PAGE_AREA_BYTES}"
        ));
    }
    match minimums.windows(2).find(|pair| pair[0] >= pair[1]) {
        Some(pair) => {
            Err(format!("minimums has {} before {}, expected rising boundaries", pair[0], pair[1]))
        }
        None => Ok(()),
    }
}

fn check_room(key: &str, bytes: usize) -> Result<(), String> {
    match bytes <= ROOM_BYTES_MAX {
        true => Ok(()),
        false => Err(format!("{key} is {bytes}, expected at most {ROOM_BYTES_MAX}")),
    }
}

fn read_search(
    strategy: &Strategy,
    room_bytes: usize,
    search: &Search,
) -> Result<Vec<Step>, String> {
    let steps = match search {
        Search::Named(name) => {
            return match name.as_str() {
                "precise" => Ok(precise()),
                "exhaustive" => Ok(exhaustive()),
                "fast-path" => Ok(fast_path(&strategy.minimums, room_bytes)),
                "largest-first" => Ok(largest_first()),
                _ => Err(format!(
                    "found `{name}`, expected precise, exhaustive, fast-path, largest-first or a \
                     list of steps"
                )),
            };
        }
        Search::Steps(steps) => steps,
    };
    if steps.is_empty() || steps.len() > STEPS_MAX {
        return Err(format!("it has {} steps, expected 1 to {STEPS_MAX}", steps.len()));
    }
    let numbered = steps.iter().enumerate();
    numbered
        .map(|(number, step)| {
            read_step(strategy, step).map_err(|what| format!("step {}: {what}", number + 1))
        })
        .collect()
}

fn read_step(strategy: &Strategy, step: &toml::Table) -> Result<Step, String> {
    let step: DescribedStep =
        step.clone().try_into().map_err(|error: toml::de::Error| error.message().to_owned())?;
    let read = |key: &str, value: &toml::Value| {
        bound(strategy, value).map_err(|what| format!("{key}: {what}"))
    };
    let from = read("from", &step.from)?;
    let (to, inclusive, down) = match (&step.to, &step.before, &step.down_to) {
        (None, None, None) => (from, true, false),
        (Some(to), None, None) => (read("to", to)?, true, false),
        (None, Some(before), None) => (read("before", before)?, false, false),
        (None, None, Some(down_to)) => (read("down_to", down_to)?, true, true),
        _ => return Err("it has several ends, expected one of to, before and down_to".into()),
    };
    let when = match (step.request_bytes_max, step.own_category, &step.unless_last) {
        (None, None, None) => When::Always,
        (Some(bytes), None, None) => When::UpTo(bytes),
        (None, Some(bytes), None) => When::OwnIs(category(strategy, bytes)?),
        (None, None, Some(bound)) => When::Below(read("unless_last", bound)?),
        _ => {
            return Err("it has several conditions, expected one of request_bytes_max, \
                        own_category and unless_last"
                .into());
        }
    };
    let look = match step.look {
        Looking::Top => Look::Top,
        Looking::All => Look::All,
    };
    Ok(Step { when, from, to, inclusive, down, look })
}

fn bound(strategy: &Strategy, value: &toml::Value) -> Result<Bound, String> {
    match value {
        toml::Value::String(name) if name == "own" => Ok(Bound::Own),
        toml::Value::String(name) if name == "last" => Ok(Bound::Last),
        toml::Value::Integer(bytes) => {
            let bytes = usize::try_from(*bytes).unwrap_or(0);
            category(strategy, bytes).map(Bound::Category)
        }
        toml::Value::Table(room) => {
            let room: DescribedRoom = room
                .clone()
                .try_into()
                .map_err(|error: toml::de::Error| error.message().to_owned())?;
            check_room("room_bytes", room.room_bytes)?;
            let floor = match room.from_bytes {
                Some(bytes) => category(strategy, bytes)?,
                None => 0,
            };
            Ok(Bound::Room { floor, room_bytes: room.room_bytes })
        }
        other => Err(format!(
            "found {other}, expected \"own\", \"last\", the bytes of a block of the category, or \
             {{ room_bytes = 1920, from_bytes = 2048 }}"
        )),
    }
}

/// The category of a block of `bytes` bytes.
fn category(strategy: &Strategy, bytes: usize) -> Result<usize, String> {
    if (strategy.minimum_block()..=PAGE_AREA_BYTES).contains(&bytes) {
        return Ok(strategy.category(bytes));
    }
    Err(format!(
        "no category has blocks of {bytes} bytes, expected {} to {PAGE_AREA_BYTES}",
        strategy.minimum_block()
    ))
}

fn condition(switch: &DescribedSwitch) -> Result<Condition, String> {
    let percent = |key: &str, percent: usize, most: usize| match (1..=most).contains(&percent) {
        true => Ok(percent),
        false => Err(format!("{key} is {percent}, expected 1 to {most}")),
    };
    match (switch.pressure_percent, switch.allocated_percent) {
        (Some(pressure), None) => {
            percent("pressure_percent", pressure, 99).map(Condition::Pressure)
        }
        (None, Some(allocated)) => {
            percent("allocated_percent", allocated, 10_000).map(Condition::FewAllocations)
        }
        _ => Err("expected one of pressure_percent and allocated_percent".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::documented;

    /// The keys say as much as a built-in row.
    #[test]
    fn built_in_strategies_can_be_stated() {
        const MANY: &str = "minimums = [24, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, \
             224, 240, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536]\n";
        let precise = r#"[
            { from = "own", before = "last", look = "top" },
            { from = "last", look = "all" },
        ]"#;
        let fast_path = r#"[
            { from = { room_bytes = 1920, from_bytes = 2048 }, to = "last", look = "top" },
            { from = 256, before = 2048, look = "top", request_bytes_max = 128 },
            { from = "last", look = "all" },
            { from = "own", before = { room_bytes = 1920, from_bytes = 2048 }, look = "top" },
        ]"#;
        let legacy = r#"
            minimums = [24, 88, 256, 2048, 16384, 65536]
            guarantee = "category-below"
            steal = "largest-first"
            search = [
                { from = { room_bytes = 8, from_bytes = 256 }, before = "last", look = "top" },
                { from = "last", look = "all" },
                { from = 88, look = "top", own_category = 24 },
                { from = "own", look = "top", unless_last = { room_bytes = 8, from_bytes = 256 } },
            ]"#;
        let fast_alloc = r#"
            minimums = [2040, 16384, 65536]
            guarantee = "category-below"
            steal = "largest-first"
            search = [{ from = "last", down_to = "own", look = "top" }]"#;
        let origin = format!("{MANY}search = {fast_path}\ncollector = {precise}");
        let pressure = format!(
            "{MANY}search = \"fast-path\"\n[switch]\npressure_percent = 50\nsearch = {precise}"
        );
        let feedback = format!(
            "{MANY}search = {fast_path}\n[switch]\nallocated_percent = 100\nsearch = \"precise\""
        );
        let fullest = format!("{MANY}search = {precise}\npages = \"fullest-first\"");
        let described = [
            ("legacy", legacy.to_owned()),
            ("fast-alloc", fast_alloc.to_owned()),
            ("many", format!("{MANY}search = \"precise\"")),
            ("many-origin", origin),
            ("many-pressure", pressure),
            ("many-feedback", feedback),
            ("many-fullest", fullest),
        ];
        for (name, text) in described {
            let built_in = documented::all().into_iter().find(|one| one.name == name).unwrap();
            let read = from_toml(&text).unwrap_or_else(|error| panic!("{name}: {error}\n{text}"));
            let summary = built_in.summary;
            assert_eq!(Strategy { name: name.into(), summary, ..read }, built_in);
        }
    }

    #[test]
    fn each_origin_has_its_own_search() {
        let text = "minimums = [24, 64, 2048]\nsearch = \"exhaustive\"\nruntime = \"precise\"\n\
                    generated = \"largest-first\"";
        let read = from_toml(text).unwrap();
        assert_eq!(read.generated, largest_first());
        assert_eq!(read.runtime, precise());
        assert_eq!(read.collector, exhaustive());
    }

    #[test]
    fn mistakes_are_explained() {
        let error = |text: &str| from_toml(text).unwrap_err();
        let rest = "search = \"precise\"";
        assert!(
            error(&format!("minimums = [64, 24]\n{rest}"))
                .contains("64 before 24, expected rising")
        );
        assert!(
            error(&format!("minimums = [16]\n{rest}"))
                .contains("from 24 (a free block's header and link)")
        );
        assert!(error(&format!("minimums = []\n{rest}")).contains("0 categories"));
        assert!(error(&format!("minimums = [24]\n{rest}\nsorted = true")).contains("sorted"));
        let of = |rest: &str| error(&format!("minimums = [24, 64, 2048]\n{rest}"));
        assert_eq!(
            of("search = \"magic\""),
            "search: found `magic`, expected precise, exhaustive, fast-path, largest-first or a \
             list of steps"
        );
        assert!(of("search = 3").contains("expected a search's name or a list of steps"));
        assert!(of("search = []").contains("search: it has 0 steps, expected 1 to 64"));
        assert!(of("search = \"precise\"\nroom_bytes = 65537").contains("at most 65536"));
        let step = |text: &str| of(&format!("search = [{{ {text} }}]"));
        assert!(step("from = \"own\"").contains("step 1: missing field `look`"));
        assert!(step("from = \"own\", look = \"some\"").contains("`top` or `all`"));
        assert!(step("from = \"owm\", look = \"top\"").contains("from: found \"owm\", expected"));
        assert!(step("from = 16, look = \"top\"").contains("no category has blocks of 16 bytes"));
        assert!(step("from = -1, look = \"top\"").contains("expected 24 to"));
        assert!(
            step("from = 24, to = 64, before = \"last\", look = \"top\"").contains("several ends")
        );
        assert!(
            step("from = 24, look = \"all\", own_category = 24, request_bytes_max = 64")
                .contains("several conditions")
        );
        assert!(of("search = \"precise\"\nswitch = 3").contains("a table with a search and its"));
        let switch = |text: &str| of(&format!("search = \"precise\"\nswitch = {{ {text} }}"));
        let unfound = |step: &str| of(&format!("search = \"precise\"\ncollector = [{{ {step} }}]"));
        for step in [
            "from = \"own\", look = \"top\", request_bytes_max = 8",
            "from = 64, to = \"own\", look = \"top\"",
        ] {
            let said = unfound(step);
            assert!(said.starts_with("collector: a request of 24 bytes does not look"), "{said}");
        }
        assert!(switch("search = \"precise\"").contains("one of pressure_percent and"));
        assert!(
            switch("search = \"precise\", pressure_percent = 100")
                .contains("is 100, expected 1 to")
        );
        assert!(
            switch("search = \"m\", pressure_percent = 50").starts_with("switch.search: found")
        );
    }
}
