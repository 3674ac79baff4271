//! The report as a person sees it.
