//! What completions name as proposed: each is in the log before the completion that names it, and is named once.
//!
//! That a proposal is named at all, and by the completion of its own run, is part of its lineage.

use std::collections::BTreeSet;

use thoughtstream_domain::event::Event;
use thoughtstream_domain::id::EventId;
use thoughtstream_domain::payload::TypedPayload as _;
use thoughtstream_domain::payload::proposal::Proposed;
use thoughtstream_domain::payload::run::RunCompleted;

use super::{FindingKind, Findings};

/// Is what the walk remembers of proposals that no completion has named yet.
#[derive(Default)]
pub(super) struct Named {
    unnamed: BTreeSet<EventId>,
}

impl Named {
    /// Takes an event in, in the order of the log.
    pub(super) fn event(&mut self, event: &Event, place: &str, findings: &mut Findings) {
        if Proposed::kind_of(&event.kind).is_some() {
            self.unnamed.insert(event.id);
            return;
        }
        if event.kind != RunCompleted::kind() {
            return;
        }
        let named = event.payload_as::<RunCompleted>().map(|completed| completed.proposals);
        for id in named.unwrap_or_default() {
            if !self.unnamed.remove(&id) {
                let message = format_args!("names the proposal {id}, which is not there or was named before");
                findings.add(FindingKind::Proposal, place, message);
            }
        }
    }
}
