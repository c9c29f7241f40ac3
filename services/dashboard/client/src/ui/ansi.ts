// Text with ANSI colours as pieces with a class; a carriage return starts the line again, as a terminal shows it.
export interface Piece { text: string; style: string }

const SEQUENCE = /\x1b\[([0-9;]*)([A-Za-z])|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

export function folded(text: string): string {
  const parts = text.split("\r");
  for (let at = parts.length - 1; at > 0; at--) if (parts[at]) return parts[at]!;
  return parts[0] ?? "";
}

export function pieces(text: string): Piece[] {
  const found: Piece[] = [];
  let last = 0, colour = "", bold = false, faint = false, reversed = false;
  const style = () => [colour && `c${colour}`, bold && "cb", faint && "cf", reversed && "cr"].filter(Boolean).join(" ");
  const take = (until: number) => { if (until > last) found.push({ text: text.slice(last, until), style: style() }); };
  for (const match of text.matchAll(SEQUENCE)) {
    take(match.index);
    last = match.index + match[0].length;
    if (match[2] !== "m") continue; // cursor movements, titles and other controls are left out
    for (const code of (match[1] || "0").split(";").map(Number)) {
      if (code === 0) { colour = ""; bold = faint = reversed = false; }
      else if (code === 1) bold = true;
      else if (code === 2) faint = true;
      else if (code === 7) reversed = true;
      else if (code === 22) bold = faint = false;
      else if (code === 39) colour = "";
      else if (code >= 30 && code <= 37) colour = String(code - 30);
      else if (code >= 90 && code <= 97) colour = String(code - 82);
    }
  }
  take(text.length);
  return found;
}
