// Files that the browser makes itself.
import type uPlot from "uplot";
import type { Line } from "./plot";
import { csv } from "./values";

function save(name: string, blob: Blob): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

const fileName = (text: string) => text.replace(/[^\w.-]+/g, "_");

export function savePng(plot: uPlot, title: string): void {
  const from = plot.ctx.canvas, made = document.createElement("canvas"), scale = devicePixelRatio || 1, head = 28 * scale;
  made.width = from.width;
  made.height = from.height + head;
  const to = made.getContext("2d")!, style = getComputedStyle(document.documentElement);
  to.fillStyle = style.getPropertyValue("--surface");
  to.fillRect(0, 0, made.width, made.height);
  to.fillStyle = style.getPropertyValue("--ink");
  to.font = `600 ${13 * scale}px system-ui, sans-serif`;
  to.fillText(title, 10 * scale, 19 * scale);
  to.drawImage(from, 0, head);
  made.toBlob((blob) => { if (blob) save(`${fileName(title)}.png`, blob); });
}

export function saveCsv(lines: readonly Line[], axis: string, title: string): void {
  const rows = lines.flatMap((line) => line.x.map((x, at) => [line.label, x, line.y[at] ?? null, line.low[at] ?? null, line.high[at] ?? null]));
  save(`${fileName(title)}.csv`, new Blob([csv(["curve", axis, "value", "low", "high"], rows)], { type: "text/csv" }));
}
