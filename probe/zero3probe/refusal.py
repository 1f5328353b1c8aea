"""The exception for a run that this interpreter cannot do."""


class CannotRun(Exception):
    """What this interpreter's torch or DeepSpeed cannot do of a run; the text says what."""
