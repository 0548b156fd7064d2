//! `thought activate` and `thought telegram-menu-register`: the next version of who answers a bot, and its menu.

use std::path::PathBuf;

use clap::Args;
use serde_json::Value;
use thoughtstream_domain::id::ConsumerId;
use thoughtstream_domain::payload::activation::StepFacts;

use super::asking::{Show, read};
use crate::activate::{ActivateAnswer, ActivateRequest, Plan};
use crate::ask::{Operate, Operated};
use crate::client;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::operate;
use crate::out::Out;
use crate::render::line;
use crate::session::Session;
use crate::socket::Door;

/// Names the consumer and where its next version lies.
#[derive(Debug, Args)]
pub struct ActivateArgs {
    /// The declaration's id
    pub consumer: ConsumerId,
    /// A directory with declarations/… and prompts/… of the next version
    #[arg(long, value_name = "DIR")]
    pub from: Option<PathBuf>,
    /// The hash of the plan that was shown: go through with it, or on with it
    #[arg(long, value_name = "HASH", conflicts_with = "cancel")]
    pub confirm: Option<String>,
    /// Give it up, which is possible until the new version is in place, and once something else is
    #[arg(long)]
    pub cancel: bool,
}

/// Says whether people are told.
#[derive(Debug, Args)]
pub struct MenuArgs {
    /// Set the menu alone; without this each chat of the bot is told once that the help has changed
    #[arg(long)]
    pub skip_help_notice: bool,
}

/// Shows the plan, or goes through with it.
///
/// # Errors
/// [`Failure`] with what is in the way.
pub fn activate(args: ActivateArgs, session: &Session, out: &mut Out) -> Result<Exit, Failure> {
    let ActivateArgs { consumer, from, confirm, cancel } = args;
    let absolute = |path: PathBuf| {
        std::path::absolute(&path).map_err(|error| {
            Failure::new(Exit::Usage, "activation.staged", "the directory's path is not usable")
                .because(&error)
        })
    };
    let (from, confirmed) = (from.map(absolute).transpose()?, confirm.is_some());
    let request = ActivateRequest { consumer, from, confirm, cancel };
    let json = session.json;
    let mut show = Show::new(out, json, |value: Value| rendered(value, confirmed));
    ask(session, Operate::Activate(Box::new(request)), &mut show)
}

/// Sets the menus of the bots.
///
/// # Errors
/// [`Failure`] if a version is not ready, or Telegram refuses.
pub fn menu(args: &MenuArgs, session: &Session, out: &mut Out) -> Result<Exit, Failure> {
    let mut show = Show::new(out, session.json, |value: Value| operate::render(&value));
    ask(session, Operate::RegisterMenu { skip_help_notice: args.skip_help_notice }, &mut show)
}

/// Asks the running service: nobody else knows what runs.
fn ask(session: &Session, operate: Operate, show: &mut dyn crate::query::Sink) -> Result<Exit, Failure> {
    client::reach_service(session, Door::Operator)?.ask(&Operated::Operate(operate), show)
}

fn rendered(value: Value, confirmed: bool) -> String {
    match read(value) {
        Ok(ActivateAnswer::Plan(plan)) => planned(&plan, confirmed),
        Ok(ActivateAnswer::Step { step, facts, already }) => {
            let already = if already { "already " } else { "" };
            format!("{already}{}{}\n", step.as_str(), found(&facts))
        }
        Ok(ActivateAnswer::Activated { consumer }) => format!("{consumer} answers now\n"),
        Ok(ActivateAnswer::Cancelled { consumer: Some(consumer) }) => {
            format!("given up; {consumer} goes on\n")
        }
        Ok(ActivateAnswer::Cancelled { consumer: None }) => {
            "given up; no version of it is enabled\n".to_owned()
        }
        Err(failure) => failure.render(),
    }
}

fn planned(plan: &Plan, confirmed: bool) -> String {
    let list = |items: &[String]| {
        if items.is_empty() {
            "nothing".to_owned()
        } else {
            items.iter().map(|item| line(item)).collect::<Vec<_>>().join(", ")
        }
    };
    let mut text = format!(
        "{} becomes {}\nplan        {}\nfingerprint {}\nchanges: {}\nfiles put in place: {}\n",
        plan.from,
        plan.to,
        plan.confirm,
        plan.fingerprint,
        list(&plan.changes),
        list(&plan.files)
    );
    text += &format!(
        "{} is held back until the new version is verified; what people write waits at Telegram\n",
        plan.source
    );
    text += &format!("its menu then has: {}\n", list(&plan.menu));
    if !confirmed {
        text += &format!("nothing is done yet; to go through with it, add --confirm {}\n", plan.confirm);
    }
    text
}

fn found(facts: &StepFacts) -> String {
    let mut said = Vec::new();
    said.extend(facts.head.map(|head| format!("at event {head}")));
    said.extend(facts.fingerprint.map(|hash| format!("fingerprint {}", hash.short())));
    said.extend(facts.worker.map(|hash| format!("worker {}", hash.short())));
    said.extend(facts.roots.iter().map(|root| format!("documents of {root}")));
    said.extend(facts.menu.map(|hash| format!("menu {}", hash.short())));
    if said.is_empty() { String::new() } else { format!(": {}", said.join(", ")) }
}
