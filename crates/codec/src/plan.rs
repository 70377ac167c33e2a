//! A type compiled for encoding and decoding. Encoding or decoding a part of a value takes one
//! `match` and no look-up by name.

use std::sync::Arc;

use crate::cql_type::{CqlType, UdtType};
use crate::error::CodecError;
use crate::types::vector;

/// How to encode and decode values of a type.
///
/// The host is the code that uses this crate. `R` is the data that the host keeps for each
/// user-defined type, such as a class for its values.
#[derive(Clone, Debug)]
pub enum Plan<R> {
    Ascii,
    Text,
    TinyInt,
    SmallInt,
    Int,
    BigInt,
    Counter,
    VarInt,
    Float,
    Double,
    Decimal,
    Boolean,
    Blob,
    Uuid,
    TimeUuid,
    Inet,
    Date,
    Time,
    Timestamp,
    Duration,
    List(Box<Plan<R>>),
    Set(Box<Plan<R>>),
    Map(Box<(Plan<R>, Plan<R>)>),
    Tuple(Box<[Plan<R>]>),
    Udt(Box<UdtPlan<R>>),
    Vector(Box<VectorPlan<R>>),
    Composite(Box<[Plan<R>]>),
    Custom(Arc<str>),
}

#[derive(Clone, Debug)]
pub struct UdtPlan<R> {
    pub udt: Arc<UdtType>,
    pub fields: Box<[Plan<R>]>,
    pub host: R,
}

#[derive(Clone, Debug)]
pub struct VectorPlan<R> {
    pub element: Plan<R>,
    pub dimension: usize,
    /// The size of an element in bytes, if elements are written without lengths.
    pub width: Option<usize>,
}

impl<R> Plan<R> {
    /// Compiles a type. `host` makes the host's data for each user-defined type in it.
    ///
    /// Fails for types that [`CqlType::check`] refuses, and if `host` fails.
    pub fn compile<E>(
        cql_type: &CqlType,
        host: &mut impl FnMut(&UdtType) -> Result<R, E>,
    ) -> Result<Plan<R>, E>
    where
        E: From<Box<CodecError>>,
    {
        cql_type.check().map_err(|reason| CodecError::new("a type", reason))?;
        Self::compile_part(cql_type, host)
    }

    fn compile_part<E>(
        cql_type: &CqlType,
        host: &mut impl FnMut(&UdtType) -> Result<R, E>,
    ) -> Result<Plan<R>, E> {
        Ok(match cql_type {
            CqlType::Ascii => Plan::Ascii,
            CqlType::Text => Plan::Text,
            CqlType::TinyInt => Plan::TinyInt,
            CqlType::SmallInt => Plan::SmallInt,
            CqlType::Int => Plan::Int,
            CqlType::BigInt => Plan::BigInt,
            CqlType::Counter => Plan::Counter,
            CqlType::VarInt => Plan::VarInt,
            CqlType::Float => Plan::Float,
            CqlType::Double => Plan::Double,
            CqlType::Decimal => Plan::Decimal,
            CqlType::Boolean => Plan::Boolean,
            CqlType::Blob => Plan::Blob,
            CqlType::Uuid => Plan::Uuid,
            CqlType::TimeUuid => Plan::TimeUuid,
            CqlType::Inet => Plan::Inet,
            CqlType::Date => Plan::Date,
            CqlType::Time => Plan::Time,
            CqlType::Timestamp => Plan::Timestamp,
            CqlType::Duration => Plan::Duration,
            CqlType::List(t) => Plan::List(Box::new(Self::compile_part(t, host)?)),
            CqlType::Set(t) => Plan::Set(Box::new(Self::compile_part(t, host)?)),
            CqlType::Map(k, v) => {
                Plan::Map(Box::new((Self::compile_part(k, host)?, Self::compile_part(v, host)?)))
            }
            CqlType::Tuple(types) => Plan::Tuple(
                types.iter().map(|t| Self::compile_part(t, host)).collect::<Result<_, E>>()?,
            ),
            CqlType::Udt(udt) => Plan::Udt(Box::new(UdtPlan {
                udt: udt.clone(),
                fields: udt
                    .fields
                    .iter()
                    .map(|(_, t)| Self::compile_part(t, host))
                    .collect::<Result<_, E>>()?,
                host: host(udt)?,
            })),
            CqlType::Vector(t, dimension) => Plan::Vector(Box::new(VectorPlan {
                element: Self::compile_part(t, host)?,
                dimension: *dimension as usize,
                width: vector::element_width(t),
            })),
            CqlType::Composite(types) => Plan::Composite(
                types.iter().map(|t| Self::compile_part(t, host)).collect::<Result<_, E>>()?,
            ),
            CqlType::Frozen(t) => Self::compile_part(t, host)?,
            CqlType::Custom(class) => Plan::Custom(class.as_str().into()),
        })
    }

    /// Returns the type, for messages. The returned type can have `frozen` only in the fields of
    /// user-defined types, because a plan keeps `frozen` nowhere else.
    pub fn cql_type(&self) -> CqlType {
        match self {
            Plan::Ascii => CqlType::Ascii,
            Plan::Text => CqlType::Text,
            Plan::TinyInt => CqlType::TinyInt,
            Plan::SmallInt => CqlType::SmallInt,
            Plan::Int => CqlType::Int,
            Plan::BigInt => CqlType::BigInt,
            Plan::Counter => CqlType::Counter,
            Plan::VarInt => CqlType::VarInt,
            Plan::Float => CqlType::Float,
            Plan::Double => CqlType::Double,
            Plan::Decimal => CqlType::Decimal,
            Plan::Boolean => CqlType::Boolean,
            Plan::Blob => CqlType::Blob,
            Plan::Uuid => CqlType::Uuid,
            Plan::TimeUuid => CqlType::TimeUuid,
            Plan::Inet => CqlType::Inet,
            Plan::Date => CqlType::Date,
            Plan::Time => CqlType::Time,
            Plan::Timestamp => CqlType::Timestamp,
            Plan::Duration => CqlType::Duration,
            Plan::List(t) => CqlType::List(Box::new(t.cql_type())),
            Plan::Set(t) => CqlType::Set(Box::new(t.cql_type())),
            Plan::Map(kv) => CqlType::Map(Box::new(kv.0.cql_type()), Box::new(kv.1.cql_type())),
            Plan::Tuple(plans) => CqlType::Tuple(plans.iter().map(Plan::cql_type).collect()),
            Plan::Udt(plan) => CqlType::Udt(plan.udt.clone()),
            Plan::Vector(plan) => {
                CqlType::Vector(Box::new(plan.element.cql_type()), plan.dimension as u32)
            }
            Plan::Composite(plans) => {
                CqlType::Composite(plans.iter().map(Plan::cql_type).collect())
            }
            Plan::Custom(class) => CqlType::Custom(class.to_string()),
        }
    }
}
