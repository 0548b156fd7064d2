//! `thought private-training-export`: judgments with their whole chain, in files that only their owner may read.
//!
//! No example is ever written to stdout: what is said there are ids and codes, and only if they are asked for.

use std::path::PathBuf;

use clap::Args;

use super::asking::{open, read};
use super::training::absolute;
use crate::ask::{Operate, Operated};
use crate::client::{self, Reached};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::out::Out;
use crate::render::{count, line};
use crate::session::Session;
use crate::socket::Door;
use crate::training::private::{self, PrivateExported, WithheldJudgment, Written};

/// Says where the private data set goes, and that its keeper knows what it is.
#[derive(Debug, Args)]
pub struct PrivateTrainingArgs {
    /// The new file, in a directory of mode 700; its manifest is written beside it
    #[arg(long, value_name = "FILE")]
    pub output: PathBuf,
    /// That the file will hold sensitive and private text
    #[arg(long, required = true)]
    pub acknowledge_sensitive_private_training: bool,
    /// List what was left out, with the links of its chain that do not hold: ids and codes
    #[arg(long)]
    pub explain: bool,
}

/// Exports the data set; by the service if one runs.
///
/// # Errors
/// [`Failure`] if no judgment has its whole chain, or a file cannot be written; nothing is left then.
pub fn run(args: &PrivateTrainingArgs, session: &Session, out: &mut Out) -> Result<Exit, Failure> {
    let path = absolute(&args.output)?;
    let acknowledged = args.acknowledge_sensitive_private_training;
    let exported: PrivateExported = match client::reach(session, Door::Operator)? {
        Reached::Service(mut connection) => {
            let mut gather = super::asking::Gather::default();
            let request = Operated::Operate(Operate::PrivateTrainingExport { path, acknowledged });
            connection.ask(&request, &mut gather)?;
            read(gather.0.pop().unwrap_or_default())?
        }
        Reached::Alone(_lock) => {
            let store = open(session)?;
            private::export(&store.reader, &session.places, &path, acknowledged)?
        }
    };
    if args.explain {
        for withheld in &exported.withheld {
            if session.json {
                out.json(withheld)?;
            } else {
                out.line(&explained(withheld))?;
            }
        }
    }
    let left_out = count(exported.withheld.len() as u64, "judgment");
    let Some(written) = &exported.written else {
        let what = format!("no judgment has its whole chain; {left_out} left out");
        let failure = Failure::new(Exit::Refused, "training.nothing", what);
        // Whoever asked has been told, and where nothing was judged there is nothing to tell.
        return Err(if args.explain || exported.withheld.is_empty() {
            failure
        } else {
            failure.with_hint("`--explain` lists each with the links that do not hold")
        });
    };
    out.remark(&said(written));
    if !exported.withheld.is_empty() && !args.explain {
        out.remark(&format!("{left_out} left out; --explain says why"));
    }
    Ok(Exit::Done)
}

/// Says in one line why a judgment was left out.
fn explained(withheld: &WithheldJudgment) -> String {
    let links = withheld.why.links.iter();
    let links: Vec<String> =
        links.map(|broken| format!("{} {}", broken.link.as_str(), broken.fault.as_str())).collect();
    let links = if links.is_empty() { String::new() } else { format!(": {}", links.join(", ")) };
    format!("{} {}{links}", withheld.judgment, withheld.why.code.words())
}

fn said(written: &Written) -> String {
    let trace = match written.without_trace {
        0 => String::new(),
        number => format!("\n{} without a trace of the run, and said to be", count(number, "example")),
    };
    format!(
        "{} in {}\nmanifest {}\nsha256 {}{trace}",
        count(written.count, "example"),
        line(&written.path.display().to_string()),
        line(&written.manifest.display().to_string()),
        written.dataset_sha256
    )
}
