//! The bots of a configuration: how each is reached, who is listened to, and what is delivered through it.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use thoughtstream_channels::telegram::client::{ApiBase, WebhookUrl};
use thoughtstream_channels::telegram::images::IMAGE_BYTES_MAX;
use thoughtstream_channels::telegram::normalise::Rules;
use thoughtstream_domain::dispatch::{NotificationRoute, Origin, Routes, Velocity};
use thoughtstream_domain::id::{ConsumerId, SourceId};
use thoughtstream_domain::payload::telegram::{ChatId, SenderId};
use thoughtstream_domain::privacy::Privacy;
use thoughtstream_domain::provider::{CredentialName, is_credential_name, is_variable_name};
use thoughtstream_domain::yaml::{Choice, Code, Form, Key, Node, Problem, Shape, Source, duration_ms};

/// The most bots: each has two actors.
pub(super) const BOTS_MAX: usize = 8;

/// The most chats or people of one bot.
const IDS_MAX: usize = 64;

/// The longest name of a bot: it stands in the names of its sources and of its progress.
const NAME_BYTES_MAX: usize = 40;

/// The largest image that may be asked for: what Telegram lets a bot fetch.
const IMAGE_BYTES_LIMIT: i64 = 20 << 20;

/// The kinds of problem that only bots have.
pub mod codes {
    use super::Code;

    /// Two bots have one name.
    pub const SAME_BOT: Code = Code::new("config.same-bot");
    /// What a mode needs is missing, or belongs to the other one.
    pub const MODE: Code = Code::new("config.bot-mode");
    /// A chat that nobody listens to cannot be written to.
    pub const CHAT: Code = Code::new("config.bot-chat");
}

/// Is a configured bot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bot {
    /// Its source, `telegram:NAME`.
    pub source: SourceId,
    /// Where its API is.
    pub api: ApiBase,
    /// The name of its token.
    pub credential: CredentialName,
    /// The environment variable that may hold it.
    pub credential_variable: Option<String>,
    /// Where it is told of updates; it asks if absent.
    pub webhook: Option<Webhook>,
    /// Who is listened to.
    pub rules: Rules,
    /// The class of its events.
    pub privacy: Privacy,
    /// The largest image that is taken.
    pub image_bytes_max: u64,
    /// What is delivered through it.
    pub routes: Routes,
    /// How fast.
    pub velocity: Velocity,
}

/// Says where a bot is told of updates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Webhook {
    /// Where it listens.
    pub listen: SocketAddr,
    /// The name of the secret that shows who tells.
    pub secret: CredentialName,
    /// Where Telegram is asked to tell; if absent, a person sees to that.
    pub url: Option<WebhookUrl>,
}

impl Bot {
    /// Says whether anything is delivered through it.
    #[must_use]
    pub const fn delivers(&self) -> bool {
        self.routes.direct.is_some() || self.routes.notification.is_some()
    }
}

fn is_bot_name(text: &str) -> bool {
    (1..=NAME_BYTES_MAX).contains(&text.len()) && ConsumerId::parse(text).is_ok()
}

fn is_user_name(text: &str) -> bool {
    (1..=64).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

const NAME: Form = Form {
    name: "a bot's name",
    example: "garden",
    units_max: NAME_BYTES_MAX,
    accepts: is_bot_name,
    pattern: Some("^[a-z][a-z0-9-]{0,39}$"),
};

const USERNAME: Form = Form {
    name: "a bot's user name, without the `@`",
    example: "garden_bot",
    units_max: 64,
    accepts: is_user_name,
    pattern: Some("^[A-Za-z0-9_]{1,64}$"),
};

const API: Form = Form {
    name: "the address of a bot API: https, or http on this machine",
    example: "https://api.telegram.org",
    units_max: 512,
    accepts: |text| ApiBase::parse(text).is_ok(),
    pattern: Some("^https?://"),
};

const CREDENTIAL: Form = Form {
    name: "a credential's name",
    example: "telegram-garden",
    units_max: 64,
    accepts: is_credential_name,
    pattern: None,
};

const VARIABLE: Form = Form {
    name: "the name of an environment variable",
    example: "GARDEN_BOT_TOKEN",
    units_max: 128,
    accepts: is_variable_name,
    pattern: None,
};

const ID: Form = Form {
    name: "an id in decimal digits, in quotes",
    example: "\"8123456789\"",
    units_max: 20,
    accepts: |text| ChatId::parse(text).is_ok(),
    pattern: Some("^(0|-?[1-9][0-9]{0,18})$"),
};

const LISTEN: Form = Form {
    name: "an address and port of this machine",
    example: "127.0.0.1:8443",
    units_max: 64,
    accepts: |text| text.parse::<SocketAddr>().is_ok_and(|address| address.ip().is_loopback()),
    pattern: None,
};

const CONSUMER: Form = Form {
    name: "a declaration's id",
    example: "telegram-conversation",
    units_max: 64,
    accepts: |text| ConsumerId::parse(text).is_ok(),
    pattern: Some("^[a-z][a-z0-9-]{0,63}$"),
};

const ORIGIN: Form = Form {
    name: "a source",
    example: "filesystem:notes",
    units_max: 200,
    accepts: |text| SourceId::parse(text).is_ok(),
    pattern: None,
};

const TAG: Form = Form {
    name: "a tag",
    example: "notify-owner",
    units_max: 64,
    accepts: |text| !text.trim().is_empty(),
    pattern: None,
};

const TARGET: Form = Form {
    name: "a recommendation's target",
    example: "owner-telegram",
    units_max: 128,
    accepts: |text| !text.trim().is_empty(),
    pattern: None,
};

const IDS: Shape = Shape::List { of: &Shape::Text(&ID), min: 1, max: IDS_MAX };

const MODES: [Choice; 2] =
    [Choice::new("poll", "the bot asks for updates"), Choice::new("webhook", "a proxy tells it of updates")];

const WEBHOOK_URL: Form = Form {
    name: "the address that Telegram is to tell: https, or http on this machine",
    example: "https://bot.example.org/garden",
    units_max: 512,
    accepts: |text| WebhookUrl::parse(text).is_ok(),
    pattern: Some("^https?://"),
};

const WEBHOOK: [Key; 3] = [
    Key::required("listen", "where the proxy with TLS finds it, on loopback", Shape::Text(&LISTEN)),
    Key::required("secret", "the name of the credential that Telegram sends along", Shape::Text(&CREDENTIAL)),
    Key::optional(
        "url",
        "the proxy's address: Telegram is asked to tell it; if absent, you see to that yourself",
        Shape::Text(&WEBHOOK_URL),
    ),
];

const FROM: [Key; 2] = [
    Key::required("agent", "the declaration that may propose", Shape::Text(&CONSUMER)),
    Key::required("source", "the source of what it looked at", Shape::Text(&ORIGIN)),
];

const NOTIFICATIONS: [Key; 4] = [
    Key::required("chat", "the chat that proposals to take your attention go to", Shape::Text(&ID)),
    Key::required("tag", "the tag that such a proposal must carry", Shape::Text(&TAG)),
    Key::required("target", "the target that its recommendation must name", Shape::Text(&TARGET)),
    Key::required(
        "from",
        "who may propose, about which source",
        Shape::List { of: &Shape::Map(&FROM), min: 1, max: IDS_MAX },
    ),
];

const VELOCITY: [Key; 2] = [
    Key::required("messages", "how many messages go into one chat", Shape::Integer { min: 1, max: 1_000 }),
    Key::required("per", "within how long", Shape::Duration { min_ms: 1_000, max_ms: 86_400_000 }),
];

/// The keys of one bot.
pub(super) const BOT: [Key; 15] = [
    Key::required("bot", "the bot's name: its events come from `telegram:NAME`", Shape::Text(&NAME)),
    Key::optional("username", "what `/help@NAME` may call it", Shape::Text(&USERNAME)),
    Key::optional("api", "where the bot API is; Telegram's own if absent", Shape::Text(&API)),
    Key::required(
        "credential",
        "the name of its token: a systemd credential, or a file in `credentials/`",
        Shape::Text(&CREDENTIAL),
    ),
    Key::optional(
        "credentialVariable",
        "an environment variable to look in if there is neither",
        Shape::Text(&VARIABLE),
    ),
    Key::optional("mode", "how it learns of updates; `poll` if absent", Shape::Choice(&MODES)),
    Key::optional("webhook", "where it is told of updates", Shape::Map(&WEBHOOK)),
    Key::required("chats", "the only chats that are listened to and answered", IDS),
    Key::required("senders", "the only people who are listened to and answered", IDS),
    Key::optional("privacy", "the class of its events", Shape::Choice(&super::PRIVACY)),
    Key::optional(
        "maxImageBytes",
        "larger images are named and not taken",
        Shape::Integer { min: 1, max: IMAGE_BYTES_LIMIT },
    ),
    Key::optional(
        "directReplies",
        "the one declaration whose outputs answer messages",
        Shape::Text(&CONSUMER),
    ),
    Key::optional("notifications", "which proposals may take your attention", Shape::Map(&NOTIFICATIONS)),
    Key::optional("velocity", "how fast messages may follow one another", Shape::Map(&VELOCITY)),
    Key::optional(
        "producerOnly",
        "false: a bot is asked and answered with one token, so its producer runs in the service",
        Shape::Off(
            super::codes::PRODUCER_ONLY,
            "a bot's token both asks for updates and sends replies: the service has to hold it to deliver, and a \
             process apart would be a second holder and keep it from nobody",
        ),
    ),
];

/// Reads the bots, and reports what only the whole shows to be wrong.
pub(super) fn read(root: &Node, source: &Source, problems: &mut Vec<Problem>) -> Vec<Bot> {
    let mut bots: Vec<Bot> = Vec::new();
    for item in root.get("telegram").map(Node::items).unwrap_or_default() {
        let Some(bot) = bot(item, source, problems) else { continue };
        if bots.iter().any(|other| other.source == bot.source) {
            let span = item.get("bot").map_or(item.span, |node| node.span);
            let problem = source.problem(span, codes::SAME_BOT, "another bot has this name");
            problems.push(problem.with_hint("give each bot a name of its own"));
        }
        bots.push(bot);
    }
    bots
}

fn text<'n>(node: &'n Node, key: &str) -> Option<&'n str> {
    node.get(key).and_then(Node::text)
}

fn number(node: &Node, key: &str) -> Option<u64> {
    node.get(key).and_then(Node::integer).and_then(|number| u64::try_from(number).ok())
}

fn ids<T: Ord>(item: &Node, key: &str, parse: impl Fn(&str) -> Option<T>) -> BTreeSet<T> {
    let items = item.get(key).map(Node::items).unwrap_or_default();
    items.iter().filter_map(Node::text).filter_map(parse).collect()
}

fn bot(item: &Node, source: &Source, problems: &mut Vec<Problem>) -> Option<Bot> {
    let bot = SourceId::parse(&format!("telegram:{}", text(item, "bot")?)).ok()?;
    let chats = ids(item, "chats", |text| ChatId::parse(text).ok());
    let senders = ids(item, "senders", |text| SenderId::parse(text).ok());
    let rules = Rules {
        chats: chats.clone(),
        senders: senders.clone(),
        username: text(item, "username").map(str::to_owned),
    };
    let velocity = item.get("velocity").and_then(|velocity| {
        let messages = number(velocity, "messages").and_then(|messages| u32::try_from(messages).ok())?;
        Some(Velocity { messages, per_ms: text(velocity, "per").and_then(duration_ms)? })
    });
    let direct = text(item, "directReplies").and_then(|id| ConsumerId::parse(id).ok());
    let notification =
        item.get("notifications").and_then(|node| notification(node, &chats, source, problems));
    Some(Bot {
        api: ApiBase::parse(text(item, "api").unwrap_or(ApiBase::TELEGRAM)).ok()?,
        credential: CredentialName::parse(text(item, "credential")?)?,
        credential_variable: text(item, "credentialVariable").map(str::to_owned),
        webhook: webhook(item, source, problems),
        rules,
        privacy: text(item, "privacy").and_then(Privacy::parse).unwrap_or(Privacy::Sensitive),
        image_bytes_max: number(item, "maxImageBytes").unwrap_or(IMAGE_BYTES_MAX),
        routes: Routes { bot: bot.clone(), chats, senders, direct, notification },
        velocity: velocity.unwrap_or_default(),
        source: bot,
    })
}

/// Reads where a bot is told of updates; a webhook without its secret is refused, and a secret without one too.
fn webhook(item: &Node, source: &Source, problems: &mut Vec<Problem>) -> Option<Webhook> {
    let told = text(item, "mode") == Some("webhook");
    match (told, item.get("webhook")) {
        (true, Some(webhook)) => {
            let listen = text(webhook, "listen")?.parse().ok()?;
            let url = text(webhook, "url").and_then(|text| WebhookUrl::parse(text).ok());
            Some(Webhook { listen, secret: CredentialName::parse(text(webhook, "secret")?)?, url })
        }
        (true, None) => {
            let span = item.get("mode").map_or(item.span, |node| node.span);
            let what = "a webhook needs an address and a secret";
            let problem = source.problem(span, codes::MODE, what);
            problems.push(problem.with_hint("name both under `webhook`"));
            None
        }
        (false, Some(webhook)) => {
            let what = "the bot asks for updates, and is told of none";
            let problem = source.problem(webhook.span, codes::MODE, what);
            problems.push(problem.with_hint("write `mode: webhook`, or leave `webhook` out"));
            None
        }
        (false, None) => None,
    }
}

fn notification(
    node: &Node,
    chats: &BTreeSet<ChatId>,
    source: &Source,
    problems: &mut Vec<Problem>,
) -> Option<NotificationRoute> {
    let chat = ChatId::parse(text(node, "chat")?).ok()?;
    if !chats.contains(&chat) {
        let span = node.get("chat").map_or(node.span, |node| node.span);
        let problem = source.problem(span, codes::CHAT, "this chat is not one of the bot's `chats`");
        problems.push(problem.with_hint("add it there: what is written into is listened to as well"));
    }
    let origin = |item: &Node| {
        let agent = ConsumerId::parse(text(item, "agent")?).ok()?;
        Some(Origin { agent, source: SourceId::parse(text(item, "source")?).ok()? })
    };
    Some(NotificationRoute {
        from: node.get("from").map(Node::items).unwrap_or_default().iter().filter_map(origin).collect(),
        chat,
        tag: text(node, "tag")?.to_owned(),
        target: text(node, "target")?.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;

    fn problems(text: &str) -> String {
        let problems = parse("config.yaml", text.as_bytes(), None).unwrap_err();
        problems.iter().map(|p| format!("{}:{} {}\n", p.line, p.column, p.code)).collect()
    }

    const WHOLE: &str = "telegram:
  - bot: garden
    username: Garden_bot
    api: http://127.0.0.1:8081
    credential: telegram-garden
    mode: webhook
    webhook: { listen: \"127.0.0.1:8443\", secret: garden-webhook, url: \"https://bot.example.org/garden\" }
    chats: [\"9007199254740993\", \"-100123\"]
    senders: [\"9007199254740993\"]
    maxImageBytes: 1000
    directReplies: telegram-conversation
    notifications:
      chat: \"-100123\"
      tag: notify-owner
      target: owner-telegram
      from: [{ agent: file-observer, source: filesystem:notes }]
    velocity: { messages: 3, per: 10s }
";

    #[test]
    fn a_bot_is_read_with_its_routes() {
        let config = parse("config.yaml", WHOLE.as_bytes(), None).unwrap();
        let bot = &config.bots[0];
        assert_eq!((bot.source.as_str(), bot.privacy), ("telegram:garden", Privacy::Sensitive));
        assert_eq!(bot.webhook.as_ref().unwrap().secret.as_str(), "garden-webhook");
        assert_eq!(bot.rules.senders, [SenderId::new(9_007_199_254_740_993)].into());
        assert_eq!(bot.velocity, Velocity { messages: 3, per_ms: 10_000 });
        let route = bot.routes.notification.as_ref().unwrap();
        assert_eq!((route.chat, route.from.len()), (ChatId::new(-100_123), 1));
        assert!(bot.delivers());
    }

    #[test]
    fn a_bot_needs_little() {
        let text = "telegram:\n  - { bot: a, credential: t, chats: [\"1\"], senders: [\"1\"] }\n";
        let config = parse("config.yaml", text.as_bytes(), None).unwrap();
        let bot = &config.bots[0];
        assert!(bot.webhook.is_none() && !bot.delivers());
        assert_eq!(bot.api, ApiBase::parse(ApiBase::TELEGRAM).unwrap());
        assert_eq!((bot.velocity, bot.image_bytes_max), (Velocity::default(), IMAGE_BYTES_MAX));
    }

    #[test]
    fn what_is_wrong_is_reported_at_its_place() {
        let text = "telegram:
  - bot: Garden
    api: http://api.telegram.org
    credential: t
    chats: [12]
    senders: []
  - bot: b
    credential: t
    mode: webhook
    chats: [\"1\"]
    senders: [\"01\"]
";
        let found = problems(text);
        for place in ["2:10 ", "3:10 ", "5:13 ", "6:14 ", "11:15 "] {
            assert!(found.lines().any(|line| line.starts_with(place)), "{place}\n{found}");
        }
        let head = "telegram:\n  - { bot: b, credential: t, chats: [\"1\"], senders: [\"1\"], ";
        assert_eq!(problems(&format!("{head}mode: webhook }}\n")), "2:66 config.bot-mode\n");
        let everywhere = format!("{head}mode: webhook, webhook: {{ listen: \"0.0.0.0:1\", secret: s }} }}\n");
        assert!(problems(&everywhere).contains("shape.bad-value"));
        let unused = format!("{head}webhook: {{ listen: \"127.0.0.1:1\", secret: s }} }}\n");
        assert!(problems(&unused).contains("config.bot-mode"));
        let chat = "notifications: { chat: \"2\", tag: t, target: t, from: [{ agent: a, source: s:s }] }";
        assert!(problems(&format!("{head}{chat} }}\n")).contains("config.bot-chat"));
        let twice = "telegram:\n  - &a { bot: b }\n";
        assert!(!problems(twice).is_empty(), "anchors are refused");
        let one = "  - { bot: b, credential: t, chats: [\"1\"], senders: [\"1\"] }\n";
        assert_eq!(problems(&format!("telegram:\n{one}{one}")), "3:12 config.same-bot\n");
    }
}
