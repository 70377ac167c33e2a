//! Counts and reports what the ScyllaDB driver says about connections, nodes and the cluster's
//! events.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use scylla::errors::{BrokenConnectionError, ConnectionError};
use scylla::{HostEvent, HostEventContext, HostListener, Traffic, Watch};

use crate::error::{ErrorKind, not_connected, shown, why_broken};
use crate::telemetry::counters::Telemetry;
use crate::telemetry::events::Event;

/// Listens to the ScyllaDB driver for one session.
pub(crate) struct Watcher(pub(crate) Arc<Telemetry>);

impl Watcher {
    fn report(&self, event: Event) {
        self.0.report(event);
    }
}

impl Watch for Watcher {
    fn connecting(&self, at: SocketAddr) -> Arc<Traffic> {
        Arc::clone(&self.0.node(at).traffic)
    }

    fn opened(&self, at: SocketAddr, control: bool, error: Option<&ConnectionError>) {
        let node = self.0.node(at);
        let Some(error) = error else {
            node.connections.fetch_add(1, Ordering::Relaxed);
            node.opened.fetch_add(1, Ordering::Relaxed);
            let again = node.is_failing.swap(false, Ordering::Relaxed);
            node.refuses_credentials.store(false, Ordering::Relaxed);
            node.has_left.store(false, Ordering::Relaxed);
            if control {
                self.0.has_control();
            }
            let event = Event::new("connection opened", Some(at));
            return self.report(event.flag("control", control).flag("again", again));
        };
        node.refused.fetch_add(1, Ordering::Relaxed);
        let (kind, reason) = not_connected(error);
        let mut repeated = node.fails(control);
        if kind == ErrorKind::Authentication {
            // `is_failing` is also true if a connection was lost just before, without a refusal of
            // the credentials. So this refusal is a repetition only if `refuses_credentials` is
            // already true.
            repeated = node.refuses_credentials.swap(true, Ordering::Relaxed);
        }
        let event = Event::new("connection failed", Some(at))
            .flag("control", control)
            .flag("repeated", repeated)
            .flag("authentication", kind == ErrorKind::Authentication)
            .text("reason", reason);
        self.report(event);
    }

    fn ended(&self, at: SocketAddr, control: bool, error: Option<&BrokenConnectionError>) {
        let Some(node) = self.0.known_node(at) else { return };
        node.connections.fetch_sub(1, Ordering::Relaxed);
        let Some(error) = error else {
            let event = Event::new("connection closed", Some(at)).flag("control", control);
            return self.report(event);
        };
        node.lost.fetch_add(1, Ordering::Relaxed);
        let repeated = node.fails(control);
        let event = Event::new("connection lost", Some(at))
            .flag("control", control)
            .flag("repeated", repeated)
            .text("reason", why_broken(error));
        self.report(event);
    }

    fn prepared_again(&self, at: SocketAddr, statement: &str) {
        self.0.prepared_again.fetch_add(1, Ordering::Relaxed);
        self.report(Event::new("prepared again", Some(at)).text("statement", shown(statement)));
    }

    fn event(&self, at: SocketAddr, event: &scylla::ServerEvent) {
        use scylla::ServerEvent::{SchemaChange, StatusChange, TopologyChange};
        use scylla::StatusChangeEvent::{Down, Up};
        let event = match event {
            SchemaChange(change) => schema_event(at, change),
            StatusChange(Up(node)) => Event::new("node reported up", Some(*node)),
            StatusChange(Down(node)) => Event::new("node reported down", Some(*node)),
            // After this event, the ScyllaDB driver reads the nodes, and calls `on_event` for the
            // nodes that were added or removed.
            TopologyChange(_) => return,
            _ => return,
        };
        self.report(event);
    }
}

/// The event for a change of the schema, which the node `at` has reported.
fn schema_event(at: SocketAddr, change: &scylla::SchemaChangeEvent) -> Event {
    use scylla::SchemaChangeEvent::{
        AggregateChange, FunctionChange, KeyspaceChange, TableChange, TypeChange,
    };
    let (what, how, keyspace, name) = match change {
        KeyspaceChange { change_type, keyspace_name } => {
            ("keyspace", change_type, keyspace_name, None)
        }
        TableChange { change_type, keyspace_name, object_name } => {
            ("table", change_type, keyspace_name, Some(object_name))
        }
        TypeChange { change_type, keyspace_name, type_name } => {
            ("type", change_type, keyspace_name, Some(type_name))
        }
        FunctionChange { change_type, keyspace_name, function_name, .. } => {
            ("function", change_type, keyspace_name, Some(function_name))
        }
        AggregateChange { change_type, keyspace_name, aggregate_name, .. } => {
            ("aggregate", change_type, keyspace_name, Some(aggregate_name))
        }
    };
    let how = format!("{how:?}").to_ascii_lowercase();
    let event = Event::new("schema changed", Some(at))
        .text("change", how)
        .text("target", what)
        .text("keyspace", keyspace);
    match name {
        Some(name) => event.text("object", name),
        None => event,
    }
}

impl HostListener for Watcher {
    fn on_event(&self, context: &HostEventContext, event: &HostEvent) {
        let at = context.addr();
        let event = match event {
            HostEvent::Added => Event::new("node added", Some(at)),
            HostEvent::Removed => {
                self.0.leaves(at);
                Event::new("node removed", Some(at))
            }
            HostEvent::AddressChanged { old_address, .. } => {
                self.0.leaves(*old_address);
                Event::new("node moved", Some(at)).text("was", old_address.to_string())
            }
            HostEvent::Up => Event::new("node up", Some(at)),
            HostEvent::Down => Event::new("node down", Some(at)),
            _ => return,
        };
        let event = event.text("host_id", context.host_id().to_string());
        self.report(event.flag("first", !self.0.is_open()));
    }
}
