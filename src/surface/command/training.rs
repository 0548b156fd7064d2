//! `thought training-export`: judged outputs as a data set, in files that only their owner may read.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;
use thoughtstream_domain::training::Excluded;

use super::asking::{open, read};
use crate::ask::{Operate, Operated};
use crate::client::{self, Reached};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::out::Out;
use crate::render::{count, line};
use crate::session::Session;
use crate::socket::Door;
use crate::training::{self, TrainingExported};

/// Says where the data set goes, and whether the second gate opens.
#[derive(Debug, Args)]
pub struct TrainingArgs {
    /// The new file, in a directory of mode 700; its manifest is written beside it
    #[arg(long, value_name = "FILE")]
    pub output: PathBuf,
    /// Also what is above public-source and was let out when it was judged
    #[arg(long)]
    pub include_private: bool,
}

/// Exports the data set; by the service if one runs.
///
/// # Errors
/// [`Failure`] if nothing may leave, or a file cannot be written; nothing is left then.
pub fn run(args: &TrainingArgs, session: &Session, out: &mut Out) -> Result<Exit, Failure> {
    let path = absolute(&args.output)?;
    let include_private = args.include_private;
    let exported: TrainingExported = match client::reach(session, Door::Operator)? {
        Reached::Service(mut connection) => {
            let mut gather = super::asking::Gather::default();
            let request = Operated::Operate(Operate::TrainingExport { path, include_private });
            connection.ask(&request, &mut gather)?;
            read(gather.0.pop().unwrap_or_default())?
        }
        Reached::Alone(_lock) => {
            let store = open(session)?;
            training::export(&store.reader, &session.places, &path, include_private)?
        }
    };
    if session.json {
        out.json(&exported)?;
    } else {
        out.text(&render(&exported))?;
    }
    Ok(Exit::Done)
}

/// Refuses what is no file: nothing of a data set goes to a terminal or through a pipe.
pub(super) fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    if path == Path::new("-") || path.starts_with("/dev") || path.starts_with("/proc") {
        let what = format!("`{}` is no file to keep a data set in", path.display());
        return Err(Failure::new(Exit::Usage, "training.path", what)
            .with_hint("name a new file in a directory of mode 700"));
    }
    std::path::absolute(path).map_err(|error| {
        Failure::new(Exit::Usage, "training.path", "the file's path is not usable").because(&error)
    })
}

fn render(exported: &TrainingExported) -> String {
    let kinds: Vec<String> = exported.kinds.iter().map(|(kind, number)| format!("{number} {kind}")).collect();
    let mut text = format!(
        "{} in {} ({})\nmanifest {}\nsha256 {}\n",
        count(exported.count, "example"),
        line(&exported.path.display().to_string()),
        kinds.join(", "),
        line(&exported.manifest.display().to_string()),
        exported.dataset_sha256
    );
    if exported.without_trace > 0 {
        text += &format!(
            "{} without a trace of the run, and said to be\n",
            count(exported.without_trace, "example")
        );
    }
    let mut reasons: BTreeMap<Excluded, u64> = BTreeMap::new();
    for judgment in &exported.excluded {
        *reasons.entry(judgment.reason).or_default() += 1;
    }
    for (reason, number) in reasons {
        text += &format!("{} left out: {}\n", count(number, "judgment"), reason.words());
    }
    text
}
