"""A digest beside each step, so that a fold need not read back what it wrote."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("runs", "0003_waiting_for_approval"),
    ]

    operations = [
        migrations.AddField(
            model_name="step",
            name="digest",
            field=models.BigIntegerField(default=0),
        ),
    ]
