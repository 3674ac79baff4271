//! The picture: time to the right, space upward, a curve with its interval and points for each
//! variant. Down and left is better.
//!
//! It comes in two sizes. A page has both, and a phone shows the narrow one: words stay legible and
//! nothing leaves the screen.
//!
//! Plain SVG without scripts. The colours are distinguishable for every common kind of colour
//! blindness, and each variant has a mark of its own too. Names from outside become text, never
//! markup.

use crate::results::{PointResult, Results, VariantResult};
use crate::verdict::seconds;
use heaplab_statistics::Estimate;
use heaplab_text::markup::escaped;
use heaplab_text::words::bytes;
use std::fmt::Write;

const TOP: f64 = 46.0;
const BOTTOM: f64 = 56.0;
/// Blue and orange as everywhere in heaplab, then colours apart from both.
const COLOURS: [&str; 6] = ["#1f5fa8", "#c8620f", "#2f8f6b", "#8a4fa3", "#7a6a1c", "#a83250"];
const STYLE: &str = "text{font:12px system-ui,'Segoe UI',Roboto,'Liberation Sans',sans-serif;fill:var(--ink,#1b2026)}\
    .muted{fill:var(--muted,#59626d)}.rule{stroke:var(--rule,#dedad2)}.axis{stroke:var(--strong-rule,#8b8f94)}\
    .paper{fill:var(--paper,#fcfbf9)}.label{font-size:11px}.halo{paint-order:stroke;stroke:var(--paper,#fcfbf9);stroke-width:3px}";

/// A size of the picture.
struct Frame {
    /// Distinguishes its parts from those of another picture on the same page.
    name: &'static str,
    width: f64,
    height: f64,
    left: f64,
    right: f64,
    /// Approximate number of values on the axis of time.
    times: f64,
    /// Letters of the longest name.
    letters_max: usize,
}

const WIDE: Frame = Frame {
    name: "wide",
    width: 760.0,
    height: 480.0,
    left: 82.0,
    right: 24.0,
    times: 6.0,
    letters_max: 40,
};
const NARROW: Frame = Frame {
    name: "narrow",
    width: 344.0,
    height: 400.0,
    left: 68.0,
    right: 8.0,
    times: 4.0,
    letters_max: 32,
};

/// Maps values to the picture.
struct Scale {
    frame: &'static Frame,
    time: (f64, f64),
    space: (f64, f64),
}

impl Scale {
    fn x(&self, time: f64) -> f64 {
        let Frame { width, left, right, .. } = self.frame;
        left + (time - self.time.0) / (self.time.1 - self.time.0) * (width - left - right)
    }

    fn y(&self, space: f64) -> f64 {
        let Frame { height, .. } = self.frame;
        let part = (space - self.space.0) / (self.space.1 - self.space.0);
        height - BOTTOM - part * (height - TOP - BOTTOM)
    }

    /// A scale for everything drawn; `None`: there is nothing to draw.
    fn of(results: &Results, frame: &'static Frame) -> Option<Scale> {
        let points = || {
            results
                .variants
                .iter()
                .flat_map(|variant| &variant.points)
                .filter_map(|point| point.time_s.zip(point.space_bytes))
        };
        let ends = |estimate: Estimate| {
            [estimate.value, estimate.low, estimate.high]
                .into_iter()
                .filter(|value| !value.is_nan())
        };
        let range = |values: Vec<f64>| {
            let least = values.iter().copied().fold(f64::INFINITY, f64::min);
            let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let margin = if most > least { (most - least) * 0.08 } else { most.abs() * 0.1 + 1e-9 };
            ((least - margin).max(0.0), most + margin)
        };
        points().next()?;
        Some(Scale {
            frame,
            time: range(points().flat_map(|(time, _)| ends(time)).collect()),
            space: range(points().flat_map(|(_, space)| ends(space)).collect()),
        })
    }
}

/// The picture; if nothing ran, a picture that says so.
pub fn picture(results: &Results) -> String {
    drawn(results, &WIDE)
}

/// The same for a narrow screen.
pub(crate) fn narrow(results: &Results) -> String {
    drawn(results, &NARROW)
}

fn drawn(results: &Results, frame: &'static Frame) -> String {
    let Frame { name, width, height, left, right, .. } = frame;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"{name}\" viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"Space against time\">\n<style>{STYLE}</style>\n\
         <rect class=\"paper\" width=\"{width}\" height=\"{height}\"/>\n"
    );
    match Scale::of(results, frame) {
        None => {
            out.push_str("<text x=\"40\" y=\"60\">Nothing ran: there is nothing to draw.</text>\n")
        }
        Some(scale) => {
            axes(&mut out, &scale, results);
            out.push_str(&format!(
                "<clipPath id=\"inside-{name}\"><rect x=\"{left}\" y=\"{TOP}\" width=\"{}\" height=\"{}\"/></clipPath>\n",
                width - left - right,
                height - TOP - BOTTOM
            ));
            for (index, variant) in results.variants.iter().enumerate() {
                curve(&mut out, &scale, variant, colour(index));
            }
            let mut labels = Labels::beside(results, &scale);
            for (index, variant) in results.variants.iter().enumerate() {
                points(&mut out, &scale, variant, index, &mut labels);
            }
            legend(&mut out, frame, results);
        }
    }
    out.push_str("</svg>\n");
    out
}

fn colour(index: usize) -> &'static str {
    COLOURS[index % COLOURS.len()]
}

/// About `count` steps of 1, 2 or 5 times a power of ten of `unit`.
fn ticks(range: (f64, f64), unit: f64, count: f64) -> Vec<f64> {
    let raw = (range.1 - range.0) / unit / count;
    let power = 10_f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|factor| factor * power)
        .find(|step| *step >= raw)
        .unwrap_or(raw)
        * unit;
    let first = (range.0 / step).ceil() as i64;
    let last = (range.1 / step).floor() as i64;
    (first..=last).take(20).map(|index| index as f64 * step).collect()
}

fn axes(out: &mut String, scale: &Scale, results: &Results) {
    let Frame { width, height, left, right, times, .. } = scale.frame;
    let (bottom, right) = (height - BOTTOM, width - right);
    for time in ticks(scale.time, 1.0, *times) {
        let x = scale.x(time);
        let _ = writeln!(
            out,
            "<line class=\"rule\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{bottom}\"/>"
        );
        let _ = writeln!(
            out,
            "<text class=\"muted\" x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            bottom + 18.0,
            seconds(time)
        );
    }
    let unit = match scale.space.1 {
        0.0..1_048_576.0 => 1024.0,
        ..1_073_741_824.0 => 1_048_576.0,
        _ => 1_073_741_824.0,
    };
    for space in ticks(scale.space, unit, 6.0) {
        let y = scale.y(space);
        let _ = writeln!(
            out,
            "<line class=\"rule\" x1=\"{left}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>"
        );
        let text = bytes(space as u64);
        let _ = writeln!(
            out,
            "<text class=\"muted\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{text}</text>",
            left - 8.0,
            y + 4.0
        );
    }
    let _ =
        writeln!(out, "<path class=\"axis\" fill=\"none\" d=\"M{left} {TOP}V{bottom}H{right}\"/>");
    let (time, space) = names(results);
    let _ = writeln!(
        out,
        "<text x=\"{right}\" y=\"{}\" text-anchor=\"end\">{time}</text>",
        height - 14.0
    );
    let _ = writeln!(out, "<text x=\"{}\" y=\"{}\">{space}</text>", 10.0, TOP - 14.0);
    let _ = writeln!(
        out,
        "<text class=\"muted\" x=\"{left}\" y=\"{}\">\u{2199} less of both is better</text>",
        height - 14.0
    );
}

/// The measures on the axes, in words.
pub fn names(results: &Results) -> (&'static str, &'static str) {
    use crate::plan::{SpaceMeasure, TimeMeasure};
    let time = match results.settings.time {
        TimeMeasure::Wall => "wall time",
        TimeMeasure::Cpu => "CPU time",
    };
    let space = match results.settings.space {
        SpaceMeasure::Peak => "peak resident",
        SpaceMeasure::Anonymous => "peak anonymous",
        SpaceMeasure::Mean => "mean anonymous",
        SpaceMeasure::Committed => "committed",
    };
    (time, space)
}

fn curve(out: &mut String, scale: &Scale, variant: &VariantResult, colour: &str) {
    let line = &variant.curve.line;
    if !variant.effect || line.is_empty() {
        return;
    }
    let clip = format!("clip-path=\"url(#inside-{})\"", scale.frame.name);
    let place = |time: f64, space: f64| {
        format!(
            "{:.1} {:.1}",
            scale.x(time),
            scale.y(space.clamp(-1e15, 1e15)).clamp(-5000.0, 5000.0)
        )
    };
    let with_interval: Vec<_> =
        line.iter().filter(|point| !point.space_bytes.low.is_nan()).collect();
    if with_interval.len() > 1 {
        let upper = with_interval.iter().map(|point| place(point.time_s, point.space_bytes.high));
        let lower =
            with_interval.iter().rev().map(|point| place(point.time_s, point.space_bytes.low));
        let path: Vec<String> = upper.chain(lower).collect();
        let _ = writeln!(
            out,
            "<path {clip} fill=\"{colour}\" opacity=\"0.15\" d=\"M{}Z\"/>",
            path.join("L")
        );
    }
    let path: Vec<String> =
        line.iter().map(|point| place(point.time_s, point.space_bytes.value)).collect();
    let _ = writeln!(
        out,
        "<path {clip} fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" d=\"M{}\"/>",
        path.join("L")
    );
}

/// Places of the names that stand beside points, so that none covers another one or a point.
#[derive(Default)]
struct Labels(Vec<[f64; 4]>);

/// Height of a label's line, and the approximate width of a letter.
const LABEL_HEIGHT: f64 = 13.0;
const LETTER_WIDTH: f64 = 6.6;
/// Half of a point's mark.
const MARK: f64 = 5.0;

impl Labels {
    /// The places of points, without any name yet.
    fn beside(results: &Results, scale: &Scale) -> Labels {
        let points = results.variants.iter().flat_map(|variant| &variant.points);
        let places = points.filter_map(|point| {
            let (time, space) = point.time_s.zip(point.space_bytes)?;
            let (x, y) = (scale.x(time.value), scale.y(space.value));
            Some([x - MARK, x + MARK, y - MARK, y + MARK])
        });
        Labels(places.collect())
    }

    /// The free place nearest to `y` for a text from `x` on (with a negative width: up to `x`); `y`
    /// itself if no near place is free.
    fn place(&mut self, x: f64, y: f64, width: f64) -> f64 {
        let (left, right) = (x.min(x + width), x.max(x + width));
        let is_free = |y: f64, taken: &[f64; 4]| {
            right < taken[0] || left > taken[1] || y <= taken[2] || y - LABEL_HEIGHT >= taken[3]
        };
        let steps = [0.0, -1.0, 1.0, -2.0, 2.0, -3.0, 3.0];
        let places = steps.map(|step| y + step * LABEL_HEIGHT);
        let free = places.into_iter().find(|y| self.0.iter().all(|taken| is_free(*y, taken)));
        let y = free.unwrap_or(y);
        self.0.push([left, right, y - LABEL_HEIGHT, y]);
        y
    }
}

fn points(
    out: &mut String,
    scale: &Scale,
    variant: &VariantResult,
    index: usize,
    labels: &mut Labels,
) {
    let colour = colour(index);
    let shown: Vec<&PointResult> = variant
        .points
        .iter()
        .filter(|point| point.time_s.is_some() && point.space_bytes.is_some())
        .collect();
    let settings = shown.iter().filter(|point| !point.is_default()).count();
    for (position, point) in shown.iter().enumerate() {
        let Some((time, space)) = point.time_s.zip(point.space_bytes) else { continue };
        let (x, y) = (scale.x(time.value), scale.y(space.value));
        if !time.low.is_nan() {
            let _ = writeln!(
                out,
                "<line stroke=\"{colour}\" opacity=\"0.5\" x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>",
                scale.x(time.low),
                scale.x(time.high)
            );
        }
        if !space.low.is_nan() {
            let _ = writeln!(
                out,
                "<line stroke=\"{colour}\" opacity=\"0.5\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{:.1}\" y2=\"{:.1}\"/>",
                scale.y(space.low),
                scale.y(space.high)
            );
        }
        let title = format!(
            "{} {}: {}, {}",
            variant.name,
            point.setting,
            seconds(time.value),
            bytes(space.value as u64)
        );
        let _ = writeln!(
            out,
            "<g>{}<title>{}</title></g>",
            mark(index, x, y, point.is_default()),
            escaped(title.trim())
        );
        if point.is_default() || position == 0 || position + 1 == settings {
            let dy = if point.is_default() { 15.0 } else { -8.0 };
            let name = short(&point.setting, scale.frame);
            let width = name.chars().count() as f64 * LETTER_WIDTH;
            let (anchor, dx) = beside(x, width, scale.frame.width);
            let y = labels.place(x + dx, y + dy, if anchor == "end" { -width } else { width });
            let _ = writeln!(
                out,
                "<text class=\"label halo\" style=\"fill:{colour}\" x=\"{:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>",
                x + dx,
                escaped(&name)
            );
        }
    }
}

/// The anchor and offset of a name of `width` beside a point at `x`. The name stands outside of the
/// curve, which bends down and left. At the picture's edge it changes sides; without room on either
/// side it ends at the edge.
fn beside(x: f64, width: f64, end: f64) -> (&'static str, f64) {
    if x + 9.0 + width < end {
        ("start", 9.0)
    } else if x - 9.0 - width > 0.0 {
        ("end", -9.0)
    } else {
        ("end", end - x)
    }
}

/// A point's mark: circle, square, triangle or diamond by variant, with a ring around the default.
fn mark(index: usize, x: f64, y: f64, is_default: bool) -> String {
    let colour = colour(index);
    let shape = match index % 4 {
        0 => format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"{colour}\"/>"),
        1 => format!(
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"7.4\" height=\"7.4\" fill=\"{colour}\"/>",
            x - 3.7,
            y - 3.7
        ),
        2 => format!("<path fill=\"{colour}\" d=\"M{:.1} {:.1}l4.8 8.4h-9.6z\"/>", x, y - 5.4),
        _ => format!("<path fill=\"{colour}\" d=\"M{:.1} {:.1}l5 5l-5 5l-5-5z\"/>", x, y - 5.0),
    };
    let ring = if is_default {
        format!(
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"8.5\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.6\"/>"
        )
    } else {
        String::new()
    };
    shape + &ring
}

fn legend(out: &mut String, frame: &Frame, results: &Results) {
    let named: Vec<(usize, &VariantResult)> = results
        .variants
        .iter()
        .enumerate()
        .filter(|(_, variant)| !variant.name.is_empty())
        .collect();
    let right = frame.width - frame.right;
    let mut y = TOP + 16.0;
    for (index, variant) in &named {
        let name = escaped(&short(&variant.name, frame));
        let _ = writeln!(
            out,
            "{}<text class=\"halo\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{name}</text>",
            mark(*index, right - 12.0, y - 4.0, false),
            right - 24.0,
            y
        );
        y += 18.0;
    }
    let has_default = results
        .variants
        .iter()
        .flat_map(|variant| &variant.points)
        .any(|point| point.is_default() && point.runs > 0);
    if has_default {
        let x = right - 12.0;
        let _ = writeln!(
            out,
            "<circle class=\"axis\" fill=\"none\" stroke-width=\"1.6\" cx=\"{x}\" cy=\"{:.1}\" r=\"7\"/><text class=\"halo muted\" x=\"{}\" y=\"{y:.1}\" text-anchor=\"end\">default</text>",
            y - 4.0,
            x - 12.0
        );
    }
}

/// A name, cut to the room in the picture.
fn short(name: &str, frame: &Frame) -> String {
    match name.char_indices().nth(frame.letters_max) {
        None => name.into(),
        Some((end, _)) => format!("{}…", &name[..end]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_few() {
        let shown: Vec<String> =
            ticks((0.93, 2.1), 1.0, 6.0).into_iter().map(|tick| format!("{tick:.3}")).collect();
        assert_eq!(shown.join(" "), "1.000 1.200 1.400 1.600 1.800 2.000");
        for range in [(0.0, 1e-6), (5.0, 5e8), (1e9, 1.001e9)] {
            let ticks = ticks(range, 1024.0, 6.0);
            assert!(
                ticks.len() <= 9 && ticks.iter().all(|tick| (range.0..=range.1).contains(tick)),
                "{range:?}: {ticks:?}"
            );
        }
    }

    #[test]
    fn names_stay_on_the_picture() {
        for frame in [&WIDE, &NARROW] {
            let longest = frame.letters_max as f64 * LETTER_WIDTH;
            for (x, width) in [frame.left, 200.0, frame.width - frame.right]
                .into_iter()
                .flat_map(|x| [40.0, 160.0, longest].map(|width| (x, width)))
            {
                let (anchor, dx) = beside(x, width, frame.width);
                let left = if anchor == "end" { x + dx - width } else { x + dx };
                let is_inside = left >= 0.0 && left + width <= frame.width;
                assert!(is_inside, "{}: {width} at {x} begins at {left}", frame.name);
            }
        }
    }

    #[test]
    fn labels_cover_no_other_one() {
        let mut labels = Labels::default();
        let places = [0, 1, 2].map(|_| labels.place(100.0, 200.0, 60.0));
        assert_eq!(places, [200.0, 187.0, 213.0]);
        assert_eq!(labels.place(155.0, 200.0, -60.0), 174.0, "one that ends where it is asked to");
        assert_eq!(labels.place(300.0, 200.0, 60.0), 200.0);
    }

    #[test]
    fn names_never_become_markup() {
        let hostile = "</svg><script>alert(1)</script>\x07&";
        let estimate = Some(Estimate { value: 1.0, low: f64::NAN, high: f64::NAN });
        let point = PointResult {
            setting: hostile.into(),
            value: Some(String::new()),
            runs: 1,
            time_s: estimate,
            space_bytes: estimate,
            ..PointResult::default()
        };
        let variant = VariantResult {
            name: hostile.into(),
            points: vec![point],
            effect: true,
            ..VariantResult::default()
        };
        let svg = picture(&Results { variants: vec![variant], ..Results::default() });
        assert!(
            !svg.contains("<script") && !svg.contains('\x07') && svg.matches("</svg>").count() == 1,
            "{svg}"
        );
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        assert!(picture(&Results::default()).contains("Nothing ran"));
    }
}
