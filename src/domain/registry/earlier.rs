//! Definitions of shipped types as earlier builds had them, for logs that those builds wrote.
//!
//! A definition may change under its version in one way: it gains members that may be missing. What was
//! written before still fits then, so a log that names the earlier hash is read and written on. Any other
//! change is another version. Types that people register have no such past.

use super::Definition;
use crate::hash::Sha256Hash;

/// Holds the hashes under which a log may know one version of a type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hashes {
    /// The definition as it is now.
    pub current: Sha256Hash,
    /// The definitions it only added to, oldest first.
    pub earlier: Vec<Sha256Hash>,
}

impl Hashes {
    /// Returns the hashes of a definition, with those that this program knows it has grown from.
    pub(super) fn of(definition: &Definition) -> Self {
        let kind = definition.kind().to_string();
        let known = GROWN.iter().find(|(name, _)| *name == kind).map_or(&[][..], |(_, hashes)| hashes);
        let parse = |hash: &&str| Sha256Hash::parse(hash).expect("a test parses every one of them");
        Self { current: *definition.hash(), earlier: known.iter().map(parse).collect() }
    }

    /// Returns the hashes of a definition that has no past.
    #[must_use]
    pub const fn only(current: Sha256Hash) -> Self {
        Self { current, earlier: Vec::new() }
    }

    /// Says whether a log written with this definition may be written on.
    #[must_use]
    pub fn accept(&self, stored: &Sha256Hash) -> bool {
        self.current == *stored || self.earlier.contains(stored)
    }
}

/// The earlier definitions of each type that has grown, oldest first.
///
/// Whoever adds an optional member to a type moves the hash that the list of its tests has of it here.
const GROWN: &[(&str, &[&str])] = &[
    ("stream.thought.run.abandoned@1", &["4d256ba09bbbd270ce197e5a6aef3e75c08689ffd299d5bcda4599ce99871ed6"]),
    ("stream.thought.run.blocked@1", &["d4d01d85dbb24d896d2d92f290391d0528bc15869b3e1ae2b4434d36baa25d24"]),
    (
        "stream.thought.run.completed@1",
        &[
            "417715b357387427e7f559535a1083dd1defb6bc6354400151a699edbc2d25b0",
            "bc5857fcb20765236d6f35e4e3da3d48729066f3679e6f6f32935fb1cc674914",
        ],
    ),
    (
        "stream.thought.run.failed@1",
        &[
            "c1d0a43e7421ced24ad0ae10ea8edbc571dd18df5551933309bb589096a1f023",
            "7edea889eca1da606d35b7117c5d3dc9808d55227ebe93a39e6a66dca3c4844c",
        ],
    ),
    ("stream.thought.run.started@1", &["8391fe282766eeb339311fc2db5a4c3555729463cb4c9bc9ad85064f552663db"]),
    (
        "stream.thought.run.status-unknown@1",
        &["f01099acb0fd11fa330793c418b9cfbe19b64853b56ce1f807815d477cd7fedf"],
    ),
    (
        "stream.thought.judgment.training-example@2",
        &["b188db2a15ac41b394e367f49e9e8d15d3db39077f6195d2452cfe726aeac299"],
    ),
    (
        "stream.thought.system.declarations-loaded@1",
        &["892719a546983e1d95c060fdf4de6fdf58d224372f8cf74f35dcf9c46d8d9538"],
    ),
    (
        "stream.thought.system.stopped@1",
        &["b5af3d6dd784cf9e4d2f25bc7159a098b7163b587bfcadc6d8b2a3161e0b5b85"],
    ),
    // The same shape in other words: what a definition says of itself is part of it.
    (
        "stream.thought.system.activation.stepped@1",
        &["a32527a8fb2091f00f5442dc96ecc014993ec7fe9d6c31048bd0a1e0556e04aa"],
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Registry;

    /// The definitions as they are now. A change of one that logs may hold must not go unnoticed.
    const PINNED: &[(&str, &str)] = &[
        (
            "stream.thought.agent.correction.proposed@1",
            "1dd1fca50ebc3de9021de664f07cb7267bdd5636a60fb98fb581a197488b931d",
        ),
        (
            "stream.thought.agent.memory-change.materialization.failed@1",
            "3fde67e1218ce89fd80b01de31acb4655171d93452f72cc322c8b15fbafc7f0f",
        ),
        (
            "stream.thought.agent.memory-change.materialization.started@1",
            "bed42e8f7ad09f0471e6a4865c0b779d890aedc6a29a692feb8d6a0315bfc19b",
        ),
        (
            "stream.thought.agent.memory-change.materialized@1",
            "00812d60a014a47155133cd915b248560ff8dd8e73a271fffeb0bd75b45f2c40",
        ),
        (
            "stream.thought.agent.memory-change.proposed@1",
            "4410ab6ca1fecead8a39431b5dfea68c395057428c01ad110d9e0491ebe659d9",
        ),
        (
            "stream.thought.agent.proposal.decision@1",
            "ca0c6451fad76d6beb874b6e38c91aa1bdd3d4a5c74258c579b0e9f2b5602b9b",
        ),
        (
            "stream.thought.delivery.claimed@1",
            "adb0712c8f20cef771e95b7890af4d3551adc4b31b69d61eb017f7a6d0de5625",
        ),
        (
            "stream.thought.delivery.decided@1",
            "8136228d968ecc478f42be1130e4ef2d14df0c13ba69d00648afbcd0f8ccbfd7",
        ),
        (
            "stream.thought.delivery.delivered@1",
            "ca512b0b3684e856540b4660f85d1b6f466cd62158488aaefa80f3114f101aae",
        ),
        (
            "stream.thought.delivery.failed@1",
            "cad759409cf90cce5a5cc23b52259aefc44312e5efba20bbcc84d51ce173b7b0",
        ),
        (
            "stream.thought.delivery.unconfirmed@1",
            "1fbcc21badc92548532bba33f1474cad2cc48ed4a2a6d5fa9764583747d9e65e",
        ),
        (
            "stream.thought.derived.document.links@1",
            "eb791148c8c2b35aed8211c0967fbf17c94e90a2b44446a1fc0ee6faeb87cb7f",
        ),
        (
            "stream.thought.derived.document.metadata@1",
            "def4c66bfda013a10f15fc4aa5dd71a169e13b0e9e57025479f158c003dce315",
        ),
        (
            "stream.thought.derived.document.structure@1",
            "182f0b7877c543fc9242206272ada3e91de537a65404909b3788bc3d42f56591",
        ),
        (
            "stream.thought.derived.document.tasks@1",
            "3c51ebc65169acedff7e3e448e18ddbb6a14d3258404ce8da762da6d021b2f37",
        ),
        (
            "stream.thought.derived.message.observation@1",
            "e564139776d9d3abda7b189b487ca9aed645739be3231bb71fdb0148f0cf42a1",
        ),
        (
            "stream.thought.escalation.raised@1",
            "6a10991796221ad517a37b26ffedd0e81f242cec58e21783841ac391fd10ca4c",
        ),
        (
            "stream.thought.focus.declaration.proposed@1",
            "f433fdcdd0294704872cba21e98199138a84a4d35e32a5f20aed454a66d11e8e",
        ),
        (
            "stream.thought.inbox.postponed@1",
            "84b2a85baf105ff367f297eee3ab747fd12f29509f77ef4f48627d7073c568c0",
        ),
        (
            "stream.thought.judgment.training-example.retracted@1",
            "899a6a656d02d2b5c4b5b1d42ab4f262d80a77e36fb3c9e6c451bdc40c14941e",
        ),
        (
            "stream.thought.judgment.training-example@1",
            "e24653cc8b77a16b1a0c8edc56ead44c58a741da9352d5794abfb10365b5fa05",
        ),
        (
            "stream.thought.judgment.training-example@2",
            "badc45e15b2655ec1dc2e43f022e733adabcbc84e6de9e8ecdcb0838f89c4337",
        ),
        (
            "stream.thought.output.rejected@1",
            "40a3fb29dbb9868434005bb38c3afcf39081277b575276bccfa5ec80a6a28b3a",
        ),
        (
            "stream.thought.repair.proposed@1",
            "752f4972fee408bceb0074c23540d7706ea0c6ddab43a5b8c3daf0d18718eae1",
        ),
        (
            "stream.thought.repair.requested@1",
            "8cd3908c5b022bd051087873b8c8e6edab391b97c0ab4de8ed0913561c206598",
        ),
        (
            "stream.thought.run.abandoned@1",
            "88e50d1bd2dc17fdb130665fe451c7ce7b4046665e921ae89478fae07506eac5",
        ),
        ("stream.thought.run.blocked@1", "266c2977bfbea3ea9497a8b5dddda18dead4d6218a6ee5fb2ef1a67e2229191c"),
        (
            "stream.thought.run.completed@1",
            "c2906022cf761627ec30f6e13fe771dee29b199120e66d04da9b2d29174f0d0d",
        ),
        ("stream.thought.run.failed@1", "57d40ccd2d87e0e70945024ea9a9ab30e0298f99d32ffa2cddc5c0c1f2053e34"),
        ("stream.thought.run.received@1", "d5a5e6b9b9e8b87906304fd48487afff93babf6f0d010b5b26a5f5d0b4136d78"),
        ("stream.thought.run.started@1", "3353458cc8896b6a04b23e001be0bec9ce3ee2754a5a211bd6f2a9eb1aebe383"),
        (
            "stream.thought.run.status-unknown@1",
            "12afa468a91c6635955f68015c7aa9e65fbebfd67013897ffa99752ee653aa75",
        ),
        ("stream.thought.run.traced@1", "0cf93c1f4a08d335c5f1fdfe8d28eb266cf8928f7b5098a4a528ee87ae16ca8f"),
        (
            "stream.thought.source.file.added@1",
            "6661043678d2afee256421d954bb429705bc045df11aaf082faccbc6ed64a386",
        ),
        (
            "stream.thought.source.file.changed@1",
            "2c9c21f00b28746ff72482ad950c44dcd2913cbea1fa56d1bfef95060a437b8a",
        ),
        (
            "stream.thought.source.file.removed@1",
            "de7325fb2834710388447833708fd90a7b538c1fcd3c68ad8a584aa2de47db63",
        ),
        (
            "stream.thought.source.file.renamed@1",
            "a64f61ea407f374e3851c231753af7fbff080d478664e22abb154858aca0dfdc",
        ),
        ("stream.thought.source.note@1", "b7984de7a2ef5661b3170ca3dcafcc46817143e9652e8f6d0cb888c0217c014b"),
        (
            "stream.thought.source.telegram.correction@1",
            "9c6459ea6691c37cccec4733297703b3346fe5c5e2c206b7f0d0a176ec6c6302",
        ),
        (
            "stream.thought.source.telegram.message@1",
            "1347dddb4b4dff2d893174ad4e61a8818310781cdb051a0772a3bfe655aa0f3c",
        ),
        (
            "stream.thought.source.telegram.nonconversation@1",
            "73032abc230276e5b69833ae620f79ddd2af7dd228f3da718fb876ab31cf9e44",
        ),
        (
            "stream.thought.source.telegram.reaction@1",
            "61e847e43a3a040bb64eff0a6c7fe8a3df2e6ca0b52f0ae8c092e2598cb38349",
        ),
        (
            "stream.thought.system.activation.begun@1",
            "f35d085c1e9c06437a7ccda1e21480c2ab94de0edb09ad06e4344bf66363e262",
        ),
        (
            "stream.thought.system.activation.cancelled@1",
            "f82ba7a07e8fe50cdbc752e042bdb4a59e1fcf93b1863f79dc5b572fd1ed47a6",
        ),
        (
            "stream.thought.system.activation.stepped@1",
            "0d40e53f75dbf17489d3de0104fd0b63c947cea4f66cb3f8cd178d323f042eea",
        ),
        (
            "stream.thought.system.declarations-loaded@1",
            "b783302f265ec8a6b894ed05ec39b60ceccb8c629de3c00436c1b7b716e83a3a",
        ),
        (
            "stream.thought.system.incident@1",
            "1ae770bf759d0b9e9157aa4b88b138d9d0524fc6a4d5cc032fee0ef5d79d0580",
        ),
        (
            "stream.thought.system.menu.notice@1",
            "c78864f56ee5f13a5879be814bb32b2db2fd2cf94aaf5ddfd897d7b3e8467dd5",
        ),
        (
            "stream.thought.system.menu.registered@1",
            "386f71ba6a6b80b64a7766004d0c07d02a18f3c2ae565c45b340ccd90f51198e",
        ),
        (
            "stream.thought.system.paused@1",
            "243588c1c5fae43b5fd9ad48ed0f325cc688d9157296d5a514227316c5242f0a",
        ),
        (
            "stream.thought.system.quarantined@1",
            "620c4515612e8381391f1b275d1f22d9215240cb020c389e993a9656debe10c8",
        ),
        (
            "stream.thought.system.redacted@1",
            "c13c9e463b6c5a3a731f2198038caddd7279eb27831583ef7d56b587827cee00",
        ),
        (
            "stream.thought.system.removals-accepted@1",
            "b03a757f222580d6d958f289ad22cd053332dcd57e9b2a257c8d20e6ee6f6e2e",
        ),
        (
            "stream.thought.system.damage-skipped@1",
            "be28e57ad9d422fff1540561417b7767439292045ea04b5ac70839c902fbeb8a",
        ),
        (
            "stream.thought.system.restart-requested@1",
            "7d53694ff47c0c5c69abe26a157ed26d36ad9943a04c98e8c3baebae98246cba",
        ),
        (
            "stream.thought.system.restarted@1",
            "85fe03da0bf90d0dd89b43911c77dd0763a69753484d9a4ca30e4bf33f325e64",
        ),
        (
            "stream.thought.system.resumed@1",
            "92ebeec67f9f9537f07edb28e7c0f5fcb7ae57229902bdf64e5472820dd229ad",
        ),
        (
            "stream.thought.system.retry-requested@1",
            "f9324a90d7dba15be3bc3eec8a9e58318ad6a451443d025b4b940b573fa858fd",
        ),
        (
            "stream.thought.system.skipped@1",
            "02e3cf42d62e39fc21bfc81ff92c2e582e565367d89d9e7933e5033070174718",
        ),
        (
            "stream.thought.system.started@1",
            "aca9387c3758478bef7a8f7de15223e467a79bf4712a9e5a75a1b69861adf671",
        ),
        (
            "stream.thought.system.stopped@1",
            "0c02c4e890b388c3cd2f9871b762efe7bcd1517cd425ff24b6fc672318ada615",
        ),
    ];

    #[test]
    fn a_shipped_definition_changes_only_with_its_past_written_down() {
        let registry = Registry::shipped();
        let changed = PINNED.iter().filter_map(|(kind, pinned)| {
            let now = registry.resolve(kind).unwrap().hash().to_string();
            (now != *pinned).then(|| format!("{kind}: {pinned} is now {now}"))
        });
        let changed: Vec<String> = changed.collect();
        assert!(
            changed.is_empty(),
            "a definition that only gained optional members gets its new hash here and leaves the old one in GROWN; \
             any other change is another version of the type:\n{}",
            changed.join("\n")
        );
    }

    #[test]
    fn every_shipped_definition_is_held() {
        let registry = Registry::shipped();
        let held = |kind: &str| PINNED.iter().any(|(pinned, _)| *pinned == kind);
        let unheld = registry.definitions().filter(|definition| !held(&definition.kind().to_string()));
        let unheld: Vec<String> =
            unheld.map(|one| format!("(\"{}\", \"{}\"),", one.kind(), one.hash())).collect();
        assert!(unheld.is_empty(), "these belong into the list above:\n{}", unheld.join("\n"));
    }

    #[test]
    fn what_has_grown_names_its_past_once_and_never_its_present() {
        let registry = Registry::shipped();
        for (kind, earlier) in GROWN {
            let hashes = Hashes::of(registry.resolve(kind).unwrap());
            assert_eq!(hashes.earlier.len(), earlier.len(), "{kind}");
            assert!(!hashes.earlier.contains(&hashes.current), "{kind}");
            let distinct: std::collections::BTreeSet<_> = hashes.earlier.iter().collect();
            assert_eq!(distinct.len(), earlier.len(), "{kind}");
            assert!(hashes.accept(&hashes.current) && hashes.earlier.iter().all(|h| hashes.accept(h)));
            assert!(!hashes.accept(&Sha256Hash::of(b"another")));
            assert_eq!(GROWN.iter().filter(|(name, _)| name == kind).count(), 1);
            assert!(PINNED.iter().any(|(name, _)| name == kind), "{kind} is not pinned");
        }
    }
}
