//! The contracts a heap fulfils, what it reports, and the checks every heap must pass.
