//! Stated figures beside reached ones, in per cent.
//!
//! A row's tolerance is five standard errors of its number of draws, plus 0.01 for rounding. If
//! sizes repeat themselves, consecutive draws are alike, and the standard error is larger. A row
//! outside of its tolerance is a defect of the generator, not chance.

use crate::generator::Generator;
use crate::sizes::BOUNDS;
use crate::spec::Lifetimes;
use serde::Serialize;
use std::fmt;

/// One stated percentage.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The figure's name.
    pub what: String,
    /// The stated share.
    pub stated_percent: f64,
    /// The reached share.
    pub reached_percent: f64,
    /// Largest difference by chance.
    pub tolerance_percent: f64,
}

impl Row {
    /// Whether chance alone explains the difference.
    pub fn is_within(&self) -> bool {
        (self.reached_percent - self.stated_percent).abs() <= self.tolerance_percent
    }
}

/// The generated workload, and its differences from the stated one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Statement {
    /// The statement as text.
    pub spec: String,
    /// The rule of objects' deaths.
    pub lifetimes: Lifetimes,
    /// The seed.
    pub seed: u64,
    /// Objects born.
    pub births: u64,
    /// Their bytes.
    pub born_bytes: u64,
    /// Most objects live at once.
    pub live_objects_max: u64,
    /// Most bytes live at once.
    pub live_bytes_max: u64,
    /// Forced collections.
    pub collections: u64,
    /// Stated percentages.
    pub rows: Vec<Row>,
}

impl Statement {
    /// The statement of a generator that has generated all of its events.
    pub fn of(generator: &Generator) -> Statement {
        let (spec, counts) = (generator.spec(), generator.counts());
        let sizes = &spec.sizes;
        let same = sizes.same.map_or(0.0, |same| same as f64 / 1e6);
        // Draws that repeat tell as little as fewer independent ones.
        let alike = (1.0 + same) / (1.0 - same).max(1e-6);
        let row = |what: String, stated: f64, reached: u64, of: u64, alike: f64| {
            let draws = (of as f64).max(1.0);
            let error = (stated * (1.0 - stated) * alike / draws).sqrt();
            Row {
                what,
                stated_percent: stated * 100.0,
                reached_percent: reached as f64 * 100.0 / draws,
                tolerance_percent: 500.0 * error + 100.0 / draws + 0.01,
            }
        };
        let mut rows: Vec<Row> = BOUNDS
            .iter()
            .zip(counts.up_to)
            .map(|(bound, reached)| {
                row(
                    format!("births of at most {bound} bytes"),
                    sizes.share(*bound),
                    reached,
                    counts.births,
                    alike,
                )
            })
            .collect();
        if let Some(same) = sizes.same {
            // A mix whose sizes repeat by themselves more often than requested cannot do better.
            let least = if spec.lifetimes == Lifetimes::Phase {
                same as f64 / 1e6
            } else {
                (same as f64 / 1e6).max(sizes.chance_of_same())
            };
            rows.push(row(
                "births followed by the same size".into(),
                least,
                counts.same,
                counts.births.saturating_sub(1),
                alike,
            ));
        }
        let die = spec.die as f64 / 1e6;
        match spec.lifetimes {
            Lifetimes::Phase => rows.push(row(
                "of what lives at the end of a phase, dies".into(),
                die,
                counts.died,
                counts.judged,
                1.0,
            )),
            Lifetimes::Generational => {
                rows.push(row("die young".into(), die, counts.died, counts.judged, 1.0))
            }
            _ => {}
        }
        Statement {
            spec: spec.to_string(),
            lifetimes: spec.lifetimes,
            seed: spec.seed,
            births: counts.births,
            born_bytes: counts.born_bytes,
            live_objects_max: counts.live_max,
            live_bytes_max: counts.live_bytes_max,
            collections: counts.collections,
            rows,
        }
    }
}

impl fmt::Display for Statement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = [
            ("objects born", self.births),
            ("bytes born", self.born_bytes),
            ("most objects live", self.live_objects_max),
            ("most bytes live", self.live_bytes_max),
            ("forced collections", self.collections),
        ];
        for (what, count) in counts {
            writeln!(f, "  {what:<43}{count:>16}")?;
        }
        writeln!(
            f,
            "  {:<43}{:>8}{:>9}{:>8}{:>10}",
            "per cent", "stated", "reached", "off", "tolerance"
        )?;
        for row in &self.rows {
            let Row { what, stated_percent, reached_percent, tolerance_percent } = row;
            // Adding 0 makes 0 of -0, which else would print its sign.
            let off = ((reached_percent - stated_percent) * 100.0).round() / 100.0 + 0.0;
            writeln!(
                f,
                "  {what:<43}{stated_percent:>8.2}{reached_percent:>9.2}{off:>+8.2}{tolerance_percent:>10.2}"
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Spec;
    use heaplab_trace::EventSource;
    use proptest::prelude::*;

    fn statement(text: &str) -> Statement {
        let mut generator = Generator::new(
            Spec::parse(text, |_| Ok("32,3\n64,1\n100,2\n1000,1\n".into())).unwrap(),
        );
        generator.for_each(|_| Ok(())).unwrap();
        Statement::of(&generator)
    }

    #[test]
    fn a_statement_reads_like_this() {
        insta::assert_snapshot!(statement("sizes=web,lifetimes=phase,births=100000,seed=7"));
    }

    #[test]
    fn nothing_is_off_by_minus_nothing() {
        let mut statement = statement("births=10");
        statement.rows.truncate(1);
        statement.rows[0].stated_percent = 87.001;
        statement.rows[0].reached_percent = 87.0;
        assert!(statement.to_string().contains(" +0.00 "), "{statement}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn stated_percentages_are_reached_within_their_tolerance(
            sizes in prop::sample::select(vec!["web", "octane", "uniform:16-400", "file:s.csv"]),
            lifetimes in prop::sample::select(Lifetimes::ALL[..5].to_vec()),
            births in 5_000u64..60_000,
            seed: u64,
        ) {
            let statement = statement(&format!("sizes={sizes},lifetimes={},births={births},slots=500,seed={seed}", lifetimes.1).replace(
                if lifetimes.0 == Lifetimes::Phase { ",slots=500" } else { "\0" }, ""));
            for row in &statement.rows {
                prop_assert!(row.is_within(), "{row:?}");
                prop_assert!(row.tolerance_percent < 8.0, "{row:?}");
            }
        }
    }
}
