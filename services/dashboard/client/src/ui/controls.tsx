// Buttons, notes, dialogs and notices that all views share.
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { Store, useStore } from "../state/store";
import { Icon, type IconName } from "./icons";

export function Button(props: {
  icon?: IconName; label: string; text?: string; act: () => void; kind?: string; disabled?: boolean; pressed?: boolean;
}) {
  const { icon, label, text, act, kind = "", disabled = false, pressed } = props;
  return (
    <button type="button" class={`button ${kind}`} onClick={act} disabled={disabled} title={text === undefined ? label : undefined}
      aria-label={text === undefined ? label : undefined} aria-pressed={pressed}>
      {icon && <Icon name={icon} />}{text !== undefined && <span>{text}</span>}
    </button>
  );
}

export function Choice<T extends string>(props: { label: string; value: T; options: readonly (readonly [T, string])[]; choose: (value: T) => void }) {
  return (
    <select class="choice" aria-label={props.label} value={props.value} onChange={(event) => props.choose(event.currentTarget.value as T)}>
      {props.options.map(([value, text]) => <option key={value} value={value}>{text}</option>)}
    </select>
  );
}

export function Segments<T extends string>(props: { label: string; value: T; options: readonly (readonly [T, string])[]; choose: (value: T) => void }) {
  return (
    <div class="segments" role="group" aria-label={props.label}>
      {props.options.map(([value, text]) => (
        <button type="button" key={value} aria-pressed={value === props.value} onClick={() => props.choose(value)}>{text}</button>
      ))}
    </div>
  );
}

export function Check(props: { label: string; checked: boolean; change: (on: boolean) => void }) {
  return (
    <label class="check"><input type="checkbox" checked={props.checked} onChange={(event) => props.change(event.currentTarget.checked)} />{props.label}</label>
  );
}

export function Note({ title, children, bad = false }: { title: string; children?: ComponentChildren; bad?: boolean }) {
  return <div class={`note ${bad ? "note-bad" : ""}`} role={bad ? "alert" : "status"}><strong>{title}</strong>{children && <p>{children}</p>}</div>;
}

/** A modal dialog; Escape and a press outside close it, and the focus returns to where it was. */
export function Dialog(props: { title: string; close: () => void; children: ComponentChildren }) {
  const ref = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const before = document.activeElement as HTMLElement | null;
    ref.current?.showModal();
    return () => before?.focus?.();
  }, []);
  return (
    <dialog ref={ref} class="dialog" aria-label={props.title} onClose={props.close} onCancel={props.close}
      onMouseDown={(event) => { if (event.target === ref.current) props.close(); }}>
      <div class="dialog-body">
        <div class="dialog-head"><h2>{props.title}</h2><Button icon="close" label="Close" act={props.close} kind="quiet" /></div>
        {props.children}
      </div>
    </dialog>
  );
}

interface Notice { id: number; text: string; bad: boolean }
const notices = new Store<Notice[]>([]);
let numbered = 0;

export function notify(text: string, bad = false): void {
  const notice = { id: ++numbered, text, bad };
  notices.set([...notices.get().slice(-3), notice]);
  setTimeout(() => notices.set(notices.get().filter((one) => one !== notice)), bad ? 12_000 : 5_000);
}

export function Notices() {
  return (
    <div class="notices" role="status" aria-live="polite">
      {useStore(notices).map((one) => <div key={one.id} class={`notice ${one.bad ? "notice-bad" : ""}`}>{one.text}</div>)}
    </div>
  );
}

export function State({ name }: { name: string }) { return <span class={`state state-${name}`}>{name}</span>; }
