"""A source's mapping: JSON text, because the order of its patterns counts; none on native sources; every change kept."""

import django.db.models.deletion
import django.db.models.functions.datetime
from django.db import migrations, models

TO_TEXT = """ALTER TABLE journals_source ALTER mapping DROP DEFAULT;
ALTER TABLE journals_source ALTER mapping TYPE text USING mapping::text;
ALTER TABLE journals_source ALTER mapping SET DEFAULT '{}'"""
TO_JSONB = """ALTER TABLE journals_source ALTER mapping DROP DEFAULT;
ALTER TABLE journals_source ALTER mapping TYPE jsonb USING mapping::jsonb;
ALTER TABLE journals_source ALTER mapping SET DEFAULT '{}'"""
KEEP = """CREATE TRIGGER journals_mapping_append_only BEFORE UPDATE OR DELETE ON journals_mapping
    FOR EACH ROW EXECUTE FUNCTION journals_refuse_change()"""


class Migration(migrations.Migration):
    dependencies = [
        ("journals", "0012_imports_listed"),
    ]

    operations = [
        migrations.RunSQL(
            TO_TEXT,
            TO_JSONB,
            state_operations=[migrations.AlterField("source", "mapping", models.TextField(default="{}"))],
        ),
        migrations.AddConstraint(
            "source",
            models.CheckConstraint(
                condition=models.Q(native=False) | models.Q(mapping="{}"), name="journals_source_native_unmapped"
            ),
        ),
        migrations.CreateModel(
            name="MappingChange",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                (
                    "source",
                    models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, to="journals.source"),
                ),
                ("at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("by", models.TextField()),
                ("body", models.TextField()),
            ],
            options={"db_table": "journals_mapping"},
        ),
        migrations.RunSQL(KEEP, "DROP TRIGGER journals_mapping_append_only ON journals_mapping"),
    ]
