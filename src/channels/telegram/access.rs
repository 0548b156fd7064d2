//! How a bot is reached: where, and with which credential, which is read when it is needed and kept by nobody.

use std::fmt;
use std::sync::Arc;

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
        let token = Token::new(&(self.credential)()?).map_err(|_| "credential-malformed")?;
        Client::new(self.base.clone(), token).map_err(|_| "no-tls")
    }
}

impl fmt::Debug for BotApi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BotApi").field("base", &self.base).finish_non_exhaustive()
    }
}
