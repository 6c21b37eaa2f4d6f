-- Version 4. Models that the spans of a run name, a JSON list, and its user, as far as the content
-- policy goes; NULL: none is known. State of the final output; of runs stored before: unknown.
ALTER TABLE trajectories ADD COLUMN models TEXT;
ALTER TABLE trajectories ADD COLUMN user_id TEXT;
ALTER TABLE trajectories ADD COLUMN answer TEXT NOT NULL DEFAULT 'unknown';
-- Runs are listed by their start, microseconds.
CREATE INDEX trajectories_started ON trajectories (time * 1000 - duration_us);
-- Pseudonyms of users are hashes with this key, so that no other file or list tells them.
CREATE TABLE user_key (key BLOB NOT NULL);
INSERT INTO user_key VALUES (randomblob(16));
