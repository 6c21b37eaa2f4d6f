-- Views are for readers: they only grow, while tables may change.
CREATE VIEW v_trajectories AS
SELECT t.seq, lower(hex(t.trace_id)) AS trace_id, s.service, s.agent, s.version, s.environment,
    n.session_id, strftime('%Y-%m-%dT%H:%M:%fZ', t.time / 1000.0, 'unixepoch') AS time,
    strftime('%Y-%m-%dT%H:%M:%fZ', t.stored / 1000.0, 'unixepoch') AS stored,
    t.duration_us / 1e6 AS duration_s, t.revision, t.completion, t.partial, t.spans, t.calls,
    t.errors, t.passed, t.failed, t.not_evaluable, t.broken, t.input_tokens, t.output_tokens,
    t.cost AS cost_usd, t.pinned > 0 AS pinned, t.shed, t.title,
    (SELECT min(c.name) FROM cases c WHERE c.trajectory = t.seq) AS case_name,
    strftime('%Y-%m-%dT%H:%M:%fZ', t.time / 1000.0 - t.duration_us / 1e6, 'unixepoch') AS started,
    t.models, t.user_id, t.answer
FROM trajectories t JOIN sources s ON s.id = t.source LEFT JOIN sessions n ON n.seq = t.session;
CREATE VIEW v_evaluations AS
SELECT e.seq, lower(hex(e.id)) AS evaluation_id, lower(hex(t.trace_id)) AS trace_id,
    lower(hex(e.span_id)) AS span_id, n.session_id, v.name AS evaluator, v.kind, v.level,
    lower(hex(v.version)) AS evaluator_version, v.threshold, s.service, s.agent, s.version,
    s.environment, l.name AS tool,
    strftime('%Y-%m-%dT%H:%M:%fZ', e.time / 1000.0, 'unixepoch') AS time,
    strftime('%Y-%m-%dT%H:%M:%fZ', e.stored / 1000.0, 'unixepoch') AS stored,
    e.revision, lower(hex(e.revises)) AS revises, e.current, e.early,
    CASE WHEN e.outcome < 2 THEN 'scored' WHEN e.outcome = 2 THEN 'not_evaluable'
        ELSE 'failed' END AS outcome,
    CASE e.outcome WHEN 0 THEN 'pass' WHEN 1 THEN 'fail' END AS label,
    e.score, e.reason, e.completion, e.partial, e.cost AS cost_usd, e.judge, e.explanation,
    e.error, d.details, e.client,
    (SELECT min(c.name) FROM cases c WHERE c.trajectory = t.seq) AS case_name
FROM evaluations e JOIN trajectories t ON t.seq = e.trajectory
JOIN evaluators v ON v.id = e.evaluator JOIN sources s ON s.id = e.source
LEFT JOIN sessions n ON n.seq = t.session LEFT JOIN tools l ON l.id = e.tool
LEFT JOIN evaluation_details d ON d.seq = e.seq;
CREATE VIEW v_calls AS
SELECT lower(hex(t.trace_id)) AS trace_id, c.position, lower(hex(c.span_id)) AS span_id,
    l.name AS tool, s.service, s.agent, s.version, s.environment,
    strftime('%Y-%m-%dT%H:%M:%fZ', c.time / 1000.0, 'unixepoch') AS time,
    c.duration_us / 1e6 AS duration_s, c.status, c.undeclared, c.repeated
FROM calls c JOIN trajectories t ON t.seq = c.trajectory JOIN tools l ON l.id = c.tool
JOIN sources s ON s.id = c.source;
CREATE VIEW v_sessions AS
SELECT n.seq, n.session_id, s.service, s.agent, s.version, s.environment,
    strftime('%Y-%m-%dT%H:%M:%fZ', n.first / 1000.0, 'unixepoch') AS first,
    strftime('%Y-%m-%dT%H:%M:%fZ', n.last / 1000.0, 'unixepoch') AS last, n.turns
FROM sessions n JOIN sources s ON s.id = n.source;
CREATE VIEW v_annotations AS
SELECT a.seq, lower(hex(a.id)) AS annotation_id, a.target, lower(hex(t.trace_id)) AS trace_id,
    n.session_id, lower(hex(a.evaluation)) AS evaluation_id, a.position, a.name, a.label, a.score,
    a.comment, a.author, strftime('%Y-%m-%dT%H:%M:%fZ', a.created / 1000.0, 'unixepoch') AS created,
    strftime('%Y-%m-%dT%H:%M:%fZ', a.changed / 1000.0, 'unixepoch') AS changed, a.revision
FROM annotations a LEFT JOIN trajectories t ON t.seq = a.trajectory
LEFT JOIN sessions n ON n.seq = a.session;
