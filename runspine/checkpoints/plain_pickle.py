"""Reads the data of a pickle without running it.

A pickle is a program. Its data are rebuilt, and every function it names is either one of the few that
tensors need, which is replaced, or a reason to refuse the pickle.
"""

from __future__ import annotations

import io
import pickle
import pickletools
import struct
from collections import OrderedDict
from typing import Any, NamedTuple

from runspine.checkpoints.errors import CheckpointError

MAX_PICKLE_BYTES = 64 << 20
# A larger index would make the reader reserve memory for all indexes before it.
MAX_MEMO = 2_000_000
# A malformed pickle fails in the reader with any of these errors.
READER_ERRORS = (
    *(pickle.UnpicklingError, struct.error, ArithmeticError, AssertionError, AttributeError, BufferError),
    *(
        EOFError,
        ImportError,
        LookupError,
        MemoryError,
        NameError,
        OSError,
        RuntimeError,
        TypeError,
        ValueError,
    ),
)
_PUTS = {"PUT", "BINPUT", "LONG_BINPUT"}
# Opcodes that create objects and that no library which saves tensors uses.
_ODD = {"INST", "OBJ", "EXT1", "EXT2", "EXT4", "NEXT_BUFFER", "READONLY_BUFFER"}


class Tensor(NamedTuple):
    """A tensor as a pickle describes it, without its numbers."""

    shape: tuple[int, ...]
    dtype: str


class _Named(NamedTuple):
    """A class or constant of torch that is only named."""

    name: str


def _tensor(storage: Any, offset: Any, size: Any, *_: Any) -> Tensor:
    return Tensor(tuple(int(each) for each in size), str(storage))


def _parameter(data: Any, *_: Any) -> Any:
    return data


def _size(values: Any = ()) -> tuple[Any, ...]:
    return tuple(values)


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        match module, name:
            case "collections", "OrderedDict":
                return OrderedDict
            case "torch._utils", "_rebuild_tensor_v2" | "_rebuild_tensor":
                return _tensor
            case "torch._utils", "_rebuild_parameter":
                return _parameter
            case "torch", "Size":
                return _size
            case "torch", _ if name.endswith("Storage") or name in _DTYPES:
                return _Named(name)
            case "torch.storage", "UntypedStorage" | "TypedStorage":
                return _Named(name)
        raise CheckpointError(
            f"it calls {module}.{name} when it is loaded, which is refused: nothing of it was run"
        )

    def persistent_load(self, identifier: Any) -> str:
        """('storage', FloatStorage, '0', 'cpu', 1234): the numbers themselves are in another entry."""
        if not isinstance(identifier, tuple) or len(identifier) < 2 or identifier[0] != "storage":
            raise CheckpointError("it refers to something that is not a tensor's storage")
        return str(getattr(identifier[1], "name", identifier[1]))


_DTYPES = {
    *("float32", "float64", "float16", "bfloat16", "uint8", "int8", "int16", "int32", "int64", "bool"),
    *("complex64", "complex128"),
}


def read_plain(data: bytes) -> Any:
    """The data, with tensors as their shapes. Raises CheckpointError."""
    if len(data) > MAX_PICKLE_BYTES:
        raise CheckpointError(
            f"its pickle has {len(data):,} bytes, more than the {MAX_PICKLE_BYTES:,} accepted"
        )
    try:
        _check(data)
        return _Reader(io.BytesIO(data)).load()
    except CheckpointError:
        raise
    except READER_ERRORS as error:
        raise CheckpointError(f"its pickle is damaged: {type(error).__name__}: {error}") from error


def _check(data: bytes) -> None:
    for opcode, argument, _ in pickletools.genops(data):
        if opcode.name in _PUTS and int(argument or 0) > MAX_MEMO:
            raise CheckpointError("its pickle requests more memory than it can need")
        if opcode.name in _ODD:
            raise CheckpointError(
                f"its pickle makes objects by {opcode.name}, which is refused: nothing of it was run"
            )
