//! `thought rehearse`: a provider and a Telegram that do what a script says, until it is interrupted.

use std::fmt::Write as _;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use thoughtstream_channels::rehearsal::{EXAMPLE, Item, Rehearsal, SCRIPT_BYTES_MAX, Script, Seen};
use thoughtstream_domain::text::{excerpt, printable};
use thoughtstream_domain::yaml::render_all;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::broadcast::error::RecvError;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::out::Out;

/// So much of a request is shown to whoever asks for content; a context can be long.
const CONTENT_CHARACTERS_MAX: usize = 2_000;

/// Says what is rehearsed.
#[derive(Debug, Args)]
pub struct RehearseArgs {
    /// The script to play; without one the provider repeats what is said, and nobody writes
    pub script: Option<PathBuf>,
    /// Listen on this port of 127.0.0.1; any free one if none is named
    #[arg(long, default_value_t = 0)]
    pub port: u16,
    /// Show the beginning of each request too
    #[arg(long)]
    pub show_content: bool,
    /// Write a script to start from to stdout, and end
    #[arg(long, conflicts_with_all = ["script", "port", "show_content"])]
    pub example: bool,
}

/// Says where a rehearsal is found, for programs.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Ready<'a> {
    ready: bool,
    provider: &'a str,
    telegram: &'a str,
    say: String,
    counters: String,
}

/// Plays a script.
///
/// # Errors
/// [`Failure`] if the script cannot be read or has a problem, or the port cannot be had.
pub fn run(args: &RehearseArgs, json: bool, out: &mut Out) -> Result<Exit, Failure> {
    if args.example {
        out.text(EXAMPLE)?;
        return Ok(Exit::Done);
    }
    let script = match &args.script {
        Some(path) => read(path)?,
        None => Script::default(),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(|error| {
        Failure::new(Exit::CouldNotLook, "service.threads", "cannot start threads").because(&error)
    })?;
    runtime.block_on(play(args, script, json, out))
}

fn read(path: &Path) -> Result<Script, Failure> {
    let shown = path.display().to_string();
    let mut bytes = Vec::new();
    // One byte more than is read, so that a longer script is refused as such.
    let opened = std::fs::File::open(path)
        .and_then(|file| file.take(SCRIPT_BYTES_MAX as u64 + 1).read_to_end(&mut bytes));
    opened.map_err(|error| {
        let what = format!("cannot read the script `{shown}`");
        Failure::new(Exit::CouldNotLook, "rehearse.script", what)
            .because(&error)
            .with_hint("`thought rehearse --example` writes one to start from")
    })?;
    Script::parse(&shown, &bytes).map_err(|problems| {
        Failure::new(Exit::Usage, "rehearse.script", "the script is not right")
            .with_lines(&render_all(&problems))
    })
}

async fn play(args: &RehearseArgs, script: Script, json: bool, out: &mut Out) -> Result<Exit, Failure> {
    let pointing = Pointing::of(&script);
    let mut stop = Stop::listen()?;
    let rehearsal = Rehearsal::start_at(script, args.port).await.map_err(|error| {
        let what = format!("cannot listen on port {} of 127.0.0.1", args.port);
        Failure::new(Exit::CouldNotLook, "rehearse.port", what)
            .because(&error)
            .with_hint("name another `--port`, or none for any that is free")
    })?;
    let mut seen = rehearsal.watch();
    tell(&rehearsal, &pointing, json, out)?;
    loop {
        tokio::select! {
            () = stop.told() => break,
            next = seen.recv() => match next {
                Ok(request) => out.remark(&shown(&request, json, args.show_content)),
                Err(RecvError::Lagged(missed)) => out.remark(&format!("{missed} requests came too fast to be shown")),
                Err(RecvError::Closed) => break,
            },
        }
    }
    // What was asked before the interruption is shown all the same.
    while let Ok(request) = seen.try_recv() {
        out.remark(&shown(&request, json, args.show_content));
    }
    let counters = rehearsal.counters();
    if !json {
        out.remark(&format!(
            "{} requests to the provider, {} messages sent",
            counters.provider.requests, counters.telegram.sent
        ));
    }
    Ok(Exit::Done)
}

/// Says that it is ready, and how a configuration points at it.
fn tell(rehearsal: &Rehearsal, pointing: &Pointing, json: bool, out: &mut Out) -> Result<(), Failure> {
    let (provider, telegram) = (&rehearsal.provider_url, &rehearsal.telegram_url);
    if json {
        let say = format!("{telegram}/rehearsal/say");
        let counters = format!("{telegram}/rehearsal/counters");
        out.json(&Ready { ready: true, provider, telegram, say, counters })?;
    } else {
        out.text(&pointing.text(provider, telegram))?;
    }
    Ok(out.flush()?)
}

/// Is what a script fixes of a configuration that points at it.
pub(crate) struct Pointing {
    /// The key that the provider wants.
    key: Option<String>,
    models: Vec<String>,
    token: String,
    username: String,
    /// The first chat in which something happens, and who is in it.
    pub(crate) chat: (i64, i64),
}

impl Pointing {
    pub(crate) fn of(script: &Script) -> Self {
        let (provider, telegram) = (&script.provider, &script.telegram);
        let mut people = telegram.updates.iter().filter_map(|scripted| match &scripted.item {
            Item::Message(message) => Some((message.chat, message.from)),
            Item::Edit { chat, from, .. } | Item::Reaction { chat, from, .. } => Some((*chat, *from)),
            Item::Raw(_) => None,
        });
        Self {
            key: provider.token.as_ref().map(|token| token.reveal().clone()),
            models: provider.models.clone(),
            token: telegram.token.reveal().clone(),
            username: telegram.bot.username.clone(),
            chat: people.next().unwrap_or((42, 42)),
        }
    }

    /// Writes the part of a configuration that points at a rehearsal, by the names that the shipped declarations use.
    pub(crate) fn config(&self, provider: &str, telegram: &str) -> String {
        let quoted = |text: &String| serde_json::Value::from(text.as_str()).to_string();
        let models: Vec<String> = self.models.iter().map(quoted).collect();
        let models = if models.is_empty() { "any-model".to_owned() } else { models.join(", ") };
        let credential = if self.key.is_some() { "\n    credential: local" } else { "" };
        let (Self { username, .. }, (chat, from)) = (self, self.chat);
        format!(
            "providers:\n  - name: local\n    endpoint: {provider}{credential}\n    models: [{models}]\n    toolModels: [{models}]\n\
             telegram:\n  - bot: bot\n    username: {username}\n    api: {telegram}\n    \
             credential: bot\n    chats: [\"{chat}\"]\n    senders: [\"{from}\"]\n    \
             directReplies: telegram-conversation\n"
        )
    }

    /// Returns the credentials that it names, each with what its file holds.
    pub(crate) fn credentials(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let key = self.key.iter().map(|key| ("local", key.as_str()));
        key.chain([("bot", self.token.as_str())])
    }

    fn text(&self, provider: &str, telegram: &str) -> String {
        let mut text = String::from(
            "A rehearsal: nothing leaves this machine. Put this into config.yaml, in place of `providers: []` and \
             `telegram: []`:\n\n",
        );
        text.push_str(&self.config(provider, telegram));
        text.push_str("\nand these files to credentials/ beside it, mode 0600:\n\n");
        for (name, secret) in self.credentials() {
            let secret = printable(secret);
            writeln!(text, "  {name:<6} {secret}").expect("writing to a String does not fail");
        }
        let said = serde_json::json!({ "chat": self.chat.0, "from": self.chat.1, "text": "hello" });
        writeln!(
            text,
            "\nThen write `enabled: true` into declarations/telegram-conversation.yaml, and start the service.\n\
             What it may ask to remember needs its folder too: `filesystem: telegram-agent-context` under `sources`, as \
             the comments of config.yaml show it.\n\n\
             Say something:  curl -d '{said}' {telegram}/rehearsal/say\n\
             What was asked: curl {telegram}/rehearsal/counters\n\
             Ctrl-C ends it.\n"
        )
        .expect("writing to a String does not fail");
        text
    }
}

/// Shows one request on one line.
fn shown(request: &Seen, json: bool, with_content: bool) -> String {
    let content = || {
        let text = String::from_utf8_lossy(request.content.reveal());
        excerpt(&text, CONTENT_CHARACTERS_MAX)
    };
    if json {
        let mut line = serde_json::json!({
            "side": request.side,
            "what": printable(&request.what),
            "rule": request.rule,
            "status": request.status,
            "bytesIn": request.bytes_in,
            "bytesOut": request.bytes_out,
            "brought": request.brought,
        });
        if with_content {
            line["content"] = content().into();
        }
        return thoughtstream_domain::text::json_printable(&line.to_string());
    }
    let rule = request.rule.as_ref().map(|rule| format!(" by {}", printable(rule))).unwrap_or_default();
    let left = if request.brought { "" } else { ", and the client left" };
    let line = format!(
        "{:<9} {:<16} {}{rule}, {} bytes in, {} out{left}",
        request.side,
        printable(&request.what),
        request.status,
        request.bytes_in,
        request.bytes_out,
    );
    if with_content && !request.content.reveal().is_empty() {
        format!("{line}\n  {}", content())
    } else {
        line
    }
}

/// Is how a person ends it.
struct Stop {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

impl Stop {
    fn listen() -> Result<Self, Failure> {
        let listen = |kind| {
            signal(kind).map_err(|error| {
                Failure::new(Exit::CouldNotLook, "rehearse.signal", "cannot listen to signals")
                    .because(&error)
            })
        };
        Ok(Self { interrupt: listen(SignalKind::interrupt())?, terminate: listen(SignalKind::terminate())? })
    }

    async fn told(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pointing(text: &str) -> Pointing {
        let script = Script::parse("script.yaml", text.as_bytes());
        Pointing::of(&script.unwrap_or_else(|problems| panic!("{}", render_all(&problems))))
    }

    #[test]
    fn a_person_is_told_which_lines_point_at_it() {
        insta::assert_snapshot!(pointing(EXAMPLE).text("http://127.0.0.1:7/v1", "http://127.0.0.1:7"), @r##"
        A rehearsal: nothing leaves this machine. Put this into config.yaml, in place of `providers: []` and `telegram: []`:

        providers:
          - name: local
            endpoint: http://127.0.0.1:7/v1
            models: ["smollm2-135m-instruct"]
            toolModels: ["smollm2-135m-instruct"]
        telegram:
          - bot: bot
            username: rehearsal_bot
            api: http://127.0.0.1:7
            credential: bot
            chats: ["42"]
            senders: ["42"]
            directReplies: telegram-conversation

        and these files to credentials/ beside it, mode 0600:

          bot    100000001:rehearsal

        Then write `enabled: true` into declarations/telegram-conversation.yaml, and start the service.
        What it may ask to remember needs its folder too: `filesystem: telegram-agent-context` under `sources`, as the comments of config.yaml show it.

        Say something:  curl -d '{"chat":42,"from":42,"text":"hello"}' http://127.0.0.1:7/rehearsal/say
        What was asked: curl http://127.0.0.1:7/rehearsal/counters
        Ctrl-C ends it.
        "##);
        let bare = pointing("").config("http://127.0.0.1:7/v1", "http://127.0.0.1:7");
        assert!(!bare.contains("credential: local\n") && bare.contains("models: [any-model]"), "{bare}");
        let keyed = pointing("provider: { token: k1 }").text("http://127.0.0.1:7/v1", "http://127.0.0.1:7");
        assert!(keyed.contains("    credential: local\n") && keyed.contains("  local  k1\n"), "{keyed}");
    }
    #[test]
    fn the_lines_are_a_configuration() {
        for script in [EXAMPLE, "", "provider: { token: k1 }"] {
            let lines = pointing(script).config("http://127.0.0.1:7/v1", "http://127.0.0.1:7");
            let read = crate::config::parse("config.yaml", lines.as_bytes(), None);
            let config = read.unwrap_or_else(|problems| panic!("{}", render_all(&problems)));
            assert_eq!((config.providers.len(), config.bots.len()), (1, 1));
        }
    }
}
