//! `thought bench`: how fast the log is on this disk, and how far below it the floor is.

use std::path::{Path, PathBuf};

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};

use crate::bench::{self, BenchError, Plan, Ratio, Row};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::out::Out;
use crate::render::Rows;
use crate::session::Session;

/// Says what is measured, and where.
#[derive(Debug, Args)]
pub struct BenchArgs {
    /// Measure the disk of this directory (else that of the data directory)
    pub dir: Option<PathBuf>,
    /// Measure for some seconds only; the numbers say less
    #[arg(long)]
    pub quick: bool,
}

/// Measures in a directory of its own, which is removed again.
///
/// # Errors
/// [`Failure`] if the directory cannot be written or the log fails.
pub fn run(args: &BenchArgs, session: &Session, out: &mut Out) -> Result<Exit, Failure> {
    let parent = match &args.dir {
        Some(dir) => dir.clone(),
        None => existing(&session.places.data).to_owned(),
    };
    let plan = if args.quick { Plan::QUICK } else { Plan::FULL };
    let bar = ProgressBar::new(0);
    let style = ProgressStyle::with_template("{bar:20} {pos}/{len} {msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let progress = |name: &str, done: usize, total: usize| {
        bar.set_length(total as u64);
        bar.set_position(done as u64);
        bar.set_message(name.to_owned());
    };
    let measured = bench::run(&parent, plan, progress);
    bar.finish_and_clear();
    let (rows, ratios) = measured.map_err(|error| failure(&error, &parent))?;
    if session.json {
        rows.iter().try_for_each(|row| out.json(row))?;
        ratios.iter().try_for_each(|ratio| out.json(ratio))?;
    } else {
        out.text(&table(&rows, &ratios))?;
    }
    Ok(Exit::Done)
}

/// Returns the nearest directory above `path`, or itself, that is there: it lies on the same disk.
fn existing(path: &Path) -> &Path {
    path.ancestors().find(|path| path.is_dir()).unwrap_or(Path::new("/"))
}

fn failure(error: &BenchError, parent: &Path) -> Failure {
    let failure = Failure::of(Exit::CouldNotLook, "bench.failed", error);
    let hint = "a directory that can be written is needed: thought bench DIR";
    if matches!(error, BenchError::Io(_)) {
        let what = format!("cannot measure in `{}`", parent.display());
        return Failure::new(Exit::CouldNotLook, "bench.disk", what).because(error).with_hint(hint);
    }
    failure
}

fn table(rows: &[Row], ratios: &[Ratio]) -> String {
    let mut table = Rows::new(&["WHAT", "IN FLIGHT", "PER SECOND", "P50 ms", "P99 ms"]);
    table = table.numbers(1).numbers(2).numbers(3).numbers(4);
    let millis = |micros: u64| format!("{:.2}", micros as f64 / 1000.0);
    for row in rows {
        let (writers, rate) = (row.writers.to_string(), format!("{:.0}", row.per_second));
        table.row(&[row.name.clone(), writers, rate, millis(row.p50_us), millis(row.p99_us)]);
    }
    let mut held = Rows::new(&["RATIO", "VALUE", "GOAL", ""]).numbers(1).numbers(2);
    for ratio in ratios {
        let met = if ratio.is_met() { "met" } else { "missed" };
        held.row(&[
            ratio.ratio.clone(),
            format!("{:.2}", ratio.value),
            ratio.goal.to_string(),
            met.to_owned(),
        ]);
    }
    format!("{}\n{}", table.text(), held.text())
}
