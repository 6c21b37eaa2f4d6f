-- Version 2. Client whose process gave the verdict; none: this one.
ALTER TABLE evaluations ADD COLUMN client TEXT;
