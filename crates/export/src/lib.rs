//! Profiles in the formats of other tools: pprof, speedscope, Firefox Profiler, DHAT, collapsed stacks.
