//! Recognizes statements that change the schema or the keyspace.

use std::sync::Arc;

use turbocql_engine::is_one_of;

use crate::classes::session::state::SessionState;

impl SessionState {
    /// Returns a guard if the statement changes the schema, and `None` otherwise.
    pub fn changing(self: &Arc<Self>, text: &str) -> Option<SchemaChange> {
        changes_schema(text).then(|| SchemaChange(self.clone()))
    }
}

/// A guard for a statement in flight that changes the schema. When the statement ends, with any
/// outcome, the guard empties the cache of prepared statements. The server gives a text the same id
/// before and after the change. So the id does not show that types have changed, and the cached
/// statements may be outdated.
pub struct SchemaChange(Arc<SessionState>);

impl Drop for SchemaChange {
    fn drop(&mut self) {
        self.0.clear_cache();
    }
}

pub fn changes_schema(text: &str) -> bool {
    is_one_of(text, &["CREATE", "ALTER", "DROP"])
}

/// Whether the text is a `USE`. A prepared `USE` would change the keyspace of one connection only.
pub fn changes_keyspace(text: &str) -> bool {
    is_one_of(text, &["USE"])
}
