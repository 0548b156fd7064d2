//! What a snapshot admits for proposals: each condition alone, and what a model is told of it.

use std::collections::BTreeSet;
use std::convert::Infallible;

use super::fixture::*;
use super::shape::capabilities;
use crate::commit::Document;
use crate::content::Content;
use crate::conversation::compose::{Trusted, conversation};
use crate::conversation::evidence::{Party, Reply};
use crate::conversation::proposing::Proposing;
use crate::hash::Sha256Hash;
use crate::id::{ConsumerId, DocumentId, SourceId};
use crate::packet::documents::{Library, Subscribed, Subscription, resolve};
use crate::packet::manifest::Part as What;
use crate::packet::{Composed, ContractRevision};
use crate::payload::telegram::{ChatId, SenderId};
use crate::privacy::Privacy;
use crate::proposal::Kind;
use crate::proposal::capability::{CorrectionTarget, MEMORY_PATH, MEMORY_SOURCE, ProposalCapability};
use crate::provider::Part;
use crate::text::characters;

/// A folder that has one document at every path.
struct Folder(&'static [u8]);

impl Folder {
    fn document(&self, source: &SourceId, path: &str) -> Document {
        Document {
            source: source.clone(),
            id: DocumentId::at_first_sight(source, path, 0),
            revision: 3,
            path: path.to_owned(),
            sha256: Sha256Hash::of(self.0),
            bytes: self.0.len() as u64,
            content_type: "text/markdown".to_owned(),
            named: None,
            removed: false,
            stat: None,
        }
    }
}

impl Library for Folder {
    type Error = Infallible;

    fn current(&mut self, source: &SourceId, path: &str) -> Result<Option<Document>, Infallible> {
        Ok(Some(self.document(source, path)))
    }

    fn version(
        &mut self,
        source: &SourceId,
        id: &DocumentId,
        _: u64,
    ) -> Result<Option<Document>, Infallible> {
        let paths = [MEMORY_PATH, "other.md", "notes/memory.md"];
        Ok(paths.iter().map(|path| self.document(source, path)).find(|document| document.id == *id))
    }

    fn content(&mut self, _: &Sha256Hash) -> Result<Option<Content<Vec<u8>>>, Infallible> {
        Ok(Some(Content::new(self.0.to_vec())))
    }

    fn privacy(&mut self, _: &SourceId) -> Result<Privacy, Infallible> {
        Ok(Privacy::Private)
    }
}

/// Resolves documents of one folder, in this order.
pub(super) fn folder(paths: &[&str]) -> Subscribed {
    let paths = paths.iter().map(|path| (*path).to_owned()).collect();
    let source = SourceId::parse(MEMORY_SOURCE).unwrap();
    let subscription = Subscription::new(source, paths, true).unwrap();
    resolve(&mut Folder(b"---\nid: m\n---\n"), &[subscription], 1_000).unwrap()
}

fn documents(source: &str, path: &str, required: bool, chars_max: usize) -> Subscribed {
    let source = SourceId::parse(source).unwrap();
    let subscription = Subscription::new(source, vec![path.to_owned()], required).unwrap();
    resolve(&mut Folder(b"---\nid: m\n---\n"), &[subscription], chars_max).unwrap()
}

fn composed(chat: &Chat, kinds: &[Kind], documents: &Subscribed, max_events: usize) -> Composed {
    let capabilities = capabilities();
    let proposing = Proposing { kinds: kinds.iter().copied().collect(), focus_required: false };
    let trusted = Trusted {
        prompt: "p",
        capabilities: &capabilities,
        answer: "",
        documents,
        takes_images: false,
        proposals: Some(&proposing),
    };
    conversation(&chat.current("now"), chat.clone(), &policy(max_events, 40_000), &trusted).unwrap()
}

fn admitted(chat: &Chat) -> ProposalCapability {
    composed(chat, &Kind::ALL, &Subscribed::default(), 20).proposals().unwrap().clone()
}

fn memory_of(documents: &Subscribed) -> Composed {
    composed(&Chat::of(1), &[Kind::MemoryChange], documents, 20)
}

fn offered(composed: &Composed) -> Vec<&str> {
    composed.tools().iter().map(|tool| tool.name.as_str()).collect()
}

#[test]
fn memory_is_offered_only_with_the_exact_current_version_of_the_one_document() {
    let found = memory_of(&documents(MEMORY_SOURCE, MEMORY_PATH, true, 1_000));
    let target = found.proposals().unwrap().memory.clone().unwrap();
    assert_eq!((target.path.as_str(), target.source.as_str()), (MEMORY_PATH, MEMORY_SOURCE));
    assert_eq!((target.revision, target.bytes), (3, 14));
    assert_eq!(target.sha256, Sha256Hash::of(b"---\nid: m\n---\n"));
    assert_eq!(target.content_type, "text/markdown");
    assert_eq!(offered(&found), ["request_memory_change"]);
    for (source, path) in
        [("filesystem:other", MEMORY_PATH), (MEMORY_SOURCE, "other.md"), (MEMORY_SOURCE, "notes/memory.md")]
    {
        let found = memory_of(&documents(source, path, true, 1_000));
        assert_eq!(found.proposals().unwrap().memory, None, "{source}/{path}");
        assert!(found.tools().is_empty());
    }
    // It was left out because it has no room: nothing of it is in the snapshot, and nothing of it can be changed.
    let found = memory_of(&documents(MEMORY_SOURCE, MEMORY_PATH, false, 3));
    assert_eq!(found.proposals().unwrap().memory, None);
    let undeclared = composed(
        &Chat::of(1),
        &[Kind::SelfCorrection],
        &documents(MEMORY_SOURCE, MEMORY_PATH, true, 1_000),
        9,
    );
    assert_eq!(undeclared.proposals().unwrap().memory, None);
}

#[test]
fn the_replies_that_may_be_corrected_are_those_shown_oldest_first_with_everything_behind_them() {
    let admitted = admitted(&Chat::of(3));
    let target = |n| CorrectionTarget {
        run: run(n),
        output: output_id(n),
        receipt: id("receipt", n),
        root: message_id(n),
        contract: contract(),
    };
    assert_eq!(admitted.correction_targets, [target(0), target(1), target(2)]);
}

/// Says which replies may be corrected when the last of two is changed.
fn targets_if(change: impl FnOnce(&mut Reply)) -> Vec<crate::id::EventId> {
    let mut chat = Chat::of(2);
    change(&mut chat.turns[1].1[0]);
    admitted(&chat).correction_targets.iter().map(|target| target.output).collect()
}

#[test]
fn a_reply_without_a_receipt_in_this_chat_is_no_target() {
    let elsewhere = |reply: &mut Reply| reply.party = Party { chat: ChatId::new(9), ..ME };
    assert_eq!(targets_if(elsewhere), [output_id(0)]);
    let mut chat = Chat::of(2);
    chat.turns[1].1.clear();
    assert_eq!(admitted(&chat).correction_targets.len(), 1, "what was not delivered is not there");
}

#[test]
fn a_reply_to_somebody_else_is_no_target() {
    let other = |reply: &mut Reply| reply.party.sender = Some(SenderId::new(99));
    assert_eq!(targets_if(other), [output_id(0)]);
    assert_eq!(targets_if(|reply| reply.party.sender = None), [output_id(0)]);
}

#[test]
fn a_reply_by_another_bot_is_no_target() {
    let other = |reply: &mut Reply| reply.bot = SourceId::parse("telegram:other").unwrap();
    assert_eq!(targets_if(other), [output_id(0)]);
}

#[test]
fn a_reply_with_another_root_than_its_receipt_is_no_target() {
    assert_eq!(targets_if(|reply| reply.root = message_id(0)), [output_id(0)]);
    assert_eq!(targets_if(|reply| reply.output_root = message_id(0)), [output_id(0)]);
}

#[test]
fn a_run_that_did_not_complete_makes_no_target() {
    assert_eq!(targets_if(|reply| reply.completion = None), [output_id(0)]);
}

#[test]
fn a_run_that_completed_twice_makes_no_target() {
    assert_eq!(targets_if(|reply| reply.completions = 2), [output_id(0)]);
}

#[test]
fn a_run_of_an_agent_that_is_not_listed_makes_no_target() {
    let other = |reply: &mut Reply| {
        reply.completion.as_mut().unwrap().consumer.id = ConsumerId::parse("stranger").unwrap();
    };
    assert_eq!(targets_if(other), [output_id(0)]);
}

#[test]
fn a_run_with_several_outputs_makes_no_target() {
    let more = |reply: &mut Reply| reply.completion.as_mut().unwrap().outputs.push(output_id(7));
    assert_eq!(targets_if(more), [output_id(0)]);
}

#[test]
fn a_run_that_is_not_the_one_of_the_receipt_makes_no_target() {
    assert_eq!(targets_if(|reply| reply.run = run(5)), [output_id(0)]);
    assert_eq!(targets_if(|reply| reply.named = output_id(5)), [output_id(0)]);
}

#[test]
fn an_output_of_another_contract_than_its_run_was_frozen_with_is_no_target() {
    let other = ContractRevision { sha256: Sha256Hash::of(b"another definition"), ..contract() };
    assert_eq!(targets_if(|reply| reply.contract = other.clone()), [output_id(0)]);
    for frozen in [None, Some(other)] {
        let mut chat = Chat::of(2);
        chat.frozen.insert(run(1), frozen);
        let targets = admitted(&chat).correction_targets;
        assert_eq!(targets.iter().map(|target| target.output).collect::<Vec<_>>(), [output_id(0)]);
    }
}

#[test]
fn what_was_left_out_and_what_is_answered_now_are_no_targets_and_no_evidence() {
    let chat = Chat::of(4);
    let found = composed(&chat, &Kind::ALL, &Subscribed::default(), 3);
    let admitted = found.proposals().unwrap();
    assert_eq!(admitted.correction_targets.len(), 1);
    assert_eq!(admitted.correction_targets[0].output, output_id(3));
    let now = chat.current("now").id;
    assert_eq!(
        admitted.evidence,
        BTreeSet::from([message_id(3), output_id(3), id("receipt", 3), now]),
        "what is shown, its receipt, and the message that is answered"
    );
}

#[test]
fn to_be_citable_makes_no_target() {
    let mut chat = Chat::of(2);
    chat.turns[1].1[0].completions = 2;
    let admitted = admitted(&chat);
    assert!(admitted.evidence.contains(&output_id(1)) && admitted.evidence.contains(&id("receipt", 1)));
    assert!(admitted.correction_targets.iter().all(|target| target.output != output_id(1)));
}

#[test]
fn a_tool_is_offered_and_spoken_of_only_if_it_can_be_used() {
    let memory = documents(MEMORY_SOURCE, MEMORY_PATH, true, 1_000);
    let words = |composed: &Composed| match &composed.messages()[0].parts[0] {
        Part::Text { text } => text.reveal().clone(),
        Part::Image { .. } | Part::ToolCall { .. } | Part::ToolResult { .. } => panic!("no text"),
    };
    for (count, documents, expected) in [
        (0, &Subscribed::default(), vec!["propose_focus"]),
        (1, &Subscribed::default(), vec!["submit_correction", "propose_focus"]),
        (0, &memory, vec!["request_memory_change", "propose_focus"]),
        (1, &memory, vec!["request_memory_change", "submit_correction", "propose_focus"]),
    ] {
        let found = composed(&Chat::of(count), &Kind::ALL, documents, 20);
        assert_eq!(offered(&found), expected);
        for kind in Kind::ALL {
            assert_eq!(words(&found).contains(kind.tool()), expected.contains(&kind.tool()), "{kind}");
        }
        assert!(words(&found).contains("a person decides later"));
    }
    let none = composed(&Chat::of(0), &[Kind::SelfCorrection], &memory, 20);
    assert!(none.tools().is_empty() && words(&none).contains("Tools: none."));
}

#[test]
fn ids_stand_in_a_tool_once_and_in_no_message() {
    let chat = Chat::of(3);
    let found = composed(&chat, &Kind::ALL, &documents(MEMORY_SOURCE, MEMORY_PATH, true, 1_000), 20);
    for message in found.messages() {
        let Part::Text { text } = &message.parts[0] else { panic!("no text") };
        assert!(!text.reveal().contains("evt_"));
    }
    let first = &found.tools()[0].description;
    let named: Vec<&str> = first.lines().filter(|line| line.contains("evt_")).collect();
    assert_eq!(named.len(), 7, "three messages, three replies, and the message that is answered: {first}");
    assert!(named[1].starts_with("assistant ") && named[1].contains(&output_id(0).to_string()));
    assert!(named[6].contains(&chat.current("now").id.to_string()));
    assert!(found.tools()[1..].iter().all(|tool| !tool.description.contains("evt_")));
}

#[test]
fn tools_and_ids_count_as_characters_and_never_push_the_bound() {
    let chat = Chat::of(12);
    let memory = documents(MEMORY_SOURCE, MEMORY_PATH, true, 1_000);
    let capabilities = capabilities();
    let proposing = Proposing { kinds: Kind::ALL.into(), focus_required: false };
    let trusted = Trusted {
        prompt: "p",
        capabilities: &capabilities,
        answer: "",
        documents: &memory,
        takes_images: false,
        proposals: Some(&proposing),
    };
    let mut shown = BTreeSet::new();
    for max in (6_000..10_000).step_by(37) {
        let Ok(found) = conversation(&chat.current("now"), chat.clone(), &policy(40, max), &trusted) else {
            continue;
        };
        let texts: usize = found
            .messages()
            .iter()
            .flat_map(|message| &message.parts)
            .map(|part| match part {
                Part::Text { text } => characters(text.reveal()),
                Part::Image { .. } | Part::ToolCall { .. } | Part::ToolResult { .. } => panic!("no text"),
            })
            .sum();
        let tool = |tool: &crate::provider::Tool| {
            let parts = [&tool.name, &tool.description, &tool.parameters.to_string()];
            parts.iter().map(|part| characters(part)).sum::<usize>()
        };
        let tools: usize = found.tools().iter().map(tool).sum();
        assert_eq!(found.manifest().chars, (texts + tools) as u64);
        assert!(texts + tools <= max, "{} of {max}", texts + tools);
        let named = found.manifest().included.iter().filter(|included| included.part == What::Tool);
        assert_eq!(named.count(), found.tools().len());
        shown.insert(found.messages().len());
    }
    assert!(shown.len() > 5, "the bound was met in the middle of a conversation: {shown:?}");
}
