//! What every benchmark needs: the CPU time of a child, and medians with their spread.
