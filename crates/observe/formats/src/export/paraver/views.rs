//! Views of the trace as Paraver configuration files, one per view: what a study of interrupts and
//! daemons needs.
//!
//! The keys and the names of functions are those of paraver-kernel (api/cfg.cpp,
//! api/functionmanagement.cpp). A table has the rows of a window and one column for each of its
//! values. All tables use the CPU of each thread: over a window of CPUs, a table would count a CPU
//! twice where two threads share it.

use crate::export::paraver::survey::Survey;
use crate::export::paraver::text::small;
use crate::export::{Export, ExportError};
use crate::prv;
use idlewave_sys::files;
use std::fmt::Write;
use std::path::Path;

/// A function over the records of a thread.
enum Of {
    /// Its states.
    States,
    /// The time that it was in this state.
    InState(u64),
    /// Values of events of this type.
    Events(u32),
    /// 1 while the event of this type has this value, else 0.
    Equal(u32, u64),
    /// How long that stretch lasts, during it.
    HowLong(u32, u64),
    /// The product of two other windows.
    Product(u32, u32),
}

/// A window and its number, which counts from 1.
struct Window<'a> {
    name: &'a str,
    of: Of,
    shown: bool,
}

/// A table: values of the window `control` over columns of `delta` from `from` to `to`.
struct Table<'a> {
    name: &'a str,
    control: usize,
    statistic: &'a str,
    from: u64,
    to: u64,
    delta: u64,
}

/// Writes all views into a directory.
pub(super) fn write(
    directory: &Path,
    survey: &Survey,
    export: &mut Export,
) -> Result<(), ExportError> {
    files::create_directory(directory).map_err(ExportError::io(directory))?;
    let cpus = survey.objects.nodes.iter().map(|n| n.cpus.len() as u64);
    let cpus = cpus.sum::<u64>().max(1);
    let ranks = survey.objects.ranks.keys().map(|r| u64::from(r.get()) + 1);
    let ranks = ranks.max().unwrap_or(1);
    let mut add = |name: &str, about: &str, windows: &[Window<'_>], table: Option<&Table<'_>>| {
        let path = directory.join(format!("{name}.cfg"));
        small(&path, &text(about, windows, table), export)
    };
    let one = |name, of| Window {
        name,
        of,
        shown: true,
    };
    let hidden = |name, of| Window {
        name,
        of,
        shown: false,
    };

    add(
        "processes_by_state",
        "The state of every process over time.",
        &[one("Processes by state", Of::States)],
        None,
    )?;
    add(
        "cpu_of_process",
        "The CPU on which every process runs, over time.",
        &[one("CPU of each process", Of::Events(prv::CPU))],
        None,
    )?;
    for (file, name, statistic) in [
        (
            "process_cpu_time",
            "Time of each process on each CPU",
            "Time",
        ),
        (
            "process_cpu_average_burst",
            "Average burst of each process on each CPU",
            "Average Burst Time",
        ),
        (
            "process_cpu_bursts",
            "Number of bursts of each process on each CPU",
            "# Bursts",
        ),
    ] {
        let table = Table {
            name,
            control: 1,
            statistic,
            from: 1,
            to: cpus,
            delta: 1,
        };
        let window = hidden("CPU of each process", Of::Events(prv::CPU));
        add(file, name, &[window], Some(&table))?;
    }
    for (file, name, statistic) in [
        ("state_time", "Time of each process in each state", "Time"),
        (
            "state_average_duration",
            "Average duration of each state",
            "Average Burst Time",
        ),
    ] {
        let table = Table {
            name,
            control: 1,
            statistic,
            from: 0,
            to: prv::UNKNOWN,
            delta: 1,
        };
        add(file, name, &[hidden("States", Of::States)], Some(&table))?;
    }
    for (file, name, state) in [
        (
            "running_durations",
            "Durations of running, 1 us a column",
            prv::RUNNING,
        ),
        (
            "ready_durations",
            "Durations of waiting for a CPU, 1 us a column",
            prv::READY,
        ),
    ] {
        let table = Table {
            name,
            control: 1,
            statistic: "# Bursts",
            from: 1,
            to: 200_000,
            delta: 1_000,
        };
        add(
            file,
            name,
            &[hidden("Duration", Of::InState(state))],
            Some(&table),
        )?;
    }
    for (file, kind, value) in [
        ("barrier_durations_mpi", prv::COLLECTIVE, 8),
        ("barrier_durations_lockstep", prv::REGION, 3),
    ] {
        let windows = [
            hidden("In a barrier", Of::Equal(kind, value)),
            hidden("Stretches", Of::HowLong(kind, value)),
            one("Duration of each barrier", Of::Product(1, 2)),
        ];
        let table = Table {
            name: "Durations of barriers, 1 us a column",
            control: 3,
            statistic: "# Bursts",
            from: 1,
            to: 200_000,
            delta: 1_000,
        };
        add(
            file,
            "How long each rank is in each barrier; a late rank has the shortest.",
            &windows,
            Some(&table),
        )?;
    }
    let table = Table {
        name: "Time of each process on the CPU of a late rank",
        control: 1,
        statistic: "Time",
        from: 1,
        to: ranks,
        delta: 1,
    };
    add(
        "who_ran_while_late",
        "Who had the CPU of a rank while the others waited for it; columns are the late ranks.",
        &[one(
            "Ran while a rank was late",
            Of::Events(prv::WHILE_LATE),
        )],
        Some(&table),
    )?;
    add(
        "late_steps",
        "Late steps: how late, and what is charged with most of it.",
        &[
            one("Lateness", Of::Events(prv::LATE)),
            one("Late because of", Of::Events(prv::LATE_BECAUSE)),
        ],
        None,
    )?;
    add(
        "interrupts",
        "Interrupts by source.",
        &[one("Interrupts", Of::Events(prv::INTERRUPT))],
        None,
    )
}

fn text(about: &str, windows: &[Window<'_>], table: Option<&Table<'_>>) -> String {
    let mut text = format!(
        "#ParaverCFG\nConfigFile.Version: 3.4\nConfigFile.NumWindows: {}\n\
         ConfigFile.BeginDescription\n{about}\nConfigFile.EndDescription\n\n",
        windows.len()
    );
    for (window, id) in windows.iter().zip(1..) {
        self::window(&mut text, window, id);
    }
    if let Some(table) = table {
        self::table(&mut text, table);
    }
    text
}

fn window(text: &mut String, window: &Window<'_>, id: usize) {
    let composed = match window.of {
        Of::Product(a, b) => Some((a, b)),
        _ => None,
    };
    let name = window.name;
    let kind = if composed.is_some() {
        "composed"
    } else {
        "single"
    };
    let line = "#".repeat(80);
    let _ = writeln!(
        text,
        "{line}\n< NEW DISPLAYING WINDOW {name} >\n{line}\nwindow_name {name}\nwindow_type {kind}\nwindow_id {id}"
    );
    if let Some((a, b)) = composed {
        let _ = writeln!(
            text,
            "window_factors 1.0 1.0\nwindow_operation product\nwindow_identifiers {a} {b}"
        );
    }
    let _ = writeln!(
        text,
        "window_position_x 100\nwindow_position_y {}\nwindow_width 800\nwindow_height 300\n\
         window_comm_lines_enabled false\nwindow_flags_enabled false\nwindow_noncolor_mode true",
        100 * id
    );
    let (thread, compose, top, parameter) = match window.of {
        Of::States => ("State As Is", "As Is", "As Is", None),
        Of::InState(state) => (
            "State Record Dur.",
            "As Is",
            "As Is",
            Some(("thread State Record Dur.", state)),
        ),
        Of::Events(_) => ("Last Evt Val", "As Is", "As Is", None),
        Of::Equal(_, value) => (
            "Last Evt Val",
            "Is Equal (Sign)",
            "As Is",
            Some(("compose_thread Is Equal (Sign)", value)),
        ),
        Of::HowLong(_, value) => (
            "Last Evt Val",
            "Is Equal (Sign)",
            "Burst Time",
            Some(("compose_thread Is Equal (Sign)", value)),
        ),
        Of::Product(..) => ("", "As Is", "As Is", None),
    };
    if composed.is_none() {
        text.push_str(
            "window_logical_filtered true\nwindow_physical_filtered false\nwindow_comm_fromto true\n\
             window_comm_tagsize true\nwindow_comm_typeval true\n",
        );
    }
    let _ = writeln!(
        text,
        "window_units Nanoseconds\nwindow_maximum_y 1.0\nwindow_minimum_y 0.0\nwindow_compute_y_max true\n\
         window_level thread\nwindow_scale_relative 1.000000000000\nwindow_end_time_relative 1.000000000000\n\
         window_object appl {{ 1, {{ All }} }}\nwindow_begin_time_relative 0.000000000000\nwindow_open {}\n\
         window_drawmode draw_maximum\nwindow_drawmode_rows draw_maximum\nwindow_pixel_size 1\nwindow_labels_to_draw 1",
        window.shown
    );
    let above = "{appl, Adding}, {task, Adding}";
    let beside = "{node, Adding}, {system, Adding}, {workload, Adding}";
    let messages = "{from_obj, All}, {to_obj, All}, {tag_msg, All}, {size_msg, All}, {bw_msg, All}";
    let events = match window.of {
        Of::Events(_) | Of::Equal(..) | Of::HowLong(..) => "=",
        _ => "All",
    };
    let _ = match composed {
        Some(_) => writeln!(
            text,
            "window_selected_functions {{ 5, {{ {above}, {beside}, }} }}"
        ),
        None => writeln!(
            text,
            "window_selected_functions {{ 14, {{ {{cpu, Active Thd}}, {above}, {{thread, {thread}}}, {beside}, {messages}, \
             {{evt_type, {events}}}, {{evt_value, All}} }} }}"
        ),
    };
    let _ = writeln!(
        text,
        "window_compose_functions {{ 9, {{ {{compose_cpu, As Is}}, {{compose_appl, As Is}}, {{compose_task, As Is}}, \
         {{compose_thread, {compose}}}, {{compose_node, As Is}}, {{compose_system, As Is}}, {{compose_workload, As Is}}, \
         {{topcompose1, {top}}}, {{topcompose2, As Is}} }} }}"
    );
    if let Some((function, value)) = parameter {
        let _ = writeln!(
            text,
            "window_semantic_module {function} {{ 1, {{ 1 {value}.000000000000 }} }}"
        );
    }
    if let Of::Events(kind) | Of::Equal(kind, _) | Of::HowLong(kind, _) = window.of {
        let _ = writeln!(text, "window_filter_module evt_type 1 {kind}");
    }
    text.push('\n');
}

fn table(text: &mut String, table: &Table<'_>) {
    let (control, from, to, delta) = (table.control, table.from, table.to, table.delta);
    let _ = writeln!(
        text,
        "< NEW ANALYZER2D >\nAnalyzer2D.Name: {}\nAnalyzer2D.X: 200\nAnalyzer2D.Y: 200\nAnalyzer2D.Width: 800\n\
         Analyzer2D.Height: 400\nAnalyzer2D.ControlWindow: {control}\nAnalyzer2D.DataWindow: {control}\n\
         Analyzer2D.Accumulator: Semantic\nAnalyzer2D.Statistic: {}\nAnalyzer2D.CalculateAll: True\n\
         Analyzer2D.HideCols: False\nAnalyzer2D.HorizVert: Horizontal\nAnalyzer2D.Color: True\n\
         Analyzer2D.SemanticColor: False\nAnalyzer2D.Zoom: Disabled\nAnalyzer2D.SortCols: False\n\
         Analyzer2D.SortCriteria: Average\nAnalyzer2D.AnalysisLimits: Alltrace\nAnalyzer2D.ComputeYScale: False\n\
         Analyzer2D.Minimum: {from}.000000000000\nAnalyzer2D.Maximum: {to}.000000000000\n\
         Analyzer2D.Delta: {delta}.000000000000\nAnalyzer2D.ComputeGradient: True",
        table.name, table.statistic
    );
}
