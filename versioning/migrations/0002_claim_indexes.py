"""What claims look for: heads that may run now. Sleeping runs, the great majority, stay out of both indexes."""

from django.db import migrations

RUNNABLE = """CREATE INDEX journals_head_runnable ON journals_head (agent, environment, id)
    WHERE native AND ended = '' AND stop_name = '' AND hold_reason = '' AND parked_on = ''"""
WOKEN = """CREATE INDEX journals_head_woken ON journals_head (agent, environment, wake_at)
    WHERE native AND ended = '' AND stop_name = '' AND hold_reason = '' AND parked_on <> '' AND wake_at IS NOT NULL"""


class Migration(migrations.Migration):
    dependencies = [("journals", "0001_journal"), ("versioning", "0001_initial")]
    operations = [
        migrations.RunSQL(RUNNABLE, "DROP INDEX journals_head_runnable"),
        migrations.RunSQL(WOKEN, "DROP INDEX journals_head_woken"),
    ]
