//! Command-line words for protocols and compressions: those of OTLP's environment variables.

use clap::ValueEnum;
use clap::builder::PossibleValue;

use crate::client::{Compression, Protocol};

impl ValueEnum for Protocol {
    fn value_variants<'a>() -> &'a [Self] {
        &[Self::Grpc, Self::HttpProtobuf, Self::HttpJson]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(match self {
            Self::Grpc => PossibleValue::new("grpc").help("OTLP/gRPC"),
            Self::HttpProtobuf => {
                PossibleValue::new("http/protobuf").help("OTLP/HTTP with protobuf bodies")
            }
            Self::HttpJson => PossibleValue::new("http/json").help("OTLP/HTTP with JSON bodies"),
        })
    }
}

impl ValueEnum for Compression {
    fn value_variants<'a>() -> &'a [Self] {
        &[Self::None, Self::Gzip, Self::Zstd]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(match self {
            Self::None => PossibleValue::new("none").help("Not at all"),
            Self::Gzip => PossibleValue::new("gzip").help("gzip"),
            Self::Zstd => PossibleValue::new("zstd").help("Zstandard"),
        })
    }
}
