//! Reading and calibrating clocks: time-stamp counter, CLOCK_MONOTONIC, the quantum really seen.
