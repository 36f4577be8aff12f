//! The terminal summary and the self-contained HTML report of any run.
