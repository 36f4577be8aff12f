//! The main job from end to end: measure, trace, explain, predict, report.
