from runspine.wire.v1 import facts_pb2 as _facts_pb2
from runspine.wire.v1 import run_pb2 as _run_pb2
from runspine.wire.v1 import runner_pb2 as _runner_pb2
from runspine.wire.v1 import spec_pb2 as _spec_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Integrity(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    INTEGRITY_UNSPECIFIED: _ClassVar[Integrity]
    UNVERIFIED: _ClassVar[Integrity]
    GOOD: _ClassVar[Integrity]
    CORRUPT: _ClassVar[Integrity]

class Keeping(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    KEEPING_UNSPECIFIED: _ClassVar[Keeping]
    KEPT: _ClassVar[Keeping]
    PRUNED: _ClassVar[Keeping]
    ERASED: _ClassVar[Keeping]

class CardOrder(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CARD_ORDER_UNSPECIFIED: _ClassVar[CardOrder]
    BEST_FIRST: _ClassVar[CardOrder]
    NEWEST_FIRST: _ClassVar[CardOrder]
INTEGRITY_UNSPECIFIED: Integrity
UNVERIFIED: Integrity
GOOD: Integrity
CORRUPT: Integrity
KEEPING_UNSPECIFIED: Keeping
KEPT: Keeping
PRUNED: Keeping
ERASED: Keeping
CARD_ORDER_UNSPECIFIED: CardOrder
BEST_FIRST: CardOrder
NEWEST_FIRST: CardOrder

class Artifact(_message.Message):
    __slots__ = ("run_id", "digest", "size", "key", "kind", "name", "attempt", "step", "meta", "produced_at", "integrity", "flaw", "checked_at", "keeping", "rule", "batch", "pruned_at", "undo_until", "pinned", "aliases", "actors", "productions", "return_then", "pruned_aliases")
    class MetaEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: _spec_pb2.Value
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_spec_pb2.Value, _Mapping]] = ...) -> None: ...
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    META_FIELD_NUMBER: _ClassVar[int]
    PRODUCED_AT_FIELD_NUMBER: _ClassVar[int]
    INTEGRITY_FIELD_NUMBER: _ClassVar[int]
    FLAW_FIELD_NUMBER: _ClassVar[int]
    CHECKED_AT_FIELD_NUMBER: _ClassVar[int]
    KEEPING_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    PRUNED_AT_FIELD_NUMBER: _ClassVar[int]
    UNDO_UNTIL_FIELD_NUMBER: _ClassVar[int]
    PINNED_FIELD_NUMBER: _ClassVar[int]
    ALIASES_FIELD_NUMBER: _ClassVar[int]
    ACTORS_FIELD_NUMBER: _ClassVar[int]
    PRODUCTIONS_FIELD_NUMBER: _ClassVar[int]
    RETURN_THEN_FIELD_NUMBER: _ClassVar[int]
    PRUNED_ALIASES_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    digest: str
    size: int
    key: str
    kind: str
    name: str
    attempt: int
    step: int
    meta: _containers.MessageMap[str, _spec_pb2.Value]
    produced_at: int
    integrity: Integrity
    flaw: str
    checked_at: int
    keeping: Keeping
    rule: str
    batch: str
    pruned_at: int
    undo_until: int
    pinned: bool
    aliases: _containers.RepeatedScalarFieldContainer[str]
    actors: _containers.RepeatedScalarFieldContainer[str]
    productions: _containers.RepeatedCompositeFieldContainer[_facts_pb2.ArtifactProduced]
    return_then: float
    pruned_aliases: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, run_id: _Optional[str] = ..., digest: _Optional[str] = ..., size: _Optional[int] = ..., key: _Optional[str] = ..., kind: _Optional[str] = ..., name: _Optional[str] = ..., attempt: _Optional[int] = ..., step: _Optional[int] = ..., meta: _Optional[_Mapping[str, _spec_pb2.Value]] = ..., produced_at: _Optional[int] = ..., integrity: _Optional[_Union[Integrity, str]] = ..., flaw: _Optional[str] = ..., checked_at: _Optional[int] = ..., keeping: _Optional[_Union[Keeping, str]] = ..., rule: _Optional[str] = ..., batch: _Optional[str] = ..., pruned_at: _Optional[int] = ..., undo_until: _Optional[int] = ..., pinned: _Optional[bool] = ..., aliases: _Optional[_Iterable[str]] = ..., actors: _Optional[_Iterable[str]] = ..., productions: _Optional[_Iterable[_Union[_facts_pb2.ArtifactProduced, _Mapping]]] = ..., return_then: _Optional[float] = ..., pruned_aliases: _Optional[_Iterable[str]] = ...) -> None: ...

class RunArtifacts(_message.Message):
    __slots__ = ("run_id", "artifacts", "pinned", "imported", "imported_at", "last_pruned_at", "pruned_bytes")
    class ArtifactsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: Artifact
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[Artifact, _Mapping]] = ...) -> None: ...
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    ARTIFACTS_FIELD_NUMBER: _ClassVar[int]
    PINNED_FIELD_NUMBER: _ClassVar[int]
    IMPORTED_FIELD_NUMBER: _ClassVar[int]
    IMPORTED_AT_FIELD_NUMBER: _ClassVar[int]
    LAST_PRUNED_AT_FIELD_NUMBER: _ClassVar[int]
    PRUNED_BYTES_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    artifacts: _containers.MessageMap[str, Artifact]
    pinned: bool
    imported: _facts_pb2.CheckpointImported
    imported_at: int
    last_pruned_at: int
    pruned_bytes: int
    def __init__(self, run_id: _Optional[str] = ..., artifacts: _Optional[_Mapping[str, Artifact]] = ..., pinned: _Optional[bool] = ..., imported: _Optional[_Union[_facts_pb2.CheckpointImported, _Mapping]] = ..., imported_at: _Optional[int] = ..., last_pruned_at: _Optional[int] = ..., pruned_bytes: _Optional[int] = ...) -> None: ...

class RetentionRules(_message.Message):
    __slots__ = ("scopes",)
    class ScopesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: _facts_pb2.RetentionProfile
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_facts_pb2.RetentionProfile, _Mapping]] = ...) -> None: ...
    SCOPES_FIELD_NUMBER: _ClassVar[int]
    scopes: _containers.MessageMap[str, _facts_pb2.RetentionProfile]
    def __init__(self, scopes: _Optional[_Mapping[str, _facts_pb2.RetentionProfile]] = ...) -> None: ...

class ListArtifactsRequest(_message.Message):
    __slots__ = ("run", "kinds", "with_pruned", "only_corrupt", "page_size", "page_token")
    RUN_FIELD_NUMBER: _ClassVar[int]
    KINDS_FIELD_NUMBER: _ClassVar[int]
    WITH_PRUNED_FIELD_NUMBER: _ClassVar[int]
    ONLY_CORRUPT_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    run: str
    kinds: _containers.RepeatedScalarFieldContainer[str]
    with_pruned: bool
    only_corrupt: bool
    page_size: int
    page_token: str
    def __init__(self, run: _Optional[str] = ..., kinds: _Optional[_Iterable[str]] = ..., with_pruned: _Optional[bool] = ..., only_corrupt: _Optional[bool] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListArtifactsResponse(_message.Message):
    __slots__ = ("artifacts", "next_page_token", "total")
    ARTIFACTS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    artifacts: _containers.RepeatedCompositeFieldContainer[Artifact]
    next_page_token: str
    total: int
    def __init__(self, artifacts: _Optional[_Iterable[_Union[Artifact, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., total: _Optional[int] = ...) -> None: ...

class GetArtifactRequest(_message.Message):
    __slots__ = ("reference",)
    REFERENCE_FIELD_NUMBER: _ClassVar[int]
    reference: str
    def __init__(self, reference: _Optional[str] = ...) -> None: ...

class GetArtifactResponse(_message.Message):
    __slots__ = ("artifact", "card", "obstacle", "also_in")
    ARTIFACT_FIELD_NUMBER: _ClassVar[int]
    CARD_FIELD_NUMBER: _ClassVar[int]
    OBSTACLE_FIELD_NUMBER: _ClassVar[int]
    ALSO_IN_FIELD_NUMBER: _ClassVar[int]
    artifact: Artifact
    card: CheckpointCard
    obstacle: str
    also_in: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, artifact: _Optional[_Union[Artifact, _Mapping]] = ..., card: _Optional[_Union[CheckpointCard, _Mapping]] = ..., obstacle: _Optional[str] = ..., also_in: _Optional[_Iterable[str]] = ...) -> None: ...

class GetUrlRequest(_message.Message):
    __slots__ = ("reference", "seconds")
    REFERENCE_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    reference: str
    seconds: int
    def __init__(self, reference: _Optional[str] = ..., seconds: _Optional[int] = ...) -> None: ...

class GetUrlResponse(_message.Message):
    __slots__ = ("url", "expires_at", "artifact")
    URL_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_FIELD_NUMBER: _ClassVar[int]
    ARTIFACT_FIELD_NUMBER: _ClassVar[int]
    url: str
    expires_at: int
    artifact: Artifact
    def __init__(self, url: _Optional[str] = ..., expires_at: _Optional[int] = ..., artifact: _Optional[_Union[Artifact, _Mapping]] = ...) -> None: ...

class ListCheckpointsRequest(_message.Message):
    __slots__ = ("env", "algo", "run", "project", "order", "page_size", "page_token", "with_pruned", "all", "dataset")
    ENV_FIELD_NUMBER: _ClassVar[int]
    ALGO_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    WITH_PRUNED_FIELD_NUMBER: _ClassVar[int]
    ALL_FIELD_NUMBER: _ClassVar[int]
    DATASET_FIELD_NUMBER: _ClassVar[int]
    env: str
    algo: str
    run: str
    project: str
    order: CardOrder
    page_size: int
    page_token: str
    with_pruned: bool
    all: bool
    dataset: str
    def __init__(self, env: _Optional[str] = ..., algo: _Optional[str] = ..., run: _Optional[str] = ..., project: _Optional[str] = ..., order: _Optional[_Union[CardOrder, str]] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., with_pruned: _Optional[bool] = ..., all: _Optional[bool] = ..., dataset: _Optional[str] = ...) -> None: ...

class ListCheckpointsResponse(_message.Message):
    __slots__ = ("cards", "next_page_token", "total")
    CARDS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    cards: _containers.RepeatedCompositeFieldContainer[CheckpointCard]
    next_page_token: str
    total: int
    def __init__(self, cards: _Optional[_Iterable[_Union[CheckpointCard, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., total: _Optional[int] = ...) -> None: ...

class CheckpointCard(_message.Message):
    __slots__ = ("artifact", "run_name", "project", "env", "algo", "runner", "seed", "score", "aliases", "parent", "runners", "phase", "obstacle", "source", "dataset")
    ARTIFACT_FIELD_NUMBER: _ClassVar[int]
    RUN_NAME_FIELD_NUMBER: _ClassVar[int]
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    ENV_FIELD_NUMBER: _ClassVar[int]
    ALGO_FIELD_NUMBER: _ClassVar[int]
    RUNNER_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    ALIASES_FIELD_NUMBER: _ClassVar[int]
    PARENT_FIELD_NUMBER: _ClassVar[int]
    RUNNERS_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    OBSTACLE_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    DATASET_FIELD_NUMBER: _ClassVar[int]
    artifact: Artifact
    run_name: str
    project: str
    env: str
    algo: str
    runner: str
    seed: int
    score: CardScore
    aliases: _containers.RepeatedScalarFieldContainer[str]
    parent: _facts_pb2.ResumedFrom
    runners: _containers.RepeatedCompositeFieldContainer[RunnerFit]
    phase: _run_pb2.Phase
    obstacle: str
    source: str
    dataset: _spec_pb2.Dataset
    def __init__(self, artifact: _Optional[_Union[Artifact, _Mapping]] = ..., run_name: _Optional[str] = ..., project: _Optional[str] = ..., env: _Optional[str] = ..., algo: _Optional[str] = ..., runner: _Optional[str] = ..., seed: _Optional[int] = ..., score: _Optional[_Union[CardScore, _Mapping]] = ..., aliases: _Optional[_Iterable[str]] = ..., parent: _Optional[_Union[_facts_pb2.ResumedFrom, _Mapping]] = ..., runners: _Optional[_Iterable[_Union[RunnerFit, _Mapping]]] = ..., phase: _Optional[_Union[_run_pb2.Phase, str]] = ..., obstacle: _Optional[str] = ..., source: _Optional[str] = ..., dataset: _Optional[_Union[_spec_pb2.Dataset, _Mapping]] = ...) -> None: ...

class CardScore(_message.Message):
    __slots__ = ("mean", "source", "episodes", "std")
    MEAN_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    EPISODES_FIELD_NUMBER: _ClassVar[int]
    STD_FIELD_NUMBER: _ClassVar[int]
    mean: float
    source: str
    episodes: int
    std: float
    def __init__(self, mean: _Optional[float] = ..., source: _Optional[str] = ..., episodes: _Optional[int] = ..., std: _Optional[float] = ...) -> None: ...

class RunnerFit(_message.Message):
    __slots__ = ("runner", "uses")
    RUNNER_FIELD_NUMBER: _ClassVar[int]
    USES_FIELD_NUMBER: _ClassVar[int]
    runner: str
    uses: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, runner: _Optional[str] = ..., uses: _Optional[_Iterable[str]] = ...) -> None: ...

class ImportRequest(_message.Message):
    __slots__ = ("about", "data")
    ABOUT_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    about: _facts_pb2.CheckpointImported
    data: bytes
    def __init__(self, about: _Optional[_Union[_facts_pb2.CheckpointImported, _Mapping]] = ..., data: _Optional[bytes] = ...) -> None: ...

class ImportResponse(_message.Message):
    __slots__ = ("import_id", "card", "created")
    IMPORT_ID_FIELD_NUMBER: _ClassVar[int]
    CARD_FIELD_NUMBER: _ClassVar[int]
    CREATED_FIELD_NUMBER: _ClassVar[int]
    import_id: str
    card: CheckpointCard
    created: bool
    def __init__(self, import_id: _Optional[str] = ..., card: _Optional[_Union[CheckpointCard, _Mapping]] = ..., created: _Optional[bool] = ...) -> None: ...

class PinRequest(_message.Message):
    __slots__ = ("reference", "reason")
    REFERENCE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    reference: str
    reason: str
    def __init__(self, reference: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class UnpinRequest(_message.Message):
    __slots__ = ("reference",)
    REFERENCE_FIELD_NUMBER: _ClassVar[int]
    reference: str
    def __init__(self, reference: _Optional[str] = ...) -> None: ...

class PinResponse(_message.Message):
    __slots__ = ("artifacts", "run_id")
    ARTIFACTS_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    artifacts: _containers.RepeatedCompositeFieldContainer[Artifact]
    run_id: str
    def __init__(self, artifacts: _Optional[_Iterable[_Union[Artifact, _Mapping]]] = ..., run_id: _Optional[str] = ...) -> None: ...

class SetAliasRequest(_message.Message):
    __slots__ = ("alias", "reference")
    ALIAS_FIELD_NUMBER: _ClassVar[int]
    REFERENCE_FIELD_NUMBER: _ClassVar[int]
    alias: str
    reference: str
    def __init__(self, alias: _Optional[str] = ..., reference: _Optional[str] = ...) -> None: ...

class SetAliasResponse(_message.Message):
    __slots__ = ("artifact",)
    ARTIFACT_FIELD_NUMBER: _ClassVar[int]
    artifact: Artifact
    def __init__(self, artifact: _Optional[_Union[Artifact, _Mapping]] = ...) -> None: ...

class ActivateRequest(_message.Message):
    __slots__ = ("actor", "reference", "env")
    ACTOR_FIELD_NUMBER: _ClassVar[int]
    REFERENCE_FIELD_NUMBER: _ClassVar[int]
    ENV_FIELD_NUMBER: _ClassVar[int]
    actor: str
    reference: str
    env: str
    def __init__(self, actor: _Optional[str] = ..., reference: _Optional[str] = ..., env: _Optional[str] = ...) -> None: ...

class ActivateResponse(_message.Message):
    __slots__ = ("card", "previous")
    CARD_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_FIELD_NUMBER: _ClassVar[int]
    card: CheckpointCard
    previous: Artifact
    def __init__(self, card: _Optional[_Union[CheckpointCard, _Mapping]] = ..., previous: _Optional[_Union[Artifact, _Mapping]] = ...) -> None: ...

class ListActorsRequest(_message.Message):
    __slots__ = ("env",)
    ENV_FIELD_NUMBER: _ClassVar[int]
    env: str
    def __init__(self, env: _Optional[str] = ...) -> None: ...

class ListActorsResponse(_message.Message):
    __slots__ = ("actors",)
    ACTORS_FIELD_NUMBER: _ClassVar[int]
    actors: _containers.RepeatedCompositeFieldContainer[Actor]
    def __init__(self, actors: _Optional[_Iterable[_Union[Actor, _Mapping]]] = ...) -> None: ...

class Actor(_message.Message):
    __slots__ = ("name", "card", "env")
    NAME_FIELD_NUMBER: _ClassVar[int]
    CARD_FIELD_NUMBER: _ClassVar[int]
    ENV_FIELD_NUMBER: _ClassVar[int]
    name: str
    card: CheckpointCard
    env: str
    def __init__(self, name: _Optional[str] = ..., card: _Optional[_Union[CheckpointCard, _Mapping]] = ..., env: _Optional[str] = ...) -> None: ...

class ActivatedPlace(_message.Message):
    __slots__ = ("actor", "env", "run_id", "digest")
    ACTOR_FIELD_NUMBER: _ClassVar[int]
    ENV_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    actor: str
    env: str
    run_id: str
    digest: str
    def __init__(self, actor: _Optional[str] = ..., env: _Optional[str] = ..., run_id: _Optional[str] = ..., digest: _Optional[str] = ...) -> None: ...

class GetRetentionRequest(_message.Message):
    __slots__ = ("scope", "run")
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    scope: str
    run: str
    def __init__(self, scope: _Optional[str] = ..., run: _Optional[str] = ...) -> None: ...

class GetRetentionResponse(_message.Message):
    __slots__ = ("profiles", "statuses", "undoable", "janitor", "runs_with")
    PROFILES_FIELD_NUMBER: _ClassVar[int]
    STATUSES_FIELD_NUMBER: _ClassVar[int]
    UNDOABLE_FIELD_NUMBER: _ClassVar[int]
    JANITOR_FIELD_NUMBER: _ClassVar[int]
    RUNS_WITH_FIELD_NUMBER: _ClassVar[int]
    profiles: _containers.RepeatedCompositeFieldContainer[ScopedProfile]
    statuses: _containers.RepeatedCompositeFieldContainer[RetentionStatus]
    undoable: _containers.RepeatedCompositeFieldContainer[PruneBatch]
    janitor: JanitorTerm
    runs_with: _containers.RepeatedCompositeFieldContainer[RunsWithStatus]
    def __init__(self, profiles: _Optional[_Iterable[_Union[ScopedProfile, _Mapping]]] = ..., statuses: _Optional[_Iterable[_Union[RetentionStatus, _Mapping]]] = ..., undoable: _Optional[_Iterable[_Union[PruneBatch, _Mapping]]] = ..., janitor: _Optional[_Union[JanitorTerm, _Mapping]] = ..., runs_with: _Optional[_Iterable[_Union[RunsWithStatus, _Mapping]]] = ...) -> None: ...

class ScopedProfile(_message.Message):
    __slots__ = ("scope", "profile", "set_by", "set_at")
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    SET_BY_FIELD_NUMBER: _ClassVar[int]
    SET_AT_FIELD_NUMBER: _ClassVar[int]
    scope: str
    profile: _facts_pb2.RetentionProfile
    set_by: str
    set_at: int
    def __init__(self, scope: _Optional[str] = ..., profile: _Optional[_Union[_facts_pb2.RetentionProfile, _Mapping]] = ..., set_by: _Optional[str] = ..., set_at: _Optional[int] = ...) -> None: ...

class RetentionStatus(_message.Message):
    __slots__ = ("run_id", "run_name", "effective", "kinds", "last_pruned_at", "pruned_bytes")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_NAME_FIELD_NUMBER: _ClassVar[int]
    EFFECTIVE_FIELD_NUMBER: _ClassVar[int]
    KINDS_FIELD_NUMBER: _ClassVar[int]
    LAST_PRUNED_AT_FIELD_NUMBER: _ClassVar[int]
    PRUNED_BYTES_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    run_name: str
    effective: _facts_pb2.RetentionProfile
    kinds: _containers.RepeatedCompositeFieldContainer[KindStatus]
    last_pruned_at: int
    pruned_bytes: int
    def __init__(self, run_id: _Optional[str] = ..., run_name: _Optional[str] = ..., effective: _Optional[_Union[_facts_pb2.RetentionProfile, _Mapping]] = ..., kinds: _Optional[_Iterable[_Union[KindStatus, _Mapping]]] = ..., last_pruned_at: _Optional[int] = ..., pruned_bytes: _Optional[int] = ...) -> None: ...

class KindStatus(_message.Message):
    __slots__ = ("kind", "retained", "total", "bytes")
    KIND_FIELD_NUMBER: _ClassVar[int]
    RETAINED_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    kind: str
    retained: int
    total: int
    bytes: int
    def __init__(self, kind: _Optional[str] = ..., retained: _Optional[int] = ..., total: _Optional[int] = ..., bytes: _Optional[int] = ...) -> None: ...

class RunsWithStatus(_message.Message):
    __slots__ = ("scope", "kind", "limit", "retained", "total")
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    RETAINED_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    scope: str
    kind: str
    limit: int
    retained: int
    total: int
    def __init__(self, scope: _Optional[str] = ..., kind: _Optional[str] = ..., limit: _Optional[int] = ..., retained: _Optional[int] = ..., total: _Optional[int] = ...) -> None: ...

class PruneBatch(_message.Message):
    __slots__ = ("batch", "at", "undo_until", "artifacts", "bytes")
    BATCH_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    UNDO_UNTIL_FIELD_NUMBER: _ClassVar[int]
    ARTIFACTS_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    batch: str
    at: int
    undo_until: int
    artifacts: int
    bytes: int
    def __init__(self, batch: _Optional[str] = ..., at: _Optional[int] = ..., undo_until: _Optional[int] = ..., artifacts: _Optional[int] = ..., bytes: _Optional[int] = ...) -> None: ...

class SetRetentionRequest(_message.Message):
    __slots__ = ("scope", "profile")
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    scope: str
    profile: _facts_pb2.RetentionProfile
    def __init__(self, scope: _Optional[str] = ..., profile: _Optional[_Union[_facts_pb2.RetentionProfile, _Mapping]] = ...) -> None: ...

class SetRetentionResponse(_message.Message):
    __slots__ = ("profile",)
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    profile: ScopedProfile
    def __init__(self, profile: _Optional[_Union[ScopedProfile, _Mapping]] = ...) -> None: ...

class GetPrunePlanRequest(_message.Message):
    __slots__ = ("run", "project")
    RUN_FIELD_NUMBER: _ClassVar[int]
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    run: str
    project: str
    def __init__(self, run: _Optional[str] = ..., project: _Optional[str] = ...) -> None: ...

class PrunePlan(_message.Message):
    __slots__ = ("items", "freed_bytes", "notices", "token")
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    FREED_BYTES_FIELD_NUMBER: _ClassVar[int]
    NOTICES_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[PruneItem]
    freed_bytes: int
    notices: _containers.RepeatedScalarFieldContainer[str]
    token: str
    def __init__(self, items: _Optional[_Iterable[_Union[PruneItem, _Mapping]]] = ..., freed_bytes: _Optional[int] = ..., notices: _Optional[_Iterable[str]] = ..., token: _Optional[str] = ...) -> None: ...

class PruneItem(_message.Message):
    __slots__ = ("artifact", "run_name", "rule", "scope")
    ARTIFACT_FIELD_NUMBER: _ClassVar[int]
    RUN_NAME_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    artifact: Artifact
    run_name: str
    rule: str
    scope: str
    def __init__(self, artifact: _Optional[_Union[Artifact, _Mapping]] = ..., run_name: _Optional[str] = ..., rule: _Optional[str] = ..., scope: _Optional[str] = ...) -> None: ...

class PruneRequest(_message.Message):
    __slots__ = ("run", "project", "token", "reference", "with_aliases")
    RUN_FIELD_NUMBER: _ClassVar[int]
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    REFERENCE_FIELD_NUMBER: _ClassVar[int]
    WITH_ALIASES_FIELD_NUMBER: _ClassVar[int]
    run: str
    project: str
    token: str
    reference: str
    with_aliases: bool
    def __init__(self, run: _Optional[str] = ..., project: _Optional[str] = ..., token: _Optional[str] = ..., reference: _Optional[str] = ..., with_aliases: _Optional[bool] = ...) -> None: ...

class PruneResponse(_message.Message):
    __slots__ = ("batch", "pruned", "freed_bytes", "undo_until", "left")
    BATCH_FIELD_NUMBER: _ClassVar[int]
    PRUNED_FIELD_NUMBER: _ClassVar[int]
    FREED_BYTES_FIELD_NUMBER: _ClassVar[int]
    UNDO_UNTIL_FIELD_NUMBER: _ClassVar[int]
    LEFT_FIELD_NUMBER: _ClassVar[int]
    batch: str
    pruned: _containers.RepeatedCompositeFieldContainer[PruneItem]
    freed_bytes: int
    undo_until: int
    left: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, batch: _Optional[str] = ..., pruned: _Optional[_Iterable[_Union[PruneItem, _Mapping]]] = ..., freed_bytes: _Optional[int] = ..., undo_until: _Optional[int] = ..., left: _Optional[_Iterable[str]] = ...) -> None: ...

class UndoPruneRequest(_message.Message):
    __slots__ = ("batch", "reference")
    BATCH_FIELD_NUMBER: _ClassVar[int]
    REFERENCE_FIELD_NUMBER: _ClassVar[int]
    batch: str
    reference: str
    def __init__(self, batch: _Optional[str] = ..., reference: _Optional[str] = ...) -> None: ...

class UndoPruneResponse(_message.Message):
    __slots__ = ("restored", "lost")
    RESTORED_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    restored: _containers.RepeatedCompositeFieldContainer[Artifact]
    lost: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, restored: _Optional[_Iterable[_Union[Artifact, _Mapping]]] = ..., lost: _Optional[_Iterable[str]] = ...) -> None: ...

class VerifyRequest(_message.Message):
    __slots__ = ("reference",)
    REFERENCE_FIELD_NUMBER: _ClassVar[int]
    reference: str
    def __init__(self, reference: _Optional[str] = ...) -> None: ...

class VerifyResponse(_message.Message):
    __slots__ = ("artifact", "flaw", "unknown", "done", "total")
    ARTIFACT_FIELD_NUMBER: _ClassVar[int]
    FLAW_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    artifact: Artifact
    flaw: str
    unknown: bool
    done: int
    total: int
    def __init__(self, artifact: _Optional[_Union[Artifact, _Mapping]] = ..., flaw: _Optional[str] = ..., unknown: _Optional[bool] = ..., done: _Optional[int] = ..., total: _Optional[int] = ...) -> None: ...

class GetUsageRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetUsageResponse(_message.Message):
    __slots__ = ("bucket", "kinds", "projects", "shared_bytes", "disk", "scrub", "counted_at")
    BUCKET_FIELD_NUMBER: _ClassVar[int]
    KINDS_FIELD_NUMBER: _ClassVar[int]
    PROJECTS_FIELD_NUMBER: _ClassVar[int]
    SHARED_BYTES_FIELD_NUMBER: _ClassVar[int]
    DISK_FIELD_NUMBER: _ClassVar[int]
    SCRUB_FIELD_NUMBER: _ClassVar[int]
    COUNTED_AT_FIELD_NUMBER: _ClassVar[int]
    bucket: _containers.RepeatedCompositeFieldContainer[UsageItem]
    kinds: _containers.RepeatedCompositeFieldContainer[UsageItem]
    projects: _containers.RepeatedCompositeFieldContainer[UsageItem]
    shared_bytes: int
    disk: Disk
    scrub: ScrubStatus
    counted_at: int
    def __init__(self, bucket: _Optional[_Iterable[_Union[UsageItem, _Mapping]]] = ..., kinds: _Optional[_Iterable[_Union[UsageItem, _Mapping]]] = ..., projects: _Optional[_Iterable[_Union[UsageItem, _Mapping]]] = ..., shared_bytes: _Optional[int] = ..., disk: _Optional[_Union[Disk, _Mapping]] = ..., scrub: _Optional[_Union[ScrubStatus, _Mapping]] = ..., counted_at: _Optional[int] = ...) -> None: ...

class UsageItem(_message.Message):
    __slots__ = ("name", "objects", "bytes")
    NAME_FIELD_NUMBER: _ClassVar[int]
    OBJECTS_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    name: str
    objects: int
    bytes: int
    def __init__(self, name: _Optional[str] = ..., objects: _Optional[int] = ..., bytes: _Optional[int] = ...) -> None: ...

class Disk(_message.Message):
    __slots__ = ("total", "free")
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    FREE_FIELD_NUMBER: _ClassVar[int]
    total: int
    free: int
    def __init__(self, total: _Optional[int] = ..., free: _Optional[int] = ...) -> None: ...

class ScrubStatus(_message.Message):
    __slots__ = ("number", "began_at", "after", "objects", "bytes", "corrupt", "finished_at")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    BEGAN_AT_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    OBJECTS_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    CORRUPT_FIELD_NUMBER: _ClassVar[int]
    FINISHED_AT_FIELD_NUMBER: _ClassVar[int]
    number: int
    began_at: int
    after: str
    objects: int
    bytes: int
    corrupt: int
    finished_at: int
    def __init__(self, number: _Optional[int] = ..., began_at: _Optional[int] = ..., after: _Optional[str] = ..., objects: _Optional[int] = ..., bytes: _Optional[int] = ..., corrupt: _Optional[int] = ..., finished_at: _Optional[int] = ...) -> None: ...

class ListOrphansRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListOrphansResponse(_message.Message):
    __slots__ = ("objects", "missing", "looked_at")
    OBJECTS_FIELD_NUMBER: _ClassVar[int]
    MISSING_FIELD_NUMBER: _ClassVar[int]
    LOOKED_AT_FIELD_NUMBER: _ClassVar[int]
    objects: _containers.RepeatedCompositeFieldContainer[Orphan]
    missing: _containers.RepeatedCompositeFieldContainer[Artifact]
    looked_at: int
    def __init__(self, objects: _Optional[_Iterable[_Union[Orphan, _Mapping]]] = ..., missing: _Optional[_Iterable[_Union[Artifact, _Mapping]]] = ..., looked_at: _Optional[int] = ...) -> None: ...

class Orphan(_message.Message):
    __slots__ = ("key", "size", "modified_at")
    KEY_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    MODIFIED_AT_FIELD_NUMBER: _ClassVar[int]
    key: str
    size: int
    modified_at: int
    def __init__(self, key: _Optional[str] = ..., size: _Optional[int] = ..., modified_at: _Optional[int] = ...) -> None: ...

class RemoveOrphansRequest(_message.Message):
    __slots__ = ("keys",)
    KEYS_FIELD_NUMBER: _ClassVar[int]
    keys: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, keys: _Optional[_Iterable[str]] = ...) -> None: ...

class RemoveOrphansResponse(_message.Message):
    __slots__ = ("removed", "left")
    REMOVED_FIELD_NUMBER: _ClassVar[int]
    LEFT_FIELD_NUMBER: _ClassVar[int]
    removed: _containers.RepeatedCompositeFieldContainer[Orphan]
    left: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, removed: _Optional[_Iterable[_Union[Orphan, _Mapping]]] = ..., left: _Optional[_Iterable[str]] = ...) -> None: ...

class CatalogState(_message.Message):
    __slots__ = ("runs", "known", "rules", "runners", "profiles", "evaluations", "aliases", "actors", "activated", "janitor")
    class EvaluationsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: _facts_pb2.EvaluationSummary
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_facts_pb2.EvaluationSummary, _Mapping]] = ...) -> None: ...
    class AliasesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: Place
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[Place, _Mapping]] = ...) -> None: ...
    class ActorsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: Place
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[Place, _Mapping]] = ...) -> None: ...
    RUNS_FIELD_NUMBER: _ClassVar[int]
    KNOWN_FIELD_NUMBER: _ClassVar[int]
    RULES_FIELD_NUMBER: _ClassVar[int]
    RUNNERS_FIELD_NUMBER: _ClassVar[int]
    PROFILES_FIELD_NUMBER: _ClassVar[int]
    EVALUATIONS_FIELD_NUMBER: _ClassVar[int]
    ALIASES_FIELD_NUMBER: _ClassVar[int]
    ACTORS_FIELD_NUMBER: _ClassVar[int]
    ACTIVATED_FIELD_NUMBER: _ClassVar[int]
    JANITOR_FIELD_NUMBER: _ClassVar[int]
    runs: _containers.RepeatedCompositeFieldContainer[RunArtifacts]
    known: _containers.RepeatedCompositeFieldContainer[CatalogRun]
    rules: RetentionRules
    runners: _containers.RepeatedCompositeFieldContainer[_runner_pb2.RunnerInfo]
    profiles: _containers.RepeatedCompositeFieldContainer[ScopedProfile]
    evaluations: _containers.MessageMap[str, _facts_pb2.EvaluationSummary]
    aliases: _containers.MessageMap[str, Place]
    actors: _containers.MessageMap[str, Place]
    activated: _containers.RepeatedCompositeFieldContainer[ActivatedPlace]
    janitor: JanitorTerm
    def __init__(self, runs: _Optional[_Iterable[_Union[RunArtifacts, _Mapping]]] = ..., known: _Optional[_Iterable[_Union[CatalogRun, _Mapping]]] = ..., rules: _Optional[_Union[RetentionRules, _Mapping]] = ..., runners: _Optional[_Iterable[_Union[_runner_pb2.RunnerInfo, _Mapping]]] = ..., profiles: _Optional[_Iterable[_Union[ScopedProfile, _Mapping]]] = ..., evaluations: _Optional[_Mapping[str, _facts_pb2.EvaluationSummary]] = ..., aliases: _Optional[_Mapping[str, Place]] = ..., actors: _Optional[_Mapping[str, Place]] = ..., activated: _Optional[_Iterable[_Union[ActivatedPlace, _Mapping]]] = ..., janitor: _Optional[_Union[JanitorTerm, _Mapping]] = ...) -> None: ...

class JanitorTerm(_message.Message):
    __slots__ = ("term", "holder", "since")
    TERM_FIELD_NUMBER: _ClassVar[int]
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    term: int
    holder: str
    since: int
    def __init__(self, term: _Optional[int] = ..., holder: _Optional[str] = ..., since: _Optional[int] = ...) -> None: ...

class Place(_message.Message):
    __slots__ = ("run_id", "digest")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    digest: str
    def __init__(self, run_id: _Optional[str] = ..., digest: _Optional[str] = ...) -> None: ...

class CatalogRun(_message.Message):
    __slots__ = ("run", "mean_return", "starts", "waiting")
    class StartsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: _facts_pb2.ResumedFrom
        def __init__(self, key: _Optional[int] = ..., value: _Optional[_Union[_facts_pb2.ResumedFrom, _Mapping]] = ...) -> None: ...
    RUN_FIELD_NUMBER: _ClassVar[int]
    MEAN_RETURN_FIELD_NUMBER: _ClassVar[int]
    STARTS_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    run: _run_pb2.Run
    mean_return: float
    starts: _containers.MessageMap[int, _facts_pb2.ResumedFrom]
    waiting: _containers.RepeatedCompositeFieldContainer[_facts_pb2.ArtifactIndexed]
    def __init__(self, run: _Optional[_Union[_run_pb2.Run, _Mapping]] = ..., mean_return: _Optional[float] = ..., starts: _Optional[_Mapping[int, _facts_pb2.ResumedFrom]] = ..., waiting: _Optional[_Iterable[_Union[_facts_pb2.ArtifactIndexed, _Mapping]]] = ...) -> None: ...

class FindMissingCodeRequest(_message.Message):
    __slots__ = ("tree", "digests")
    TREE_FIELD_NUMBER: _ClassVar[int]
    DIGESTS_FIELD_NUMBER: _ClassVar[int]
    tree: str
    digests: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, tree: _Optional[str] = ..., digests: _Optional[_Iterable[str]] = ...) -> None: ...

class FindMissingCodeResponse(_message.Message):
    __slots__ = ("tree_missing", "digests")
    TREE_MISSING_FIELD_NUMBER: _ClassVar[int]
    DIGESTS_FIELD_NUMBER: _ClassVar[int]
    tree_missing: bool
    digests: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, tree_missing: _Optional[bool] = ..., digests: _Optional[_Iterable[str]] = ...) -> None: ...

class StoreCodeRequest(_message.Message):
    __slots__ = ("digest", "data", "end", "tree")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    TREE_FIELD_NUMBER: _ClassVar[int]
    digest: str
    data: bytes
    end: bool
    tree: bool
    def __init__(self, digest: _Optional[str] = ..., data: _Optional[bytes] = ..., end: _Optional[bool] = ..., tree: _Optional[bool] = ...) -> None: ...

class StoreCodeResponse(_message.Message):
    __slots__ = ("objects", "bytes")
    OBJECTS_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    objects: int
    bytes: int
    def __init__(self, objects: _Optional[int] = ..., bytes: _Optional[int] = ...) -> None: ...

class ReadCodeRequest(_message.Message):
    __slots__ = ("digest", "tree", "packages")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    TREE_FIELD_NUMBER: _ClassVar[int]
    PACKAGES_FIELD_NUMBER: _ClassVar[int]
    digest: str
    tree: bool
    packages: bool
    def __init__(self, digest: _Optional[str] = ..., tree: _Optional[bool] = ..., packages: _Optional[bool] = ...) -> None: ...

class ReadCodeResponse(_message.Message):
    __slots__ = ("data",)
    DATA_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    def __init__(self, data: _Optional[bytes] = ...) -> None: ...
