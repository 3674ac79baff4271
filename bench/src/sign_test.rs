//! The sign test's interval for a median: order statistics, valid for any distribution of the
//! measurements. Every benchmark with an interval of a median takes it from here.
//!
//! Source: any table of the sign test; the probabilities are the binomial's own, without an
//! approximation.

/// Wanted coverage of an interval, if there are enough values.
pub const COVERAGE: f64 = 0.95;

/// Two of the measured values; the true median lies between them with the probability `covers`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The lower end.
    pub least: f64,
    /// The upper end.
    pub most: f64,
    /// Probability that the true median lies between them.
    pub covers: f64,
}

impl Interval {
    /// The narrowest interval that covers [`COVERAGE`]. With fewer than six values, which cannot
    /// cover it, the whole range and its coverage. `None`: fewer than two values.
    pub fn of(values: &[f64]) -> Option<Interval> {
        if values.len() < 2 {
            return None;
        }
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        // Of n values, `place` or fewer lie below the median with the binomial probability `tail`;
        // the interval between the neighbouring values misses twice that. A single term is kept as
        // a logarithm, because 2^-n underflows beyond a thousand values.
        let mut term_ln = -(values.len() as f64) * std::f64::consts::LN_2;
        let (mut place, mut tail) = (0, term_ln.exp());
        loop {
            let next_ln = term_ln + ((values.len() - place) as f64 / (place + 1) as f64).ln();
            if 1.0 - 2.0 * (tail + next_ln.exp()) < COVERAGE || 2 * (place + 1) >= values.len() {
                break;
            }
            (term_ln, tail, place) = (next_ln, tail + next_ln.exp(), place + 1);
        }
        Some(Interval {
            least: sorted[place],
            most: sorted[sorted.len() - 1 - place],
            covers: 1.0 - 2.0 * tail,
        })
    }
}

impl std::fmt::Display for Interval {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.0} %: {:.2} to {:.2}", self.covers * 100.0, self.least, self.most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_covers_what_a_table_of_the_binomial_says() {
        let interval = |count: u32| {
            Interval::of(&(1..=count).rev().map(f64::from).collect::<Vec<_>>()).unwrap()
        };
        let covers = |count: u32, share: f64| (interval(count).covers - share).abs() < 1e-3;
        // The sign test's tables: for 41 values the 14th from both ends (97.2 %), for 31 the 10th
        // (97.1 %), for 10 the 2nd (97.9 %), for 6 the range (96.9 %).
        assert_eq!((interval(41).least, interval(41).most), (14.0, 28.0));
        assert!(covers(41, 0.9725), "{:?}", interval(41));
        assert_eq!((interval(31).least, interval(31).most), (10.0, 22.0));
        assert!(covers(31, 0.9706), "{:?}", interval(31));
        assert_eq!((interval(10).least, interval(10).most), (2.0, 9.0));
        assert!(covers(10, 0.9785), "{:?}", interval(10));
        assert_eq!((interval(6).least, interval(6).most), (1.0, 6.0));
        assert!(covers(6, 0.96875), "{:?}", interval(6));
        // Too few values: the range and its coverage.
        assert_eq!((interval(5).least, interval(5).most), (1.0, 5.0));
        assert!(covers(5, 0.9375) && covers(2, 0.5), "{:?} {:?}", interval(5), interval(2));
        assert_eq!(Interval::of(&[1.0]), None);
    }

    #[test]
    fn thousands_of_values_have_an_interval_too() {
        let many = Interval::of(&(1..=4000).map(f64::from).collect::<Vec<_>>()).unwrap();
        // The normal approximation, accurate to one place here: 2000 -+ 1.96 * sqrt(4000) / 2.
        assert!(
            (many.least - 1938.5).abs() <= 1.0 && (many.most - 2062.5).abs() <= 1.0,
            "{many:?}"
        );
        assert!((0.95..0.953).contains(&many.covers), "{many:?}");
    }
}
