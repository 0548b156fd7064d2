//! Looks at the providers: where each is, and how safely its credential lies. Nothing is sent.

use thoughtstream_channels::credential::{CredentialError, Credentials, Origin};
use thoughtstream_domain::provider::{CredentialName, Profile};

use super::{Check, Health, check};
use crate::load::load;
use crate::places::Places;
use crate::render::count;

/// Looks at each provider of the configuration; what is wrong with the configuration itself is said elsewhere.
#[must_use]
pub fn providers(places: &Places) -> Vec<Check> {
    let Ok(loaded) = load(places) else { return Vec::new() };
    let credentials = Credentials::of_process(&places.config);
    loaded.config.providers.iter().map(|profile| judged(profile, &credentials)).collect()
}

fn judged(profile: &Profile, credentials: &Credentials) -> Check {
    let id = format!("provider-{}", profile.name);
    let place = if profile.endpoint.is_this_machine() { "on this machine" } else { "encrypted" };
    let models = count(profile.models.len() as u64, "model");
    let seen = format!("{place}, {models}");
    let Some(name) = &profile.credential else {
        return if profile.endpoint.is_this_machine() {
            check(&id, Health::Ok, format!("{seen}, no credential"), None)
        } else {
            let fix = "name its key under `credential`, unless it really wants none";
            check(&id, Health::Advice, format!("{seen}, no credential for another machine"), Some(fix))
        };
    };
    match credentials.find(name, profile.credential_variable.as_deref()) {
        Ok(found) => match found.origin {
            Origin::Systemd => check(&id, Health::Ok, format!("{seen}, credential from systemd"), None),
            Origin::File => check(&id, Health::Ok, format!("{seen}, credential in a closed file"), None),
            Origin::Environment => {
                let fix = format!("move it into {} (mode 0600)", file(credentials, name));
                check(&id, Health::Advice, format!("{seen}, credential in the environment"), Some(&fix))
            }
        },
        Err(CredentialError::Missing) => {
            let fix = format!(
                "put it into {} (mode 0600); one that systemd hands to the service is not seen from here",
                file(credentials, name)
            );
            check(&id, Health::Advice, format!("{seen}, credential not found"), Some(&fix))
        }
        Err(error) => {
            let fix = match error {
                CredentialError::Open(_) => format!("chmod 600 {}", file(credentials, name)),
                CredentialError::Missing
                | CredentialError::Unreadable(_)
                | CredentialError::NotAFile
                | CredentialError::Owner(_)
                | CredentialError::Form => format!("write it anew into {}", file(credentials, name)),
            };
            let evidence = format!("{seen}, the credential is not used: {error}");
            check(&id, Health::Finding, evidence, Some(&fix))
        }
    }
}

fn file(credentials: &Credentials, name: &CredentialName) -> String {
    credentials.file(name).display().to_string()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use thoughtstream_domain::provider::{Endpoint, ProfileName};

    use super::*;

    fn seen(endpoint: &str, credential: Option<(&str, u32)>, variable: Option<&str>) -> (Health, String) {
        let base = tempfile::tempdir().unwrap();
        let endpoint = Endpoint::parse(endpoint).unwrap();
        let mut profile =
            Profile::new(ProfileName::parse("p").unwrap(), endpoint, [String::from("m")].into());
        if let Some((text, mode)) = credential {
            profile.credential = CredentialName::parse("key");
            let path = base.path().join("key");
            if !text.is_empty() {
                std::fs::write(&path, text).unwrap();
                std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
            }
        }
        profile.credential_variable = variable.map(str::to_owned);
        let check = judged(&profile, &Credentials::new(None, base.path().to_owned()));
        let said = format!("{check:?}");
        assert!(!said.contains("sk-test") && !said.contains(env!("CARGO_PKG_NAME")), "{said}");
        (check.status, check.evidence)
    }

    #[test]
    fn each_provider_says_how_safely_its_credential_lies() {
        let remote = "https://api.example.org/v1";
        assert_eq!(seen("http://127.0.0.1:1", None, None).0, Health::Ok);
        assert_eq!(seen(remote, None, None).0, Health::Advice);
        assert_eq!(seen(remote, Some(("sk-test", 0o600)), None).0, Health::Ok);
        assert_eq!(seen(remote, Some(("sk-test", 0o644)), None).0, Health::Finding);
        assert_eq!(seen(remote, Some(("sk-test 1", 0o600)), None).0, Health::Finding);
        assert_eq!(seen(remote, Some(("", 0)), None).0, Health::Advice);
        let (health, evidence) = seen(remote, Some(("", 0)), Some("CARGO_PKG_NAME"));
        assert_eq!(health, Health::Advice);
        assert!(evidence.ends_with("credential in the environment"), "{evidence}");
    }
}
