//! Moving a consumer that answers a bot from one version to the next: the plan, and its steps.
//!
//! Nothing comes in while it lasts, so the new version begins exactly where the old one ended. Each step is done,
//! then written down; what is written down is not done again, and what is done twice changes nothing the second time.
//! No step writes a proposal or a document.

pub(crate) mod menu;
pub(crate) mod staged;
mod verify;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use thoughtstream_actors::killpoint::{KillPoint, KillSite};
use thoughtstream_actors::log::LogError;
use thoughtstream_actors::service::{ActivateError, LoadedFacts, ServiceHandle, last_activation};
use thoughtstream_domain::activation::{Activation, begin, menu_hash};
use thoughtstream_domain::canonical;
use thoughtstream_domain::declaration::{Declaration, DeclarationSet, check_registered, diff};
use thoughtstream_domain::hash::Sha256Hash;
use thoughtstream_domain::id::{ConsumerId, ConsumerKey, SourceId};
use thoughtstream_domain::payload::activation::{ActivationBegun, Step, StepFacts};
use thoughtstream_domain::payload::system::Operator;

use crate::config::telegram::Bot;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::load::{LoadFailure, Loaded, load_over};
use crate::places::Places;
use crate::socket::Reply;
use staged::Staged;
use verify::{Planned, RESTART, roots, unverified};

/// Is what is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ActivateRequest {
    /// The consumer.
    pub consumer: ConsumerId,
    /// Where its next version lies, absolute; not needed once it is in place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<PathBuf>,
    /// The hash of the plan that was shown; without it the plan is shown and nothing is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirm: Option<String>,
    /// Give an activation up instead, which is possible until the new version is in place.
    #[serde(default)]
    pub cancel: bool,
}

impl ActivateRequest {
    /// Says whether an activation is what is asked for, and over.
    fn is_done(&self, last: &Activation) -> bool {
        let same = self.confirm.as_ref().is_some_and(|confirm| *confirm == last.begun.plan.to_string());
        !self.cancel && same && !last.cancelled && !last.is_open()
    }
}

/// Is what an activation will do, or is doing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// The version that runs.
    pub from: ConsumerKey,
    /// The version that is to run.
    pub to: ConsumerKey,
    /// Its fingerprint.
    pub fingerprint: Sha256Hash,
    /// The bot that is held back meanwhile.
    pub source: SourceId,
    /// The keys of the declaration that differ.
    pub changes: Vec<String>,
    /// The files that are put in place, below the configuration's directory.
    pub files: Vec<String>,
    /// The commands that the bot's menu will have.
    pub menu: Vec<String>,
    /// The steps that are done already.
    pub done: Vec<Step>,
    /// The hash of all this, to be given back with `--confirm`.
    pub confirm: Sha256Hash,
}

/// Is one line of the answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum ActivateAnswer {
    /// What will be done.
    Plan(Plan),
    /// A step is done.
    Step {
        /// Which one.
        step: Step,
        /// What it found.
        facts: StepFacts,
        /// Whether it had been done before.
        already: bool,
    },
    /// The new version runs, and its bot comes in again.
    Activated {
        /// The version.
        consumer: ConsumerKey,
    },
    /// It was given up, and the bot comes in again.
    Cancelled {
        /// The version that goes on; nothing if none is enabled.
        #[serde(default)]
        consumer: Option<ConsumerKey>,
    },
}

/// Is an activation with everything it needs.
struct Moving<'a> {
    service: &'a ServiceHandle,
    places: &'a Places,
    loaded: Loaded,
    staged: Option<Staged>,
    plan: Plan,
    site: KillSite,
}

/// Tells whoever asked, line by line. One that went away does not undo what was done, nor end what is being done.
pub(crate) struct Told(pub(crate) Reply);

impl Told {
    async fn tell(&self, answer: ActivateAnswer) {
        let value = serde_json::to_value(&answer).unwrap_or_default();
        self.0.item(value).await.ok();
    }
}

/// Shows the plan, and goes through with it if that is confirmed.
///
/// # Errors
/// [`Failure`] with what is in the way; the same command goes on from there.
pub(crate) async fn activate(
    service: &ServiceHandle,
    places: &Places,
    request: ActivateRequest,
    operator: Operator,
    told: &Told,
) -> Result<(), Failure> {
    // Whoever only looks at the plan is in nobody's way.
    let acts = request.confirm.is_some() || request.cancel;
    let _alone = acts.then(|| service.activating()).transpose().map_err(|error| failure(&error))?;
    let last = last(service, &request.consumer).await?;
    if let Some(over) = last.as_ref().filter(|last| request.is_done(last)) {
        // Only the answer was lost.
        service.thaw(&over.begun.source);
        told.tell(ActivateAnswer::Activated { consumer: over.begun.to.clone() }).await;
        return Ok(());
    }
    let number = last.as_ref().map_or(1, |last| last.begun.number.saturating_add(1));
    let open = last.filter(Activation::is_open);
    if request.cancel {
        return cancel(service, places, open, operator, told).await;
    }
    let (handle, places_there, asked, known) =
        (service.clone(), places.clone(), request.clone(), open.clone());
    let planned = tokio::task::spawn_blocking(move || plan(&handle, &places_there, &asked, known.as_ref()));
    let (plan, loaded, staged) = planned.await.map_err(|_| bug("a plan could not be made"))??;
    told.tell(ActivateAnswer::Plan(plan.clone())).await;
    let Some(confirm) = &request.confirm else { return Ok(()) };
    if *confirm != plan.confirm.to_string() {
        let what = "this is not the plan that was shown";
        return Err(Failure::new(Exit::Refused, "activation.other-plan", what)
            .with_hint("look at the plan above; give the hash behind `plan` with --confirm if you mean it"));
    }
    let activation = match open.filter(|open| open.begun.to == plan.to) {
        Some(open) => open,
        None => begun(service, &plan, number, operator).await?,
    };
    let site = service.points().site("thoughtstream/doors".into(), None);
    let moving = Moving { service, places, loaded, staged, plan, site };
    moving.go_on(activation, told).await
}

/// Returns a consumer's last activation.
async fn last(service: &ServiceHandle, consumer: &ConsumerId) -> Result<Option<Activation>, Failure> {
    let (reader, consumer) = (service.reader(), consumer.clone());
    let last = tokio::task::spawn_blocking(move || last_activation(&reader, &consumer)).await;
    Ok(last.map_err(|_| bug("an activation could not be read"))??)
}

async fn begun(
    service: &ServiceHandle,
    plan: &Plan,
    number: u32,
    operator: Operator,
) -> Result<Activation, Failure> {
    let begun = ActivationBegun {
        consumer: plan.to.id.clone(),
        number,
        from: plan.from.clone(),
        to: plan.to.clone(),
        fingerprint: plan.fingerprint,
        source: plan.source.clone(),
        plan: plan.confirm,
        operator,
    };
    service.record(begin(&begun)).await.map_err(|error| failure(&error))?;
    last(service, &plan.to.id).await?.ok_or_else(|| bug("what was begun is not there"))
}

/// Gives an activation up, and says what goes on. Once its version is in place and runs by it, the way leads on; but one
/// that was taken over by another way, or replaced or switched off since, would hold its bot back for nothing.
async fn cancel(
    service: &ServiceHandle,
    places: &Places,
    open: Option<Activation>,
    operator: Operator,
    told: &Told,
) -> Result<(), Failure> {
    let nothing = || {
        Failure::new(Exit::Refused, "activation.none", "no activation of this consumer can be given up")
            .with_hint("from the moment the new version is in place the way leads on: run the command again")
    };
    let open = open.ok_or_else(nothing)?;
    let there = places.clone();
    let in_place = tokio::task::spawn_blocking(move || load_over(&there, None)).await;
    let in_place = in_place.map_err(|_| bug("the configuration could not be read"))??;
    let id = &open.begun.consumer;
    let ours = |set: &DeclarationSet| {
        set.get(id).is_some_and(|found| found.is_enabled() && *found.key() == open.begun.to)
    };
    let by_another_way = !open.has(Step::Installed) && service.reader().registered(&open.begun.to)?.is_some();
    if !by_another_way && (ours(&in_place.set) || open.has(Step::Installed) && ours(&service.declarations()))
    {
        return Err(nothing());
    }
    let commit = open.cancel(operator).ok_or_else(nothing)?;
    service.record(commit).await.map_err(|error| failure(&error))?;
    // One that was stopped already starts again.
    service.reload(None).await.map_err(|error| crate::desk::reload_failure(&error))?;
    service.thaw(&open.begun.source);
    let running = service.declarations();
    let consumer = running.get(id).filter(|found| found.is_enabled()).map(|found| found.key().clone());
    told.tell(ActivateAnswer::Cancelled { consumer }).await;
    Ok(())
}

/// Works out what is to be done, and refuses what cannot be.
fn plan(
    service: &ServiceHandle,
    places: &Places,
    request: &ActivateRequest,
    open: Option<&Activation>,
) -> Result<(Plan, Loaded, Option<Staged>), Failure> {
    let id = &request.consumer;
    let staged = request.from.as_deref().map(|from| Staged::read(places, from, id)).transpose()?;
    let loaded = load_over(places, staged.as_ref())?;
    let unknown = || Failure::new(Exit::Refused, "activation.unknown", format!("nothing declares {id}"));
    let next = loaded.set.get(id).ok_or_else(unknown)?;
    // One that lacks its menu alone is not in the way of a version after it, which has a menu of its own.
    let open = open.filter(|open| !open.has(Step::Resumed) || open.begun.to == *next.key());
    let from = from(service, next, open)?;
    if *next.key() == from {
        return Err(Failure::new(Exit::Refused, "activation.same", format!("{from} is what runs already"))
            .with_hint("name the directory of the next version with --from DIR"));
    }
    if next.version() < from.version || !next.is_enabled() {
        let what = format!("{} is not enabled, or older than {from}", next.key());
        let hint = "raise the version and enable it in the staged declaration; an activation that is under way and not \
                    wanted any more is given up with --cancel";
        return Err(Failure::new(Exit::Refused, "activation.version", what).with_hint(hint));
    }
    if let Some(open) =
        open.filter(|open| open.begun.to != *next.key() || open.begun.fingerprint != next.fingerprint())
    {
        let what = format!("{} is being activated already, and this is another version", open.begun.to);
        return Err(Failure::new(Exit::Refused, "activation.other", what)
            .with_hint(format!("go on with that one, or give it up: thought activate {id} --cancel")));
    }
    check_others(service, &loaded, id)?;
    if open.is_none() {
        // Found later, it would hold the bot back until somebody has mended it.
        roots(service, &loaded, next).map_err(|astray| {
            Failure::of(Exit::Refused, "activation.source-root", &astray).with_hint(RESTART)
        })?;
    }
    let bot = bot_of(&loaded, id)?;
    let registered = service.reader().registered_all()?;
    let known = registered.iter().map(|row| (row.consumer.clone(), row.fingerprint)).collect();
    let problems = check_registered(&loaded.set, &known);
    if !problems.is_empty() {
        return Err(LoadFailure::Problems(problems).into());
    }
    let before = registered.iter().find(|row| row.consumer == from);
    let read = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap_or_default();
    let changes =
        before.map(|before| diff(&read(&before.canonical), &read(&next.canonical()))).unwrap_or_default();
    let files = staged.as_ref().map(Staged::files).unwrap_or_default();
    let commands = menu::of(next).into_iter().map(|entry| entry.command).collect();
    let plan = Plan {
        confirm: confirmation(&from, next, &bot.source)?,
        from,
        to: next.key().clone(),
        fingerprint: next.fingerprint(),
        source: bot.source.clone(),
        changes: changes.into_iter().map(|change| change.path).collect(),
        files,
        menu: commands,
        done: open.map(|open| open.done.iter().map(|(step, _)| *step).collect()).unwrap_or_default(),
    };
    Ok((plan, loaded, staged))
}

/// Returns the version that is to be left.
fn from(
    service: &ServiceHandle,
    next: &Declaration,
    open: Option<&Activation>,
) -> Result<ConsumerKey, Failure> {
    if let Some(open) = open {
        return Ok(open.begun.from.clone());
    }
    let running = service.declarations();
    let running = running.get(next.id()).filter(|declaration| declaration.is_enabled());
    running.map(|declaration| declaration.key().clone()).ok_or_else(|| {
        let what = format!("no version of {} runs: there is nothing to move from", next.id());
        Failure::new(Exit::Refused, "activation.first", what)
            .with_hint("a first version is started by `thought reload`")
    })
}

/// Refuses to take other changes over in passing: they would be no part of the plan.
fn check_others(service: &ServiceHandle, loaded: &Loaded, id: &ConsumerId) -> Result<(), Failure> {
    let running = service.declarations();
    let others = |set: &DeclarationSet| -> Vec<(ConsumerKey, Sha256Hash)> {
        let enabled = set.enabled().filter(|declaration| declaration.id() != id);
        enabled.map(|declaration| (declaration.key().clone(), declaration.fingerprint())).collect()
    };
    if others(&running) == others(&loaded.set) {
        return Ok(());
    }
    Err(Failure::new(Exit::Refused, "activation.others-changed", "other declarations have changed, too")
        .with_hint("take those over first: thought reload"))
}

/// Returns the one bot whose messages a consumer answers.
fn bot_of<'l>(loaded: &'l Loaded, id: &ConsumerId) -> Result<&'l Bot, Failure> {
    loaded.config.bots.iter().find(|bot| bot.routes.direct.as_ref() == Some(id)).ok_or_else(|| {
        Failure::new(Exit::Refused, "activation.no-bot", format!("{id} answers no bot"))
            .with_hint("a consumer that answers nobody is moved by `thought reload`")
    })
}

fn confirmation(from: &ConsumerKey, next: &Declaration, source: &SourceId) -> Result<Sha256Hash, Failure> {
    let all = (from, next.key(), next.fingerprint(), source);
    let bytes = canonical::write_type(&all).map_err(|_| bug("a plan has no canonical form"))?;
    Ok(Sha256Hash::of(&bytes))
}

impl Moving<'_> {
    /// Does the steps that are not done, in order.
    async fn go_on(&self, mut activation: Activation, told: &Told) -> Result<(), Failure> {
        if activation.has(Step::Resumed) {
            // What opens the gate is that it is written down; whoever was killed in between comes up with it open.
            self.service.thaw(&self.plan.source);
        }
        for (step, facts) in activation.done.clone() {
            told.tell(ActivateAnswer::Step { step, facts, already: true }).await;
        }
        while let Some(step) = activation.next() {
            self.pass(KillPoint::ActivationStepBefore).await?;
            let facts = self.step(step, &activation).await?;
            if step != Step::Installed {
                self.pass(KillPoint::ActivationStepInside).await?;
                let commit = activation.step(step, facts.clone());
                self.service.record(commit).await.map_err(|error| failure(&error))?;
            }
            if step == Step::Resumed {
                self.service.thaw(&self.plan.source);
            }
            self.pass(KillPoint::ActivationStepAfter).await?;
            told.tell(ActivateAnswer::Step { step, facts: facts.clone(), already: false }).await;
            activation.done.push((step, facts));
        }
        told.tell(ActivateAnswer::Activated { consumer: self.plan.to.clone() }).await;
        Ok(())
    }

    async fn pass(&self, point: KillPoint) -> Result<(), Failure> {
        self.site.pass(point).await.map_err(|_| failure(&ActivateError::Interrupted))
    }

    async fn step(&self, step: Step, activation: &Activation) -> Result<StepFacts, Failure> {
        let source = &self.plan.source;
        if activation.holds_back() {
            // A service that came up in between has it closed already; closing it again is nothing.
            self.service.freeze(source).await.map_err(|error| failure(&error))?;
        }
        match step {
            Step::Frozen => Ok(StepFacts::default()),
            Step::Stopped => {
                let head = self.service.finish(&self.plan.from, source).await;
                Ok(StepFacts { head: Some(head.map_err(|error| failure(&error))?), ..StepFacts::default() })
            }
            Step::Installed => self.install().await,
            Step::Verified => self.verify(activation).await,
            Step::Resumed => {
                let facts = self.look(activation).await?;
                Ok(StepFacts { head: Some(facts.head), ..StepFacts::default() })
            }
            Step::Advertised => self.advertise().await,
        }
    }

    /// Puts the files in place and takes them over: registration, progress and the step are one commit.
    async fn install(&self) -> Result<StepFacts, Failure> {
        // Without a directory it is in place already: what is planned is then what the configuration says.
        if let Some(staged) = &self.staged {
            staged.install(self.places)?;
        }
        self.pass(KillPoint::ActivationStepInside).await?;
        self.service.reload(None).await.map_err(|error| crate::desk::reload_failure(&error))?;
        let now = last(self.service, &self.plan.to.id).await?;
        let installed = now.and_then(|now| now.done.into_iter().find(|(step, _)| *step == Step::Installed));
        installed.map(|(_, facts)| facts).ok_or_else(|| {
            let what = format!("{} was taken over by another way than this activation", self.plan.to);
            Failure::new(Exit::Refused, "activation.bypassed", what).with_hint(format!(
                "it runs as it is; give this up, which lets the bot in again: thought activate {} --cancel",
                self.plan.to.id
            ))
        })
    }

    /// Looks at what the new version's actor has loaded.
    async fn verify(&self, activation: &Activation) -> Result<StepFacts, Failure> {
        let facts = self.look(activation).await?;
        let worker = verify::worker(&facts)?;
        let declaration =
            self.loaded.set.get(&self.plan.to.id).ok_or_else(|| bug("the declaration is gone"))?;
        let roots = roots(self.service, &self.loaded, declaration).map_err(|astray| {
            let hint = format!("{RESTART}; then run the same command again");
            unverified("source-root", &astray.to_string()).with_hint(hint)
        })?;
        let fingerprint = Some(facts.fingerprint);
        Ok(StepFacts { head: Some(facts.head), fingerprint, worker, roots, ..StepFacts::default() })
    }

    /// Checks identity, liveness and place: what must hold before the bot is let in again.
    async fn look(&self, activation: &Activation) -> Result<LoadedFacts, Failure> {
        let facts = self.service.loaded(&self.plan.to.id, &self.plan.source).await;
        let facts = facts.map_err(|error| failure(&error))?;
        let facts = facts.ok_or_else(|| unverified("enabled", "no version of it is enabled"))?;
        let planned = Planned {
            version: &self.plan.to,
            fingerprint: self.plan.fingerprint,
            frozen: activation.frozen_head(),
        };
        planned.check(&facts)?;
        Ok(facts)
    }

    /// Puts its commands into the bot's menu; nobody is told in a chat.
    async fn advertise(&self) -> Result<StepFacts, Failure> {
        let bot = bot_of(&self.loaded, &self.plan.to.id)?;
        let declaration =
            self.loaded.set.get(&self.plan.to.id).ok_or_else(|| bug("the declaration is gone"))?;
        let entries = menu::of(declaration);
        menu::register(self.service, self.places, bot, &self.plan.to, &entries).await?;
        Ok(StepFacts { menu: Some(menu_hash(&entries)), ..StepFacts::default() })
    }
}

fn bug(what: &str) -> Failure {
    Failure::new(Exit::Bug, "service.bug", what)
}

/// Says why a step was not done, and that nothing is lost by it.
fn failure(error: &ActivateError) -> Failure {
    let (exit, code, hint) = match error {
        ActivateError::Busy => (Exit::Refused, "activation.busy", "wait for the other one"),
        ActivateError::Restless(_) => {
            (Exit::Refused, "activation.restless", "`thought tree` shows what the bot does")
        }
        ActivateError::Unfinished { .. } => (
            Exit::Refused,
            "activation.unfinished",
            "`thought inbox` and `thought status` show what is open; the bot stays held back, and nothing is lost: \
             run the same command again, or give up with --cancel",
        ),
        ActivateError::Refused(_) | ActivateError::Conflict => {
            (Exit::Refused, "activation.overtaken", "look at the plan again")
        }
        ActivateError::Log(LogError::Damaged { .. }) => {
            (Exit::CouldNotLook, "activation.read", "run `thought verify`")
        }
        ActivateError::Read(_) | ActivateError::Reload(_) => {
            (Exit::CouldNotLook, "activation.read", "run the same command again")
        }
        ActivateError::Log(_) | ActivateError::Interrupted => (
            Exit::Unknown,
            "activation.interrupted",
            "run the same command again: what is done is not done twice",
        ),
    };
    Failure::of(exit, code, error).with_hint(hint)
}

#[cfg(test)]
mod tests {
    use thoughtstream_actors::log::LogError;
    use thoughtstream_actors::service::ReloadError;

    use super::*;

    #[test]
    fn whatever_ends_an_activation_has_a_code_and_a_way_out() {
        let consumer = ConsumerKey::parse("talk@1").unwrap();
        let bot = SourceId::parse("telegram:garden").unwrap();
        for (error, code) in [
            (ActivateError::Busy, "busy"),
            (ActivateError::Restless(bot), "restless"),
            (ActivateError::Unfinished { consumer, waiting: 1 }, "unfinished"),
            (ActivateError::Conflict, "overtaken"),
            (ActivateError::Reload(ReloadError::Unwritable), "read"),
            (ActivateError::Log(LogError::Unknown), "interrupted"),
            (ActivateError::Log(LogError::Damaged { place: "heads notes:x".to_owned() }), "read"),
            (ActivateError::Interrupted, "interrupted"),
        ] {
            let failure = failure(&error);
            assert_eq!(failure.code, format!("activation.{code}"));
            assert!(failure.hint.is_some(), "{code}");
        }
    }
}
