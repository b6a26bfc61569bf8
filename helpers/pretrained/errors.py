"""The ways in which a model cannot be had. Each message says what to do."""


class PretrainedError(RuntimeError):
    """A pretrained model cannot be loaded."""


class ModelAbsentError(PretrainedError):
    """The package that carries the model is not installed."""


class ModelFileError(PretrainedError):
    """A model file is damaged, incomplete, or not the one that was pinned."""


class GatedModelError(PretrainedError):
    """The hub wants you to accept the model's terms, and to say who you are."""


class NoNetworkError(PretrainedError):
    """The hub cannot be reached, and this machine keeps no copy."""


class UnknownModelError(PretrainedError):
    """There is no such model, or no such revision of it."""


class NoSafetensorsError(PretrainedError):
    """A folder or repository has no safetensors; pickled weights can run code, so we refuse."""
