"""Prints the constants of the tests of src/statistics.rs and src/mixed.rs: python3 crates/experiment/tests/golden.py (needs scipy and statsmodels; printed with 1.17.1 and 0.15.0)."""
import numpy as np
from scipy import stats
from statsmodels.stats.meta_analysis import combine_effects

def generator(n, shift, seed):
    # The same linear congruential generator as in the Rust test, so that no data has to be listed.
    values, state = [], seed
    for _ in range(n):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        values.append((state >> 11) / 2**53 - 0.5 + shift)
    return np.array(values)

def hodges_lehmann(x):
    walsh = [(x[i] + x[j]) / 2 for i in range(len(x)) for j in range(i, len(x))]
    return float(np.median(walsh))

small = generator(10, 0.2, 1)
print("exact n=10", repr(float(stats.wilcoxon(small, method="exact").pvalue)), repr(hodges_lehmann(small)))
medium = generator(25, 0.05, 2)
print("exact n=25", repr(float(stats.wilcoxon(medium, method="exact").pvalue)), repr(hodges_lehmann(medium)))
large = generator(80, 0.06, 3)
print("approx n=80", repr(float(stats.wilcoxon(large, method="asymptotic", correction=False).pvalue)), repr(hodges_lehmann(large)))
ties = np.array([1, 1, 2, 2, 2, -1, 3, -2, 0, 4, 4, -3, 5, 1], dtype=float)
print("ties", repr(float(stats.wilcoxon(ties, zero_method="wilcox", method="asymptotic", correction=False).pvalue)))
p = [0.01, 0.04, 0.03, 0.005, 0.8, 0.05]
print("bh", [float(v) for v in stats.false_discovery_control(p, method="bh")])
print("bootstrap", [float(v) for v in stats.bootstrap((large,), np.median, n_resamples=20000, method="percentile", rng=1).confidence_interval])
others = generator(60, 0.0, 4)
def quartiles(first, second, axis=-1):
    return np.quantile(first, 0.25, axis=axis) - np.quantile(second, 0.25, axis=axis)
print("quartiles", float(quartiles(large, others)), [float(v) for v in stats.bootstrap((large, others), quartiles, n_resamples=20000, method="percentile", rng=1).confidence_interval])

nodes = [[0.10, 0.14, 0.12, 0.09], [0.22, 0.18, 0.25], [0.05, 0.02, 0.07, 0.04, 0.06], [0.15, 0.11]]
means = np.array([np.mean(node) for node in nodes])
blocks = np.array([len(node) for node in nodes])
squares = sum(((np.array(node) - np.mean(node)) ** 2).sum() for node in nodes)
pooled = squares / (blocks.sum() - len(nodes))
found = combine_effects(means, pooled / blocks, method_re="chi2", use_t=True)
print("mixed mean", repr(float(found.mean_effect_re)))
print("mixed between", repr(float(found.tau2)))
error = max(found.sd_eff_w_re_hksj, found.sd_eff_w_re)
print("mixed error", repr(float(error)))
print("mixed interval", [repr(float(end)) for end in found.mean_effect_re + stats.t.ppf([0.025, 0.975], len(nodes) - 1) * error])
