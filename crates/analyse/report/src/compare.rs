//! Two runs compared, on the terminal: `idlewave compare A B`.

use crate::number::plain;
use crate::screen::{Screen, Style};
use crate::views::dash;
use idlewave_explain::compare::{Comparison, Quantity, Row, SourceChange, SourceVerdict, Subject};
use idlewave_run::findings::Estimate;
use idlewave_units::show::{self, percent};
use idlewave_units::{grouped, named};

const SECTIONS: [(SourceVerdict, &str); 5] = [
    (SourceVerdict::Appeared, "APPEARED"),
    (SourceVerdict::Grew, "GREW"),
    (SourceVerdict::Shrank, "SHRANK"),
    (SourceVerdict::Vanished, "VANISHED"),
    (SourceVerdict::NotSignificant, "NO SIGNIFICANT DIFFERENCE"),
];

/// Renders the comparison of two runs or files, given with their names: ASCII, no line wider than
/// `width` columns (at least 20), with the SGR colours of ECMA-48 only if `color`.
pub fn render_comparison(
    names: [&str; 2],
    found: &Comparison,
    width: usize,
    color: bool,
) -> String {
    let mut own = Screen::new(width, color);
    let screen = &mut own;
    let [a, b] = names.map(plain);
    screen.wrap(Style::Heading, "", &format!("FROM A = {a} TO B = {b}"));
    screen.wrap(Style::Plain, "  ", &plain(&found.conclusion));
    for warning in &found.warnings {
        screen.wrap(Style::Alarm, "! ", &plain(warning));
    }
    let mut left: Vec<&Row> = found.rows.iter().collect();
    while let Some(first) = left.first() {
        let (subject, quantity) = (&first.subject, first.quantity);
        let of_cpus = is_of_cpus(subject);
        let belongs = |row: &Row| match of_cpus {
            true => is_of_cpus(&row.subject) && row.quantity == quantity,
            false => row.subject == *subject,
        };
        let (group, rest): (Vec<&Row>, Vec<&Row>) = left.iter().partition(|row| belongs(row));
        table(screen, &group);
        left = rest;
    }
    sources(screen, found);
    for why in &found.not_compared {
        screen.wrap(Style::Plain, "  ", &format!("not compared: {}", plain(why)));
    }
    for name in &found.only_one {
        let text = format!("only one of the runs has: {}", plain(name));
        screen.wrap(Style::Plain, "  ", &text);
    }
    if !found.rows.is_empty() {
        screen.wrap(
            Style::Quiet,
            "  ",
            "A, B: median of equal blocks of each run. B - A: shift between them, with its 95 % \
             interval. P(B > A): probability that a block of B has more, 50 % if they do not differ. \
             Verdicts of all tests together err in 5 % of comparisons, so a \
             single interval may leave out 0 without a verdict. What lasts as long as a run differs from \
             run to run: repeat both before you conclude.",
        );
    }
    own.into_text()
}

fn is_of_cpus(subject: &Subject) -> bool {
    matches!(subject, Subject::AllCpus | Subject::Cpu { .. })
}

/// The quantities of one subject, or one quantity of all CPUs. Single CPUs that do not differ are
/// counted if there are many.
fn table(screen: &mut Screen, group: &[&Row]) {
    const ALL_SHOWN: usize = 8;
    let Some(first) = group.first() else {
        return;
    };
    let of_cpus = is_of_cpus(&first.subject);
    let title = match (&first.subject, first.quantity) {
        (Subject::Lockstep { .. }, _) => format!("STEPS OF {}", plain(&first.subject.to_string())),
        (Subject::Computation { .. }, _) => {
            format!("JITTER OF {}", plain(&first.subject.to_string()))
        }
        (_, Quantity::QuantumTime) => "TIME OF THE SAME WORK".to_owned(),
        (_, Quantity::QuantumSlowdown) => "SLOW-DOWN OF FIXED WORK".to_owned(),
        (_, quantity) => quantity.label().to_uppercase(),
    };
    let [a, b] = [first.a.blocks, first.b.blocks].map(grouped);
    screen.line(Style::Heading, &format!("{title} ({a} and {b} blocks)"));
    let is_shown = |row: &&&Row| {
        group.len() <= ALL_SHOWN
            || row.verdict.differs()
            || row.subject == Subject::AllCpus
            || !of_cpus
    };
    let rows: Vec<Vec<String>> = group
        .iter()
        .filter(is_shown)
        .map(|row| cells(row, of_cpus))
        .collect();
    let header = [
        "",
        "A",
        "B",
        "verdict",
        "B - A",
        "95 %",
        "P(B > A)",
        "95 % of P",
    ];
    if !rows.is_empty() {
        screen.table(&header, &rows);
    }
    let hidden = group.len() - rows.len();
    if hidden > 0 {
        let text = format!(
            "no significant difference on {} more {}",
            grouped(hidden as u64),
            named(hidden as u64, "CPU")
        );
        screen.wrap(Style::Plain, "  ", &text);
    }
}

fn cells(row: &Row, of_cpus: bool) -> Vec<String> {
    let what = match of_cpus {
        true => row.subject.to_string(),
        false => row.quantity.label().to_owned(),
    };
    let shift = |value: f64| row.quantity.show_shift(value);
    vec![
        what,
        row.quantity.show(row.a.median),
        row.quantity.show(row.b.median),
        row.quantity.verdict(row.verdict).to_owned(),
        shift(row.shift.value),
        format!("{}..{}", shift(row.shift.low), shift(row.shift.high)),
        percent(row.superiority.value),
        show::percent_range(row.superiority.low, row.superiority.high),
    ]
}

fn sources(screen: &mut Screen, found: &Comparison) {
    if let Some(why) = &found.sources_not_compared {
        screen.wrap(Style::Alarm, "! ", why);
    }
    if found.sources.is_empty() {
        return;
    }
    for (verdict, title) in SECTIONS {
        let rows: Vec<Vec<String>> = found
            .sources
            .iter()
            .filter(|s| s.verdict == verdict)
            .map(source)
            .collect();
        if !rows.is_empty() {
            screen.line(Style::Heading, title);
            let header = [
                "source",
                "per s, A",
                "per s, B",
                "stolen, A",
                "stolen, B",
                "95 % of A",
                "95 % of B",
                "95 % per s, A",
                "95 % per s, B",
            ];
            screen.table(&header, &rows);
        }
    }
    screen.wrap(
        Style::Quiet,
        "  ",
        "per s: strikes per second of one CPU's time. stolen: share of that time. A source that is \
         not in a run was watched there and never struck.",
    );
}

fn source(s: &SourceChange) -> Vec<String> {
    let rate = |e: &Estimate| {
        if e.n == 0 {
            dash()
        } else {
            show::digits(e.value)
        }
    };
    let share = |e: &Estimate| if e.n == 0 { dash() } else { percent(e.value) };
    let shares = |e: &Estimate| show::percent_range(e.low, e.high);
    let rates = |e: &Estimate| format!("{}..{}", show::digits(e.low), show::digits(e.high));
    vec![
        format!("{} ({})", plain(&s.name), s.kind.label()),
        rate(&s.a.rate),
        rate(&s.b.rate),
        share(&s.a.stolen),
        share(&s.b.stolen),
        shares(&s.a.stolen),
        shares(&s.b.stolen),
        rates(&s.a.rate),
        rates(&s.b.rate),
    ]
}
