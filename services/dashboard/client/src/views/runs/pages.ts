// The rows of the list, fetched in pieces as they come into view and kept current by their numbers.
import { ApiError, get } from "../../api/client";
import type { ListedRun, RunsPage } from "../../api/types";
import { Store } from "../../state/store";

export const PIECE = 60;
export interface Listing { total: number; all: number; error: string; ready: boolean; drawn: number }
interface Piece { ids: string[]; version: number; fetching: boolean; behind: boolean }

export class RunPages {
  readonly listing = new Store<Listing>({ total: 0, all: 0, error: "", ready: false, drawn: 0 });
  private pieces = new Map<number, Piece>();
  private rows = new Map<string, ListedRun>();
  private epoch = "";
  private newest = 0;
  private closed = new AbortController();

  constructor(readonly q: string, readonly sort: string, readonly columns: readonly string[]) {}

  close(): void { this.closed.abort(); }

  row(index: number): ListedRun | undefined {
    const id = this.pieces.get(Math.floor(index / PIECE))?.ids[index % PIECE];
    return id === undefined ? undefined : this.rows.get(id);
  }

  byId(id: string): ListedRun | undefined { return this.rows.get(id); }

  /** Fetch what is needed to show these rows. */
  need(first: number, last: number): void {
    for (let at = Math.floor(first / PIECE); at <= Math.floor(Math.max(first, last - 1) / PIECE); at++) {
      const piece = this.pieces.get(at);
      if (!piece || (piece.behind && !piece.fetching)) void this.fetch(at);
    }
  }

  /** The service has newer rows. */
  changed(epoch: string, version: number): void {
    if (epoch === this.epoch && version <= this.newest) return;
    for (const piece of this.pieces.values()) piece.behind = true;
    this.tell({});
  }

  private tell(change: Partial<Listing>): void {
    const old = this.listing.get();
    this.listing.set({ ...old, ...change, drawn: old.drawn + 1 });
  }

  private async fetch(at: number): Promise<void> {
    const piece = this.pieces.get(at) ?? { ids: [], version: 0, fetching: false, behind: false };
    this.pieces.set(at, piece);
    piece.fetching = true;
    piece.behind = false;
    try {
      const found = await get<RunsPage>("/runs", {
        q: this.q, sort: this.sort, columns: this.columns.join(","), first: at * PIECE, count: PIECE, since: piece.version,
      }, this.closed.signal);
      if (this.epoch && found.epoch !== this.epoch) this.forget();
      this.epoch = found.epoch;
      for (const row of found.rows) this.rows.set(row.id, row);
      // A run that has moved here from elsewhere did not change: its row may be unknown.
      piece.version = found.ids.every((id) => this.rows.has(id)) ? found.version : 0;
      piece.behind = piece.behind || piece.version === 0;
      piece.ids = found.ids;
      this.pieces.set(at, piece);
      this.newest = Math.max(this.newest, found.version);
      piece.fetching = false;
      this.tell({ total: found.total, all: found.all, error: "", ready: true });
    } catch (error) {
      if (this.closed.signal.aborted) return;
      this.tell({ error: (error as Error).message });
      const wait = error instanceof ApiError && error.status === 400 ? 60_000 : 2_000;
      setTimeout(() => { piece.fetching = false; piece.behind = true; this.tell({}); }, wait);
    }
  }

  /** A new process of the service: numbers of the old one mean nothing. */
  private forget(): void {
    this.rows.clear();
    this.newest = 0;
    for (const piece of this.pieces.values()) { piece.version = 0; piece.behind = true; }
  }
}
