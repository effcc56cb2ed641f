"""Decisions about requests of other runtimes, whose steps may share a number or have none."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("approvals", "0001_approvals")]
    operations = [
        migrations.RemoveConstraint(model_name="approval", name="approvals_approval_step_once"),
        migrations.AddField(
            model_name="approval", name="foreign", field=models.BooleanField(db_default=False, default=False)
        ),
        migrations.AddConstraint(
            model_name="approval",
            constraint=models.UniqueConstraint(
                condition=models.Q(models.Q(("state", "withdrawn"), _negated=True), ("foreign", False)),
                fields=("head_id", "branch", "step"),
                name="approvals_approval_step_once",
            ),
        ),
    ]
