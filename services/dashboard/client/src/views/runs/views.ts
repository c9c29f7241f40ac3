// What a person arranged: columns and saved views. The browser keeps it.
import { kept } from "../../state/store";

export interface SavedView { name: string; q: string; sort: string; by: string; columns: string[] }

export const DEFAULT_COLUMNS = ["name", "state", "env", "algo", "seed", "spark", "return", "done", "duration", "submitted"];
export const DEFAULT_SORT = "-submitted";
export const columnsStore = kept<string[]>("runs.columns", DEFAULT_COLUMNS);
export const savedViews = kept<SavedView[]>("runs.views", []);
