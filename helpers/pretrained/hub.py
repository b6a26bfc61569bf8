"""One commit of a repository on the Hugging Face hub, as a folder on this machine."""

from __future__ import annotations

import re
from pathlib import Path

from helpers.pretrained.errors import (
    GatedModelError,
    NoNetworkError,
    NoSafetensorsError,
    UnknownModelError,
)

# what a decoder needs; nothing that could run, and nothing out of folders (other formats lie there)
WANTED = ["*.safetensors", "*.json", "*.model", "*.txt", "*.jinja", "README.md", "LICEN[SC]E*"]
UNWANTED = ["*/*"]


def looks_like_id(name: str) -> bool:
    """Whether `name` could be a repository: `name` or `owner/name`."""
    part = r"[A-Za-z0-9][\w.-]*"
    return re.fullmatch(rf"{part}(/{part})?", name) is not None


def fetch(name: str, revision: str | None) -> tuple[Path, str]:
    """The folder of repository `name` at `revision` ("main" if None), and its commit.

    Without a network, a copy that an earlier call left on this machine serves.
    Raises GatedModelError, UnknownModelError, NoSafetensorsError or NoNetworkError.
    """
    import huggingface_hub
    from huggingface_hub import errors

    wanted = revision or "main"
    try:
        info = huggingface_hub.HfApi().model_info(name, revision=wanted)
        if not any(file.rfilename.endswith(".safetensors") for file in info.siblings or []):
            raise NoSafetensorsError(
                f"{name} at {wanted} has no safetensors on the hub, and pickled weights can run "
                "code. Choose a revision that has them (often refs/pr/…), or convert it yourself."
            )
        return _download(name, info.sha), info.sha
    except errors.GatedRepoError as error:
        raise GatedModelError(
            f"{name} is gated. Accept its terms on https://huggingface.co/{name}, make a token "
            "there, and run `hf auth login`, or set HF_TOKEN."
        ) from error
    except (errors.RepositoryNotFoundError, errors.HFValidationError) as error:
        raise UnknownModelError(
            f"the hub knows no model {name!r}, or does not show it to you. Look at the spelling; "
            "for a private one run `hf auth login`."
        ) from error
    except errors.RevisionNotFoundError as error:
        raise UnknownModelError(
            f"{name} has no revision {wanted!r}. See https://huggingface.co/{name}/commits/main."
        ) from error
    except Exception as error:
        if not _is_network(error):
            raise
        return _kept(name, wanted, error)


def _download(name: str, commit: str, *, local: bool = False) -> Path:
    import huggingface_hub

    folder = huggingface_hub.snapshot_download(
        name,
        revision=commit,
        allow_patterns=WANTED,
        ignore_patterns=UNWANTED,
        local_files_only=local,
    )
    return Path(folder)


def _kept(name: str, wanted: str, error: Exception) -> tuple[Path, str]:
    """The copy of an earlier call; its folder is named after the commit."""
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        folder = _download(name, wanted, local=True)
    except (LocalEntryNotFoundError, FileNotFoundError):
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise NoNetworkError(
            f"{name} at {wanted} is not on this machine, and the hub was not reached ({reason}). "
            "Connect to a network, or use a packaged model: load('smollm2') or load('gemma3')."
        ) from error
    return folder, folder.name


def _is_network(error: Exception) -> bool:
    """Whether the hub, or the way to it, failed: the client's classes differ between releases."""
    names = {kind.__name__ for kind in type(error).__mro__}
    return bool(names & {"TransportError", "ConnectionError", "HfHubHTTPError", "Timeout"})
