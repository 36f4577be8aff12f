//! The first thing on a page: what system noise is, in two sentences and a picture, for readers who have
//! never heard of it.

use super::markup::section;

/// Rows and columns of the picture.
const LEFT: u32 = 62;
const STEP: u32 = 96;
const ROW: u32 = 24;
const BAR: u32 = 16;
/// Computation of a step, and the delay of one rank in the third step.
const WORK: u32 = 80;
const DELAY: u32 = 70;
const RANKS: u32 = 4;
const STEPS: u32 = 5;
/// Which rank is delayed, and in which step.
const STRUCK: (u32, u32) = (2, 2);

/// Two sentences and the picture.
pub(super) fn opening() -> String {
    let text = "<p>The processes of a parallel program (its ranks) compute, then wait for each other, step by step. \
        If anything else takes the CPU of one rank for a moment, all of them lose that moment: this is system noise.</p>\n";
    let body = format!("<div class=\"opening\">{text}{}</div>\n", picture());
    section("noise-is", "What this page is about", &body)
}

fn picture() -> String {
    let width = LEFT + STEPS * STEP + DELAY + 8;
    let height = RANKS * ROW + 6;
    let mut out = format!(
        "<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"Four ranks compute in steps. In the third step a \
         daemon takes the CPU of one rank; the three others wait until it has caught up, and every later step is late.\">\n"
    );
    for rank in 0..RANKS {
        let y = rank * ROW + 4;
        out.push_str(&format!(
            "<text class=\"name\" x=\"{}\" y=\"{}\">rank {rank}</text>\n",
            LEFT - 8,
            y + 12
        ));
        for step in 0..STEPS {
            row(&mut out, rank, step, y);
        }
    }
    out.push_str("</svg>\n");
    out + "<p class=\"legend\"><span><i class=\"swatch o-work\"></i>computing</span>\
           <span><i class=\"swatch g-task\"></i>another program on the CPU of rank 2</span>\
           <span><i class=\"swatch o-wait\"></i>waiting for rank 2</span></p>\n"
}

/// One step of a rank: its computation, and in the struck step the delay or the wait.
fn row(out: &mut String, rank: u32, step: u32, y: u32) {
    let late = if step > STRUCK.1 { DELAY } else { 0 };
    let x = LEFT + step * STEP + late;
    let mut bar = |class: &str, x: u32, width: u32| {
        out.push_str(&format!(
            "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{BAR}\"/>\n"
        ));
    };
    match (step == STRUCK.1, rank == STRUCK.0) {
        (true, true) => {
            bar("o-work", x, WORK / 2);
            bar("o-task", x + WORK / 2, DELAY);
            bar("o-work", x + WORK / 2 + DELAY, WORK / 2);
        }
        (true, false) => {
            bar("o-work", x, WORK);
            bar("o-wait", x + WORK, DELAY);
        }
        (false, _) => bar("o-work", x, WORK),
    }
}
