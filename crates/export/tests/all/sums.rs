//! The sums of every format are the profile's, for the known workload and for random ones.

use crate::workload::{HOSTILE, events, json, tables, untimed, with_export, written};
use heaplab_export::{Export, ExportError, Format, InUseAt, Weight};
use heaplab_profile::{Amount, Profile};
use heaplab_trace::{Event, Op};
use proptest::prelude::*;
use serde_json::Value;

const MOMENTS: [InUseAt; 3] = [InUseAt::Peak, InUseAt::End, InUseAt::Asked(0)];

fn in_use(profile: &Profile, moment: InUseAt) -> Amount {
    match moment {
        InUseAt::Peak => profile.peak.live,
        InUseAt::End => profile.end.live,
        InUseAt::Asked(row) => profile.moments[row].live,
    }
}

fn sum(values: &Value) -> i128 {
    values.as_array().unwrap().iter().map(|value| i128::from(value.as_i64().unwrap())).sum()
}

fn sum_of(rows: &Value, key: &str) -> u64 {
    rows.as_array().unwrap().iter().map(|row| row[key].as_u64().unwrap()).sum()
}

fn check_collapsed(export: &Export<'_>, profile: &Profile) {
    let live = in_use(profile, export.moment);
    let expected = [
        (Weight::InUseBytes, live.bytes),
        (Weight::InUseObjects, live.objects),
        (Weight::AllocatedBytes, profile.totals.requested_bytes),
        (Weight::AllocatedObjects, profile.totals.requests),
    ];
    for (weight, expected) in expected {
        let text = String::from_utf8(written(export, Format::Collapsed(weight))).unwrap();
        let weights: Vec<u64> =
            text.lines().map(|line| line.rsplit_once(' ').unwrap().1.parse().unwrap()).collect();
        assert_eq!(weights.iter().sum::<u64>(), expected, "{weight:?}\n{text}");
    }
}

fn check_speedscope(export: &Export<'_>, profile: &Profile) {
    let file = json(export, Format::Speedscope);
    let frames = file["shared"]["frames"].as_array().unwrap().len() as u64;
    let live = in_use(profile, export.moment);
    let expected =
        [live.bytes, profile.totals.requested_bytes, live.objects, profile.totals.requests];
    for (profile, expected) in file["profiles"].as_array().unwrap().iter().zip(expected) {
        assert_eq!(sum(&profile["weights"]), i128::from(expected), "{}", profile["name"]);
        assert_eq!(profile["endValue"].as_u64(), Some(expected));
        let samples = profile["samples"].as_array().unwrap();
        assert_eq!(samples.len(), profile["weights"].as_array().unwrap().len());
        let known = |frame: &Value| frame.as_u64().unwrap() < frames;
        assert!(samples.iter().all(|sample| !sample.as_array().unwrap().is_empty()
            && sample.as_array().unwrap().iter().all(known)));
    }
}

fn check_firefox(export: &Export<'_>, profile: &Profile) {
    let file = json(export, Format::Firefox);
    let [allocations, in_use_thread] = &file["threads"].as_array().unwrap()[..] else {
        panic!("two threads")
    };
    if profile.totals.requests > 0 {
        let weights = &allocations["nativeAllocations"]["weight"];
        let allocated: i64 =
            weights.as_array().unwrap().iter().map(|weight| weight.as_i64().unwrap().max(0)).sum();
        assert_eq!(allocated as u64, profile.totals.requested_bytes);
        assert_eq!(
            sum(weights),
            i128::from(profile.end.live.bytes),
            "what is not released is live at the end"
        );
    }
    assert_eq!(in_use_thread["samples"]["weightType"], "bytes");
    let live = in_use(profile, export.moment).bytes;
    assert_eq!(
        in_use_thread["samples"]["weight"]
            .as_array()
            .map_or(0, |_| sum(&in_use_thread["samples"]["weight"])),
        i128::from(live)
    );
    if profile.totals.events > 0 {
        let deltas = file["counters"][0]["samples"]["count"].as_array().unwrap();
        assert_eq!(
            deltas.iter().map(|delta| delta.as_f64().unwrap()).sum::<f64>(),
            profile.end.live.bytes as f64
        );
    }
}

fn check_dhat(export: &Export<'_>, profile: &Profile) {
    if let InUseAt::Asked(_) = export.moment {
        let error = export.write(Format::Dhat, &mut Vec::new()).unwrap_err();
        assert!(matches!(error, ExportError::MomentNotShown(_)), "{error}");
        return;
    }
    let file = json(export, Format::Dhat);
    let points = &file["pps"];
    assert_eq!(sum_of(points, "tb"), profile.totals.requested_bytes);
    assert_eq!(sum_of(points, "tbk"), profile.totals.requests);
    assert_eq!(
        (sum_of(points, "gb"), sum_of(points, "gbk")),
        (profile.peak.live.bytes, profile.peak.live.objects)
    );
    assert_eq!(
        (sum_of(points, "eb"), sum_of(points, "ebk")),
        (profile.end.live.bytes, profile.end.live.objects)
    );
    for point in points.as_array().unwrap() {
        let number = |key: &str| point[key].as_u64().unwrap();
        assert!(
            number("mb") >= number("gb").max(number("eb")) && number("mb") <= number("tb"),
            "{point}"
        );
    }
}

fn check_all(events: &[Event]) {
    let has_mark = events.iter().any(|event| event.op == Op::Mark);
    for moment in
        MOMENTS.into_iter().filter(|moment| has_mark || !matches!(moment, InUseAt::Asked(_)))
    {
        with_export(&tables(), events, moment, |export, profile| {
            check_collapsed(export, profile);
            check_speedscope(export, profile);
            check_firefox(export, profile);
            check_dhat(export, profile);
            assert_eq!(written(export, Format::Pprof)[..2], [0x1f, 0x8b], "gzip");
        });
    }
}

#[test]
fn sums_are_the_profiles() {
    check_all(&events());
    check_all(&untimed(events()));
    check_all(&[]);
}

#[test]
fn collapsed_stacks_read_as_expected() {
    let hostile = HOSTILE
        .replace(';', ":")
        .replace(['\n', '\t', '\u{1}', '\u{7f}', '\u{2028}'], " ")
        .replace(" 100", "\u{a0}100");
    with_export(&tables(), &events(), InUseAt::Asked(0), |export, _| {
        let text =
            String::from_utf8(written(export, Format::Collapsed(Weight::InUseBytes))).unwrap();
        assert_eq!(text, format!("main 100\nmain;{hostile} 120\nmain;serve;rename;copy 1000\n"));
    });
    with_export(&tables(), &events(), InUseAt::End, |export, _| {
        let text =
            String::from_utf8(written(export, Format::Collapsed(Weight::InUseBytes))).unwrap();
        assert_eq!(
            text,
            "(no stack recorded) 7\nmain 100\nmain;0x7f0000001234 300\nmain;serve;rename;copy 20\n"
        );
    });
}

#[test]
fn dhat_has_lifetimes_and_maxima_by_stack() {
    with_export(&tables(), &events(), InUseAt::Peak, |export, _| {
        let file = json(export, Format::Dhat);
        let names = file["ftbl"].as_array().unwrap();
        let point = |leaf: &str| {
            let is_leaf = |point: &&Value| {
                names[point["fs"][0].as_u64().unwrap() as usize].as_str().unwrap().contains(leaf)
            };
            file["pps"].as_array().unwrap().iter().find(is_leaf).unwrap().clone()
        };
        // Object 1 lived here from 2 ms to 6 ms, object 6 from 11 ms to the end at 13 ms.
        let copy = point("copy");
        assert_eq!(
            (copy["tl"].as_u64(), copy["mb"].as_u64(), copy["mbk"].as_u64()),
            (Some(6_000_000), Some(1000), Some(1))
        );
        assert_eq!(copy["fs"].as_array().unwrap().len(), 4, "copy, rename, serve, main");
        // The two stacks with the same text are one point.
        let evil = point("evil");
        assert_eq!((evil["tb"].as_u64(), evil["tbk"].as_u64()), (Some(120), Some(2)));
        assert_eq!(evil["tl"].as_u64(), Some(5_000_000 + 8_000_000));
        assert_eq!(names[0], "[root]");
        assert!(names.iter().any(|name| name == "0x1200: rename (/src/shop.c:21)"));
        assert!(
            names
                .iter()
                .any(|name| name == "0x2300: libstripped.so.1+0x2300 (in /lib/libstripped.so.1)"),
            "{names:?}"
        );
    });
}

#[test]
fn numbers_that_do_not_fit_are_refused() {
    let huge =
        |object| Event { op: Op::Alloc, object, size: 1 << 48, time_ns: 1, ..Event::default() };
    let events: Vec<Event> = (0..2).map(huge).collect();
    with_export(&tables(), &events, InUseAt::Peak, |export, _| {
        let error = export.write(Format::Firefox, &mut Vec::new()).unwrap_err().to_string();
        assert!(error.contains("choose another format"), "{error}");
        check_speedscope(export, export.profile);
    });
}

/// Legal events: births, and reallocations and deaths of live objects.
pub fn legal(steps: &[(u8, u16, u8, u8)]) -> Vec<Event> {
    let (mut live, mut next, mut time_ns) = (Vec::new(), 0, 0);
    let mut events = Vec::new();
    for (what, size, stack, wait) in steps {
        time_ns += u64::from(*wait) * 100_000;
        let event = Event {
            size: u64::from(*size),
            stack: u32::from(stack % 7),
            time_ns,
            ..Event::default()
        };
        if what % 4 < 2 || live.is_empty() {
            events.push(Event { op: Op::Alloc, object: next, ..event });
            live.push(next);
            next += 1;
        } else {
            let place = usize::from(*stack) % live.len();
            let object = live[place];
            if what % 4 == 2 {
                events.push(Event { op: Op::Realloc, object, ..event });
            } else {
                live.swap_remove(place);
                events.push(Event { op: Op::Free, object, time_ns, ..Event::default() });
            }
        }
        if *wait == 7 {
            events.push(Event { op: Op::Mark, time_ns, ..Event::default() });
        }
    }
    events
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn sums_are_the_profiles_for_any_workload(steps in proptest::collection::vec(any::<(u8, u16, u8, u8)>(), 0..300), timed in any::<bool>()) {
        let events = legal(&steps);
        check_all(&if timed { events } else { untimed(events) });
    }
}
