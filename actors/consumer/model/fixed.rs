//! A fixed command: an ordinary run with an ordinary output, for which nobody is asked and nothing is reserved.

use thoughtstream_domain::content::Content;
use thoughtstream_domain::contract::{FinalPart, Mode, Stop, judge};
use thoughtstream_domain::declaration::ContextStrategy;
use thoughtstream_domain::event::Event;
use thoughtstream_domain::hash::Sha256Hash;
use thoughtstream_domain::help::{self, FixedAnswer};
use thoughtstream_domain::lifecycle::Execution;
use thoughtstream_domain::payload::output::{MessageObservation, Provenance};
use thoughtstream_domain::payload::telegram::TelegramMessage;
use thoughtstream_domain::payload::trace::{RunTraced, Step, TraceChunk};
use thoughtstream_domain::proposal::Kind;

use super::super::attempt::{Attempt, Ended, is_in};
use super::ModelWork;
use crate::runner::RunFailure;

/// Stands where another output names its provider.
const NOBODY: &str = "command";

impl ModelWork {
    /// Returns the fixed answer to the message of a conversation's turn, if it is a command that has one.
    pub(super) fn fixed(&self, events: &[Event]) -> Option<FixedAnswer> {
        let ContextStrategy::Conversation(_) = &self.runner.strategy else { return None };
        let [event] = events else { return None };
        let said: TelegramMessage = event.payload_as().ok()?;
        let focus = self.runner.proposals.contains(&Kind::FocusDeclaration);
        help::answer(said.text.reveal(), self.username(&event.source), focus)
            .filter(|_| said.images.is_empty())
    }
}

impl Attempt {
    /// Settles the fixed answer: received and started, then output, trace and completed, as any run does.
    pub(super) async fn answer_fixed(
        self,
        work: &ModelWork,
        mut execution: Execution,
        previous: u64,
        answer: FixedAnswer,
    ) -> Result<Ended, Ended> {
        let text = answer.summary.as_bytes();
        let part = FinalPart::Text(Content::new(text.into()));
        let Ok(accepted) = judge(&work.contract, Mode::ConversationText, &[part], Stop::End) else {
            return self.refuse(work, execution, previous, RunFailure::of_output("invalid-output")).await;
        };
        let now = self.clock.now();
        let frame = self.spec.frame(self.incarnation, now);
        is_in(self.log.commit(execution.open(&frame, previous)).await?)?;
        let command = format!("{}@{}", answer.command, answer.version);
        let provenance = Provenance { provider: NOBODY.to_owned(), model: command.clone() };
        let stamp = execution.stamp();
        let said = MessageObservation::of(accepted, stamp.clone(), Sha256Hash::of(text), provenance);
        let completed = execution.complete(&frame, now, &self.registry, vec![said.output()]);
        let mut commit = completed.map_err(|_| Ended::Conflict)?;
        let chunk = TraceChunk { code: Some(command), ..TraceChunk::of(Step::CommandAnswered) };
        let traced = RunTraced::of(stamp, 0, vec![chunk]);
        commit.appends.push(traced.event(execution.privacy, execution.parents()));
        self.settle(commit, &execution).await?;
        Ok(Ended::Stands { execution: Box::new(execution), completed: true })
    }
}
