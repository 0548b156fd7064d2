//! The third step: the selection, the system's own words and the current message as one request in native roles.
//!
//! Nothing is retrieved or read anew here. The system message comes first; then the selected turns, oldest first;
//! the message that is answered stands once and last, and nothing of ours ever follows it.

use std::collections::BTreeSet;

use crate::content::Content;
use crate::packet::documents::Subscribed;
use crate::packet::manifest::{Change, Changed, Manifest, Part as What, Rule};
use crate::packet::{Capabilities, Composed, TooLarge};
use crate::proposal::{Kind, history as past};
use crate::provider::{Message, Part, Role};
use crate::text::characters;

use super::evidence::Evidence;
use super::proposing::{self, Proposing};
use super::reconstruct::{Current, IMAGE_PLACEHOLDER, Speaker, text_hash};
use super::select::{Policy, Taken, select};

/// Says what a model is looking at; the same for every declaration, so that no identity of a model, a provider or a
/// run becomes part of what it reads.
const ENVIRONMENT: &str = "You are given one current event, a choice of the conversation before it and, where there \
are any, documents that the operator wrote about identity and memory. The last message of the user is what there is \
to do now. What the assistant said earlier is context, mistakes included; it does not define who you are.";

/// Is what the system says, beside the conversation.
#[derive(Debug, Clone)]
pub struct Trusted<'a> {
    /// The declaration's prompt.
    pub prompt: &'a str,
    /// What the run may do.
    pub capabilities: &'a Capabilities,
    /// What the answer must be, in the words of its contract; empty where there is nothing to say.
    pub answer: &'a str,
    /// The subscribed documents, in their order, with what was left out of them.
    pub documents: &'a Subscribed,
    /// Whether the model takes images.
    pub takes_images: bool,
    /// What the declaration lets be proposed; none if nothing.
    pub proposals: Option<&'a Proposing>,
}

/// Says why a conversation could not be composed.
#[derive(Debug)]
pub enum ComposeError<E> {
    /// The log could not be read.
    Evidence(E),
    /// What must be shown whole has no room.
    TooLarge(TooLarge),
}

/// Composes the request for the current message.
///
/// # Errors
/// [`ComposeError`] if the log cannot be read, or if the system's words and the current message, which are never
/// cut, are more than the bound of characters.
pub fn conversation<E: Evidence>(
    current: &Current,
    mut evidence: E,
    policy: &Policy,
    trusted: &Trusted<'_>,
) -> Result<Composed, ComposeError<E::Error>> {
    let images = if trusted.takes_images { current.images.len() } else { 0 };
    let text = current.text.reveal();
    let shown = if text.is_empty() { IMAGE_PLACEHOLDER } else { text };
    let taken = taken(current, shown, trusted, images);
    if taken.always > policy.max_chars {
        let error = TooLarge { chars: taken.always as u64, chars_max: policy.max_chars as u64 };
        return Err(ComposeError::TooLarge(error));
    }
    let selection = select(current, &mut evidence, policy, taken).map_err(ComposeError::Evidence)?;
    let (turns, mut manifest) = selection.into_parts();
    let admitted = trusted.proposals.map(|proposing| {
        proposing::capability(proposing, current, &turns, policy, trusted.documents, &mut evidence)
    });
    let admitted = admitted.transpose().map_err(ComposeError::Evidence)?;
    let usable = admitted.as_ref().map(|capability| capability.for_worker().kinds).unwrap_or_default();
    let tools = proposing::tools(&usable, &turns, current);
    let system = system(trusted, images, &usable);
    let mut privacy = current.privacy;
    let mut messages = vec![message(Role::System, &system)];
    for turn in &turns {
        let role = match turn.speaker {
            Speaker::User => Role::User,
            Speaker::Assistant => Role::Assistant,
        };
        privacy = privacy.join(turn.privacy);
        messages.extend(past::messages(&turn.calls));
        messages.push(message(role, turn.text.reveal()));
    }
    messages.push(message(Role::User, shown));
    account(current, shown, trusted, &mut manifest);
    proposing::account(&tools, &mut manifest);
    // What is the system's own is counted, and named by the documents in it.
    manifest.chars += (characters(&system) - trusted.documents.chars()) as u64;
    let privacy = privacy.join(trusted.documents.privacy());
    let composed = Composed::of(messages, manifest, privacy, trusted.documents.references());
    Ok(composed.offering(admitted, tools))
}

/// Returns what is spoken for before anything is selected. Whether a reply can be corrected is known only then, so
/// that there is room for the tools and words of either case.
fn taken(current: &Current, shown: &str, trusted: &Trusted<'_>, images: usize) -> Taken {
    let Some(proposing) = trusted.proposals else {
        let always = characters(&system(trusted, images, &BTreeSet::new())) + characters(shown);
        return Taken { always, by_turn: 0 };
    };
    let either = [false, true].map(|corrects| {
        let expected = proposing.expected(trusted.documents, current, corrects);
        characters(&system(trusted, images, &expected.kinds)) + expected.chars
    });
    let always = either[0].max(either[1]) + characters(shown);
    Taken { always, by_turn: proposing::naming_chars(current) }
}

/// Takes down the current message, its images and the documents.
fn account(current: &Current, shown: &str, trusted: &Trusted<'_>, manifest: &mut Manifest) {
    trusted.documents.account(manifest);
    for image in &current.images {
        if trusted.takes_images {
            manifest.include(What::Image, &image.path, 0);
        } else {
            manifest.omit(What::Image, &image.path, Rule::ModelTakesNoImages);
        }
    }
    if current.text.reveal().is_empty() {
        let (recorded, shown) = (text_hash(""), text_hash(shown));
        manifest.changed.push(Changed { id: current.id, recorded, shown, how: Change::ImagePlaceholder });
    }
    manifest.include(What::Current, current.id, characters(shown));
}

fn message(role: Role, text: &str) -> Message {
    Message { role, parts: vec![Part::Text { text: Content::new(text.to_owned()) }] }
}

/// Writes the system message: where the model is, its prompt, what it may do, the documents, how many images it has.
fn system(trusted: &Trusted<'_>, images: usize, proposing: &BTreeSet<Kind>) -> String {
    let mut blocks = vec![ENVIRONMENT.to_owned(), trusted.prompt.trim().to_owned()];
    let tools = proposing.iter().map(|kind| kind.tool().to_owned()).collect();
    blocks.push(Capabilities { tools, ..trusted.capabilities.clone() }.in_words());
    blocks.push(trusted.answer.trim().to_owned());
    blocks.extend(trusted.documents.in_words());
    blocks.push(sight(images));
    blocks.retain(|block| !block.is_empty());
    blocks.join("\n\n")
}

/// Says how many images the model is shown.
fn sight(images: usize) -> String {
    match images {
        0 => "The current message comes with 0 images. You see no picture: do not claim to, and do not make one up \
              from placeholders, from earlier descriptions or from the text."
            .to_owned(),
        1 => "The current message comes with 1 image.".to_owned(),
        many => format!("The current message comes with {many} images."),
    }
}
