//! The second step: which turns a model sees under a declaration's bounds.
//!
//! The rules apply in this order: listed agents, a window for each speaker, the cap on assistant turns, suppression,
//! the bound of events, the bound of characters. Each works on what the one before left, newest first, and takes
//! down by name what it takes away. Selection changes a copy; what was reconstructed stays what it was.

use std::collections::{BTreeMap, BTreeSet};

use crate::content::Content;
use crate::id::{ConsumerId, EventId};
use crate::packet::manifest::{
    AssistantCap, Change, Changed, Manifest, OmittedStretch, Part, Rule, Suppression, UnfitCorrection,
};
use crate::privacy::Privacy;
use crate::proposal::history::PastCall;
use crate::text::characters;

use super::evidence::Evidence;
use super::history::history;
use super::reconstruct::{
    AssistantTurn, Current, Found, IMAGE_PLACEHOLDER, Reconstruction, Speaker, Turn, text_hash,
};
use super::suppress::{self, Authority};

/// How many of the newest messages, with their replies, are looked at and named one by one whatever becomes of them;
/// a declaration that wants more events looks at as many messages. What lies behind is named by one stretch, so that
/// a selection costs its window and not the years before it.
pub const WINDOW_MESSAGES: usize = 256;

/// Is what a declaration says about the history its runs see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// Whose delivered replies are admitted: the declaration's own agent and those it names.
    pub agents: BTreeSet<ConsumerId>,
    /// The most events, the message that is answered included; also the most turns of each speaker.
    pub max_events: usize,
    /// The most characters of everything that a model sees.
    pub max_chars: usize,
    /// The most assistant turns, if they are capped apart.
    pub assistant_max_turns: Option<usize>,
}

/// Is what of the bound of characters is spoken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Taken {
    /// By what is always shown.
    pub always: usize,
    /// By each turn, beside what it says.
    pub by_turn: usize,
}

/// Is one turn as a model sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selected {
    /// Its event.
    pub id: EventId,
    /// Who speaks.
    pub speaker: Speaker,
    /// What a model sees of it.
    pub text: Content<String>,
    /// The calls that stand before it, each with its result.
    pub calls: Vec<PastCall>,
    /// The reply it shows, as it was reconstructed.
    pub reply: Option<Box<AssistantTurn>>,
    /// Who may see it.
    pub privacy: Privacy,
}

impl Selected {
    fn chars(&self) -> usize {
        characters(self.text.reveal()) + self.calls.iter().map(PastCall::characters).sum::<usize>()
    }

    /// Takes down that it, and every call that stands before it, is left out.
    fn omit(&self, rule: Rule, manifest: &mut Manifest) {
        manifest.omit(part(self.speaker), self.id, rule);
        for call in &self.calls {
            manifest.omit(Part::ToolCall, call.proposal, rule);
        }
    }
}

/// Is what was selected, with the account of what was not. Made only by [`select`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    turns: Vec<Selected>,
    manifest: Manifest,
}

impl Selection {
    /// Returns the turns, oldest first.
    #[must_use]
    pub fn turns(&self) -> &[Selected] {
        &self.turns
    }

    /// Returns the account of it.
    #[must_use]
    pub const fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Gives both to composition.
    pub(super) fn into_parts(self) -> (Vec<Selected>, Manifest) {
        (self.turns, self.manifest)
    }
}

/// Selects from a conversation before `current`, within the characters that are not `taken`.
///
/// # Errors
/// If the log cannot be read.
pub fn select<E: Evidence>(
    current: &Current,
    evidence: E,
    policy: &Policy,
    taken: Taken,
) -> Result<Selection, E::Error> {
    let mut manifest = Manifest::under(policy.max_events, policy.max_chars);
    let found = look(current, evidence, policy, &mut manifest)?;
    let candidates = windows(found, policy, &mut manifest);
    let capped = cap(candidates, policy, &mut manifest);
    let (shown, changed) = render(&capped, &mut manifest);
    let turns = bound(shown, changed, policy, taken, &mut manifest);
    for turn in &turns {
        for call in &turn.calls {
            manifest.include(Part::ToolCall, call.proposal, call.characters());
        }
        manifest.include(part(turn.speaker), turn.id, characters(turn.text.reveal()));
    }
    Ok(Selection { turns, manifest })
}

const fn part(speaker: Speaker) -> Part {
    match speaker {
        Speaker::User => Part::User,
        Speaker::Assistant => Part::Assistant,
    }
}

/// Reads the window, newest first; what is no turn, and what lies behind the window, is taken down.
fn look<E: Evidence>(
    current: &Current,
    evidence: E,
    policy: &Policy,
    manifest: &mut Manifest,
) -> Result<Vec<Turn>, E::Error> {
    let window = policy.max_events.max(WINDOW_MESSAGES);
    let mut conversation = Reconstruction::before(current, evidence);
    let mut turns = Vec::new();
    while conversation.looked_at() < window || !conversation.is_between_messages() {
        match conversation.older()? {
            None => return Ok(turns),
            Some(Found::Turn(turn)) => turns.push(turn),
            Some(Found::Not(id, speaker, why)) => manifest.omit(part(speaker), id, why.into()),
        }
    }
    if let Some(stretch) = conversation.rest()? {
        manifest.stretches.push(OmittedStretch { part: Part::Exchange, rule: Rule::NotLookedAt, stretch });
    }
    Ok(turns)
}

/// Leaves the turns of listed agents, and of each speaker as many as the bound of events.
fn windows(found: Vec<Turn>, policy: &Policy, manifest: &mut Manifest) -> Vec<Turn> {
    let (mut users, mut assistants) = (0, 0);
    let mut kept = Vec::new();
    for turn in found {
        let count = match &turn {
            Turn::User(_) => &mut users,
            Turn::Assistant(reply) if policy.agents.contains(&reply.completion.consumer.id) => {
                &mut assistants
            }
            Turn::Assistant(reply) => {
                manifest.omit(Part::Assistant, reply.id, Rule::AgentNotListed);
                continue;
            }
        };
        if *count == policy.max_events {
            manifest.omit(part(turn.speaker()), turn.id(), Rule::RoleWindow);
            continue;
        }
        *count += 1;
        kept.push(turn);
    }
    kept
}

/// Leaves the newest assistant turns, as many as are declared.
fn cap(turns: Vec<Turn>, policy: &Policy, manifest: &mut Manifest) -> Vec<Turn> {
    let Some(max) = policy.assistant_max_turns else { return turns };
    let ids = turns.iter().filter(|turn| turn.speaker() == Speaker::Assistant).map(Turn::id);
    let newest: Vec<EventId> = ids.collect();
    let (retained, omitted) = newest.split_at(max.min(newest.len()));
    let oldest_first = |ids: &[EventId]| ids.iter().rev().copied().collect::<Vec<_>>();
    manifest.assistant_cap = Some(AssistantCap {
        candidates: oldest_first(&newest),
        retained: oldest_first(retained),
        omitted: oldest_first(omitted),
    });
    let gone: BTreeSet<&EventId> = omitted.iter().collect();
    for id in omitted {
        manifest.omit(Part::Assistant, id, Rule::AssistantCap);
    }
    turns.into_iter().filter(|turn| !gone.contains(&turn.id())).collect()
}

/// Writes each turn as a model would see it; newest first, with what was changed by turn.
fn render(turns: &[Turn], manifest: &mut Manifest) -> (Vec<Selected>, BTreeMap<EventId, Vec<Changed>>) {
    let replies: Vec<_> = turns
        .iter()
        .filter_map(|turn| match turn {
            Turn::Assistant(reply) => Some(&**reply),
            Turn::User(_) => None,
        })
        .collect();
    let authority = Authority::of(&replies);
    let mut shown = Vec::new();
    let mut changed: BTreeMap<EventId, Vec<Changed>> = BTreeMap::new();
    let (mut affected, mut total) = (Vec::new(), 0);
    for turn in turns {
        let mut text = turn.effective().to_owned();
        let id = turn.id();
        let mut note = |recorded: &str, shown: &str, how: Change| {
            let (recorded, shown) = (text_hash(recorded), text_hash(shown));
            changed.entry(id).or_default().push(Changed { id, recorded, shown, how });
        };
        match turn {
            Turn::User(user) if user.text.reveal().is_empty() => {
                note("", IMAGE_PLACEHOLDER, Change::ImagePlaceholder);
            }
            Turn::User(_) => {}
            Turn::Assistant(reply) => {
                if let Some(why) = reply.unfit {
                    manifest.unfit.push(UnfitCorrection { id, why });
                }
                if let Some(correction) = &reply.correction {
                    let (projection, judgment) = (correction.projection.clone(), correction.judgment);
                    note(reply.delivered.reveal(), &text, Change::Corrected { projection, judgment });
                } else if let Some((without, removed)) = authority.apply(&text) {
                    note(&text, &without, Change::Suppressed { removed });
                    affected.push(id);
                    total += removed;
                    text = without;
                }
            }
        }
        let mut selected = Selected {
            id,
            speaker: turn.speaker(),
            text: Content::new(text),
            calls: Vec::new(),
            reply: None,
            privacy: turn.privacy(),
        };
        if let Turn::Assistant(reply) = turn {
            selected.reply = Some(reply.clone());
            selected.calls = calls(reply, manifest);
            if !selected.calls.is_empty() {
                // Whatever the run was about, a proposal is sensitive.
                selected.privacy = Privacy::Sensitive;
            }
        }
        if selected.text.reveal().is_empty() {
            selected.omit(Rule::Suppressed, manifest);
            continue;
        }
        shown.push(selected);
    }
    if !authority.is_empty() {
        manifest.suppression = Some(Suppression {
            policy_version: suppress::POLICY_VERSION,
            judgments: authority.judgments(),
            fragments: authority.hashes(),
            affected,
            removed: total,
        });
    }
    (shown, changed)
}

/// Returns the calls behind a reply: those that the receipt of its completed run names and the log shows, or none.
fn calls(reply: &AssistantTurn, manifest: &mut Manifest) -> Vec<PastCall> {
    history(reply).unwrap_or_else(|| {
        for proposal in &reply.completion.proposals {
            manifest.omit(Part::ToolCall, proposal, Rule::NoReceipt);
        }
        Vec::new()
    })
}

/// Leaves the newest turns that the bounds of events and of characters have room for; nothing is cut in two, and
/// nothing older comes in where something newer did not fit. Returns them oldest first.
fn bound(
    shown: Vec<Selected>,
    mut changed: BTreeMap<EventId, Vec<Changed>>,
    policy: &Policy,
    taken: Taken,
    manifest: &mut Manifest,
) -> Vec<Selected> {
    let mut room = policy.max_chars.saturating_sub(taken.always);
    let mut kept: Vec<Selected> = Vec::new();
    let mut is_full = false;
    // The message that is answered is one of the events.
    let events_max = policy.max_events.saturating_sub(1);
    for turn in shown {
        let chars = turn.chars() + taken.by_turn;
        is_full |= chars > room;
        let rule = if kept.len() == events_max {
            Some(Rule::EventBound)
        } else {
            is_full.then_some(Rule::CharBound)
        };
        if let Some(rule) = rule {
            turn.omit(rule, manifest);
            continue;
        }
        room -= chars;
        manifest.changed.extend(changed.remove(&turn.id).unwrap_or_default());
        kept.push(turn);
    }
    kept.reverse();
    kept
}
