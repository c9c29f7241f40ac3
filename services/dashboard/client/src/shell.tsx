// The frame of every view: navigation, connection, theme, help on keys.
import { useState } from "preact/hooks";
import { connection, session, trouble, type Connection } from "./state/live";
import { link, place } from "./state/router";
import { useStore } from "./state/store";
import { Button, Dialog, Note, Notices } from "./ui/controls";
import { Icon, type IconName } from "./ui/icons";
import { shortcuts, useKeys } from "./ui/keys";
import { theme, type Theme } from "./ui/theme";
import { CompareView } from "./views/compare/view";
import { RunView } from "./views/run/view";
import { RunsView } from "./views/runs/view";

const PAGES: readonly (readonly [string, string, IconName])[] = [
  ["Runs", "/app", "runs"], ["Compare", "/app/compare", "compare"], ["New run", "/new", "add"], ["Play", "/play", "play"],
  ["Checkpoints", "/checkpoints", "box"], ["Fleet", "/fleet", "fleet"],
];
const THEMES: Record<Theme, readonly [Theme, IconName]> = { auto: ["light", "auto"], light: ["dark", "sun"], dark: ["auto", "moon"] };
const WORDS: Record<Connection, readonly [string, string]> = {
  live: ["live", "Changes are shown as they happen."],
  connecting: ["connecting", "Connecting to the page's service."],
  away: ["away", "The page's service cannot be reached. What you see is the last state; it is tried again by itself."],
  ended: ["logged out", "Your session has ended."],
};

export function Shell() {
  const [help, setHelp] = useState(false);
  useKeys([{ key: "?", text: "Show these keys", act: () => setHelp(true) }]);
  const where = useStore(place).path[0] ?? "";
  return <>
    <a class="skip" href="#main">Skip to content</a>
    <header class="header">
      <a class="brand" href="/app" aria-label="Runspine, all runs"><img src="/static/icon.svg" alt="" width="24" height="24" /><span>Runspine</span></a>
      <nav aria-label="Main">
        {PAGES.map(([name, href, icon]) => <a key={name} href={href} aria-label={name} aria-current={href === (where && where !== "run" ? `/app/${where}` : "/app") ? "page" : undefined}><Icon name={icon} /><span>{name}</span></a>)}
      </nav>
      <span class="space" />
      <LiveBadge />
      <ThemeButton />
      <Button label="Keyboard shortcuts" text="?" act={() => setHelp(true)} kind="quiet" />
      <Person />
    </header>
    <Trouble />
    <main id="main" tabIndex={-1}><View /></main>
    <Notices />
    {help && <KeysDialog close={() => setHelp(false)} />}
  </>;
}

function View() {
  const { path } = useStore(place);
  if (!path.length || path[0] === "runs") return <RunsView />;
  if (path[0] === "run" && path[1]) return <RunView key={path[1]} name={path[1]} />;
  if (path[0] === "compare") return <CompareView />;
  return <><h1>No such page</h1><Note title="This address leads nowhere"><a href={link([])}>All runs</a></Note></>;
}

function LiveBadge() {
  const state = useStore(connection), why = useStore(trouble);
  const [word, text] = state === "live" && why ? ["not live", why] : WORDS[state];
  return <span class={`live live-${state === "live" && !why ? "good" : state === "connecting" ? "wait" : "bad"}`} role="status" title={text}>{word}</span>;
}

/** Says why what is shown may be old. Nothing that somebody typed is lost meanwhile. */
function Trouble() {
  const state = useStore(connection), why = useStore(trouble);
  if (state === "ended") {
    const to = encodeURIComponent(location.pathname + location.search);
    return <div class="trouble" role="alert">Your session has ended; nothing here is sent until you <a href={`/login?to=${to}`}>log in again</a>.</div>;
  }
  if (state === "away") return <div class="trouble" role="alert">{WORDS.away[1]}</div>;
  return why ? <div class="trouble" role="alert">What you see may be out of date: {why}</div> : null;
}

function ThemeButton() {
  const now = useStore(theme), [next, icon] = THEMES[now];
  return <Button icon={icon} label={`Theme: ${now}`} act={() => theme.set(next)} kind="quiet" />;
}

function Person() {
  const who = useStore(session);
  if (!who || who.is_open) return null;
  const leave = () => void fetch("/logout", { method: "POST" }).then(() => location.assign("/login"));
  return <span class="person">{who.person}{!who.may_run && <em> read-only</em>}<Button label="Log out" text="Log out" act={leave} kind="quiet" /></span>;
}

function KeysDialog({ close }: { close: () => void }) {
  const keys = new Map(useStore(shortcuts).map((one) => [one.key, one.text]));
  return (
    <Dialog title="Keys" close={close}>
      <dl class="keys">{[...keys].map(([key, text]) => <div key={key}><dt><kbd>{key}</kbd></dt><dd>{text}</dd></div>)}</dl>
    </Dialog>
  );
}
