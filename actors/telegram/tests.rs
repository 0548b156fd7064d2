//! Bots and dispatchers in the whole service, against a Telegram that keeps its promises or breaks them.

mod deliveries;
mod updates;

use std::sync::Arc;
use std::time::Duration;

use thoughtstream_channels::rehearsal::{Outcome, TelegramWhen};
use thoughtstream_channels::rehearsal::{Rehearsal, Script, TelegramAnswer, TelegramRule};
use thoughtstream_channels::telegram::client::ApiBase;
use thoughtstream_domain::declaration::DeclarationSet;
use thoughtstream_domain::dispatch::{NotificationRoute, Origin, Routes, Velocity};
use thoughtstream_domain::event::Event;
use thoughtstream_domain::id::{ConsumerId, ConsumerKey};
use thoughtstream_domain::payload::telegram::{ChatId, SenderId};
use thoughtstream_domain::registry::Registry;
use thoughtstream_store::{Options, Store, verify};

use super::*;
use crate::broker::Brokers;
use crate::clock::SystemClock;
use crate::service::{Loaded, Service, ServiceArgs};
use crate::supervisor::Shutdown;

const TOKEN: &str = "100000001:rehearsal";

/// The person who is listened to, and their chat with the bot.
const ADA: i64 = 9_007_199_254_740_993;

struct Bench {
    directory: tempfile::TempDir,
    points: Arc<KillPoints>,
    telegram: Rehearsal,
    webhook: Option<SocketAddr>,
    /// What lies where the bot's token is looked for.
    token: Arc<std::sync::Mutex<String>>,
}

fn source(text: &str) -> SourceId {
    SourceId::parse(text).unwrap()
}

impl Bench {
    async fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        Store::create(&directory.path().join("data"), [7; 16], Options::default()).unwrap();
        let telegram = Rehearsal::start(Script::default()).await.unwrap();
        Self {
            directory,
            points: KillPoints::for_rehearsal(),
            telegram,
            webhook: None,
            token: Arc::new(std::sync::Mutex::new(TOKEN.to_owned())),
        }
    }

    fn bot(&self) -> BotSpec {
        let base = ApiBase::parse(&self.telegram.telegram_url).unwrap();
        let token = Arc::clone(&self.token);
        let credential: Credential = Arc::new(move || Ok(token.lock().unwrap().clone().into()));
        let api = BotApi { base, credential };
        let (chats, senders) = ([ChatId::new(ADA)].into(), [SenderId::new(ADA)].into());
        let rules = Rules { chats, senders, username: Some("rehearsal_bot".to_owned()) };
        let talk = ConsumerId::parse("talk").unwrap();
        let watch = ConsumerId::parse("watch").unwrap();
        let routes = Routes {
            bot: source("telegram:garden"),
            chats: rules.chats.clone(),
            senders: rules.senders.clone(),
            direct: Some(talk),
            notification: Some(NotificationRoute {
                from: [Origin { agent: watch, source: source("notes:garden") }].into(),
                chat: ChatId::new(ADA),
                tag: "notify-ada".to_owned(),
                target: "ada-telegram".to_owned(),
            }),
        };
        let mode = match self.webhook {
            None => Mode::Poll { wait: Duration::from_secs(20) },
            Some(listen) => {
                Mode::Webhook { listen, secret: Arc::new(|| Ok("s3cret".to_owned().into())), url: None }
            }
        };
        BotSpec {
            source: source("telegram:garden"),
            api: api.clone(),
            mode,
            rules,
            privacy: Privacy::Sensitive,
            image_bytes_max: 1_000,
            delivers: Some(DispatcherSpec {
                routes,
                velocity: Velocity { messages: 1_000, per_ms: 1_000 },
                api,
            }),
        }
    }

    async fn start(&self) -> Service {
        let bot = self.bot();
        Service::start(ServiceArgs {
            producers: Vec::new(),
            support: Vec::new(),
            brokers: Brokers::default(),
            data: self.directory.path().join("data"),
            disk: None,
            options: Options::default(),
            load: Arc::new(|| {
                let registry = Arc::new(Registry::shipped());
                Ok(Loaded { declarations: DeclarationSet::default(), registry })
            }),
            compile: Arc::new(|set| crate::service::compile(set, &crate::consumer::Facilities::default())),
            paused: false,
            drain: Shutdown::STOP_WITHIN,
            points: Arc::clone(&self.points),
            clock: Arc::new(SystemClock),
            program: "test".to_owned(),
            extra: Box::new(move |service| children(service, vec![bot])),
        })
        .await
        .unwrap()
    }

    async fn stop(&self, service: Service) {
        service.stop();
        service.ended().await;
        drop(service);
        let store = Store::open(&self.directory.path().join("data"), Options::default()).unwrap();
        let report = verify::verify(&store.reader, verify::Options::default()).unwrap();
        assert!(report.ok, "{:?}", report.findings);
    }

    fn refuse(&self, method: &str, status: u16, retry_after: Option<u64>, times: u64) {
        let when =
            TelegramWhen { method: Some(method.to_owned()), times: Some(times), ..TelegramWhen::default() };
        let outcome = Outcome::Refused { status, retry_after };
        let answer = TelegramAnswer { outcome, ..TelegramAnswer::default() };
        self.telegram.add_telegram_rule(TelegramRule { name: format!("{method} {status}"), when, answer });
    }
}

/// Returns the events of a source whose type ends so.
fn events(service: &Service, of: &str, kind: &str) -> Vec<Event> {
    let mut events = service.handle().reader().source_page(&source(of), 0, 1_000).unwrap();
    events.retain(|event| event.kind.name.as_str().ends_with(kind));
    events
}

/// Waits until a source has so many events whose type ends so.
async fn until(service: &Service, of: &str, kind: &str, count: usize) -> Vec<Event> {
    let mut head = service.handle().head();
    let found = async {
        loop {
            head.mark_unchanged();
            let found = events(service, of, kind);
            if found.len() >= count {
                return found;
            }
            head.changed().await.unwrap();
        }
    };
    tokio::time::timeout(Duration::from_secs(60), found).await.expect("it comes")
}

fn consumer(id: &str) -> ConsumerKey {
    ConsumerKey::parse(&format!("{id}@1")).unwrap()
}
