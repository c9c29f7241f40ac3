// Generated from docs/reference/openapi.json by `make proto`. Do not edit.

export interface ActionProgress {
  done: number;
  of: number;
  refused: ((string)[])[];
  finished: boolean;
}

export interface ActionRequest {
  action: string;
  runs: (string)[];
  reason?: string;
  labels?: Record<string, string>;
  priority?: number;
}

export interface AttemptLines {
  attempt: number;
  lines: number;
}

export interface AttemptShape {
  number: number;
  worker: string;
  host: string;
  command: (string)[];
  started: number;
  ended: number;
  outcome: string;
  stderr_tail: string;
  versions: Record<string, string>;
  provenance: Record<string, unknown> | null;
}

export interface ColumnShape {
  name: string;
  label: string;
  kind: string;
  group: string;
}

export interface ComparedCurve {
  name: string;
  points: number;
  exact: boolean;
  x: (number | null)[];
  y: (number | null)[];
  low: (number | null)[];
  high: (number | null)[];
}

export interface ComparedGroupShape {
  label: string;
  runs: number;
  final: number | null;
  low: number | null;
  high: number | null;
  mean: number | null;
  std: number | null;
  area: number | null;
  reached: number | null;
  reached_count: number;
}

export interface ComparisonShape {
  axis: string;
  statistic: string;
  threshold: number | null;
  advice: string;
  groups: (ComparedGroupShape)[];
  curves: (ComparedCurve)[];
}

export interface CurveShape {
  name: string;
  number: number;
  exact: boolean;
  points: number;
  x: (number | null)[];
  y: (number | null)[];
  low: (number | null)[];
  high: (number | null)[];
}

export interface DifferenceShape {
  runs: (string)[];
  names: (string)[];
  rows: ((string)[])[];
}

export interface EpisodeShape {
  index: number;
  attempt: number;
  episode: string;
  value: number | null;
  steps: number | null;
  slot: number;
  agent: string;
  ended_at: number;
  end: string;
}

export interface EpisodesPage {
  total: number;
  next: string;
  episodes: (EpisodeShape)[];
}

export interface FileShape {
  digest: string;
  name: string;
  kind: string;
  size: number;
  step: number;
  produced_at: number;
  integrity: string;
  keeping: string;
  pinned: boolean;
  address: string;
}

export interface FilesShape {
  total: number;
  files: (FileShape)[];
  retention: (string)[];
}

export interface GroupShape {
  value: string;
  runs: number;
  active: number;
  failed: number;
  best: number | null;
  mean: number | null;
}

export interface GroupsShape {
  by: string;
  groups: (GroupShape)[];
  left_out: number;
}

export interface IdsShape {
  total: number;
  ids: (string)[];
}

export interface ListedRun {
  id: string;
  version: number;
  cells: (string | number | boolean | null)[];
}

export interface LogHits {
  lines: (LogLineShape)[];
  more: boolean;
}

export interface LogLineShape {
  attempt: number;
  number: number;
  at: number;
  source: string;
  text: string;
}

export interface LogRange {
  attempts: (AttemptLines)[];
  lines: (LogLineShape)[];
}

export interface Problem {
  error: string;
}

export interface RunDetail {
  run: RunShape;
  spec_yaml: string;
  spec: ((string)[])[];
  attempts: (AttemptShape)[];
}

export interface RunShape {
  id: string;
  version: number;
  name: string;
  state: string;
  ended: boolean;
  reason: string;
  env: string;
  algo: string;
  runner: string;
  mode: string;
  project: string;
  owner: string;
  worker: string;
  seed: number;
  attempt: number;
  priority: number;
  notes: string;
  parent: string;
  labels: Record<string, string>;
  submitted_at: number;
  started_at: number;
  ended_at: number;
  last_heartbeat_at: number;
  step: number;
  total: number;
  episodes: number;
  mean_return: number | null;
  agent_returns: Record<string, number>;
  evaluation: number | null;
  steps_per_second: number | null;
  held_back: string;
}

export interface RunsPage {
  version: number;
  epoch: string;
  total: number;
  all: number;
  columns: (string)[];
  ids: (string)[];
  rows: (ListedRun)[];
}

export interface SeriesShape {
  name: string;
  points: number;
  first_step: number;
  last_step: number;
  minimum: number | null;
  maximum: number | null;
  last: number | null;
}

export interface SessionShape {
  person: string;
  scope: string;
  may_run: boolean;
  is_open: boolean;
  version: string;
}

export interface SparkShape {
  run: string;
  values: (number | null)[];
}
