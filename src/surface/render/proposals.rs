//! Proposals for people who decide: where each stands, what it would change, what it cites, and what moves it.

use std::fmt::Write as _;

use thoughtstream_domain::proposal::Kind;
use thoughtstream_domain::time::Timestamp;

use super::foreign::{Frame, Room, framed};
use super::{Rows, age, ago, count, line};
use crate::query::proposals::{DecisionRow, EvidenceText, Proposal, ProposalContent, Shown, State};

/// Renders a table of proposals.
#[must_use]
pub fn table(proposals: &[Proposal], now: Timestamp) -> String {
    if proposals.is_empty() {
        return "no proposals\n".to_owned();
    }
    let mut rows = Rows::new(&["PROPOSAL", "KIND", "STATE", "AGE", "AGENT"]);
    for proposal in proposals {
        let agent = proposal.agent.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string);
        let state = proposal.state.as_str().to_owned();
        rows.row(&[proposal.id.to_string(), proposal.kind.to_string(), state, age(proposal.at, now), agent]);
    }
    rows.text()
}

/// Renders proposals with what they say, as far as it was asked for.
#[must_use]
pub fn list(proposals: &[Proposal], now: Timestamp) -> String {
    let mut text = table(proposals, now);
    for proposal in proposals.iter().filter(|proposal| proposal.content.is_some()) {
        text.push('\n');
        text.push_str(&one(proposal, Room::Glance, now));
    }
    text
}

/// Renders one proposal.
#[must_use]
pub fn one(proposal: &Proposal, room: Room, now: Timestamp) -> String {
    let mut text = String::new();
    let Proposal { id, kind, state, at, .. } = proposal;
    push(&mut text, &format!("{id}"), "");
    push(&mut text, "what", &format!("{kind}, {}, proposed {}", state.as_str(), ago(*at, now)));
    if let Some((agent, run)) = proposal.agent.as_ref().zip(proposal.run) {
        push(&mut text, "by", &format!("{agent} in {run}"));
    }
    if let Some(trigger) = proposal.trigger {
        push(&mut text, "asked in", &trigger.to_string());
    }
    if let Some(target) = &proposal.target {
        push(&mut text, "about", target);
    }
    if let Some(sha256) = proposal.sha256 {
        let size = proposal.characters.map_or_else(String::new, |n| format!(", {}", count(n, "character")));
        push(&mut text, "sha256", &format!("{sha256}{size}"));
    }
    if let Some(DecisionRow { event, disposition, actor, at, .. }) = &proposal.decision {
        push(&mut text, "decided", &format!("{disposition} by {actor} {}, {event}", ago(*at, now)));
    }
    if let Some(outcome) = proposal.outcome {
        push(&mut text, "came to", &outcome.to_string());
    }
    if let Some(code) = &proposal.code {
        push(&mut text, "because", code);
    }
    if let Some(outlook) = &proposal.outlook {
        push(&mut text, "now", &outlook.says());
    }
    match &proposal.content {
        Some(content) => said(&mut text, proposal, content, room, now),
        None => {
            for id in &proposal.evidence {
                push(&mut text, "cites", &id.to_string());
            }
        }
    }
    if let Some(hint) = &proposal.hint {
        push(&mut text, "note", hint);
    }
    // What shows all of it is named above, and is no way out.
    for way in proposal.ways.iter().filter(|way| **way != whole(proposal)) {
        push(&mut text, "way out", way);
    }
    text
}

/// The command that shows all of what a proposal says.
fn whole(proposal: &Proposal) -> String {
    let shows = format!(" inbox show {} --full", proposal.id);
    let named = proposal.ways.iter().find(|way| way.ends_with(&shows));
    named.cloned().unwrap_or_else(|| format!("thought{shows}"))
}

fn said(text: &mut String, proposal: &Proposal, content: &ProposalContent, room: Room, now: Timestamp) {
    let more = whole(proposal);
    if let Some(reason) = &content.reason {
        push(text, "reason", "");
        text.push_str(&framed(reason, room, &more));
    }
    if let Some(edited) = &content.edited {
        push(text, "edited", "by a person, to");
        text.push_str(&framed(edited, room, &more));
    }
    match &content.shown {
        Shown::Document { operation, base_sha256, result_sha256, hunks, ends_differ } => {
            push(
                text,
                "changes",
                &format!("{operation}, from {} to {}", base_sha256.short(), result_sha256.short()),
            );
            let mut frame = Frame::new(room);
            for hunk in hunks {
                frame.line("", &format!("@ line {}, then {}", hunk.old, hunk.new));
                for row in &hunk.lines {
                    frame.line(&row.change.mark().to_string(), &row.text);
                }
            }
            if *ends_differ {
                frame.line("", "@ the end of the last line");
            }
            text.push_str(&frame.close(&more));
            if room == Room::Whole {
                push(text, "text", "");
                text.push_str(&framed(&content.text, room, &more));
            }
        }
        Shown::Unfit { operation, code } => {
            push(text, "changes", &format!("{operation}: it cannot be written [{code}]"));
            text.push_str(&framed(&content.text, room, &more));
        }
        Shown::Reply { before, after } => {
            push(text, "sent", "");
            text.push_str(&framed(before, room, &more));
            push(text, "instead", "");
            text.push_str(&framed(after, room, &more));
        }
        Shown::Focus => {
            push(text, "focus", "nothing of it is looked up, granted or in force");
            text.push_str(&framed(&content.text, room, &more));
        }
    }
    let is_over = matches!(proposal.state, State::Stale | State::Failed);
    if let Some(asked) = content.asked.as_ref().filter(|_| is_over) {
        push(text, "again", "is asked for in the chat, as this was:");
        text.push_str(&framed(asked, room, &more));
    }
    for EvidenceText { id, kind, at, text: words } in &content.evidence {
        push(text, "cites", &format!("{id}, {kind}, {}", ago(*at, now)));
        if let Some(words) = words {
            text.push_str(&framed(words, room, &more));
        }
    }
    if room == Room::Glance && proposal.state != State::Broken && proposal.kind != Kind::FocusDeclaration {
        push(text, "whole", &more);
    }
}

fn push(text: &mut String, name: &str, words: &str) {
    let row = if words.is_empty() { line(name) } else { format!("{name:<9} {}", line(words)) };
    writeln!(text, "{row}").expect("writing to a String does not fail");
}
