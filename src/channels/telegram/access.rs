//! How a bot is reached: where, and with which credential, which is read when it is needed and kept by nobody.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use secrecy::SecretString;

use super::client::{ApiBase, Client, Token};

/// Reads a credential; the code says why there is none.
pub type Credential = Arc<dyn Fn() -> Result<SecretString, &'static str> + Send + Sync>;

/// Says where a bot's API is and what opens it.
#[derive(Clone)]
pub struct BotApi {
    /// Where.
    pub base: ApiBase,
    /// What opens it.
    pub credential: Credential,
}

impl BotApi {
    /// Makes a client with the credential as it is now.
    ///
    /// # Errors
    /// The code of what is missing.
    pub fn client(&self) -> Result<Client, &'static str> {
        Client::new(self.base.clone(), self.token()?).map_err(|_| "no-tls")
    }

    fn token(&self) -> Result<Token, &'static str> {
        Token::new(&(self.credential)()?).map_err(|_| "credential-malformed")
    }
}

impl fmt::Debug for BotApi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BotApi").field("base", &self.base).finish_non_exhaustive()
    }
}

/// Reaches a bot for as long as the service runs, with the credential as it is at each request: a token that was
/// replaced is used from the next one on. Clones share what they have found.
#[derive(Debug, Clone)]
pub struct Reached {
    api: BotApi,
    last: Arc<Mutex<Client>>,
}

impl Reached {
    /// Begins with the credential as it is now.
    ///
    /// # Errors
    /// The code of what is missing.
    pub fn open(api: BotApi) -> Result<Self, &'static str> {
        let last = Arc::new(Mutex::new(api.client()?));
        Ok(Self { api, last })
    }

    /// Returns the client for the next request. A credential that cannot be read just now leaves the one before in
    /// use: whoever replaces a file may be in the middle of it.
    pub async fn client(&self) -> Client {
        let reached = self.clone();
        let read = tokio::task::spawn_blocking(move || reached.look()).await;
        read.unwrap_or_else(|_| self.last.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }

    fn look(&self) -> Client {
        let token = self.api.token();
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Ok(token) = token
            && !last.is_opened_by(&token)
            && let Ok(client) = Client::new(self.api.base.clone(), token)
        {
            *last = client;
        }
        last.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::super::client::ApiBase;
    use super::*;

    #[tokio::test]
    async fn a_token_is_read_for_each_request_and_one_that_cannot_be_read_leaves_the_one_before() {
        let file = Arc::new(Mutex::new(Err("credential-missing")));
        let read = Arc::clone(&file);
        let credential: Credential =
            Arc::new(move || (*read.lock().unwrap()).map(|text: &str| SecretString::from(text)));
        let api = BotApi { base: ApiBase::parse("http://127.0.0.1:9").unwrap(), credential };
        assert_eq!(Reached::open(api.clone()).unwrap_err(), "credential-missing");
        let token = |text: &str| Token::new(&text.to_owned().into()).unwrap();
        *file.lock().unwrap() = Ok("1:wrong");
        let reached = Reached::open(api).unwrap();
        for unreadable in [Ok("1:right"), Err("credential-unusable"), Ok("no token")] {
            *file.lock().unwrap() = unreadable;
            assert!(reached.client().await.is_opened_by(&token("1:right")), "{unreadable:?}");
        }
        assert!(!reached.client().await.is_opened_by(&token("1:wrong")));
    }
}
