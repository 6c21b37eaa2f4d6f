//! Words of keys: those that name secrets, and those that cancel a name.

/// Words that name a secret by themselves, in the singular.
pub(super) const SECRET_WORDS: [&str; 29] = [
    "pwd", "passcode", "creds", "cred", "authorization", "cookie", "otp", "totp", "cvv", "cvc",
    "pin", "connstr", "jwt", "dsn", "sessid", "jsessionid", "phpsessid", "bearer", "passwort",
    "kennwort", "contraseña", "contrasena", "senha", "mdp", "wachtwoord", "hasło", "пароль",
    "密码", "パスワード",
];

/// Words that make a key a secret one by position or neighbours.
pub(super) const DOUBTFUL_WORDS: [&str; 10] =
    ["key", "token", "pass", "auth", "sid", "session", "signature", "sig", "conn", "connection"];

/// Suffixes of words that name a secret: `dbpassword`, `clientsecret`.
pub(super) const ENDINGS: [&str; 16] = [
    "password", "passwd", "passphrase", "secret", "credential", "apikey", "secretkey",
    "privatekey", "accesskey", "accesstoken", "refreshtoken", "authtoken", "sessiontoken",
    "bearertoken", "connectionstring", "authkey",
];

/// Words before `key` that make it a secret.
pub(super) const COMPOUND_KEYS: [&str; 29] = [
    "api", "access", "private", "secret", "signing", "encryption", "decryption", "master",
    "account", "shared", "auth", "authentication", "license", "licence", "subscription", "service",
    "ssh", "hmac", "webhook", "app", "application", "client", "consumer", "admin", "root",
    "storage", "deploy", "recovery", "unseal",
];

/// Words before `key` that make it harmless, however random its values look.
pub(super) const HARMLESS_KEYS: [&str; 27] = [
    "cache", "public", "primary", "foreign", "sort", "partition", "object", "event", "row",
    "index", "hash", "idempotency", "translation", "group", "store", "unique", "page", "host",
    "dedup", "lock", "publishable", "lookup", "routing", "message", "issue", "record", "parent",
];

/// Words before `token` that make it harmless.
pub(super) const HARMLESS_TOKENS: [&str; 40] = [
    "page", "next", "previous", "prev", "sync", "continuation", "cursor", "eos", "bos", "pad",
    "unk", "mask", "sep", "cls", "stop", "special", "first", "last", "output", "input", "prompt",
    "completion", "per", "image", "max", "min", "start", "end", "begin", "word", "sub", "decoded",
    "predicted", "cancellation", "progress", "idempotency", "top", "reasoning", "cached", "audio",
];

/// Words before `tokens` that make them secrets; others are counts.
pub(super) const PLURAL_TOKENS: [&str; 11] = [
    "access", "refresh", "auth", "api", "bearer", "bot", "security", "secret", "device",
    "personal", "oauth",
];

/// Words before `pass` that make it a password.
pub(super) const PASSES: [&str; 16] = [
    "db", "database", "smtp", "user", "mysql", "pg", "postgres", "redis", "ftp", "email", "mail",
    "admin", "root", "login", "proxy", "auth",
];

/// First words of keys for predicates or actions: `has_password`, `resetPassword`, `max_secret`.
pub(super) const PREDICATES: [&str; 43] = [
    "is", "has", "requires", "require", "needs", "show", "use", "uses", "with", "no", "forgot",
    "reset", "change", "should", "can", "must", "allow", "max", "min", "num", "total", "count",
    "get", "fetch", "list", "create", "rotate", "update", "delete", "read", "verify", "check",
    "validate", "generate", "find", "retrieve", "remove", "enable", "disable", "missing",
    "invalid", "revoke", "expired",
];

/// Last words of keys that only qualify, or name a form.
pub(super) const TAILS: [&str; 32] = [
    "value", "values", "text", "plain", "plaintext", "raw", "encoded", "base", "hash", "hashed",
    "hex", "new", "old", "current", "previous", "confirm", "confirmation", "repeat", "again",
    "prod", "production", "dev", "staging", "live", "test", "sandbox", "default", "header", "pem",
    "encrypted", "env", "b",
];

/// Last words of keys that are harmless whatever their other words.
pub(super) const HARMLESS_HEADS: [&str; 96] = [
    "policy", "policies", "length", "len", "count", "counts", "limit", "limits", "id", "ids",
    "name", "names", "type", "types", "ttl", "expiry", "expires", "expiration", "at", "in", "on",
    "hint", "reset", "url", "uri", "endpoint", "path", "file", "filename", "field", "fields",
    "rule", "rules", "strength", "score", "attempts", "tries", "age", "days", "hours", "minutes",
    "seconds", "min", "max", "required", "enabled", "disabled", "allowed", "valid", "changed",
    "updated", "created", "version", "label", "description", "format", "algorithm", "alg",
    "manager", "status", "state", "rotation", "size", "number", "prompt", "schema", "pattern",
    "regex", "message", "error", "help", "link", "page", "scope", "scopes", "provider", "ref",
    "reference", "arn", "method", "mode", "usage", "used", "budget", "remaining", "rate", "window",
    "source", "kind", "question", "history", "region", "issuer", "owner", "date", "time",
];

/// Values that are no secrets.
pub(super) const NO_SECRETS: [&str; 17] = [
    "true", "false", "null", "none", "nil", "undefined", "string", "str", "required", "optional",
    "redacted", "masked", "n/a", "yes", "not set", "missing", "empty",
];
