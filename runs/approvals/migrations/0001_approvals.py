"""Policies, requests for approval, and the votes on them."""

import django.contrib.postgres.fields
import django.db.models.deletion
import django.db.models.functions.datetime
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Policy",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("agent", models.TextField()),
                ("tool", models.TextField()),
                ("version", models.PositiveIntegerField()),
                ("active", models.BooleanField(default=True)),
                ("needed", models.PositiveSmallIntegerField(default=1)),
                (
                    "groups",
                    django.contrib.postgres.fields.ArrayField(base_field=models.TextField(), default=list, size=None),
                ),
                ("four_eyes", models.BooleanField(default=True)),
                ("expires_s", models.PositiveIntegerField(null=True)),
                ("high_risk", models.BooleanField(default=False)),
                ("created_by", models.TextField()),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("agent", "tool", "version"), name="approvals_policy_version_once"),
                    models.CheckConstraint(
                        condition=models.Q(("needed__gte", 1), ("version__gte", 1)),
                        name="approvals_policy_counts_from_one",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Approval",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("head_id", models.BigIntegerField()),
                ("key", models.TextField()),
                ("name", models.TextField()),
                ("branch", models.TextField(default="")),
                ("step", models.PositiveIntegerField()),
                ("pos", models.BigIntegerField()),
                ("agent", models.TextField()),
                ("environment", models.TextField()),
                ("run", models.TextField()),
                ("title", models.TextField(default="")),
                ("tool", models.TextField(default="")),
                ("tool_schema", models.TextField(default="")),
                ("artifact", models.BinaryField()),
                ("fingerprint", models.TextField()),
                ("needed", models.PositiveSmallIntegerField(default=1)),
                ("requested_by", models.TextField(default="")),
                ("asked_by", models.TextField()),
                ("note", models.TextField(default="")),
                ("requested_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("expires_at", models.DateTimeField(null=True)),
                (
                    "state",
                    models.TextField(
                        choices=[
                            ("requested", "requested"),
                            ("approved", "approved"),
                            ("rejected", "rejected"),
                            ("sent_back", "sent back"),
                            ("expired", "expired"),
                            ("withdrawn", "withdrawn"),
                            ("used", "used"),
                        ],
                        default="requested",
                    ),
                ),
                ("decided_at", models.DateTimeField(null=True)),
                ("decided_by", models.TextField(default="")),
                ("comment", models.TextField(default="")),
                ("delivered_at", models.DateTimeField(null=True)),
                ("used_at", models.DateTimeField(null=True)),
                ("used_branch", models.TextField(default="")),
                ("used_step", models.PositiveIntegerField(null=True)),
                ("used_request", models.TextField(default="")),
                ("used_key", models.TextField(default="")),
                (
                    "policy",
                    models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, to="approvals.policy"),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Vote",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("person", models.TextField()),
                ("signed_in_by", models.TextField()),
                ("decision", models.TextField()),
                ("comment", models.TextField(default="")),
                ("shown", models.TextField()),
                ("address", models.TextField(default="")),
                ("at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                (
                    "approval",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="votes", to="approvals.approval"
                    ),
                ),
            ],
        ),
        migrations.AddIndex(
            model_name="approval",
            index=models.Index(
                condition=models.Q(("state", "requested")),
                fields=["requested_at", "id"],
                name="approvals_approval_inbox",
            ),
        ),
        migrations.AddIndex(
            model_name="approval",
            index=models.Index(
                condition=models.Q(("state", "requested")), fields=["expires_at"], name="approvals_approval_expiry"
            ),
        ),
        migrations.AddConstraint(
            model_name="approval",
            constraint=models.UniqueConstraint(fields=("head_id", "name"), name="approvals_approval_once"),
        ),
        migrations.AddConstraint(
            model_name="approval",
            constraint=models.UniqueConstraint(
                condition=models.Q(("state", "withdrawn"), _negated=True),
                fields=("head_id", "branch", "step"),
                name="approvals_approval_step_once",
            ),
        ),
        migrations.AddConstraint(
            model_name="approval",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("state", "used"), _negated=True),
                    models.Q(("used_at__isnull", False), ("used_step__isnull", False)),
                    _connector="OR",
                ),
                name="approvals_approval_used_by_a_step",
            ),
        ),
        migrations.AddConstraint(
            model_name="vote",
            constraint=models.UniqueConstraint(fields=("approval", "person"), name="approvals_vote_once"),
        ),
    ]
