//! Ratios over blocks of several nodes: the node is a random effect.
//!
//! A ratio differs from machine to machine (caches, kernels), and blocks of one machine say nothing
//! about the next. So blocks are first combined inside each node. The ratio's mean over nodes and
//! its spread between them follow DerSimonian and Laird (1986). The interval is that of Hartung and
//! Knapp (2001) with Student's t, never narrower than without their correction (Röver, Knapp and
//! Friede 2015), because nodes are few. The variance inside a node is pooled over all nodes,
//! because the variance of a node with two blocks is hardly informative.
//!
//! Golden values from statsmodels stand in the tests (`tests/golden.py` prints them).

use crate::Estimate;
use statrs::distribution::{ContinuousCDF, StudentsT};

/// Logarithms of a ratio as several nodes found them.
#[derive(Clone, Debug, PartialEq)]
pub struct Mixed {
    /// The mean logarithm over nodes.
    pub mean: f64,
    /// Its standard error.
    pub error: f64,
    /// The standard deviation between nodes, without the variation between blocks.
    pub between: f64,
    /// Nodes.
    pub nodes: usize,
}

/// The mean over nodes of the estimates from their blocks; `None` for fewer than two nodes.
pub fn mixed(nodes: &[Vec<f64>]) -> Option<Mixed> {
    let groups: Vec<&Vec<f64>> = nodes.iter().filter(|blocks| !blocks.is_empty()).collect();
    let count = groups.len();
    if count < 2 {
        return None;
    }
    let means: Vec<f64> = groups.iter().map(|blocks| mean(blocks)).collect();
    let squares: f64 = groups
        .iter()
        .zip(&means)
        .flat_map(|(blocks, mean)| blocks.iter().map(move |value| (value - mean).powi(2)))
        .sum();
    let blocks: usize = groups.iter().map(|blocks| blocks.len()).sum();
    let pooled = if blocks > count { squares / (blocks - count) as f64 } else { 0.0 };
    let variances: Vec<f64> = groups.iter().map(|blocks| pooled / blocks.len() as f64).collect();
    let between = between(&means, &variances);
    let weights: Vec<f64> = variances
        .iter()
        // Equal weights if nothing varies: any mean of equal numbers is right.
        .map(|variance| 1.0 / (variance + between).max(f64::MIN_POSITIVE.sqrt()))
        .collect();
    let all: f64 = weights.iter().sum();
    let middle = weighted(&means, &weights);
    let spread: f64 = means
        .iter()
        .zip(&weights)
        .map(|(mean, weight)| weight * (mean - middle).powi(2))
        .sum::<f64>()
        / (count - 1) as f64;
    let error = (spread.max(1.0) / all).sqrt();
    Some(Mixed { mean: middle, error, between: between.sqrt(), nodes: count })
}

/// The variance between nodes after DerSimonian and Laird.
fn between(means: &[f64], variances: &[f64]) -> f64 {
    let freedom = (means.len() - 1) as f64;
    if variances.iter().all(|variance| *variance == 0.0) {
        let middle = mean(means);
        return means.iter().map(|mean| (mean - middle).powi(2)).sum::<f64>() / freedom;
    }
    let weights: Vec<f64> = variances.iter().map(|variance| 1.0 / variance).collect();
    let (all, squares) =
        weights.iter().fold((0.0, 0.0), |(all, squares), one| (all + one, squares + one * one));
    let middle = weighted(means, &weights);
    let spread: f64 =
        means.iter().zip(&weights).map(|(mean, weight)| weight * (mean - middle).powi(2)).sum();
    ((spread - freedom) / (all - squares / all)).max(0.0)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn weighted(values: &[f64], weights: &[f64]) -> f64 {
    values.iter().zip(weights).map(|(value, weight)| value * weight).sum::<f64>()
        / weights.iter().sum::<f64>()
}

impl Mixed {
    /// The ratio with its interval of this confidence.
    pub fn ratio(&self, confidence: f64) -> Estimate {
        let half = self
            .student()
            .map_or(f64::INFINITY, |t| t.inverse_cdf(1.0 - (1.0 - confidence) / 2.0) * self.error);
        Estimate {
            value: self.mean.exp(),
            low: (self.mean - half).exp(),
            high: (self.mean + half).exp(),
        }
    }

    /// Two-sided p of the hypothesis that the ratio is 1.
    pub fn p_value(&self) -> f64 {
        self.student().map_or(1.0, |t| 2.0 * t.cdf(-(self.mean / self.error).abs()))
    }

    fn student(&self) -> Option<StudentsT> {
        StudentsT::new(0.0, 1.0, (self.nodes - 1) as f64).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Random;

    /// About normal: the sum of twelve uniform numbers.
    fn normal(random: &mut Random) -> f64 {
        (0..12).map(|_| random.below(1 << 40) as f64 / (1_u64 << 40) as f64).sum::<f64>() - 6.0
    }

    #[test]
    fn one_node_says_nothing_of_others() {
        assert_eq!(mixed(&[vec![0.1, 0.2, 0.3]]), None);
        assert_eq!(mixed(&[vec![0.1, 0.2, 0.3], vec![]]), None);
    }

    #[test]
    fn figures_are_those_of_statsmodels() {
        let nodes = [
            vec![0.10, 0.14, 0.12, 0.09],
            vec![0.22, 0.18, 0.25],
            vec![0.05, 0.02, 0.07, 0.04, 0.06],
            vec![0.15, 0.11],
        ];
        let found = mixed(&nodes).unwrap();
        let close = |value: f64, golden: f64| (value - golden).abs() < 1e-9;
        assert!(close(found.mean, GOLDEN[0]), "{found:?}");
        assert!(close(found.between.powi(2), GOLDEN[1]), "{found:?}");
        assert!(close(found.error, GOLDEN[2]), "{found:?}");
        let ratio = found.ratio(0.95);
        assert!(close(ratio.low.ln(), GOLDEN[3]) && close(ratio.high.ln(), GOLDEN[4]), "{ratio:?}");
    }

    const GOLDEN: [f64; 5] = [
        0.126_431_084_736_707_06,
        0.005_132_152_582_159_625,
        0.036_506_267_934_832_824,
        0.010_251_847_227_801_203,
        0.242_610_322_245_612_85,
    ];

    #[test]
    fn nodes_with_one_block_are_compared_as_they_are() {
        // The interval of a mean of three numbers: 0.2 +- 4.302653 * 0.1 / sqrt(3).
        let found = mixed(&[vec![0.1], vec![0.2], vec![0.3]]).unwrap();
        let ratio = found.ratio(0.95);
        assert!((ratio.value.ln() - 0.2).abs() < 1e-12);
        assert!((ratio.high.ln() - (0.2 + 4.302_652_7 * 0.1 / 3.0_f64.sqrt())).abs() < 1e-6);
    }

    #[test]
    fn equal_blocks_have_no_spread() {
        let found = mixed(&[vec![0.0, 0.0], vec![0.0, 0.0]]).unwrap();
        assert!(found.ratio(0.95).low > 0.999 && found.p_value() > 0.99, "{found:?}");
    }

    /// Blocks of `nodes` nodes with a true mean of 0.1 that differ by `between`; the block's own
    /// spread is 0.05.
    fn covers(nodes: usize, blocks: usize, between: f64) -> usize {
        let mut random = Random(nodes as u64 * 1000 + blocks as u64);
        (0..400)
            .filter(|_| {
                let nodes: Vec<Vec<f64>> = (0..nodes)
                    .map(|_| {
                        let node = 0.1 + between * normal(&mut random);
                        (0..blocks).map(|_| node + 0.05 * normal(&mut random)).collect()
                    })
                    .collect();
                let ratio = mixed(&nodes).unwrap().ratio(0.95);
                (ratio.low.ln()..=ratio.high.ln()).contains(&0.1)
            })
            .count()
    }

    #[test]
    fn intervals_hold_what_they_say_whatever_nodes_differ_by() {
        for (nodes, blocks) in [(2, 5), (3, 10), (5, 2), (10, 3)] {
            for between in [0.0, 0.02, 0.2] {
                let held = covers(nodes, blocks, between);
                // 95 % of 400 is 380; 365 is 3.4 standard deviations of chance below.
                assert!(held >= 365, "{held} of 400: {nodes} nodes, {blocks} blocks, {between}");
            }
        }
    }
}
