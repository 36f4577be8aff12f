//! Writes a synthetic run with its findings and its report into a directory, which must be empty or
//! not exist: `cargo run -p idlewave-report --example synthetic -- DIR
//! [RANKS|barrier|ring|nodes|simulation|point|placement|large_placement|study]`. 0 ranks: a run that
//! measured nothing. `nodes`: the CPUs of a thousand nodes. `barrier` and `ring`: a recorded MPI program instead of a study. `simulation`
//! and `point`: the page of a simulation of many points or of one. `placement`, `large_placement`
//! and `study`: pages of placements. For the pages, the sheet takes the place of the findings.

use idlewave_explain::explain;
use idlewave_report::testing::{
    Synthetic, SyntheticNodes, SyntheticProgram, bare_findings, placement_sheet, simulation_sheet,
    study_sheet,
};
use idlewave_report::{placement_page, render_page, simulation_page, study_page};
use idlewave_run::findings::Findings;
use idlewave_run::testing::empty_manifest;
use idlewave_run::{RunReader, RunWriter};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path: PathBuf = arguments
        .next()
        .ok_or("usage: synthetic DIR [RANKS]")?
        .into();
    let what = arguments.next().unwrap_or_else(|| "2".to_owned());
    let (run, findings) = match what.as_str() {
        "simulation" | "point" => {
            let (ranks, granularities) = if what == "point" { (1, 1) } else { (6, 3) };
            let sheet = simulation_sheet(ranks, granularities);
            return page(&path, &sheet, simulation_page(&sheet));
        }
        "placement" | "large_placement" => {
            let (ranks, leaf) = if what == "placement" {
                (16, 4)
            } else {
                (1024, 16)
            };
            let sheet = placement_sheet(ranks, leaf);
            return page(&path, &sheet, placement_page(&sheet));
        }
        "study" => return page(&path, &study_sheet(), study_page(&study_sheet())),
        "nodes" => nodes(&path)?,
        "barrier" => SyntheticProgram::barrier().write(&path)?,
        "ring" => SyntheticProgram::ring().write(&path)?,
        ranks => study(&path, ranks.parse()?)?,
    };
    let folder = path.join("report_files");
    let mut put = |name: &str, bytes: &[u8]| {
        std::fs::create_dir_all(&folder)?;
        std::fs::write(folder.join(name), bytes)
    };
    let page = render_page(&run, &findings, None, Some(&mut put))?;
    std::fs::write(path.join("report.html"), page)?;
    print!(
        "{}",
        idlewave_report::render_text(run.manifest(), &findings, 80, false)
    );
    Ok(())
}

/// A page with its sheet next to it.
fn page(path: &Path, sheet: &impl serde::Serialize, html: String) -> Result<(), Box<dyn Error>> {
    std::fs::create_dir_all(path)?;
    std::fs::write(path.join("report.html"), html)?;
    std::fs::write(path.join("findings.json"), serde_json::to_string(sheet)?)?;
    Ok(())
}

fn nodes(path: &Path) -> Result<(RunReader, Findings), Box<dyn Error>> {
    let made = SyntheticNodes {
        nodes: 1_000,
        noisy: Some(417),
        slow: Some(733),
    };
    let run = made.write(path)?;
    let findings = explain(&run, &AtomicBool::new(false))?.findings;
    run.write_findings(&findings)?;
    Ok((run, findings))
}

fn study(path: &Path, ranks: u32) -> Result<(RunReader, Findings), Box<dyn Error>> {
    Ok(if ranks == 0 {
        RunWriter::create(path, empty_manifest())?.close(None)?;
        let run = RunReader::open(path)?;
        run.write_findings(&bare_findings())?;
        (run, bare_findings())
    } else {
        // About the same number of rows for any number of ranks.
        Synthetic {
            ranks,
            iterations: 24_000 / u64::from(ranks),
            ..Synthetic::default()
        }
        .write(path)?
    })
}
