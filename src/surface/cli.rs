//! The command line: what can be said, and which command answers it.

use std::ffi::OsString;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;

use clap::{Args, CommandFactory as _, Parser, Subcommand};
use thoughtstream_actors::panics::{install_panic_hook, last_panic};
use thoughtstream_effects::os;

use crate::address::Address;
use crate::ask::Operate;
use crate::command;
use crate::copies::Form;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::out::Out;
use crate::places::{Places, environment};
use crate::session::Session;

/// Runs your agents as supervised consumers of one append-only log
#[derive(Debug, Parser)]
#[command(
    name = "thought",
    version,
    after_help = "Exit codes: 0 done, 1 refused or findings, 2 usage or configuration, 4 could not look, \
                  5 outcome unknown (run the same command again), 6 advice only, 70 our bug"
)]
pub struct Cli {
    /// What applies to every command.
    #[command(flatten)]
    pub global: Global,
    /// What is to be done.
    #[command(subcommand)]
    pub command: Command,
}

/// Applies to every command.
#[derive(Debug, Clone, Args)]
pub struct Global {
    /// Use the log in this directory (else THOUGHTSTREAM_DATA, else the platform's data directory)
    #[arg(long, global = true, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Use the configuration in this directory (else THOUGHTSTREAM_CONFIG, else the platform's)
    #[arg(long, global = true, value_name = "DIR")]
    pub config: Option<PathBuf>,
    /// Answer in JSON: one value, or one value a line for lists
    #[arg(long, global = true)]
    pub json: bool,
}

/// Is one command.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Write a configuration to start from, and create the data directory
    Init(command::init::InitArgs),
    /// Run the service until it is told to stop
    Serve(command::serve::ServeArgs),
    /// Show the whole of it on a throw-away log: a folder, its consumers, a death and the check
    Demo(command::demo::DemoArgs),
    /// Play a provider and a Telegram on this machine that do what a script says, until interrupted
    Rehearse(command::rehearse::RehearseArgs),
    /// Make a log for rehearsal, and let actors fail there on purpose
    #[command(subcommand)]
    Rehearsal(command::rehearsal::RehearsalCommand),
    /// Drain and stop the running service, and wait until it has gone
    Stop(command::operating::StopArgs),
    /// Let the running service read its declarations again: all of them, or none
    Reload,
    /// Show who is alive
    Tree(command::looking::TreeArgs),
    /// Show the service, the log and every consumer on one screen
    Status(command::looking::StatusArgs),
    /// Look for what is wrong, what could be better, and what cannot be looked at
    Doctor(command::doctor::DoctorArgs),
    /// Show everything that waits for a person, and decide about what agents propose
    Inbox(command::inbox::InboxArgs),
    /// List what agents propose, and where each proposal stands
    ProposalList(command::proposal::ListArgs),
    /// Accept, edit or reject a proposal, once and for all
    ProposalDecision(command::proposal::DecisionArgs),
    /// Let follow what was cut off after a decision was made
    ProposalProject(command::proposal::ProjectArgs),
    /// Say what blocks a thing and which command moves it, or what became of it
    Why(command::looking::WhyArgs),
    /// Append, list, show and follow events
    #[command(subcommand)]
    Event(command::event::EventCommand),
    /// List and show attempts of consumers
    #[command(subcommand)]
    Run(command::run::RunCommand),
    /// Look at what the models of runs saw
    #[command(subcommand)]
    Context(command::context::ContextCommand),
    /// Look at consumers and move them
    #[command(subcommand)]
    Consumer(command::consumer::ConsumerCommand),
    /// Show what asking models has cost, and what it still may
    #[command(subcommand)]
    Account(command::account::AccountCommand),
    /// List sources, and move watched folders
    #[command(subcommand)]
    Source(command::source::SourceCommand),
    /// List and show what was sent out, and say what became of what nobody knows
    #[command(subcommand)]
    Delivery(command::delivery::DeliveryCommand),
    /// Copy the log into a new file while it is in use; the copy is verified
    Backup(command::copying::CopyArgs),
    /// Make a new log from a backup; every consumer is paused
    Restore(command::copying::FromArgs),
    /// Write the log as lines of JSON into a new file
    Export(command::copying::CopyArgs),
    /// Make a new log from an export that verifies whole; every consumer is paused
    Import(command::copying::FromArgs),
    /// Check that nothing in the log is missing, doubled or changed; name the first bad row
    Verify(command::verify::VerifyArgs),
    /// Write the log anew while no service runs: without what was erased, and without unused space
    Compact,
    /// Build every index of the log anew from its events, while no service runs
    Rebuild,
    /// Look at output contracts, and at the verdict a message would get
    #[command(subcommand)]
    Contract(command::contract::ContractCommand),
    /// Judge the output of a run, or take a judgment back
    Judge(command::judge::JudgeArgs),
    /// List judgments of outputs
    #[command(subcommand)]
    Judgment(command::judge::JudgmentCommand),
    /// Write judged outputs that may leave into a data set of your own
    TrainingExport(command::training::TrainingArgs),
    /// Write judgments with their whole chain into a private data set, for your own use alone
    PrivateTrainingExport(command::private_training::PrivateTrainingArgs),
    /// Move a consumer that answers a bot to its next version, with the bot held back; shows the plan first
    Activate(command::activate::ActivateArgs),
    /// Put the commands of whoever answers a bot into its menu, once that version is ready
    TelegramMenuRegister(command::activate::MenuArgs),
    /// Work with declarations of consumers
    #[command(subcommand)]
    Declaration(command::declaration::DeclarationCommand),
    /// Measure how fast the log is on this disk, in a directory of its own that is removed again
    ///
    /// What was measured ends with 0, whether a goal is met or missed: a disk or a busy machine is no failure.
    Bench(command::bench::BenchArgs),
    /// Write a completion script for a shell to stdout
    Completions(command::manual::CompletionsArgs),
    /// Write the manual page to stdout, or all pages into a directory
    Man(command::manual::ManArgs),
}

/// Runs the command that `arguments` name, the program's name first; this is all of `main`.
#[must_use]
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> Exit {
    let mut out = Out::of_process();
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let json = arguments.iter().any(|argument| argument == "--json");
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => return show_usage(&error, json, &mut out),
    };
    let json = cli.global.json;
    let address = Address::of(cli.global.data.as_deref(), cli.global.config.as_deref());
    install_panic_hook();
    let answered = guarded(|| {
        let limited = |error: std::io::Error| Failure::of(Exit::CouldNotLook, "process.signals", &error);
        os::outlive_file_limit().map_err(limited)?;
        dispatch(cli, &mut out)
    })
    .and_then(|exit| Ok(out.flush().map(|()| exit)?));
    match answered {
        Ok(exit) => exit,
        Err(failure) => {
            // What was answered before it failed is still an answer.
            out.flush().ok();
            let failure = address.failure(failure);
            out.failure(&failure, json);
            failure.exit()
        }
    }
}

/// Turns a panic of the command into our bug: where it happened is said, its words are not.
fn guarded(command: impl FnOnce() -> Result<Exit, Failure>) -> Result<Exit, Failure> {
    std::panic::catch_unwind(AssertUnwindSafe(command)).unwrap_or_else(|_| {
        let (file, line) = last_panic().unwrap_or_else(|| ("unknown".to_owned(), 0));
        Err(Failure::new(Exit::Bug, "program.panicked", format!("this program failed at {file}:{line}"))
            .with_hint("what was acknowledged is safe; `thought verify` shows whether the log is whole"))
    })
}

fn dispatch(cli: Cli, out: &mut Out) -> Result<Exit, Failure> {
    let Global { data, config, json } = cli.global;
    let address = Address::of(data.as_deref(), config.as_deref());
    let session =
        || Places::resolve(data, config, &environment).map(|places| Session { places, address, json });
    match cli.command {
        Command::Init(args) => command::init::run(&args, &session()?, out),
        Command::Serve(args) => command::serve::run(&args, &session()?),
        Command::Demo(args) => command::demo::run(&args, json, out),
        Command::Rehearse(args) => command::rehearse::run(&args, json, out),
        Command::Rehearsal(args) => command::rehearsal::run(args, &session()?, out),
        Command::Stop(args) => command::operating::stop(&args, &session()?, out),
        Command::Reload => command::operating::operate(&session()?, Operate::Reload, out),
        Command::Tree(args) => command::looking::tree(&args, &session()?, out),
        Command::Status(args) => command::looking::status(args, &session()?, out),
        Command::Doctor(args) => command::doctor::run(&args, &session()?, out),
        Command::Inbox(args) => command::inbox::run(args, &session()?, out),
        Command::ProposalList(args) => command::proposal::list(args, &session()?, out),
        Command::ProposalDecision(args) => command::proposal::decide(args, &session()?, out),
        Command::ProposalProject(args) => command::proposal::project(&args, &session()?, out),
        Command::Why(args) => command::looking::why(args, &session()?, out),
        Command::Event(args) => command::event::run(args, &session()?, out),
        Command::Run(args) => command::run::run(args, &session()?, out),
        Command::Context(args) => command::context::run(args, &session()?, out),
        Command::Consumer(args) => command::consumer::run(args, &session()?, out),
        Command::Account(args) => command::account::run(args, &session()?, out),
        Command::Source(args) => command::source::run(args, &session()?, out),
        Command::Delivery(args) => command::delivery::run(args, &session()?, out),
        Command::Backup(args) => command::copying::copy(Form::Backup, &args, &session()?, out),
        Command::Export(args) => command::copying::copy(Form::Export, &args, &session()?, out),
        Command::Restore(args) => command::copying::restored(&args, &session()?, out),
        Command::Import(args) => command::copying::imported(&args, &session()?, out),
        Command::Verify(args) => command::verify::run(args, &session()?, out),
        Command::Compact => command::upkeep::compact(&session()?, out),
        Command::Rebuild => command::upkeep::rebuild(&session()?, out),
        Command::Contract(args) => command::contract::run(args, json, out),
        Command::Judge(args) => command::judge::judge(args, &session()?, out),
        Command::Judgment(args) => command::judge::run(args, &session()?, out),
        Command::TrainingExport(args) => command::training::run(&args, &session()?, out),
        Command::PrivateTrainingExport(args) => command::private_training::run(&args, &session()?, out),
        Command::Activate(args) => command::activate::activate(args, &session()?, out),
        Command::TelegramMenuRegister(args) => command::activate::menu(&args, &session()?, out),
        Command::Declaration(args) => command::declaration::run(args, &session()?, out),
        Command::Bench(args) => command::bench::run(&args, &session()?, out),
        Command::Completions(args) => command::manual::completions(&args, out),
        Command::Man(args) => command::manual::man(&args, out),
    }
}

/// Returns the whole command, for completions and manual pages.
pub(crate) fn definition() -> clap::Command {
    Cli::command()
}

/// Makes a failure of what is said about a wrong command line: its first paragraph names what is wrong, arguments that
/// are missing included; the others say what is right.
fn usage(text: &str) -> Failure {
    let (first, rest) = text.split_once("\n\n").unwrap_or((text, ""));
    let first: Vec<&str> = first.lines().map(str::trim).collect();
    let what = first.join(" ");
    let lines = rest.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("For more"));
    let failure = Failure::new(Exit::Usage, "command.usage", what.strip_prefix("error: ").unwrap_or(&what));
    failure.with_lines(&lines.collect::<Vec<_>>().join("\n"))
}

/// Shows help and version on stdout, and a wrong command line, made printable, on stderr.
fn show_usage(error: &clap::Error, json: bool, out: &mut Out) -> Exit {
    let text = error.render().to_string();
    if error.use_stderr() && json {
        out.failure(&usage(&text), json);
        return Exit::Usage;
    }
    if error.use_stderr() {
        let lines: Vec<String> = text.lines().map(thoughtstream_domain::text::printable).collect();
        out.remark(&lines.join("\n"));
        return Exit::Usage;
    }
    match out.text(&text).and_then(|()| out.flush()).map_err(Failure::from) {
        Ok(()) => Exit::Done,
        Err(failure) => {
            out.failure(&failure, json);
            failure.exit()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_wrong_command_line_is_said_whole_to_a_program_too() {
        let said = |arguments: &[&str]| {
            let error = Cli::try_parse_from(arguments).unwrap_err();
            let Failure { what, lines, .. } = usage(&error.render().to_string());
            (what, lines.join(" | "))
        };
        let (what, lines) = said(&["thought", "event", "append", "--json"]);
        for name in ["--source <SOURCE>", "--type <TYPE>", "--payload <FILE>"] {
            assert!(what.contains(name), "{what}");
        }
        assert!(lines.starts_with("Usage: thought event append"), "{lines}");
        let (what, lines) = said(&["thought", "tree", "--wach", "--json"]);
        assert!(what.contains("'--wach'") && lines.contains("'--watch'"), "{what} {lines}");
        let (what, _) = said(&["thought", "event", "list", "--limit", "many"]);
        assert!(what.contains("'many'") && what.contains("--limit"), "{what}");
        let (what, _) = said(&["thought", "proposal-decision", "evt_x", "approve"]);
        assert!(what.contains("evt_x"), "{what}");
    }

    #[test]
    fn a_panic_is_our_bug_and_says_nothing_of_what_it_was_about() {
        let failure = guarded(|| panic!("what the person wrote")).unwrap_err();
        assert_eq!((failure.exit(), failure.code.as_str()), (Exit::Bug, "program.panicked"));
        assert!(!failure.render().contains("person"));
    }

    #[test]
    fn every_argument_says_what_it_is_for() {
        fn check(command: &clap::Command) {
            for argument in command.get_arguments() {
                assert!(argument.get_help().is_some(), "{} {}", command.get_name(), argument.get_id());
            }
            for inner in command.get_subcommands() {
                assert!(inner.get_about().is_some(), "{}", inner.get_name());
                check(inner);
            }
        }
        check(&Cli::command());
    }
}
