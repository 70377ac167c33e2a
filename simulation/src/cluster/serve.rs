//! Serves a node's connections: reads requests, and answers each when its work is done.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::join_all;
use tokio::io::{AsyncReadExt, AsyncWriteExt, split};
use tokio::sync::mpsc;

use super::statements::{BURST, KEYSPACES, Kind, id, table_name, written_by};
use super::wire::{self, HEADER, Parameters, Reader, Type, frame_with, opcode, put_text};
use super::{Cluster, PASSWORD, Refused, State, USER, store, system_tables};
use crate::network::Stream;

/// The body of a RESULT of the kind Void.
const VOID: [u8; 4] = 1i32.to_be_bytes();

/// A connection of a node.
#[derive(Clone)]
struct Connection {
    cluster: Cluster,
    node: usize,
    shard: u16,
    answers: mpsc::UnboundedSender<Vec<u8>>,
    /// The index of the keyspace in use, in [`KEYSPACES`]. Before the first `USE`, the length of
    /// `KEYSPACES`.
    keyspace: Arc<AtomicUsize>,
}

/// Serves a connection of a node until the client closes it.
pub async fn serve(cluster: Cluster, (node, shard): (usize, u16), stream: Stream) {
    let note_control = stream.control_mark();
    let (mut reader, mut writer) = split(stream);
    let (answers, mut ready) = mpsc::unbounded_channel::<Vec<u8>>();
    let written = {
        let cluster = cluster.clone();
        async move {
            while let Some(bytes) = ready.recv().await {
                cluster.shard_running((node, shard)).await;
                if writer.write_all(&bytes).await.is_err() {
                    return;
                }
            }
        }
    };
    let keyspace = Arc::new(AtomicUsize::new(KEYSPACES.len()));
    let connection = Connection { cluster: cluster.clone(), node, shard, answers, keyspace };
    let read = async {
        loop {
            let mut header = [0; HEADER];
            if reader.read_exact(&mut header).await.is_err() {
                return;
            }
            let length = u32::from_be_bytes(header[5..].try_into().unwrap());
            let mut body = vec![0; length as usize];
            if reader.read_exact(&mut body).await.is_err() {
                return;
            }
            cluster.shard_running((node, shard)).await;
            if header[4] == opcode::REGISTER {
                let events = Reader(&body).texts();
                let all = ["STATUS_CHANGE", "TOPOLOGY_CHANGE", "SCHEMA_CHANGE"];
                assert!(all.iter().all(|of| events.contains(of)), "REGISTER asks for {events:?}");
                note_control();
            }
            let stream = i16::from_be_bytes([header[2], header[3]]);
            cluster.spawn(node, connection.clone().answer(stream, header[4], body));
        }
    };
    tokio::select! {
        biased;
        () = read => {}
        () = written => {}
    }
}

/// The body of a RESULT, or the body of an ERROR.
type Answer = Result<Vec<u8>, Vec<u8>>;

impl Connection {
    async fn answer(self, stream: i16, code: u8, body: Vec<u8>) {
        let (cluster, node) = (&self.cluster, self.node);
        let at = (node, self.shard);
        cluster.handle(at, None).await;
        let mut payload = None;
        let (opcode, body) = match code {
            opcode::OPTIONS => (opcode::SUPPORTED, self.supported()),
            opcode::STARTUP if cluster.has_logins() => {
                let mut body = Vec::new();
                put_text(&mut body, "org.apache.cassandra.auth.PasswordAuthenticator");
                (opcode::AUTHENTICATE, body)
            }
            opcode::STARTUP => (opcode::READY, Vec::new()),
            opcode::AUTH_RESPONSE => match self.log_in(&body) {
                Ok(body) => (opcode::AUTH_SUCCESS, body),
                Err(error) => (opcode::ERROR, error),
            },
            opcode::REGISTER => {
                cluster.lock().nodes[node].subscribers.push(self.answers.clone());
                (opcode::READY, Vec::new())
            }
            _ => match self.request(code, &body, &mut payload).await {
                Ok(result) => (opcode::RESULT, result),
                Err(error) => (opcode::ERROR, error),
            },
        };
        cluster.shard_running(at).await;
        let payload = payload.filter(|_| opcode == opcode::RESULT);
        let _ = self.answers.send(frame_with(payload.as_deref(), stream, opcode, &body));
    }

    fn supported(&self) -> Vec<u8> {
        let mut options = vec![("CQL_VERSION", "3.4.7".to_owned()), ("COMPRESSION", String::new())];
        options.extend(self.cluster.lock().options(self.shard, self.node));
        let mut body = (options.len() as u16).to_be_bytes().to_vec();
        for (name, value) in options {
            put_text(&mut body, name);
            body.extend_from_slice(&1u16.to_be_bytes());
            put_text(&mut body, &value);
        }
        body
    }

    /// Records where an EXECUTE has arrived. Returns the custom payload for the client, if any.
    fn note_arrival(&self, text: &str, parameters: &Parameters) -> Option<Vec<u8>> {
        let kind = Kind::of(text).filter(|kind| !kind.markers(Type::Bigint).is_empty())?;
        // The program sends the requests of a burst to one node on purpose, even if this node is no
        // replica. So they are not recorded.
        if text == BURST {
            return None;
        }
        let key = wire::bigint(&parameters.values, 0);
        self.cluster.lock().note_arrival((self.node, self.shard), kind.table().1, key)
    }

    fn log_in(&self, body: &[u8]) -> Answer {
        let expected = format!("\0{USER}\0{PASSWORD}");
        let is_right = Reader(body).bytes() == Some(expected.as_bytes());
        let mut state = self.cluster.lock();
        let code = state.nodes[self.node].refuses_logins;
        if code.is_some() {
            state.note_refusal(self.node, Refused::Login);
        }
        match code {
            Some(code) => Err(wire::error(code, "logins are refused for now", &[])),
            None if is_right => Ok((-1i32).to_be_bytes().to_vec()),
            None => Err(wire::error(0x0100, "wrong name or password", &[])),
        }
    }

    /// Answers a request. Sets `payload` to the custom payload of the answer.
    async fn request(&self, code: u8, body: &[u8], payload: &mut Option<Vec<u8>>) -> Answer {
        let mut reader = Reader(body);
        match code {
            opcode::PREPARE => self.prepare(reader.long_text()),
            opcode::EXECUTE => {
                let text = self.prepared(reader.short_bytes())?;
                let parameters = reader.parameters();
                *payload = self.note_arrival(&text, &parameters);
                self.execute(&text, &parameters).await
            }
            opcode::QUERY => {
                let text = reader.long_text().to_owned();
                self.execute(&text, &reader.parameters()).await
            }
            opcode::BATCH => self.batch(reader).await,
            _ => Err(unknown(&format!("opcode {code}"))),
        }
    }

    fn prepare(&self, text: &str) -> Answer {
        let kind = Kind::of(text).ok_or_else(|| unknown(text))?;
        let mut state = self.cluster.lock();
        if kind == Kind::System {
            refuse_scylla_tables(&state, text)?;
        }
        state.note_prepare(self.node, text);
        let node = &mut state.nodes[self.node];
        if !node.is_cache_full {
            node.prepared.insert(id(text), text.to_owned());
        }
        let markers = kind.markers(state.remade.0);
        let columns = match kind {
            Kind::System => system_tables::read(&state, self.node, text).0,
            _ => kind.columns(),
        };
        Ok(wire::prepared(&id(text), kind.table(), &markers, kind.key(), &columns))
    }

    /// Returns the text of a prepared statement, or an ERROR if the node does not know it.
    fn prepared(&self, id: &[u8]) -> Result<String, Vec<u8>> {
        let mut state = self.cluster.lock();
        let text = state.nodes[self.node].prepared.get(id).cloned();
        text.ok_or_else(|| {
            // A refused read of a system table is not noted, because the session does not count how
            // often the reads of its control connection are prepared again.
            if !state.is_system_read(id) {
                state.note_refusal(self.node, Refused::Unprepared);
            }
            let mut more = Vec::new();
            wire::put_short_bytes(&mut more, id);
            wire::error(0x2500, "Prepared query not found", &more)
        })
    }

    async fn batch(&self, mut reader: Reader<'_>) -> Answer {
        let is_logged = reader.u8() == 0;
        let count = reader.u16();
        let (mut writes, mut value_of_batch) = (Vec::new(), None);
        for _ in 0..count {
            let text = match reader.u8() {
                0 => Ok(reader.long_text().to_owned()),
                _ => Err(reader.short_bytes()),
            };
            let values = reader.values();
            // The first entry is `WRITE`, and no other batch has its value.
            let value = *value_of_batch.get_or_insert_with(|| wire::bigint(&values, 1));
            let text = text.or_else(|id| {
                let text = self.prepared(id);
                text.inspect_err(|_| self.cluster.lock().note_refused_batch(value))
            })?;
            writes.push(written_by(&text, &values).ok_or_else(|| unknown(&text))?);
        }
        let parameters = reader.parameters();
        self.refuse_if_overloaded()?;
        let (time, consistency) = (parameters.timestamp, parameters.consistency);
        // If a logged batch is answered with "unavailable", no part of it may be carried out. An
        // unlogged batch is carried out up to the first key that lacks replicas.
        let check = |(key, _): &(i64, i64)| self.cluster.replicas(self.node, *key, consistency);
        let available = writes.iter().take_while(|write| check(write).is_ok()).count();
        let refused = writes.get(available).and_then(|write| check(write).err());
        if refused.is_some() {
            writes.truncate(if is_logged { 0 } else { available });
        }
        let (cluster, node) = (self.cluster.clone(), self.node);
        let written = async move {
            let write = |(key, value)| cluster.write(node, key, value, time, consistency);
            join_all(writes.into_iter().map(write)).await.into_iter().collect::<Result<(), _>>()
        };
        if let Some(refused) = refused {
            self.cluster.spawn(self.node, async move { drop(written.await) });
            return Err(refused);
        }
        written.await?;
        Ok(VOID.to_vec())
    }

    fn refuse_if_overloaded(&self) -> Result<(), Vec<u8>> {
        let mut state = self.cluster.lock();
        if !state.nodes[self.node].is_overloaded {
            return Ok(());
        }
        state.note_refusal(self.node, Refused::Overloaded);
        Err(wire::error(0x1001, "Request has been shed", &[]))
    }

    async fn execute(&self, text: &str, parameters: &Parameters) -> Answer {
        let (cluster, node) = (&self.cluster, self.node);
        let kind = Kind::of(text).ok_or_else(|| unknown(text))?;
        let cell = |value: i64| Some(value.to_be_bytes().to_vec());
        let consistency = parameters.consistency;
        let bigint = |index: usize| wire::bigint(&parameters.values, index);
        match kind {
            // An overloaded node still answers the driver's own requests. The session's figures do
            // not count these requests. So if the node refused one, the figures would not agree
            // with the number of refusals.
            Kind::System | Kind::Use => {}
            // For some claims, an overloaded node answers with an error after it has carried them
            // out. In Cassandra, Paxos may start another round after replicas have accepted a
            // proposal. The read of the row in this round may then time out.
            Kind::Claim if cluster.lock().nodes[node].is_overloaded && bigint(1) % 2 == 0 => {
                cluster.claim(node, bigint(0), bigint(1)).await?;
                cluster.lock().note_refusal(node, Refused::Overloaded);
                let is_lost = bigint(1) % 4 == 0;
                return Err(if is_lost { store::lost_round() } else { store::failed_round() });
            }
            // For some writes, an error follows after they are carried out.
            Kind::Write if cluster.lock().nodes[node].is_overloaded && bigint(1) % 4 == 0 => {
                cluster
                    .write(node, bigint(0), bigint(1), parameters.timestamp, consistency)
                    .await?;
                cluster.lock().note_refusal(node, Refused::Overloaded);
                return Err(wire::error(0x0000, "java.lang.RuntimeException", &[]));
            }
            _ => self.refuse_if_overloaded()?,
        }
        match kind {
            Kind::Write => {
                let (key, value) = (bigint(0), bigint(1));
                cluster.write(node, key, value, parameters.timestamp, consistency).await?;
                Ok(VOID.to_vec())
            }
            Kind::Remade => {
                let value = parameters.values[1].as_deref().unwrap_or_default();
                cluster.lock().write_remade(value);
                Ok(VOID.to_vec())
            }
            Kind::Read => {
                let key = bigint(0);
                let value = cluster.read(node, key, consistency).await?;
                let row = value.map(|value| vec![cell(key), cell(value)]);
                let rows: Vec<_> = row.into_iter().collect();
                Ok(wire::rows(kind.table(), &kind.columns(), &rows, None))
            }
            Kind::Scan => {
                let after = parameters.paging.as_deref().map_or(-1, |state| {
                    i64::from_be_bytes(state.try_into().expect("a paging state of the model"))
                });
                let size = parameters.page_size.unwrap_or(i32::MAX) as usize;
                let (found, next) = cluster.page(node, after, size, consistency).await?;
                let rows: Vec<_> =
                    found.into_iter().map(|(key, value)| vec![cell(key), cell(value)]).collect();
                let next = next.map(i64::to_be_bytes);
                let next = next.as_ref().map(<[u8; 8]>::as_slice);
                Ok(wire::rows(kind.table(), &kind.columns(), &rows, next))
            }
            Kind::Claim => {
                let key = bigint(0);
                let other = cluster.claim(node, key, bigint(1)).await?;
                let mut columns = vec![("[applied]".to_owned(), Type::Boolean)];
                let mut row = vec![Some(vec![u8::from(other.is_none())])];
                if let Some(other) = other {
                    columns.extend(kind.markers(Type::Bigint));
                    row.extend([cell(key), cell(other)]);
                }
                Ok(wire::rows(kind.table(), &columns, &[row], None))
            }
            Kind::Create(number) => {
                cluster.change_schema(node, number);
                let mut body = 5i32.to_be_bytes().to_vec();
                wire::put_created(&mut body, &table_name(number));
                Ok(body)
            }
            Kind::Keyspace => {
                let keyspace = self.keyspace.load(Ordering::Relaxed);
                cluster.0.trace.line(|| format!("node {} reads in keyspace {keyspace}", node + 1));
                if keyspace == KEYSPACES.len() {
                    return Err(wire::error(0x2200, "No keyspace has been specified", &[]));
                }
                let row = vec![cell(keyspace as i64)];
                Ok(wire::rows((KEYSPACES[keyspace], "here"), &kind.columns(), &[row], None))
            }
            Kind::Use => {
                let name = text[4..].trim_matches('"');
                cluster.0.trace.line(|| format!("a connection of node {} uses {name}", node + 1));
                let index = KEYSPACES.iter().position(|keyspace| *keyspace == name);
                self.keyspace.store(index.ok_or_else(|| unknown(text))?, Ordering::Relaxed);
                let mut body = 3i32.to_be_bytes().to_vec();
                put_text(&mut body, name);
                Ok(body)
            }
            Kind::Reordered => Err(unknown(text)),
            Kind::System => {
                let state = cluster.lock();
                refuse_scylla_tables(&state, text)?;
                let (columns, rows) = system_tables::read(&state, node, text);
                Ok(wire::rows(("system", "local"), &columns, &rows, None))
            }
        }
    }
}

fn unknown(text: &str) -> Vec<u8> {
    wire::error(0x2000, &format!("not of the model: {text}"), &[])
}

/// Refuses reads of tables that only ScyllaDB has, except reads of `scylla_keyspaces` if the
/// cluster has tablets.
fn refuse_scylla_tables(state: &State, text: &str) -> Result<(), Vec<u8>> {
    let has_tablets = state.scylla.as_ref().is_some_and(|scylla| !scylla.tablets.is_empty());
    let is_there = has_tablets && text.contains(".scylla_keyspaces");
    match text.contains(".scylla_") && !is_there {
        true => Err(wire::error(0x2200, "unconfigured table", &[])),
        false => Ok(()),
    }
}
