//! Lets code outside this crate authenticate connections. That code may block.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use scylla::authentication::{AuthError, AuthenticatorProvider, AuthenticatorSession};

/// Begins the authentication of a connection. Called on a thread that may block.
pub trait Authenticate: Send + Sync {
    /// `mechanism` is the authenticator class that the server names.
    fn begin(&self, mechanism: &str) -> Result<Box<dyn Conversation>, String>;
}

/// The authentication of one connection. Called on threads that may block.
pub trait Conversation: Send {
    /// Returns the client's first message, if there is one.
    fn first(&mut self) -> Result<Option<Vec<u8>>, String>;

    /// Returns the answer to a challenge.
    fn answer(&mut self, challenge: Option<Vec<u8>>) -> Result<Option<Vec<u8>>, String>;

    /// Called when the server has accepted the client.
    fn accepted(&mut self, token: Option<Vec<u8>>) -> Result<(), String>;
}

/// Adapts an [`Authenticate`] to the interface of the ScyllaDB driver.
pub(crate) struct Provider(pub(crate) Arc<dyn Authenticate>);

#[async_trait]
impl AuthenticatorProvider for Provider {
    async fn start_authentication_session(
        &self,
        mechanism: &str,
    ) -> Result<(Option<Vec<u8>>, Box<dyn AuthenticatorSession>), AuthError> {
        let (authenticate, mechanism) = (Arc::clone(&self.0), mechanism.to_owned());
        let begun = tokio::task::spawn_blocking(move || -> Result<_, AuthError> {
            let mut conversation = authenticate.begin(&mechanism)?;
            Ok((conversation.first()?, conversation))
        });
        let (first, conversation) = begun.await.map_err(|error| error.to_string())??;
        Ok((first, Box::new(Session(Mutex::new(Some(conversation))))))
    }
}

/// A conversation. The value is `None` while another thread uses the conversation, and after a
/// panic on that thread.
struct Session(Mutex<Option<Box<dyn Conversation>>>);

impl Session {
    async fn with<T: Send + 'static>(
        &mut self,
        say: impl FnOnce(&mut dyn Conversation) -> Result<T, String> + Send + 'static,
    ) -> Result<T, AuthError> {
        let slot = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        let mut conversation = slot.take().ok_or("the authentication failed at an earlier step")?;
        let answer = tokio::task::spawn_blocking(move || {
            let answer = say(&mut *conversation);
            (answer, conversation)
        });
        let (answer, conversation) = answer.await.map_err(|error| error.to_string())?;
        *self.0.get_mut().unwrap_or_else(PoisonError::into_inner) = Some(conversation);
        answer
    }
}

#[async_trait]
impl AuthenticatorSession for Session {
    async fn evaluate_challenge(
        &mut self,
        token: Option<&[u8]>,
    ) -> Result<Option<Vec<u8>>, AuthError> {
        let token = token.map(<[u8]>::to_vec);
        self.with(move |conversation| conversation.answer(token)).await
    }

    async fn success(&mut self, token: Option<&[u8]>) -> Result<(), AuthError> {
        let token = token.map(<[u8]>::to_vec);
        self.with(move |conversation| conversation.accepted(token)).await
    }
}
