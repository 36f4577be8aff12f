//! What the leader of a node knows about it: machine, clock, and how busy other processes kept it.

use crate::ranks::Ranks;
use crate::{MeasureOptions, gather};
use idlewave_capture::host::read_host;
use idlewave_capture::proc::ContaminationMeter;
use idlewave_clock::{Calibration, Readings};
use idlewave_fabric::{Fabric, FabricError};
use idlewave_run::{
    ClockSheet, Contamination, NodeSheet, TraceCost, TraceMode, TraceSheet, Unavailable,
};
use idlewave_units::NodeId;
use std::path::Path;

/// Held by the leader of every node while a bundle is written.
pub struct NodeWatch {
    meter: ContaminationMeter,
    readings: Readings,
}

/// Sheets of all nodes on rank 0, or why a node has none; empty elsewhere.
pub type Sheets = Vec<Result<NodeSheet, String>>;
/// What leaders know at the end, by node, on rank 0; `None` for a node whose leader sent nothing.
pub type Ends = Vec<Option<(ClockSheet, Contamination)>>;

impl NodeWatch {
    /// Starts on the leaders, if a bundle is requested, and gives rank 0 the sheets of all nodes.
    /// All ranks call it.
    pub fn begin<F: Fabric>(
        fabric: &mut F,
        options: &MeasureOptions,
        ranks: &Ranks,
        calibration: &Calibration,
    ) -> Result<(Option<Self>, Sheets), FabricError> {
        let mut watch = None;
        if options.output.is_none() {
            return Ok((watch, Vec::new()));
        }
        let own = ranks.led_by(fabric.rank()).map(|node| {
            let readings = calibration.counter().measure().map_err(|e| e.to_string())?;
            let sheet = sheet(node, options.trace, calibration.sheet(readings));
            let mut meter = ContaminationMeter::start(Path::new("/"));
            meter.set_running(&ranks.processes_of(node));
            watch = Some(Self { meter, readings });
            Ok(sheet)
        });
        let all: Vec<Option<Result<NodeSheet, String>>> =
            gather::values_to_root(fabric, own.as_ref())?;
        let sheets = gather::by_node(&ranks.nodes, all).into_iter();
        let silent = || Err("it sent nothing".to_owned());
        let sheets = sheets.map(|sheet| sheet.unwrap_or_else(silent)).collect();
        Ok((watch, sheets))
    }

    /// Gives rank 0 what the leaders know at the end, if a bundle is requested. All ranks call it.
    pub fn finish<F: Fabric>(
        fabric: &mut F,
        watch: Option<Self>,
        options: &MeasureOptions,
        ranks: &Ranks,
        calibration: &Calibration,
    ) -> Result<Ends, FabricError> {
        if options.output.is_none() {
            return Ok(Vec::new());
        }
        let own = watch.map(|w| (calibration.sheet(w.readings), w.meter.finish()));
        let all: Ends = gather::values_to_root(fabric, own.as_ref())?;
        Ok(gather::by_node(&ranks.nodes, all))
    }
}

/// The sheet of this node at the start. The kernel is traced on the first node only.
fn sheet(node: NodeId, trace: bool, clock: ClockSheet) -> NodeSheet {
    let host = read_host(Path::new("/"));
    let unavailable = match (node.get(), trace) {
        // Rank 0 knows more once it has tried.
        (0, _) => Vec::new(),
        (_, false) => vec![not_traced("switched off by --no-trace")],
        (_, true) => vec![not_traced(
            "idlewave measure traces the kernel of the first node only",
        )],
    };
    NodeSheet {
        node,
        host,
        clock,
        trace: TraceSheet {
            mode: TraceMode::Off,
            unavailable,
            cost: TraceCost::default(),
        },
        contamination: Contamination::default(),
        alignment: None,
    }
}

/// The same text for all nodes, so that it is printed once.
fn not_traced(why: &str) -> Unavailable {
    Unavailable {
        what: "names of what took the CPU on other nodes than the first, which were not traced"
            .to_owned(),
        why: why.to_owned(),
        allow: Some("idlewave record -o RUN -- LAUNCHER idlewave measure ...".to_owned()),
    }
}
