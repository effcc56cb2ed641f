"""Words beside each step for where it stands when that is no result: its decision, its resolution, what it waits for."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("journals", "0001_journal"),
        ("runs", "0004_step_digest"),
    ]

    operations = [
        migrations.AddField(model_name="step", name="said", field=models.TextField(default="")),
        # Runs that are not over are folded again, so that they show the new words.
        migrations.RunSQL(
            "UPDATE journals_head SET dirty = true WHERE ended = '' AND NOT dirty", migrations.RunSQL.noop
        ),
    ]
