//! From a run to its explanation: late iterations, their causes by name, the table of sources, advice.
