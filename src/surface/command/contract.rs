//! `thought contract`: what a model's final message must be, and the verdict that a file's content would get.

use std::io::{IsTerminal as _, Read};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::json;
use thoughtstream_domain::contract::{Accepted, Contract, FinalPart, Mode, Rejection, Stop, judge};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::out::Out;
use crate::render::Rows;

/// The largest file that is judged: far more than any message that can be accepted.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// Is what can be done with output contracts.
#[derive(Debug, Subcommand)]
pub enum ContractCommand {
    /// List the output contracts with their definition hashes
    List,
    /// Show a contract's JSON Schema
    Show(ShowArgs),
    /// Show the verdict that a file's content would get as a model's final message
    ///
    /// Nothing is recovered and nothing of the content is shown: codes, places, counts and hashes are.
    Check(CheckArgs),
}

/// Names a contract.
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// The contract: `NAME` for its newest version, or `NAME@n`
    pub id: String,
}

/// Names what is judged, and by what.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// The file; `-` reads stdin
    pub file: PathBuf,
    /// The contract
    #[arg(long, value_name = "ID", default_value = "stream.thought.output.observation@1")]
    pub contract: String,
    /// How the message is read: strict-json or conversation-text
    #[arg(long, default_value = "strict-json", value_parser = mode)]
    pub mode: Mode,
}

fn mode(text: &str) -> Result<Mode, String> {
    Mode::parse(text).ok_or_else(|| {
        let words: Vec<&str> = Mode::ALL.into_iter().map(Mode::as_str).collect();
        format!("expected one of {}", words.join(", "))
    })
}

/// Runs a contract command; it looks at no log.
///
/// # Errors
/// [`Failure`] if the contract is not known or the file cannot be read.
pub fn run(command: ContractCommand, as_json: bool, out: &mut Out) -> Result<Exit, Failure> {
    match command {
        ContractCommand::List => list(as_json, out),
        ContractCommand::Show(args) => {
            let contract = find(&args.id)?;
            if as_json {
                out.json(&shown(&contract))?;
                return Ok(Exit::Done);
            }
            out.line(&format!("{}, definition {}", contract.kind(), contract.hash()))?;
            let text = serde_json::to_string_pretty(contract.schema()).map_err(|error| {
                Failure::new(Exit::Bug, "contract.write", "a schema cannot be written").because(&error)
            })?;
            out.line(&text)?;
            Ok(Exit::Done)
        }
        ContractCommand::Check(args) => check(&args, as_json, out),
    }
}

fn find(name: &str) -> Result<Contract, Failure> {
    Contract::resolve(name).map_err(|error| {
        Failure::of(Exit::Refused, "contract.unknown", &error).with_hint("`thought contract list` names them")
    })
}

fn shown(contract: &Contract) -> serde_json::Value {
    json!({
        "contract": contract.kind(),
        "definitionHash": contract.hash(),
        "modes": Mode::ALL,
        "schema": contract.schema(),
    })
}

fn list(as_json: bool, out: &mut Out) -> Result<Exit, Failure> {
    let all = Contract::all();
    if as_json {
        all.iter().try_for_each(|contract| out.json(&shown(contract)))?;
        return Ok(Exit::Done);
    }
    let mut rows = Rows::new(&["CONTRACT", "DEFINITION"]);
    for contract in &all {
        rows.row(&[contract.kind().to_string(), contract.hash().to_string()]);
    }
    out.text(&rows.text())?;
    Ok(Exit::Done)
}

fn check(args: &CheckArgs, as_json: bool, out: &mut Out) -> Result<Exit, Failure> {
    let contract = find(&args.contract)?;
    let bytes = read(&args.file)?;
    match judge(&contract, args.mode, &[FinalPart::text(bytes)], Stop::End) {
        Ok(accepted) => {
            if as_json {
                out.json(&json!({
                    "verdict": "accepted", "contract": accepted.contract, "contractHash": accepted.contract_hash,
                    "mode": accepted.mode, "counts": accepted.counts, "canonicalSha256": accepted.sha256,
                }))?;
            } else {
                out.text(&accepted_text(&accepted))?;
            }
            Ok(Exit::Done)
        }
        Err(rejection) => {
            if as_json {
                let repairable = rejection.is_repairable();
                out.json(&json!({ "verdict": "refused", "rejection": rejection, "repairable": repairable }))?;
            } else {
                out.text(&refused_text(&rejection))?;
            }
            Ok(Exit::Refused)
        }
    }
}

fn accepted_text(accepted: &Accepted) -> String {
    let counts = &accepted.counts;
    format!(
        "accepted as {}, {}\n{} bytes, {} characters, canonical sha256 {}\n",
        accepted.contract, accepted.mode, counts.bytes, counts.characters, accepted.sha256
    )
}

fn refused_text(rejection: &Rejection) -> String {
    let mut text = format!("refused by {}, {} [{}]\n", rejection.contract, rejection.mode, rejection.code());
    for issue in &rejection.issues {
        let place = if issue.path.is_empty() { "the whole" } else { &issue.path };
        text += &format!("  {place}: {} [{}]\n", issue.code.words(), issue.code.as_str());
    }
    let more = rejection.issue_count as usize - rejection.issues.len();
    if more > 0 {
        text += &format!("  and {more} more\n");
    }
    let counts = &rejection.counts;
    text += &format!("{} bytes, {} characters, sha256 {}\n", counts.bytes, counts.characters, counts.sha256);
    text
}

/// Reads a file, or stdin, up to a bound.
fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let failed = |error: &std::io::Error| {
        Failure::new(Exit::CouldNotLook, "contract.file", format!("cannot read `{}`", path.display()))
            .because(error)
    };
    let mut bytes = Vec::new();
    if path == Path::new("-") {
        if std::io::stdin().is_terminal() {
            let what = "the message is to be typed at a terminal";
            return Err(Failure::new(Exit::Usage, "contract.file", what)
                .with_hint("name a file, or pipe the message into the command"));
        }
        std::io::stdin().take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|error| failed(&error))?;
    } else {
        let metadata = path.metadata().map_err(|error| failed(&error))?;
        // A pipe or a device may never end, or be changed by being read.
        if !metadata.is_file() {
            let what = format!("`{}` is not a regular file", path.display());
            return Err(Failure::new(Exit::CouldNotLook, "contract.file", what));
        }
        let file = std::fs::File::open(path).map_err(|error| failed(&error))?;
        file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|error| failed(&error))?;
    }
    if bytes.len() as u64 > FILE_BYTES_MAX {
        let what = format!("`{}` has more than {FILE_BYTES_MAX} bytes", path.display());
        return Err(Failure::new(Exit::Refused, "contract.too-large", what));
    }
    Ok(bytes)
}
