"""The hub's answers, with the hub's own exceptions, and the choice of dtype and device."""

import types

import huggingface_hub
import pytest
from huggingface_hub import errors

from helpers.pretrained import (
    GatedModelError,
    Licence,
    NoNetworkError,
    NoSafetensorsError,
    UnknownModelError,
    card,
    hub,
    load,
    toy,
)
from helpers.pretrained.folder import folder_licence
from helpers.pretrained.machine import place

COMMIT = "0123456789abcdef0123456789abcdef01234567"
WORDS = ["the", "key", "is", "are"]


def answer(kind, code):
    """One of the hub's exceptions, as its client raises it."""
    response = types.SimpleNamespace(
        status_code=code, headers={}, request=types.SimpleNamespace(url="", method="GET")
    )
    return kind("the hub says no", response=response)


class Hub:
    """Stands for the hub: raises, or knows one repository."""

    def __init__(self, monkeypatch, error=None, folder=None, files=("model.safetensors",)):
        self.error, self.folder, self.files, self.asked = error, folder, files, []
        monkeypatch.setattr(huggingface_hub, "HfApi", lambda: self)
        monkeypatch.setattr(huggingface_hub, "snapshot_download", self.snapshot_download)

    def model_info(self, name, revision):
        self.asked.append((name, revision))
        if self.error is not None:
            raise self.error
        siblings = [types.SimpleNamespace(rfilename=file) for file in self.files]
        return types.SimpleNamespace(sha=COMMIT, siblings=siblings)

    def snapshot_download(self, name, **options):
        self.asked.append((name, options))
        if self.folder is None:
            raise errors.LocalEntryNotFoundError("nothing here")
        return str(self.folder)


@pytest.mark.parametrize(
    ("error", "expected", "said"),
    [
        (answer(errors.GatedRepoError, 403), GatedModelError, r"Accept its terms .*hf auth login"),
        (answer(errors.RepositoryNotFoundError, 401), UnknownModelError, "knows no model"),
        (errors.HFValidationError("bad"), UnknownModelError, "knows no model"),
        (answer(errors.RevisionNotFoundError, 404), UnknownModelError, "no revision 'v9'"),
        (answer(errors.HfHubHTTPError, 503), NoNetworkError, "not reached .*load.'smollm2'"),
        (errors.OfflineModeIsEnabled("offline"), NoNetworkError, "not on this machine"),
        (ConnectionError("no route"), NoNetworkError, "no route"),
    ],
)
def test_each_refusal_of_the_hub_has_its_own_error(monkeypatch, error, expected, said):
    Hub(monkeypatch, error)
    with pytest.raises(expected, match=said) as caught:
        load("someone/model", revision="v9")
    assert type(caught.value) is expected and caught.value.__cause__ is not None


def test_the_client_s_own_network_error_is_known_as_one(monkeypatch):
    kind = type(answer(errors.HfHubHTTPError, 503)).__mro__[1]
    transport = getattr(__import__(kind.__module__.split(".")[0]), "ConnectError", None)
    if transport is None:
        pytest.skip("this release of the hub's client has another HTTP library")
    Hub(monkeypatch, transport("[Errno -2] Name or service not known"))
    with pytest.raises(NoNetworkError, match="Name or service not known"):
        load("gpt2")


def test_an_error_that_is_not_the_network_s_is_not_hidden(monkeypatch):
    Hub(monkeypatch, ZeroDivisionError("ours"))
    with pytest.raises(ZeroDivisionError):
        load("gpt2")


def test_a_repository_without_safetensors_is_refused_before_the_download(monkeypatch):
    fake = Hub(monkeypatch, files=("pytorch_model.bin",))
    with pytest.raises(NoSafetensorsError, match="refs/pr"):
        load("someone/model")
    assert len(fake.asked) == 1


def test_a_repository_is_loaded_at_the_commit_that_the_revision_means(monkeypatch, tmp_path):
    toy.save("gpt2", tmp_path, words=WORDS)
    (tmp_path / "README.md").write_text("---\nlicense: mit\n---\nA model.\n")
    fake = Hub(monkeypatch, folder=tmp_path)
    loaded = load("someone/model", device="cpu")
    assert loaded.revision == COMMIT and loaded.name == "someone/model"
    assert loaded.licence.name == "mit" and loaded.licence.link.endswith("someone/model")
    (_, asked), (_, options) = fake.asked
    assert asked == "main" and options["revision"] == COMMIT
    assert not any(pattern.endswith((".py", ".bin")) for pattern in options["allow_patterns"])


def test_without_a_network_an_earlier_copy_serves(monkeypatch, tmp_path):
    folder = tmp_path / COMMIT
    folder.mkdir()
    toy.save("gpt2", folder, words=WORDS)
    fake = Hub(monkeypatch, ConnectionError("no route"), folder=folder)
    assert load("someone/model", device="cpu").revision == COMMIT
    assert fake.asked[1][1]["local_files_only"] is True


def test_what_can_be_no_model_is_refused_without_asking_the_hub(monkeypatch):
    fake = Hub(monkeypatch)
    for name in ("./no/such/folder", "a/b/c", "", "no such"):
        with pytest.raises(UnknownModelError, match="Packaged: smollm2, gemma3"):
            load(name)
    assert fake.asked == []


def test_a_revision_of_what_is_not_on_the_hub_is_refused():
    with pytest.raises(ValueError, match="does not come from the hub"):
        load("smollm2", revision="main")


@pytest.mark.parametrize(
    ("name", "fits"),
    [("gpt2", True), ("google/gemma-2-9b", True), ("../x", False), ("a/b/c", False), ("", False)],
)
def test_ids_are_told_from_paths(name, fits):
    assert hub.looks_like_id(name) is fits


@pytest.mark.parametrize(
    ("parameters", "cpu", "cuda", "device", "dtype"),
    [
        (124e6, 12e9, None, "cpu", "float32"),
        (2e9, 9e9, None, "cpu", "bfloat16"),  # 10 GB in float32 do not fit, 5 GB do
        (8e9, 12e9, None, "auto", "bfloat16"),
        (124e6, 12e9, 15e9, "cuda", "float32"),
        (1.5e9, 12e9, 15e9, "cuda", "bfloat16"),
        (8e9, 12e9, 15e9, "auto", "bfloat16"),
    ],
)
def test_size_and_memory_decide_dtype_and_device(parameters, cpu, cuda, device, dtype):
    found = place(int(parameters), cpu_bytes=int(cpu), cuda_bytes=cuda and int(cuda))
    assert (found.device, found.dtype) == (device, dtype)


def test_the_card_names_every_licence_and_folds_its_text_away():
    model = types.SimpleNamespace
    apache = Licence("Apache 2.0", "https://example.org/apache", "terms <b>&</b> conditions")
    text = card(
        [
            model(name="one", licence=apache, source="a | b", revision="1.0"),
            model(name="two", licence=Licence("not stated"), source="here", revision="local"),
        ]
    )
    assert "| one | a \\| b | 1.0 | [Apache 2.0](https://example.org/apache) |" in text
    assert "| two | here | local | not stated |" in text
    assert text.count("<details>") == 1 and "&lt;b&gt;&amp;&lt;/b&gt;" in text


def test_a_folder_s_licence_is_read_from_its_own_files(tmp_path):
    assert folder_licence(tmp_path) == Licence("not stated")
    (tmp_path / "README.md").write_text("---\ntags: [x]\nlicense: apache-2.0\n---\n")
    (tmp_path / "LICENSE").write_text("Apache License")
    assert folder_licence(tmp_path) == Licence("apache-2.0", "", "Apache License")
