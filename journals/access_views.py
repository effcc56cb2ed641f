"""Pages for accounts and tokens. Admins only, except the settings page, which shows each account its own rights."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth import get_user_model, password_validation
from django.contrib.auth.models import Group
from django.contrib.auth.validators import UnicodeUsernameValidator
from django.core.exceptions import ValidationError
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods, require_POST

from journals import access, errors
from journals.models import Token

User = get_user_model()


class AccountForm(forms.Form):
    """A new account, or new roles and another password for one."""

    username = forms.CharField(
        max_length=150, validators=[UnicodeUsernameValidator()]
    )  # no marks that hide or turn text
    email = forms.EmailField(required=False)
    password = forms.CharField(required=False, strip=False, widget=forms.PasswordInput)
    roles = forms.MultipleChoiceField(choices=[(r, r) for r in access.ROLES], required=False)
    active = forms.BooleanField(required=False, initial=True)

    def clean_password(self) -> str:
        password = self.cleaned_data["password"]
        if password:
            try:
                password_validation.validate_password(password)
            except ValidationError as e:
                raise forms.ValidationError(e.messages) from None
        return str(password)


class TokenForm(forms.Form):
    """A new token."""

    name = forms.CharField(max_length=100)
    scope = forms.ChoiceField(choices=list(access.SCOPES.items()))
    agent = forms.CharField(max_length=512, required=False)
    environment = forms.CharField(max_length=100, required=False)
    days = forms.IntegerField(min_value=1, max_value=access.MAX_AGE.days, initial=90)


@access.role_required("viewer")
def settings_page(request: HttpRequest) -> HttpResponse:
    """The account's own roles, and links to what an admin may set."""
    roles = [r for r in access.ROLES if access.has_role(request.user, r)]
    return render(request, "journals/settings.html", {"roles": roles, "is_admin": "admin" in roles})


@access.role_required("admin")
@require_http_methods(["GET", "POST"])
def users(request: HttpRequest) -> HttpResponse:
    """All accounts; POST makes one."""
    form = AccountForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        name = form.cleaned_data["username"]
        if User.objects.filter(username__iexact=name).exists():
            form.add_error("username", f"There is an account {name} already.")
        elif not form.cleaned_data["password"]:
            form.add_error("password", "A new account needs a password.")
        else:
            _save(User(username=name), form)
            messages.success(request, f"Account {name} was made.")
            return redirect("journals:users")
    accounts = User.objects.order_by("username").prefetch_related("groups")
    context = {"accounts": accounts, "form": form, "roles": access.ROLES}
    return render(request, "journals/users.html", context, status=400 if form.errors else 200)


@access.role_required("admin")
@require_POST
def user(request: HttpRequest, user_id: int) -> HttpResponse:
    """Changes one account: roles, password, active or not. The last active admin stays one."""
    account = get_object_or_404(User, pk=user_id)
    form = AccountForm({**request.POST.dict(), "roles": request.POST.getlist("roles"), "username": account.username})
    if not form.is_valid():
        messages.error(request, " ".join(str(e) for errors_ in form.errors.values() for e in errors_))
        return redirect("journals:users")
    try:
        with transaction.atomic():
            _save(account, form)
            _require_an_admin()
    except errors.NotAllowed as e:
        messages.error(request, e.message)
    else:
        messages.success(request, f"Account {account.get_username()} was changed; it counts from the next request on.")
    return redirect("journals:users")


def _require_an_admin() -> None:
    """Raises `NotAllowed` when no active account could undo what was just done."""
    active = User.objects.filter(is_active=True)
    if not active.filter(groups__name="admin").exists() and not active.filter(is_superuser=True).exists():
        raise errors.NotAllowed("This is the last active admin; make another one first.")


def _save(account: Any, form: AccountForm) -> None:
    account.email = form.cleaned_data["email"] or account.email
    account.is_active = form.cleaned_data["active"]
    if form.cleaned_data["password"]:
        account.set_password(form.cleaned_data["password"])
    account.save()
    account.groups.set(Group.objects.filter(name__in=form.cleaned_data["roles"]))


@access.role_required("admin")
@require_http_methods(["GET", "POST"])
def tokens(request: HttpRequest) -> HttpResponse:
    """All tokens, never their secrets; POST makes one and shows its secret in this answer only."""
    form = TokenForm(request.POST or None)
    secret = None
    if request.method == "POST" and form.is_valid():
        data = form.cleaned_data
        _, secret = access.create_token(
            data["name"], scope=data["scope"], created_by=request.user.get_username(), agent=data["agent"],
            environment=data["environment"], days=data["days"],
        )  # fmt: skip
        form = TokenForm()
    context = {"tokens": Token.objects.order_by("-created_at", "-id"), "form": form, "secret": secret}
    answer = render(request, "journals/tokens.html", context, status=400 if form.errors else 200)
    answer["Cache-Control"] = "no-store"
    return answer


@access.role_required("admin")
@require_POST
def revoke(request: HttpRequest, token_id: int) -> HttpResponse:
    """Ends a token; its next request is refused."""
    token = get_object_or_404(Token, pk=token_id)
    if access.revoke_token(token_id):
        messages.success(request, f"Token {token.name} is revoked; its next request is refused.")
    else:
        messages.info(request, f"Token {token.name} was revoked before.")
    return redirect("journals:tokens")
