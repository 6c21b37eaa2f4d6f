//! Command-line words for protocols and compressions: those of OTLP's environment variables.

use clap::ValueEnum;

use spanscore_net::client::{Compression, Protocol};

/// Protocol on the command line.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum ProtocolWord {
    /// OTLP/gRPC
    Grpc,
    /// OTLP/HTTP with protobuf bodies
    #[value(name = "http/protobuf")]
    HttpProtobuf,
    /// OTLP/HTTP with JSON bodies
    #[value(name = "http/json")]
    HttpJson,
}

impl From<ProtocolWord> for Protocol {
    fn from(word: ProtocolWord) -> Self {
        match word {
            ProtocolWord::Grpc => Self::Grpc,
            ProtocolWord::HttpProtobuf => Self::HttpProtobuf,
            ProtocolWord::HttpJson => Self::HttpJson,
        }
    }
}

/// Compression on the command line.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum CompressionWord {
    /// No compression
    None,
    /// gzip
    Gzip,
    /// Zstandard
    Zstd,
}

impl From<CompressionWord> for Compression {
    fn from(word: CompressionWord) -> Self {
        match word {
            CompressionWord::None => Self::None,
            CompressionWord::Gzip => Self::Gzip,
            CompressionWord::Zstd => Self::Zstd,
        }
    }
}
