"""What a person fills in to import files."""

from __future__ import annotations

from typing import Any

from django import forms
from django.core.files.uploadedfile import UploadedFile

from journals import ingest

__all__ = ["ImportForm"]


class FilesInput(forms.ClearableFileInput):
    allow_multiple_selected = True


class FilesField(forms.FileField):
    """One or more files; empty ones too, since an empty file is refused by name in the report."""

    widget = FilesInput

    def clean(self, data: Any, initial: Any = None) -> list[UploadedFile[Any]]:
        given = data if isinstance(data, list | tuple) else [data] if data else []
        if not given:
            raise forms.ValidationError("Choose at least one file.", code="required")
        return list(given)


class ImportForm(forms.Form):
    """Files that belong together, and what they do not say about themselves."""

    file = FilesField(allow_empty_file=True)
    format = forms.ChoiceField(choices=[(f, f) for f in ingest.FORMATS], initial="auto", required=False)
    source = forms.CharField(max_length=ingest.NAMES["source"], required=False)
    agent = forms.CharField(max_length=ingest.NAMES["agent"], required=False)
    environment = forms.CharField(max_length=ingest.NAMES["environment"], required=False)

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        for name in ingest.NAMES:
            told = f"The name of the {name} has %(show_value)d characters, the limit is %(limit_value)d."
            self.fields[name].error_messages["max_length"] = told

    def clean_source(self) -> str:
        source = str(self.cleaned_data["source"])
        if source.startswith("native:"):
            raise forms.ValidationError("Names that begin with “native:” belong to runs of our own; use another name.")
        return source

    def clean_format(self) -> str:
        return self.cleaned_data["format"] or "auto"
