-- One row: who may write, and the record that the next one follows. Every write updates it first.
CREATE TABLE iota_journal (
	one     boolean PRIMARY KEY DEFAULT true CHECK (one),
	lease   bigint NOT NULL DEFAULT 0,  -- its number, which grows with every holder
	holder  text NOT NULL DEFAULT '',
	since   timestamptz NOT NULL DEFAULT clock_timestamp(),
	renewed timestamptz,                -- NULL: nobody holds it
	last    bigint NOT NULL DEFAULT 0   -- seq of the last record
) WITH (fillfactor = 10);
INSERT INTO iota_journal DEFAULT VALUES;

-- What is sealed has its checksum in front.
CREATE TABLE iota_genesis (
	one    boolean PRIMARY KEY DEFAULT true CHECK (one),
	sealed bytea NOT NULL
);
CREATE TABLE iota_record (
	seq    bigint PRIMARY KEY,
	sealed bytea NOT NULL
);
CREATE TABLE iota_snapshot (
	seq    bigint PRIMARY KEY,
	sealed bytea NOT NULL
);
