//! Slop, clownshoes, growth, churn and leaks, with what each would save.
