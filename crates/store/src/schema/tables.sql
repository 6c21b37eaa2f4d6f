-- Version 1. Times are Unix milliseconds; ids are blobs as on the wire. Clients of one group may
-- send ids that those of another send, too.
CREATE TABLE evaluators (
    id INTEGER PRIMARY KEY, kind TEXT NOT NULL, name TEXT NOT NULL, version BLOB NOT NULL,
    own_version TEXT, level TEXT NOT NULL, threshold REAL NOT NULL, UNIQUE (name, version)
);
CREATE TABLE sources (
    id INTEGER PRIMARY KEY, service TEXT NOT NULL, agent TEXT NOT NULL, version TEXT NOT NULL,
    environment TEXT NOT NULL, UNIQUE (service, agent, version, environment)
);
CREATE TABLE tools (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE sessions (
    seq INTEGER PRIMARY KEY, session_id TEXT NOT NULL, source INTEGER NOT NULL,
    client_group BLOB NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL,
    turns INTEGER NOT NULL, UNIQUE (session_id, source, client_group)
);
CREATE TABLE trajectories (
    seq INTEGER PRIMARY KEY, trace_id BLOB NOT NULL, client_group BLOB NOT NULL,
    span_id BLOB NOT NULL,
    source INTEGER NOT NULL, session INTEGER, time INTEGER NOT NULL, stored INTEGER NOT NULL,
    duration_us INTEGER NOT NULL, revision INTEGER NOT NULL, completion TEXT NOT NULL,
    partial INTEGER NOT NULL, spans INTEGER NOT NULL, calls INTEGER NOT NULL,
    errors INTEGER NOT NULL, passed INTEGER NOT NULL, failed INTEGER NOT NULL,
    not_evaluable INTEGER NOT NULL, broken INTEGER NOT NULL, input_tokens INTEGER,
    output_tokens INTEGER, cost REAL,
    -- Bytes of a run that people keep, as of the last edit; 0: nobody does.
    pinned INTEGER NOT NULL DEFAULT 0,
    -- 1: content was left out; 2: calls and evaluations, too.
    shed INTEGER NOT NULL DEFAULT 0, title TEXT, UNIQUE (trace_id, client_group)
);
CREATE INDEX trajectories_stored ON trajectories (stored);
CREATE INDEX trajectories_session ON trajectories (session) WHERE session IS NOT NULL;
-- Compressed (zstd) JSON: input, output, calls with arguments, result, error.
CREATE TABLE trajectory_contents (seq INTEGER PRIMARY KEY, content BLOB NOT NULL);
CREATE TABLE calls (
    trajectory INTEGER NOT NULL, position INTEGER NOT NULL, span_id BLOB NOT NULL,
    tool INTEGER NOT NULL, source INTEGER NOT NULL, time INTEGER NOT NULL,
    duration_us INTEGER, status TEXT NOT NULL, undeclared INTEGER NOT NULL,
    repeated INTEGER NOT NULL, PRIMARY KEY (trajectory, position)
) WITHOUT ROWID;
CREATE INDEX calls_tool ON calls (tool, time);
CREATE TABLE evaluations (
    seq INTEGER PRIMARY KEY, id BLOB NOT NULL, trajectory INTEGER NOT NULL, session INTEGER,
    span_id BLOB NOT NULL, evaluator INTEGER NOT NULL, source INTEGER NOT NULL, tool INTEGER,
    time INTEGER NOT NULL, stored INTEGER NOT NULL, revision INTEGER NOT NULL, revises BLOB,
    current INTEGER NOT NULL, early INTEGER NOT NULL,
    -- 0 pass, 1 fail, 2 not evaluable, 3 the evaluator failed.
    outcome INTEGER NOT NULL, score REAL, reason TEXT, completion TEXT NOT NULL,
    partial INTEGER NOT NULL, cost REAL, judge TEXT, explanation TEXT, error TEXT
);
CREATE INDEX evaluations_trajectory ON evaluations (trajectory);
CREATE INDEX evaluations_evaluator ON evaluations (evaluator, stored);
CREATE INDEX evaluations_failing ON evaluations (stored) WHERE current = 1 AND outcome IN (1, 3);
CREATE TABLE evaluation_details (seq INTEGER PRIMARY KEY, details TEXT NOT NULL);
CREATE TABLE cases (
    trajectory INTEGER NOT NULL, name TEXT NOT NULL, PRIMARY KEY (trajectory, name)
) WITHOUT ROWID;
CREATE TABLE annotations (
    seq INTEGER PRIMARY KEY, id BLOB NOT NULL UNIQUE, target TEXT NOT NULL,
    trajectory INTEGER, session INTEGER, evaluation BLOB, position INTEGER, name TEXT NOT NULL,
    label TEXT, score REAL, comment TEXT, author TEXT NOT NULL, created INTEGER NOT NULL,
    changed INTEGER NOT NULL, revision INTEGER NOT NULL
);
CREATE INDEX annotations_trajectory ON annotations (trajectory);
CREATE TABLE dataset_items (
    seq INTEGER PRIMARY KEY, dataset TEXT NOT NULL, key TEXT NOT NULL, trace_id BLOB,
    criteria TEXT NOT NULL, note TEXT, revision INTEGER NOT NULL, UNIQUE (dataset, key)
);
CREATE INDEX dataset_items_trace ON dataset_items (trace_id);
-- Sums are whole billionths, so that what is added and taken off again leaves nothing.
-- `span` is 60 or 3600 seconds, `bucket` a whole number of them.
CREATE TABLE rollups (
    span INTEGER NOT NULL, bucket INTEGER NOT NULL, evaluator INTEGER NOT NULL,
    source INTEGER NOT NULL, passed INTEGER NOT NULL, failed INTEGER NOT NULL,
    not_evaluable INTEGER NOT NULL, broken INTEGER NOT NULL, sum INTEGER NOT NULL,
    squares INTEGER NOT NULL, cost INTEGER NOT NULL, histogram BLOB NOT NULL,
    PRIMARY KEY (span, bucket, evaluator, source)
) WITHOUT ROWID;
CREATE TABLE tool_rollups (
    span INTEGER NOT NULL, bucket INTEGER NOT NULL, tool INTEGER NOT NULL,
    source INTEGER NOT NULL, calls INTEGER NOT NULL, errors INTEGER NOT NULL,
    undeclared INTEGER NOT NULL, histogram BLOB NOT NULL,
    PRIMARY KEY (span, bucket, tool, source)
) WITHOUT ROWID;
-- Evaluations that the sums hold without a row, the bounds of their error, and the sum of `pinned`.
CREATE TABLE counts (name TEXT PRIMARY KEY, count INTEGER NOT NULL) WITHOUT ROWID;
