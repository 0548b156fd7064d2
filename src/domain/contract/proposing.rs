//! Judges a final message that may call proposal tools beside what it says (Conversation output section).
//!
//! The calls are read here by the same function that the sandbox used, from the model's own words, and bound to what
//! the snapshot admitted. The visible text, or a fixed sentence where there is none, is what is said; no part of a call
//! becomes part of it. One call that is wrong refuses the whole message.

use super::{
    Accepted, Class, Contract, FinalPart, IssueCode, Issues, Mode, Rejection, Stop, accept, conversation,
    judge_answer, only_text, refuse,
};
use crate::contract::{Counts, Observation};
use crate::proposal::bind::Bound;
use crate::proposal::call::{CallCode, CallError, Calls};
use crate::proposal::capability::ProposalCapability;
use crate::proposal::{Kind, acknowledgment};
use crate::provider::{Answer, AnswerPart, StopReason};

/// Is what a final message says and what it proposes.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    /// What it says: its text, or the fixed sentence of a message of calls alone.
    pub accepted: Accepted,
    /// What it proposes, in the order in which it is settled.
    pub proposals: Vec<Bound>,
}

/// Holds a provider's answer against a contract, and its calls against what the snapshot admits. Where nothing may be
/// proposed, and in strict JSON, every call is refused.
///
/// # Errors
/// A [`Rejection`], as [`super::judge`] gives it; one that is about a call says so by its path.
pub fn judge_proposing(
    contract: &Contract,
    mode: Mode,
    answer: &Answer,
    admitted: Option<&ProposalCapability>,
) -> Result<Judged, Box<Rejection>> {
    let Some(admitted) = admitted.filter(|_| mode == Mode::ConversationText) else {
        let accepted = judge_answer(contract, mode, answer)?;
        return Ok(Judged { accepted, proposals: Vec::new() });
    };
    let parts: Vec<FinalPart> = answer.parts.iter().map(FinalPart::from).collect();
    let (counts, stop) = (Counts::of(&parts), Stop::from(answer.stop));
    let reject = |class, issues| refuse(contract, mode, class, stop, counts, issues);
    let called = answer.parts.iter().filter_map(|part| match part {
        AnswerPart::ToolCall { name, arguments, .. } => Some((name.as_str(), arguments.reveal().as_str())),
        AnswerPart::Text(_) | AnswerPart::Thinking { .. } => None,
    });
    let calls = Calls::of(called, &admitted.for_worker());
    let bound = calls.and_then(|calls| calls.bind(admitted)).map_err(|e| reject(Class::Parts, issue(&e)))?;
    if admitted.focus_required && !bound.iter().any(|bound| bound.kind() == Kind::FocusDeclaration) {
        let path = format!("/calls/{}", Kind::FocusDeclaration.tool());
        return Err(reject(Class::Parts, Issues::at(IssueCode::MissingField, &path)));
    }
    let may_end = match answer.stop {
        StopReason::Stop => None,
        StopReason::ToolCalls if !bound.is_empty() => None,
        StopReason::Length => Some(IssueCode::Truncated),
        StopReason::ToolCalls | StopReason::ContentFilter | StopReason::Refusal => Some(IssueCode::Stopped),
    };
    let others: Vec<FinalPart> = parts.into_iter().filter(|part| *part != FinalPart::ToolCall).collect();
    let kinds = bound.iter().map(Bound::kind).collect();
    let said = if says_nothing(&others) { acknowledgment(&kinds) } else { None };
    let text = match said {
        Some(sentence) => sentence.as_bytes(),
        None => only_text(&others).map_err(|code| reject(Class::Parts, Issues::one(code)))?,
    };
    if let Some(code) = may_end {
        return Err(reject(Class::Stop, Issues::one(code)));
    }
    let text = conversation(text).map_err(|code| reject(Class::Text, Issues::one(code)))?;
    let value = Observation::of_conversation(text).map_err(|issues| reject(Class::Contract, issues))?;
    Ok(Judged { accepted: accept(contract, mode, counts, value), proposals: bound })
}

/// Says whether a message shows nothing to a reader: it has no text, or one of white space.
fn says_nothing(parts: &[FinalPart]) -> bool {
    let mut texts = parts.iter().filter_map(|part| match part {
        FinalPart::Text(text) => Some(text.reveal()),
        FinalPart::Thinking | FinalPart::ToolCall | FinalPart::Other => None,
    });
    match (texts.next(), texts.next()) {
        (None, _) => true,
        (Some(text), None) => std::str::from_utf8(text).is_ok_and(|text| text.trim().is_empty()),
        (Some(_), Some(_)) => false,
    }
}

/// Says what is wrong with a call in the words that rejections have; the place begins with `/calls`.
fn issue(error: &CallError) -> Issues {
    let CallError { index, misfit, .. } = error;
    let code = match misfit.code {
        CallCode::UnknownTool | CallCode::NotOffered => IssueCode::ToolCall,
        CallCode::TooManyCalls | CallCode::SameKindTwice | CallCode::TooMany => IssueCode::TooMany,
        CallCode::TooLarge => IssueCode::TooLarge,
        CallCode::NotJson => IssueCode::NotJson,
        CallCode::DuplicateMember => IssueCode::DuplicateKey,
        CallCode::UnknownMember => IssueCode::UnknownField,
        CallCode::MissingMember => IssueCode::MissingField,
        CallCode::WrongType => IssueCode::WrongType,
        CallCode::Blank | CallCode::TooFew => IssueCode::Empty,
        CallCode::TooLong => IssueCode::TooLong,
        CallCode::OutOfRange => IssueCode::OutOfRange,
        CallCode::NotAllowed
        | CallCode::Repeated
        | CallCode::NotAnId
        | CallCode::NotAdmitted
        | CallCode::Inconsistent => IssueCode::NotAllowed,
    };
    Issues::at(code, &format!("/calls/{index}{}", misfit.at))
}

#[cfg(test)]
mod tests;
