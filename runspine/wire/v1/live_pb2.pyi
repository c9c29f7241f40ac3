from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Frame(_message.Message):
    __slots__ = ("run_id", "attempt", "slot", "number", "at", "width", "height", "jpeg", "hud", "trouble", "slots")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    SLOT_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    WIDTH_FIELD_NUMBER: _ClassVar[int]
    HEIGHT_FIELD_NUMBER: _ClassVar[int]
    JPEG_FIELD_NUMBER: _ClassVar[int]
    HUD_FIELD_NUMBER: _ClassVar[int]
    TROUBLE_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    attempt: int
    slot: int
    number: int
    at: int
    width: int
    height: int
    jpeg: bytes
    hud: Hud
    trouble: str
    slots: int
    def __init__(self, run_id: _Optional[str] = ..., attempt: _Optional[int] = ..., slot: _Optional[int] = ..., number: _Optional[int] = ..., at: _Optional[int] = ..., width: _Optional[int] = ..., height: _Optional[int] = ..., jpeg: _Optional[bytes] = ..., hud: _Optional[_Union[Hud, _Mapping]] = ..., trouble: _Optional[str] = ..., slots: _Optional[int] = ...) -> None: ...

class Hud(_message.Message):
    __slots__ = ("step", "episode_id", "episode_step", "episode_return", "steps_per_second", "batch", "actor", "waiting", "notice", "input", "keys", "turn_based", "paused", "pace", "evaluated")
    STEP_FIELD_NUMBER: _ClassVar[int]
    EPISODE_ID_FIELD_NUMBER: _ClassVar[int]
    EPISODE_STEP_FIELD_NUMBER: _ClassVar[int]
    EPISODE_RETURN_FIELD_NUMBER: _ClassVar[int]
    STEPS_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    ACTOR_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    NOTICE_FIELD_NUMBER: _ClassVar[int]
    INPUT_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    TURN_BASED_FIELD_NUMBER: _ClassVar[int]
    PAUSED_FIELD_NUMBER: _ClassVar[int]
    PACE_FIELD_NUMBER: _ClassVar[int]
    EVALUATED_FIELD_NUMBER: _ClassVar[int]
    step: int
    episode_id: str
    episode_step: int
    episode_return: float
    steps_per_second: float
    batch: int
    actor: str
    waiting: bool
    notice: str
    input: int
    keys: _containers.RepeatedCompositeFieldContainer[KeyHint]
    turn_based: bool
    paused: bool
    pace: float
    evaluated: EvaluatedBatch
    def __init__(self, step: _Optional[int] = ..., episode_id: _Optional[str] = ..., episode_step: _Optional[int] = ..., episode_return: _Optional[float] = ..., steps_per_second: _Optional[float] = ..., batch: _Optional[int] = ..., actor: _Optional[str] = ..., waiting: _Optional[bool] = ..., notice: _Optional[str] = ..., input: _Optional[int] = ..., keys: _Optional[_Iterable[_Union[KeyHint, _Mapping]]] = ..., turn_based: _Optional[bool] = ..., paused: _Optional[bool] = ..., pace: _Optional[float] = ..., evaluated: _Optional[_Union[EvaluatedBatch, _Mapping]] = ...) -> None: ...

class EvaluatedBatch(_message.Message):
    __slots__ = ("number", "episodes", "mean", "minimum", "maximum")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    EPISODES_FIELD_NUMBER: _ClassVar[int]
    MEAN_FIELD_NUMBER: _ClassVar[int]
    MINIMUM_FIELD_NUMBER: _ClassVar[int]
    MAXIMUM_FIELD_NUMBER: _ClassVar[int]
    number: int
    episodes: int
    mean: float
    minimum: float
    maximum: float
    def __init__(self, number: _Optional[int] = ..., episodes: _Optional[int] = ..., mean: _Optional[float] = ..., minimum: _Optional[float] = ..., maximum: _Optional[float] = ...) -> None: ...

class KeyHint(_message.Message):
    __slots__ = ("key", "action")
    KEY_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    key: str
    action: str
    def __init__(self, key: _Optional[str] = ..., action: _Optional[str] = ...) -> None: ...

class Control(_message.Message):
    __slots__ = ("interest", "input", "actor", "pace")
    INTEREST_FIELD_NUMBER: _ClassVar[int]
    INPUT_FIELD_NUMBER: _ClassVar[int]
    ACTOR_FIELD_NUMBER: _ClassVar[int]
    PACE_FIELD_NUMBER: _ClassVar[int]
    interest: Interest
    input: Input
    actor: ChooseActor
    pace: Pace
    def __init__(self, interest: _Optional[_Union[Interest, _Mapping]] = ..., input: _Optional[_Union[Input, _Mapping]] = ..., actor: _Optional[_Union[ChooseActor, _Mapping]] = ..., pace: _Optional[_Union[Pace, _Mapping]] = ...) -> None: ...

class Interest(_message.Message):
    __slots__ = ("viewer", "fps", "width", "slots", "gone")
    VIEWER_FIELD_NUMBER: _ClassVar[int]
    FPS_FIELD_NUMBER: _ClassVar[int]
    WIDTH_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    GONE_FIELD_NUMBER: _ClassVar[int]
    viewer: str
    fps: float
    width: int
    slots: _containers.RepeatedScalarFieldContainer[int]
    gone: bool
    def __init__(self, viewer: _Optional[str] = ..., fps: _Optional[float] = ..., width: _Optional[int] = ..., slots: _Optional[_Iterable[int]] = ..., gone: _Optional[bool] = ...) -> None: ...

class Input(_message.Message):
    __slots__ = ("person", "number", "key", "down")
    PERSON_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    DOWN_FIELD_NUMBER: _ClassVar[int]
    person: str
    number: int
    key: str
    down: bool
    def __init__(self, person: _Optional[str] = ..., number: _Optional[int] = ..., key: _Optional[str] = ..., down: _Optional[bool] = ...) -> None: ...

class ChooseActor(_message.Message):
    __slots__ = ("person", "actor")
    PERSON_FIELD_NUMBER: _ClassVar[int]
    ACTOR_FIELD_NUMBER: _ClassVar[int]
    person: str
    actor: str
    def __init__(self, person: _Optional[str] = ..., actor: _Optional[str] = ...) -> None: ...

class Pace(_message.Message):
    __slots__ = ("steps_per_second", "turn_based", "paused", "reset")
    STEPS_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    TURN_BASED_FIELD_NUMBER: _ClassVar[int]
    PAUSED_FIELD_NUMBER: _ClassVar[int]
    RESET_FIELD_NUMBER: _ClassVar[int]
    steps_per_second: float
    turn_based: bool
    paused: bool
    reset: bool
    def __init__(self, steps_per_second: _Optional[float] = ..., turn_based: _Optional[bool] = ..., paused: _Optional[bool] = ..., reset: _Optional[bool] = ...) -> None: ...
