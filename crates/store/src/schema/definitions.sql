-- Version 3. Tools that runs were offered: each distinct set once, compressed (zstd) JSON, under its
-- SHA-256. Without one, the run's are not stored.
CREATE TABLE definitions (
    id INTEGER PRIMARY KEY, digest BLOB NOT NULL UNIQUE, content BLOB NOT NULL
);
ALTER TABLE trajectories ADD COLUMN definitions INTEGER;
CREATE INDEX trajectories_definitions ON trajectories (definitions)
WHERE definitions IS NOT NULL;
-- Annotations are followed by the time of their last change, which is one of its own for each.
CREATE INDEX annotations_changed ON annotations (changed);
