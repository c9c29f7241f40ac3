// Dark, light, or as the system has it.
import { kept, Store } from "../state/store";

export type Theme = "auto" | "light" | "dark";
export const theme = kept<Theme>("theme", "auto");
const system = matchMedia("(prefers-color-scheme: dark)");
export const dark = new Store(false);

const phone = matchMedia("(max-width: 700px)");
/** Whether the window is as narrow as a phone's. */
export const narrow = new Store(phone.matches);
phone.addEventListener("change", () => narrow.set(phone.matches));

function apply(): void {
  const chosen = theme.get();
  dark.set(chosen === "dark" || (chosen === "auto" && system.matches));
  document.documentElement.dataset["theme"] = dark.get() ? "dark" : "light";
}
theme.on(apply);
system.addEventListener("change", apply);
apply();
