"""Prints the constants of the tests of src/statistics.rs: python3 crates/experiment/tests/golden.py (needs scipy; printed with 1.17.1)."""
import numpy as np
from scipy import stats

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
