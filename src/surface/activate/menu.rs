//! The menu of commands that a bot shows, and the notice that its help has changed.
//!
//! A menu is set and read back; setting it again changes nothing. A notice is a message: it is begun in the log before
//! the first byte and ended once, and one whose end nobody knows is not sent again.

use thoughtstream_actors::service::{ServiceHandle, last_activation};
use thoughtstream_channels::telegram::client::{CallError, Client};
use thoughtstream_domain::activation::{MenuEntry, menu, menu_hash};
use thoughtstream_domain::commit::{Commit, Precondition, Verdict};
use thoughtstream_domain::declaration::Declaration;
use thoughtstream_domain::event::{Actor, ActorKind, Envelope};
use thoughtstream_domain::id::{ConsumerKey, IdempotencyKey, SourceId};
use thoughtstream_domain::payload::TypedPayload as _;
use thoughtstream_domain::payload::activation::{HelpNotice, MenuRegistered, NoticeState};
use thoughtstream_domain::payload::telegram::ChatId;
use thoughtstream_domain::privacy::Privacy;
use thoughtstream_domain::proposal::Kind;
use thoughtstream_domain::{help, slash};

use crate::config::telegram::Bot;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::load::load;
use crate::operate::Done;
use crate::places::Places;

/// What a chat is told when the bot's help has changed.
const NOTICE: &str = "My help has changed: send /help to read it.";

/// Returns the menu of a bot that a version answers.
pub(crate) fn of(declaration: &Declaration) -> Vec<MenuEntry> {
    let model = declaration.runner().model();
    menu(model.is_some_and(|model| model.proposals.contains(&Kind::FocusDeclaration)))
}

/// Sets the menu of a bot, looks whether it stands, and writes that down.
///
/// # Errors
/// [`Failure`] if Telegram does not take it, or shows another one afterwards.
pub(crate) async fn register(
    service: &ServiceHandle,
    places: &Places,
    bot: &Bot,
    consumer: &ConsumerKey,
    entries: &[MenuEntry],
) -> Result<(), Failure> {
    let client = client(bot, places)?;
    client.set_menu(entries).await.map_err(|error| refused("setMyCommands", &error))?;
    let there = client.menu().await.map_err(|error| refused("getMyCommands", &error))?;
    if there != entries {
        return Err(Failure::new(
            Exit::Refused,
            "menu.other",
            "the bot shows another menu than the one it was given",
        )
        .with_hint("another program may set it, too"));
    }
    let menu = menu_hash(entries);
    let registered = MenuRegistered { bot: bot.source.clone(), consumer: consumer.clone(), menu };
    let key = format!("menu/{}/{consumer}/{menu}", bot.source.name());
    let candidate = registered.candidate(envelope(&key)?);
    recorded(service, Commit { appends: vec![candidate], ..Commit::default() }).await.map(|_| ())
}

/// Sets the menus of all bots whose version is ready, and tells their chats unless that is not wanted.
///
/// # Errors
/// [`Failure`] if a version is not ready, or as Telegram says.
pub(crate) async fn register_all(
    service: &ServiceHandle,
    places: &Places,
    skip_help_notice: bool,
) -> Result<Vec<Done>, Failure> {
    let there = places.clone();
    let loaded = tokio::task::spawn_blocking(move || load(&there)).await;
    let loaded = loaded.map_err(|_| Failure::new(Exit::Bug, "service.bug", "a load failed"))??;
    let answered: Vec<&Bot> = loaded.config.bots.iter().filter(|bot| bot.routes.direct.is_some()).collect();
    if answered.is_empty() {
        return Err(Failure::new(Exit::Refused, "menu.no-bot", "no bot is answered by a declaration"));
    }
    let mut done = Vec::new();
    for bot in answered {
        let (consumer, entries) = ready(service, bot).await?;
        register(service, places, bot, &consumer, &entries).await?;
        let mut note = None;
        if !skip_help_notice {
            note = Some(tell_chats(service, places, bot, &entries).await?);
        }
        let id = bot.source.to_string();
        done.push(Done { done: "menu registered".to_owned(), id, already: false, note, event: None });
    }
    Ok(done)
}

/// Returns the version that answers a bot, if it is ready: its actor runs what the log has registered, and no
/// activation is under way that still holds its bot back.
async fn ready(service: &ServiceHandle, bot: &Bot) -> Result<(ConsumerKey, Vec<MenuEntry>), Failure> {
    let not = |why: &str| {
        Failure::new(
            Exit::Refused,
            "menu.not-ready",
            format!("who answers {} is not ready: {why}", bot.source),
        )
        .with_hint("`thought status` shows it; a menu is set only once its version is ready")
    };
    let id = bot.routes.direct.clone().ok_or_else(|| not("nobody does"))?;
    let running = service.declarations();
    let declaration =
        running.get(&id).filter(|found| found.is_enabled()).ok_or_else(|| not("it is not enabled"))?;
    let (reader, consumer) = (service.reader(), id.clone());
    let last = tokio::task::spawn_blocking(move || last_activation(&reader, &consumer)).await;
    let last = last.map_err(|_| not("the log could not be read"))??;
    if last.is_some_and(|last| last.holds_back()) {
        return Err(not("it is being moved to another version"));
    }
    let loaded = service.loaded(&id, &bot.source).await.map_err(|_| not("it could not be looked at"))?;
    let loaded = loaded.ok_or_else(|| not("it is not enabled"))?;
    let holds = loaded.running
        && loaded.key == *declaration.key()
        && loaded.fingerprint == declaration.fingerprint()
        && loaded.registered == Some(loaded.fingerprint);
    if holds {
        Ok((loaded.key, of(declaration)))
    } else {
        Err(not("its actor does not run what is registered"))
    }
}

/// Tells each chat of a bot once for each text of the help and each menu; says what came of it.
async fn tell_chats(
    service: &ServiceHandle,
    places: &Places,
    bot: &Bot,
    entries: &[MenuEntry],
) -> Result<String, Failure> {
    let client = client(bot, places)?;
    let focus = entries.iter().any(|entry| entry.command == slash::FOCUS);
    let help = help::answer("/help", None, focus).map_or(0, |answer| answer.version);
    let (mut sent, mut passed) = (0, 0);
    for chat in &bot.routes.chats {
        let notice = HelpNotice {
            bot: bot.source.clone(),
            chat: *chat,
            help,
            menu: menu_hash(entries),
            state: NoticeState::Begun,
        };
        match tell(service, &client, &notice, *chat).await? {
            NoticeState::Sent => sent += 1,
            NoticeState::Begun | NoticeState::Failed | NoticeState::Unconfirmed => passed += 1,
        }
    }
    Ok(format!("{sent} chats were told that the help has changed, {passed} were not"))
}

/// Tells one chat. What was begun before is not sent again, whatever became of it.
async fn tell(
    service: &ServiceHandle,
    client: &Client,
    notice: &HelpNotice,
    chat: ChatId,
) -> Result<NoticeState, Failure> {
    let key =
        |what: &str| format!("notice/{}/{chat}/{}/{}/{what}", notice.bot.name(), notice.help, notice.menu);
    let begun = notice.candidate(envelope(&key("begun"))?);
    let (begun_key, kind) = (begun.envelope().key.clone(), HelpNotice::kind().name);
    let appends = vec![begun];
    if recorded(service, Commit { appends, ..Commit::default() }).await? == Recorded::Before {
        return Ok(NoticeState::Begun);
    }
    let state = match client.send(chat, NOTICE).await {
        Ok(_) => NoticeState::Sent,
        Err(CallError::NotSent { .. } | CallError::Refused { .. }) => NoticeState::Failed,
        Err(CallError::Unknown { .. }) => NoticeState::Unconfirmed,
    };
    let ended = HelpNotice { state, ..notice.clone() }.candidate(envelope(&key("ended"))?);
    let used = Precondition::KeyUsed { source: ended.envelope().source.clone(), kind, key: begun_key };
    recorded(service, Commit { preconditions: vec![used], appends: vec![ended], rows: Vec::new() }).await?;
    Ok(state)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Recorded {
    Now,
    Before,
}

async fn recorded(service: &ServiceHandle, commit: Commit) -> Result<Recorded, Failure> {
    let verdict = service.decide(commit).await;
    match verdict.map_err(|error| Failure::of(Exit::Unknown, "log.write", &error))? {
        Verdict::Committed(_) => Ok(Recorded::Now),
        Verdict::AlreadyCommitted(_) => Ok(Recorded::Before),
        Verdict::Conflict(conflict) => Err(Failure::of(Exit::Refused, "menu.conflict", &conflict)),
        Verdict::Refused(refusal) => Err(Failure::of(Exit::Refused, "menu.refused", &refusal)),
    }
}

fn envelope(key: &str) -> Result<Envelope, Failure> {
    let bug = |_| Failure::new(Exit::Bug, "menu.key", "a menu has no key");
    let source =
        SourceId::parse("system:menu").map_err(|_| Failure::new(Exit::Bug, "menu.source", "no source"))?;
    let key = IdempotencyKey::parse(key).map_err(bug)?;
    Ok(Envelope::new(source, key, Privacy::Private, Actor::ours(ActorKind::System, "menu")))
}

fn client(bot: &Bot, places: &Places) -> Result<Client, Failure> {
    crate::bots::api(bot, &places.config).client().map_err(|code| {
        Failure::new(
            Exit::CouldNotLook,
            "menu.credential",
            format!("{} cannot be reached: {code}", bot.source),
        )
        .with_hint("`thought doctor` says where its token should be")
    })
}

fn refused(method: &str, error: &CallError) -> Failure {
    let what = format!("Telegram did not take {method}");
    Failure::new(Exit::CouldNotLook, "menu.telegram", what)
        .because(error)
        .with_hint("run the same command again: setting a menu twice changes nothing")
}
