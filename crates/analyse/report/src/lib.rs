//! The terminal summary and the self-contained HTML report of any run.
//!
//! Last in the flow: both renderings take a run bundle and its findings and measure nothing
//! themselves, so a live recording and a simulation look alike.

mod calibration;
mod compare;
mod error;
mod facts;
mod gang;
mod html;
mod limits;
mod number;
mod placement;
mod screen;
mod simulation;
mod story;
#[doc(hidden)]
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod text;
mod views;

pub use calibration::{
    AllToAllPoint, CalibratedParameter, CalibrationSheet, ParameterUnit, PingPongPoint,
    SlowDownPoint, StreamPoint, TypicalMisfit,
};
pub use compare::render_comparison;
pub use error::ReportError;

pub use gang::{GangContexts, GangNumber, GangRow, GangSheet, GangSwitches, GangTable};
pub use html::{
    PutFile, calibration_page, gang_page, placement_page, render_html, render_page,
    simulation_page, study_page,
};
pub use limits::{limits_junit, limits_text};
pub use placement::{
    LinkLoad, LoadPicture, MemoryFit, NodeLoad, PlacementFile, PlacementRow, PlacementSheet,
    StudyRow, StudySheet, SwitchSheet,
};
pub use simulation::{PathSource, SimulatedPath, SimulationPoint, SimulationSheet, SourceCost};
pub use story::library_name;
pub use text::{render_calls, render_jitter, render_text};
pub use views::render_view;
