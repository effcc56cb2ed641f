"""Search by any fragment of a run id, where the server has pg_trgm and we may use it; without it the search scans."""

from django.db import migrations

FORWARDS = """
DO $$
BEGIN
    CREATE EXTENSION IF NOT EXISTS pg_trgm;
EXCEPTION WHEN insufficient_privilege OR undefined_file OR feature_not_supported THEN
    RAISE NOTICE 'pg_trgm is not available: searching run ids scans the table';
END $$;
DO $$
BEGIN
    IF EXISTS (SELECT 1 FROM pg_extension WHERE extname = 'pg_trgm') THEN
        CREATE INDEX runs_run_search ON runs_run USING gin (upper(run) gin_trgm_ops);
    END IF;
END $$;
"""


class Migration(migrations.Migration):
    dependencies = [("runs", "0001_rows")]
    operations = [migrations.RunSQL(FORWARDS, "DROP INDEX IF EXISTS runs_run_search;")]
