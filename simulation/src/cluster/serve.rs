//! A node's connections: reads requests, answers each when it is done.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt, split};
use tokio::sync::mpsc;

use super::statements::{Kind, id};
use super::wire::{self, HEADER, Parameters, Reader, Type, frame, opcode, put_text};
use super::{Cluster, system_tables};
use crate::network::Stream;

/// The frame that tells clients that a node is up or down.
pub fn status_change(at: SocketAddr, is_up: bool) -> Vec<u8> {
    let mut body = Vec::new();
    put_text(&mut body, "STATUS_CHANGE");
    put_text(&mut body, if is_up { "UP" } else { "DOWN" });
    wire::put_address(&mut body, at);
    frame(-1, opcode::EVENT, &body)
}

/// Serves a connection of a node until the client closes it.
pub async fn serve(cluster: Cluster, node: usize, stream: Stream) {
    let (mut reader, mut writer) = split(stream);
    let (answers, mut ready) = mpsc::unbounded_channel::<Vec<u8>>();
    let written = {
        let cluster = cluster.clone();
        async move {
            while let Some(bytes) = ready.recv().await {
                cluster.running(node).await;
                if writer.write_all(&bytes).await.is_err() {
                    return;
                }
            }
        }
    };
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
            cluster.running(node).await;
            let stream = i16::from_be_bytes([header[2], header[3]]);
            let (cluster, answers) = (cluster.clone(), answers.clone());
            let answer = answer(cluster.clone(), node, stream, header[4], body, answers);
            cluster.spawn(node, answer);
        }
    };
    tokio::select! {
        biased;
        () = read => {}
        () = written => {}
    }
}

async fn answer(
    cluster: Cluster,
    node: usize,
    stream: i16,
    code: u8,
    body: Vec<u8>,
    answers: mpsc::UnboundedSender<Vec<u8>>,
) {
    cluster.work(node, cluster.duration(20..400)).await;
    let (opcode, body) = match code {
        opcode::OPTIONS => (opcode::SUPPORTED, supported()),
        opcode::STARTUP => (opcode::READY, Vec::new()),
        opcode::REGISTER => {
            cluster.lock().nodes[node].subscribers.push(answers.clone());
            (opcode::READY, Vec::new())
        }
        _ => match request(&cluster, node, code, &body).await {
            Ok(result) => (opcode::RESULT, result),
            Err(error) => (opcode::ERROR, error),
        },
    };
    cluster.running(node).await;
    let _ = answers.send(frame(stream, opcode, &body));
}

fn supported() -> Vec<u8> {
    let mut body = 2u16.to_be_bytes().to_vec();
    for (name, value) in [("CQL_VERSION", "3.4.7"), ("COMPRESSION", "")] {
        put_text(&mut body, name);
        body.extend_from_slice(&1u16.to_be_bytes());
        put_text(&mut body, value);
    }
    body
}

async fn request(
    cluster: &Cluster,
    node: usize,
    code: u8,
    body: &[u8],
) -> Result<Vec<u8>, Vec<u8>> {
    let mut reader = Reader(body);
    let unknown = |text: &str| wire::error(0x2000, &format!("not of the model: {text}"), &[]);
    match code {
        opcode::PREPARE => {
            let text = reader.long_text();
            let kind = Kind::of(text).ok_or_else(|| unknown(text))?;
            if kind == Kind::System {
                refuse_scylla_tables(text)?;
            }
            cluster.lock().nodes[node].prepared.insert(id(text), text.to_owned());
            let markers = kind.markers();
            let key: &[u16] = if markers.is_empty() { &[] } else { &[0] };
            let columns = match kind {
                Kind::System => system_tables::read(&cluster.lock(), node, text).0,
                _ => kind.columns(),
            };
            Ok(wire::prepared(&id(text), kind.table(), &markers, key, &columns))
        }
        opcode::EXECUTE => {
            let of = reader.short_bytes();
            let (kind, text, is_overloaded) = {
                let state = cluster.lock();
                let text = state.nodes[node].prepared.get(of).ok_or_else(|| {
                    let mut more = Vec::new();
                    wire::put_short_bytes(&mut more, of);
                    wire::error(0x2500, "Prepared query not found", &more)
                })?;
                (Kind::of(text), text.clone(), state.nodes[node].is_overloaded)
            };
            if is_overloaded {
                return Err(wire::error(0x1001, "Request has been shed", &[]));
            }
            let kind = kind.expect("only a text of the model was prepared");
            if kind == Kind::System {
                let (columns, rows) = system_tables::read(&cluster.lock(), node, &text);
                return Ok(wire::rows(("system", "local"), &columns, &rows));
            }
            execute(cluster, node, kind, &reader.parameters()).await
        }
        opcode::QUERY => {
            let text = reader.long_text().to_owned();
            match Kind::of(&text) {
                Some(Kind::System) => {
                    refuse_scylla_tables(&text)?;
                    let (columns, rows) = system_tables::read(&cluster.lock(), node, &text);
                    Ok(wire::rows(("system", "local"), &columns, &rows))
                }
                Some(Kind::Use) => {
                    let mut body = 3i32.to_be_bytes().to_vec();
                    put_text(&mut body, text[4..].trim_matches('"'));
                    Ok(body)
                }
                Some(kind) => execute(cluster, node, kind, &reader.parameters()).await,
                None => Err(unknown(&text)),
            }
        }
        _ => Err(wire::error(0x000a, &format!("opcode {code} is not of the model"), &[])),
    }
}

/// The engine looks for tables that only ScyllaDB has.
fn refuse_scylla_tables(text: &str) -> Result<(), Vec<u8>> {
    match text.contains(".scylla_") {
        true => Err(wire::error(0x2200, "unconfigured table", &[])),
        false => Ok(()),
    }
}

async fn execute(
    cluster: &Cluster,
    node: usize,
    kind: Kind,
    parameters: &Parameters,
) -> Result<Vec<u8>, Vec<u8>> {
    let cell = |value: i64| Some(value.to_be_bytes().to_vec());
    let consistency = parameters.consistency;
    let key = parameters.bigint(0);
    match kind {
        Kind::Write => {
            let value = parameters.bigint(1);
            cluster.write(node, key, value, parameters.timestamp, consistency).await?;
            Ok(1i32.to_be_bytes().to_vec())
        }
        Kind::Read => {
            let value = cluster.read(node, key, consistency).await?;
            let rows: Vec<_> =
                value.map(|value| vec![cell(key), cell(value)]).into_iter().collect();
            Ok(wire::rows(kind.table(), &kind.columns(), &rows))
        }
        Kind::Claim => {
            let other = cluster.claim(node, key, parameters.bigint(1)).await?;
            let mut columns = vec![("[applied]".to_owned(), Type::Boolean)];
            let mut row = vec![Some(vec![u8::from(other.is_none())])];
            if let Some(other) = other {
                columns.extend(kind.markers());
                row.extend([cell(key), cell(other)]);
            }
            Ok(wire::rows(kind.table(), &columns, &[row]))
        }
        Kind::System | Kind::Use => unreachable!("it is answered without replicas"),
    }
}
