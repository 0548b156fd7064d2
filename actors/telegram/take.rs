//! Making one update one durable event.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use thoughtstream_channels::telegram::access::Reached;
use thoughtstream_channels::telegram::client::CallError;
use thoughtstream_channels::telegram::images::{self, NotFetched};
use thoughtstream_channels::telegram::message::{Draft, Finished};
use thoughtstream_channels::telegram::normalise::{Normalised, Observed, normalise};
use thoughtstream_channels::telegram::trouble::Trouble;
use thoughtstream_domain::commit::{Commit, Precondition, Row, Verdict};
use thoughtstream_domain::content::Content;
use thoughtstream_domain::event::{Actor as EventActor, ActorKind, Candidate, Envelope};
use thoughtstream_domain::hash::Sha256Hash;
use thoughtstream_domain::id::TypeName;
use thoughtstream_domain::payload::TypedPayload;
use thoughtstream_domain::payload::telegram::{
    ChatId, MessageId, UpdateId, correlation, external, update_types,
};
use thoughtstream_domain::time::Timestamp;

use super::{ROUND_FAILED, TelegramBotArgs};
use crate::killpoint::{KillPoint, KillSite};
use crate::log::{LogError, STORE_UNREADABLE};
use crate::supervisor::{Detail, Fault, ReasonCode};

/// How often an image that cannot be had is asked for again, before its message is taken without it.
const IMAGE_TRIES: u32 = 4;

/// The longest wait before an image is asked for again; the updates behind it wait as long.
const IMAGE_WAIT_MAX: Duration = Duration::from_secs(10);

/// Says whether whoever brings an update waits for a log that cannot be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Patience {
    /// Until it can.
    Waits,
    /// Not at all: it will bring the update again.
    ComesAgain,
}

/// Says what became of an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Taken {
    /// It is durable, or was before.
    Durable(Option<UpdateId>),
    /// The log cannot be written; it is not.
    Later,
}

/// Is what one update becomes, before the log has seen it.
struct Becoming {
    candidate: Candidate,
    blobs: Vec<Row>,
}

/// Takes updates of one bot, one after another.
pub(super) struct Taker {
    args: TelegramBotArgs,
    site: KillSite,
    reached: Reached,
    taken: AtomicU64,
    repeated: AtomicU64,
}

impl Taker {
    pub(super) const fn new(args: TelegramBotArgs, site: KillSite, reached: Reached) -> Self {
        Self { args, site, reached, taken: AtomicU64::new(0), repeated: AtomicU64::new(0) }
    }

    /// Makes one that reaches the bot's API.
    pub(super) fn reaching(args: &TelegramBotArgs, site: KillSite) -> Result<Self, Fault> {
        let reached = Reached::open(args.spec.api.clone()).map_err(|code| Fault(ReasonCode::new(code)))?;
        Ok(Self::new(args.clone(), site, reached))
    }

    /// Makes an update durable. One that is known is passed by: it came twice, or was replayed, or forged.
    pub(super) async fn take(&self, raw: &[u8], patience: Patience) -> Result<Taken, Fault> {
        let normalised = normalise(raw, &self.args.spec.rules);
        let update = normalised.update;
        if self.is_known(&normalised).await? {
            self.args.status.settled();
            self.count(&self.repeated, "repeated");
            return Ok(Taken::Durable(update));
        }
        let becoming = self.becoming(normalised).await;
        self.site.pass(KillPoint::ObserveBefore).await?;
        let written = TypeName::parse(becoming.candidate.kind().name.as_str()).ok();
        let envelope = becoming.candidate.envelope();
        let others = update_types().into_iter().filter(|kind| Some(kind) != written.as_ref()).collect();
        let unused = Precondition::KeyUnused {
            source: envelope.source.clone(),
            types: others,
            key: envelope.key.clone(),
        };
        let commit =
            Commit { preconditions: vec![unused], appends: vec![becoming.candidate], rows: becoming.blobs };
        let Some(verdict) = self.commit(commit, patience).await? else { return Ok(Taken::Later) };
        self.site.pass(KillPoint::ObserveAfter).await?;
        self.args.status.settled();
        match verdict {
            Verdict::Committed(_) => {
                self.args.status.set("lastUpdateAt", Detail::At(self.args.clock.now()));
                self.count(&self.taken, "taken");
            }
            // What was there first stands, whatever this one says.
            Verdict::AlreadyCommitted(_) | Verdict::Conflict(_) | Verdict::Refused(_) => {
                self.count(&self.repeated, "repeated")
            }
        }
        Ok(Taken::Durable(update))
    }

    async fn commit(&self, commit: Commit, patience: Patience) -> Result<Option<Verdict>, Fault> {
        match patience {
            Patience::Waits => {
                let submitted = self.args.log.submit(Arc::new(commit));
                self.site.pass(KillPoint::ObserveInside).await?;
                submitted.settled().await.map(Some).map_err(Fault::from)
            }
            Patience::ComesAgain => match self.args.log.offer_until_known(commit).await {
                Ok(verdict) => {
                    self.site.pass(KillPoint::ObserveInside).await?;
                    Ok(Some(verdict))
                }
                Err(LogError::Unwritable { .. } | LogError::Unknown | LogError::Closed) => Ok(None),
                Err(error @ LogError::Damaged { .. }) => Err(error.into()),
            },
        }
    }

    fn count(&self, counter: &AtomicU64, name: &'static str) {
        let count = counter.fetch_add(1, Ordering::Relaxed) + 1;
        self.args.status.set(name, Detail::Count(count));
    }

    async fn is_known(&self, normalised: &Normalised) -> Result<bool, Fault> {
        let (reader, source, key) =
            (self.args.reader.clone(), self.args.spec.source.clone(), normalised.key.clone());
        let looked = tokio::task::spawn_blocking(move || {
            for kind in update_types() {
                if reader.event_under(&source, &kind, &key)?.is_some() {
                    return Ok(true);
                }
            }
            Ok::<bool, thoughtstream_store::RowError>(false)
        });
        looked.await.map_err(|_| Fault(ROUND_FAILED))?.map_err(|_| Fault(STORE_UNREADABLE))
    }

    async fn becoming(&self, normalised: Normalised) -> Becoming {
        let Normalised { key, observed, .. } = normalised;
        let source = self.args.spec.source.clone();
        let actor = EventActor::ours(ActorKind::Producer, source.as_str());
        let mut envelope = Envelope::new(source, key, self.args.spec.privacy, actor);
        let mut about = |chat: Option<ChatId>, message: Option<MessageId>, at: Option<Timestamp>| {
            envelope.correlation = chat.map(correlation);
            envelope.external = chat.zip(message).map(|(chat, message)| external(chat, message));
            envelope.occurred_at = at;
        };
        let mut blobs = Vec::new();
        let candidate = match observed {
            Observed::Message(draft) => match self.with_images(*draft, &mut blobs).await {
                Finished::Message(said) => {
                    about(Some(said.chat), Some(said.message), Some(said.sent_at));
                    said.candidate(envelope)
                }
                Finished::Nonconversation(evidence) => {
                    // Nobody refers to what was not taken.
                    blobs.clear();
                    about(evidence.chat, evidence.message, None);
                    evidence.candidate(envelope)
                }
            },
            Observed::Reaction(reaction) => {
                about(Some(reaction.chat), Some(reaction.message), Some(reaction.sent_at));
                reaction.candidate(envelope)
            }
            Observed::Correction(correction) => {
                about(Some(correction.chat), Some(correction.message), Some(correction.sent_at));
                correction.candidate(envelope)
            }
            Observed::Nonconversation(evidence) => {
                about(evidence.chat, evidence.message, None);
                evidence.candidate(envelope)
            }
        };
        Becoming { candidate, blobs }
    }

    async fn with_images(&self, draft: Draft, blobs: &mut Vec<Row>) -> Finished {
        let mut fetched = Vec::new();
        for wanted in &draft.wanted {
            let mut tries = 1;
            fetched.push(loop {
                let client = self.reached.client().await;
                match images::fetch(&client, wanted, self.args.spec.image_bytes_max).await {
                    Ok(image) => {
                        let bytes: Arc<[u8]> = image.bytes.into_inner().into();
                        blobs.push(Row::Blob { sha256: Sha256Hash::of(&bytes), bytes: Content::new(bytes) });
                        break Ok(image.artifact);
                    }
                    Err(NotFetched::Rejected(rejected)) => break Err(rejected),
                    Err(NotFetched::Later(_)) if tries >= IMAGE_TRIES => {
                        break Err(images::rejected(wanted, "unavailable", wanted.bytes));
                    }
                    Err(NotFetched::Later(error)) => tokio::time::sleep(image_wait(&error, tries)).await,
                }
                tries += 1;
            });
        }
        draft.finish(fetched)
    }
}

fn image_wait(error: &CallError, tries: u32) -> Duration {
    Trouble::of(error).wait(tries, u16::MAX).min(IMAGE_WAIT_MAX)
}
