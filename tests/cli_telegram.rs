//! A bot from its configuration on: what comes in, what is shown of it, and what never is.

use std::os::unix::fs::PermissionsExt as _;

use thoughtstream_channels::rehearsal::{Rehearsal, Script};

use super::cli_world::World;

const TOKEN: &str = "100000001:rehearsal";

fn configure(world: &World, telegram: &str, mode: u32) {
    let bot = format!(
        "telegram:\n  - bot: garden\n    api: {telegram}\n    credential: telegram-garden\n    chats: [\"7\"]\n    \
         senders: [\"7\"]\n    directReplies: talk\n"
    );
    std::fs::write(world.config.join("config.yaml"), bot).unwrap();
    let shipped =
        std::fs::read_to_string(world.config.join("declarations/telegram-conversation.yaml")).unwrap();
    let talk =
        shipped.replace("id: telegram-conversation", "id: talk").replace("telegram:bot", "telegram:garden");
    std::fs::write(world.config.join("declarations/talk.yaml"), talk).unwrap();
    let credentials = world.config.join("credentials");
    std::fs::create_dir_all(&credentials).unwrap();
    let file = credentials.join("telegram-garden");
    std::fs::write(&file, format!("{TOKEN}\n")).unwrap();
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_configured_bot_listens_and_its_token_is_never_shown() {
    let telegram = Rehearsal::start(Script::default()).await.unwrap();
    let world = World::with_config();
    configure(&world, &telegram.telegram_url, 0o600);
    let shown = tokio::task::spawn_blocking(move || {
        let running = world.serve(&[]);
        telegram.say(7, 8, "a stranger's secret");
        telegram.say(7, 7, "hello");
        let list = ["event", "list", "--source", "telegram:garden", "--json"];
        let list = world.until(&list, |answer| answer.lines().len() == 2);
        let kinds: Vec<_> = list.lines().iter().map(|event| event["type"].clone()).collect();
        assert_eq!(kinds[0], "stream.thought.source.telegram.nonconversation");
        assert_eq!(list.lines()[1]["payload"]["text"], "hello");
        assert!(!list.stdout.contains("secret"));
        let tree = world.thought(&["tree"]).expect(0);
        for child in ["telegram:garden", "dispatcher:garden", "feedback:garden"] {
            assert!(tree.stdout.contains(child), "{}", tree.stdout);
        }
        assert_eq!(world.thought(&["delivery", "list"]).expect(0).stdout, "nothing was delivered\n");
        let unknown = format!("dlv_{}", "a".repeat(32));
        world.thought(&["delivery", "show", &unknown]).expect(1);
        world.thought(&["delivery", "resend", &unknown]).expect(1);
        assert_eq!(world.thought(&["inbox"]).expect(0).stdout, "nothing waits\n");
        let consumers = world.thought(&["consumer", "list"]).expect(0);
        assert!(!consumers.stdout.contains("dispatcher"), "{}", consumers.stdout);
        assert_eq!(running.stop(), 0);
        world.thought(&["verify"]).expect(0);
        format!("{}{}{}", world.log(), tree.stdout, list.stdout)
    });
    assert!(!shown.await.unwrap().contains(TOKEN), "the token shows");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_that_is_replaced_is_used_without_a_restart() {
    let telegram = Rehearsal::start(Script::default()).await.unwrap();
    let world = World::with_config();
    configure(&world, &telegram.telegram_url, 0o600);
    let file = world.config.join("credentials/telegram-garden");
    std::fs::write(&file, "100000001:revoked").unwrap();
    tokio::task::spawn_blocking(move || {
        let running = world.serve(&[]);
        let refused = |answer: &super::cli_world::Answer| answer.stdout.contains("unauthorised");
        let inbox = world.until(&["inbox"], refused);
        assert!(inbox.stdout.contains("put the right one into its file"), "{}", inbox.stdout);
        assert!(inbox.stdout.contains("thought source look telegram:garden"), "{}", inbox.stdout);
        // From the fourth failure on it waits longer than this test does.
        let waits = |_: &super::cli_world::Answer| telegram.counters().telegram.unauthorized >= 4;
        world.until(&["tree"], waits);
        std::fs::write(&file, TOKEN).unwrap();
        telegram.say(7, 7, "hello");
        world.thought(&["source", "look", "telegram:garden"]).expect(0);
        let list = ["event", "list", "--source", "telegram:garden", "--json"];
        world.until(&list, |answer| answer.lines().len() == 1);
        world.until(&["inbox"], |answer| answer.stdout == "nothing waits\n");
        assert_eq!(running.stop(), 0);
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_wrong_with_asking_for_updates_is_over_once_a_bot_is_told_them() {
    moved_to_a_webhook(|_| String::new()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_wrong_with_asking_for_updates_is_over_once_telegram_has_taken_the_webhook() {
    moved_to_a_webhook(|listen| format!(", url: \"http://{listen}/garden\"")).await;
}

/// Lets a bot ask with a token that is wrong, then lets it be told at a webhook; `url` is what its settings say more.
async fn moved_to_a_webhook(url: fn(std::net::SocketAddr) -> String) {
    let telegram = Rehearsal::start(Script::default()).await.unwrap();
    let world = World::with_config();
    configure(&world, &telegram.telegram_url, 0o600);
    let credentials = world.config.join("credentials");
    std::fs::write(credentials.join("telegram-garden"), "100000001:revoked").unwrap();
    tokio::task::spawn_blocking(move || {
        let running = world.serve(&[]);
        let refused = |answer: &super::cli_world::Answer| answer.stdout.contains("unauthorised");
        world.until(&["inbox"], refused);
        assert_eq!(running.stop(), 0);
        let secret = credentials.join("secret");
        std::fs::write(&secret, "s3cret").unwrap();
        std::fs::set_permissions(secret, std::fs::Permissions::from_mode(0o600)).unwrap();
        let listen = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let config = world.config.join("config.yaml");
        let url = url(listen);
        let hook = format!(
            "    mode: webhook\n    webhook: {{ listen: \"{listen}\", secret: secret{url} }}\n    chats:"
        );
        let text = std::fs::read_to_string(&config).unwrap();
        std::fs::write(&config, text.replace("    chats:", &hook)).unwrap();
        let running = world.serve(&[]);
        if !url.is_empty() {
            // It is not over by listening alone: Telegram refuses the token still.
            world.until(&["tree"], |answer| answer.stdout.contains("webhook unauthorised"));
            world.until(&["inbox"], refused);
        }
        std::fs::write(credentials.join("telegram-garden"), TOKEN).unwrap();
        world.thought(&["source", "look", "telegram:garden"]).expect(0);
        world.until(&["inbox"], |answer| answer.stdout == "nothing waits\n");
        let set = telegram.counters().telegram.methods.get("setWebhook").copied().unwrap_or_default();
        assert_eq!(set > 0, !url.is_empty());
        assert_eq!(running.stop(), 0);
        world.thought(&["verify"]).expect(0);
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_that_others_can_read_is_not_used() {
    let telegram = Rehearsal::start(Script::default()).await.unwrap();
    let world = World::with_config();
    configure(&world, &telegram.telegram_url, 0o644);
    tokio::task::spawn_blocking(move || {
        let running = world.serve(&[]);
        let unusable = |answer: &super::cli_world::Answer| answer.stdout.contains("credential-unusable");
        world.until(&["tree"], unusable);
        assert!(telegram.counters().telegram.methods.is_empty());
        assert_eq!(running.stop(), 0);
    })
    .await
    .unwrap();
}

#[test]
fn who_is_to_answer_and_does_not_is_a_problem() {
    let world = World::with_config();
    let check = |replies: &str| {
        configure(&world, "http://127.0.0.1:9", 0o600);
        let config = world.config.join("config.yaml");
        let text = std::fs::read_to_string(&config).unwrap();
        std::fs::write(&config, text.replace("directReplies: talk", replies)).unwrap();
        world.thought(&["declaration", "check"])
    };
    check("directReplies: talk").expect(0);
    for nobody in ["tlak", "document-links", "telegram-conversation"] {
        let answer = check(&format!("directReplies: {nobody}")).expect(2);
        assert!(answer.stdout.contains("config.direct-replies"), "{}{}", answer.stdout, answer.stderr);
    }
}
