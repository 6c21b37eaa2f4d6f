//! AWS signatures (SigV4) for judges on Bedrock. A signature is valid for one request and some
//! minutes, so every attempt is signed anew.
//! <https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html>

use std::time::SystemTime;

use aws_credential_types::Credentials;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4;
use schemars::JsonSchema;
use serde::Deserialize;

use super::client::{JudgeStartError, variable};
use super::settings::{JudgeApi, JudgeSettings};
use spanscore_base::settings::SettingsError;

const ACCESS_KEY: &str = "AWS_ACCESS_KEY_ID";
const SECRET_KEY: &str = "AWS_SECRET_ACCESS_KEY";
const SESSION_TOKEN: &str = "AWS_SESSION_TOKEN";

/// Service of Bedrock's addresses, except [`MANTLE`].
const BEDROCK: &str = "bedrock";
/// Service, and first part of the host, of Bedrock's address for Anthropic's messages.
const MANTLE: &str = "bedrock-mantle";

/// AWS request signatures (SigV4).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AwsSettings {
    /// AWS region of the judge, such as `eu-central-1`.
    pub region: String,
    /// AWS service name in the signature. Default: `bedrock-mantle` if `base_url` contains that
    /// name, else `bedrock`.
    #[serde(default)]
    pub service: Option<String>,
}

impl AwsSettings {
    /// Returns Bedrock's address for a protocol in the region.
    pub(super) fn base_url(&self, api: JudgeApi) -> String {
        let region = &self.region;
        match api {
            JudgeApi::OpenAi | JudgeApi::OpenAiResponses => {
                format!("https://bedrock-runtime.{region}.amazonaws.com/openai/v1")
            }
            JudgeApi::Anthropic => format!("https://{MANTLE}.{region}.api.aws/anthropic"),
        }
    }

    /// Returns the service in the signatures of requests to an address.
    fn service(&self, base: &str) -> &str {
        let is_mantle = base.split(['/', '.']).any(|part| part == MANTLE);
        let own = if is_mantle { MANTLE } else { BEDROCK };
        self.service.as_deref().unwrap_or(own)
    }
}

/// Checks the sign-in of a judge; returns the key of the wrong setting and the error.
pub(super) fn check_sign_in(judge: &JudgeSettings) -> Option<(&'static str, SettingsError)> {
    let aws = judge.aws.as_ref()?;
    let is_name = |text: &str| {
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    if ![Some(&aws.region), aws.service.as_ref()].into_iter().flatten().all(|it| is_name(it)) {
        let error = SettingsError::new("`region` and `service` are names of letters, digits and -");
        return Some(("aws", error.with_help("such as `aws: {region: eu-central-1}`")));
    }
    let has_user = judge.base_url.as_ref().is_some_and(|address| address.user().is_some());
    let other = [
        ("api_key_env", judge.api_key_env.is_some()),
        ("azure", judge.azure.is_some()),
        ("base_url", has_user),
    ];
    let (key, _) = other.into_iter().find(|(_, is_set)| *is_set)?;
    let error =
        SettingsError::new(format!("`aws` and `{key}` are two ways to authenticate requests"));
    let help = "leave one out: `aws` signs each request, `api_key_env` sends a key";
    Some((key, error.with_help(help)))
}

/// Signer of the requests of one judge.
#[derive(Clone)]
pub(super) struct AwsSigner {
    region: String,
    service: String,
    credentials: Credentials,
}

impl AwsSigner {
    /// Reads the credentials from the environment.
    ///
    /// # Errors
    /// The missing variable.
    pub(super) fn from_environment(
        name: &str,
        judge: &JudgeSettings,
        aws: &AwsSettings,
    ) -> Result<Self, JudgeStartError> {
        let needed = |key: &'static str| {
            let missing = || JudgeStartError::NoAwsKey { judge: name.to_owned(), variable: key };
            variable(key).ok_or_else(missing)
        };
        let access = needed(ACCESS_KEY)?;
        let secret = needed(SECRET_KEY)?;
        let token = variable(SESSION_TOKEN);
        let credentials = Credentials::new(access, secret, token, None, "environment");
        let service = aws.service(&judge.base_url()).to_owned();
        Ok(Self { region: aws.region.clone(), service, credentials })
    }

    /// Returns the texts to redact from answers.
    pub(super) fn secrets(&self) -> impl Iterator<Item = &str> {
        let token = self.credentials.session_token();
        std::iter::once(self.credentials.secret_access_key()).chain(token)
    }

    /// Signs a `POST` with its headers; returns the additional ones.
    ///
    /// # Errors
    /// An address or a header that cannot be signed.
    pub(super) fn sign(
        &self,
        url: &str,
        headers: &[(&'static str, String)],
        body: &[u8],
        now: SystemTime,
    ) -> Result<Vec<(&'static str, String)>, String> {
        let identity = self.credentials.clone().into();
        let params = v4::SigningParams::builder()
            .identity(&identity)
            .region(&self.region)
            .name(&self.service)
            .time(now)
            .settings(SigningSettings::default())
            .build()
            .map_err(|error| error.to_string())?;
        let headers = headers.iter().map(|(name, value)| (*name, value.as_str()));
        let (signed, _) = SignableRequest::new("POST", url, headers, SignableBody::Bytes(body))
            .and_then(|request| sign(request, &params.into()).map(|signed| signed.into_parts()))
            .map_err(|error| error.to_string())?;
        let (headers, _) = signed.into_parts();
        Ok(headers.iter().map(|it| (it.name(), it.value().to_owned())).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::Value;

    use super::{AwsSettings, AwsSigner, Credentials, JudgeApi};

    #[test]
    fn each_protocol_has_its_address_and_each_address_its_service() {
        let aws = AwsSettings { region: "eu-central-1".to_owned(), service: None };
        let runtime = "https://bedrock-runtime.eu-central-1.amazonaws.com/openai/v1";
        let mantle = "https://bedrock-mantle.eu-central-1.api.aws/anthropic";
        for (api, base, service) in [
            (JudgeApi::OpenAi, runtime, "bedrock"),
            (JudgeApi::OpenAiResponses, runtime, "bedrock"),
            (JudgeApi::Anthropic, mantle, "bedrock-mantle"),
        ] {
            let found = aws.base_url(api);
            assert_eq!((found.as_str(), aws.service(&found)), (base, service));
        }
        let own = AwsSettings { service: Some("own".to_owned()), ..aws };
        assert_eq!(own.service(mantle), "own");
    }

    /// Requests and signatures of AWS' published suite, for its credentials, region and time:
    /// <https://github.com/awslabs/aws-c-auth/tree/main/tests/aws-signing-test-suite/v4>.
    #[test]
    fn signatures_are_those_of_the_published_suite() {
        let file = include_str!("../../../../tests/fixtures/judges/sigv4.jsonl");
        for line in file.lines() {
            let case: Value = serde_json::from_str(line).unwrap();
            let text = |key: &str| case[key].as_str();
            let token = text("token").map(str::to_owned);
            let secret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
            let credentials = Credentials::new("AKIDEXAMPLE", secret, token.clone(), None, "suite");
            let signer = AwsSigner {
                region: "us-east-1".to_owned(),
                service: "service".to_owned(),
                credentials,
            };
            let header = text("header").map(|value| ("my-header1", value.to_owned()));
            let now = std::time::UNIX_EPOCH + Duration::from_secs(1_440_938_160);
            let headers: Vec<_> = header.into_iter().collect();
            let added = signer.sign(text("url").unwrap(), &headers, b"", now).unwrap();
            let found = |name: &str| {
                let header = added.iter().find(|(own, _)| own.eq_ignore_ascii_case(name));
                header.map(|(_, value)| value.clone())
            };
            let authorization = format!(
                "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, \
                 SignedHeaders={}, Signature={}",
                text("signed").unwrap(),
                text("signature").unwrap()
            );
            assert_eq!(found("authorization"), Some(authorization), "{line}");
            assert_eq!(found("x-amz-date").as_deref(), Some("20150830T123600Z"), "{line}");
            assert_eq!(found("x-amz-security-token"), token, "{line}");
        }
    }
}
