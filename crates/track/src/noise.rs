//! The size of the largest step by chance in an unchanged program.
//!
//! Steps are searched in ranks, so that neither outliers nor skew count: the largest standardized
//! difference between the mean rank of a stretch of commits and that of all others. Stretches that
//! reach to the end stand for one change, all stretches for one that was undone. It is the
//! statistic of circular binary segmentation (Olshen, Venkatraman, Lucito and Wigler 2004).
//! Simulated series with as many values and the same ties show how large it becomes by chance.
//! Neighbours may be alike without a change (a machine warms up). So simulated series are
//! autocorrelated, as much as the series is without its largest step, and [`MARGIN`] more, because
//! so few values tell so little of it.

use heaplab_statistics::Random;

/// Least commits of a stretch, and least commits outside of it.
pub(crate) const STRETCH_MIN: usize = 3;
/// Simulated series.
const SIMULATED: usize = 2_000;
/// Added to the autocorrelation that was found, and how much of one too little is found in a short
/// series: 5 / n (both by simulation; `tests/alarms.rs` holds the result).
const MARGIN: f64 = 0.3;
const SHORTFALL: f64 = 5.0;
/// Upper limit of a series' assumed autocorrelation.
const ALIKE_MAX: f64 = 0.95;

/// The stretch that differs most.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Stretch {
    /// Its first commit, and the one behind its last.
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// How much.
    pub(crate) difference: f64,
}

/// The largest differences: of a stretch that reaches to the end, and of any.
pub(crate) type Largest = [Stretch; 2];

/// Ranks, ties at their mean, less the mean of all.
pub(crate) fn centred_ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    let mut ranks = vec![0.0; values.len()];
    let middle = (values.len() as f64 - 1.0) / 2.0;
    let mut begin = 0;
    while begin < order.len() {
        let same = order[begin..].iter().take_while(|at| values[**at] == values[order[begin]]);
        let end = begin + same.count();
        let rank = (begin + end - 1) as f64 / 2.0 - middle;
        order[begin..end].iter().for_each(|at| ranks[*at] = rank);
        begin = end;
    }
    ranks
}

/// The lengths of stretches that are tried: all short ones, then fewer, so that the work for a
/// thousand commits stays small.
pub(crate) fn lengths(count: usize) -> Vec<usize> {
    let mut all = Vec::new();
    let mut length = STRETCH_MIN;
    while length + STRETCH_MIN <= count {
        all.push(length);
        length += 1 + length / 48;
    }
    all
}

/// The stretches of `ranks` that differ most from the rest.
pub(crate) fn largest(ranks: &[f64], lengths: &[usize]) -> Largest {
    let count = ranks.len();
    let mut sums = Vec::with_capacity(count + 1);
    sums.push(0.0);
    let mut squares = 0.0;
    for rank in ranks {
        squares += rank * rank;
        sums.push(sums[sums.len() - 1] + rank);
    }
    let mut found = [Stretch::default(); 2];
    if squares == 0.0 {
        return found;
    }
    let deviation = (squares / (count as f64 - 1.0)).sqrt();
    let size = |length: usize| {
        let length = length as f64;
        deviation * (length * (count as f64 - length) / count as f64).sqrt()
    };
    for length in STRETCH_MIN..=count.saturating_sub(STRETCH_MIN) {
        let from = count - length;
        let difference = (sums[count] - sums[from]).abs() / size(length);
        if difference > found[0].difference {
            found[0] = Stretch { from, to: count, difference };
        }
    }
    for length in lengths {
        let scale = 1.0 / size(*length);
        for (from, pair) in sums.iter().zip(&sums[*length..]).enumerate() {
            let difference = (pair.1 - pair.0).abs() * scale;
            if difference > found[1].difference {
                found[1] = Stretch { from, to: from + length, difference };
            }
        }
    }
    found
}

/// The autocorrelation of neighbours, without the means of a stretch and of the rest.
fn alike(ranks: &[f64], stretch: &Stretch) -> f64 {
    let is_in = |at: usize| (stretch.from..stretch.to).contains(&at);
    let (mut sum, mut count) = ([0.0; 2], [0.0_f64; 2]);
    for (at, rank) in ranks.iter().enumerate() {
        sum[usize::from(is_in(at))] += rank;
        count[usize::from(is_in(at))] += 1.0;
    }
    let rest: Vec<f64> = ranks
        .iter()
        .enumerate()
        .map(|(at, rank)| {
            let which = usize::from(is_in(at));
            rank - sum[which] / count[which].max(1.0)
        })
        .collect();
    let squares: f64 = rest.iter().map(|value| value * value).sum();
    if squares == 0.0 {
        return 0.0;
    }
    rest.windows(2).map(|pair| pair[0] * pair[1]).sum::<f64>() / squares
}

/// Chances that an unchanged program's series differs as much: for a stretch that reaches to the
/// end, and for any. Once both exceed `enough`, counting stops, and both are 1.
pub(crate) fn chances(ranks: &[f64], found: &Largest, lengths: &[usize], enough: f64) -> [f64; 2] {
    let count = ranks.len();
    let alike = alike(ranks, &found[1]) + SHORTFALL / count as f64 + MARGIN;
    let alike = alike.clamp(0.0, ALIKE_MAX);
    let mut sorted = ranks.to_vec();
    sorted.sort_by(f64::total_cmp);
    let mut simulated = Simulated::new(alike, 1);
    let mut reached = [0_u32; 2];
    for _ in 0..SIMULATED {
        // Both are far from rare: the rest cannot make them so.
        if reached.iter().all(|reached| f64::from(*reached) > enough * SIMULATED as f64) {
            return [1.0; 2];
        }
        let other = largest(&simulated.ranks(&sorted), lengths);
        for at in 0..2 {
            reached[at] += u32::from(other[at].difference >= found[at].difference - 1e-9);
        }
    }
    reached.map(|reached| f64::from(reached + 1) / (SIMULATED + 1) as f64)
}

/// Series of normal values, each like the one before.
struct Simulated {
    random: Random,
    alike: f64,
    /// The second of each pair that is drawn.
    kept: Option<f64>,
}

impl Simulated {
    fn new(alike: f64, seed: u64) -> Simulated {
        Simulated { random: Random(seed), alike, kept: None }
    }

    /// A normal value (Box and Muller 1958).
    fn draw(&mut self) -> f64 {
        if let Some(kept) = self.kept.take() {
            return kept;
        }
        let mut uniform = || ((self.random.draw() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
        let (length, angle) = ((-2.0 * uniform().ln()).sqrt(), std::f64::consts::TAU * uniform());
        self.kept = Some(length * angle.sin());
        length * angle.cos()
    }

    /// A series with exactly these ranks, in the order of the simulated values.
    fn ranks(&mut self, sorted: &[f64]) -> Vec<f64> {
        let fresh = (1.0 - self.alike * self.alike).sqrt();
        let mut value = self.draw();
        let mut values = Vec::with_capacity(sorted.len());
        for at in 0..sorted.len() {
            values.push((value, at));
            value = self.alike * value + fresh * self.draw();
        }
        values.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        let mut ranks = vec![0.0; sorted.len()];
        for ((_, at), rank) in values.into_iter().zip(sorted) {
            ranks[at] = *rank;
        }
        ranks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_share_ties_and_have_no_mean() {
        assert_eq!(centred_ranks(&[5.0, 1.0, 5.0, 9.0]), [0.0, -1.5, 0.0, 1.5]);
        assert_eq!(centred_ranks(&[2.0, 2.0, 2.0]), [0.0; 3]);
    }

    #[test]
    fn the_stretch_that_differs_is_found() {
        let mut values = vec![0.0; 30];
        values.iter_mut().enumerate().for_each(|(at, value)| *value = (at * 7 % 5) as f64);
        values[12..19].iter_mut().for_each(|value| *value += 100.0);
        let found = largest(&centred_ranks(&values), &lengths(30));
        assert_eq!((found[1].from, found[1].to), (12, 19));
        let flat = largest(&centred_ranks(&[1.0; 30]), &lengths(30));
        assert_eq!(flat[1].difference, 0.0);
    }

    #[test]
    fn a_simulated_series_keeps_the_ties_and_is_alike() {
        let sorted = centred_ranks(&[1.0, 1.0, 1.0, 2.0, 3.0, 3.0, 4.0, 5.0]);
        let mut ranks = Simulated::new(0.5, 3).ranks(&sorted);
        ranks.sort_by(f64::total_cmp);
        assert_eq!(ranks, sorted);
        let many: Vec<f64> = (0..4_000).map(f64::from).collect();
        let ranks = Simulated::new(0.5, 3).ranks(&centred_ranks(&many));
        let found = alike(&ranks, &Stretch { from: 0, to: 4_000, difference: 0.0 });
        assert!((found - 0.5).abs() < 0.06, "{found}");
    }
}
