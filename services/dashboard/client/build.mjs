// Builds the client into ../static/app, or with --check compares what is there with what the sources give.
import { createHash } from "node:crypto";
import { readFileSync, writeFileSync, mkdirSync } from "node:fs";
import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { join } from "node:path";
import { build } from "esbuild";

const here = fileURLToPath(new URL(".", import.meta.url));
const target = join(here, "../static/app");
const result = await build({
  absWorkingDir: here,
  entryPoints: { app: "src/main.tsx" },
  bundle: true,
  format: "esm",
  target: ["chrome110", "firefox115", "safari16.4"],
  jsx: "automatic",
  jsxImportSource: "preact",
  minify: true,
  legalComments: "none",
  charset: "utf8",
  outdir: "out",
  write: false,
});
const built = Object.fromEntries(result.outputFiles.map((file) => [file.path.split("/").pop(), file.text]));
built["index.html"] = readFileSync(join(here, "index.html"), "utf8");
const digest = execFileSync(process.env.PYTHON ?? "python3", [join(here, "digest.py")], { encoding: "utf8" });
built["built-from.txt"] = digest;

if (process.argv.includes("--check")) {
  const differs = Object.entries(built).filter(([name, text]) => {
    try { return readFileSync(join(target, name), "utf8") !== text; } catch { return true; }
  });
  for (const [name] of differs) console.log(`services/dashboard/static/app/${name} is not what the client's sources give`);
  process.exit(differs.length ? 1 : 0);
}
mkdirSync(target, { recursive: true });
for (const [name, text] of Object.entries(built)) writeFileSync(join(target, name), text);
for (const [name, text] of Object.entries(built)) {
  console.log(name, Buffer.byteLength(text), createHash("sha256").update(text).digest("hex").slice(0, 12));
}
