//! Writes a synthetic run with its findings and its report into a directory, which must be empty or not exist:
//! `cargo run -p idlewave-report --example synthetic -- DIR`.

use idlewave_report::testing::Synthetic;
use std::error::Error;
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn Error>> {
    let path: PathBuf = std::env::args_os()
        .nth(1)
        .ok_or("usage: synthetic DIR")?
        .into();
    let (run, findings) = Synthetic::default().write(&path)?;
    let page = idlewave_report::render_html(&run, &findings)?;
    std::fs::write(path.join("report.html"), page)?;
    print!(
        "{}",
        idlewave_report::render_text(run.manifest(), &findings, 80, false)
    );
    Ok(())
}
