"""The style and the script of a report. Both are part of the file; nothing is loaded."""

from __future__ import annotations

STYLE = """
:root { color-scheme: light dark; --back: #ffffff; --text: #1b1f24; --dim: #656d76; --line: #d8dee4; --block: #f6f8fa;
  --c0: #0969da; --c1: #cf222e; --c2: #1a7f37; --c3: #9a6700; --c4: #8250df; --c5: #0b7285; --c6: #bf3989; --c7: #57606a;
  --c8: #bc4c00; --c9: #4d6b00; }
@media (prefers-color-scheme: dark) { :root { --back: #0d1117; --text: #e6edf3; --dim: #8d96a0; --line: #30363d; --block: #161b22;
  --c0: #58a6ff; --c1: #ff7b72; --c2: #56d364; --c3: #e3b341; --c4: #bc8cff; --c5: #39c5cf; --c6: #f778ba; --c7: #b1bac4;
  --c8: #ffa657; --c9: #a5d6a7; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 24px; max-width: 1400px; background: var(--back); color: var(--text);
  font: 15px/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 24px; margin: 0 0 4px; } h2 { font-size: 18px; margin: 36px 0 10px; }
.about, .none, figcaption small { color: var(--dim); font-weight: 400; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: 13.5px; }
th, td { border-bottom: 1px solid var(--line); padding: 5px 14px 5px 0; text-align: left; vertical-align: top; }
th { font-weight: 600; white-space: nowrap; } td.number { font-variant-numeric: tabular-nums; white-space: nowrap; }
td.name { min-width: 120px; } td.id { white-space: nowrap; overflow-wrap: normal; }
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 460px), 1fr)); gap: 20px; }
figure { margin: 0; position: relative; } figcaption { font-weight: 600; }
svg { display: block; width: 100%; height: auto; } svg.swatch { display: inline-block; width: 28px; height: 10px; vertical-align: middle; }
.curve { fill: none; stroke-width: 1.6; stroke-linejoin: round; } .dot { stroke: none; }
.mark { fill: none; stroke: var(--dim); stroke-width: 2; } .halo { fill: none; stroke: var(--back); stroke-width: 6; }
svg.sign { display: inline-block; width: 14px; height: 14px; vertical-align: text-bottom; }
.grid { stroke: var(--line); stroke-width: 1; } .tick { fill: var(--dim); font-size: 11px; }
.cursor { stroke: var(--dim); stroke-width: 1; visibility: hidden; }
.values { position: absolute; top: 28px; right: 8px; padding: 4px 8px; font-size: 12px; background: var(--block);
  border: 1px solid var(--line); border-radius: 6px; pointer-events: none; white-space: pre-line; visibility: hidden; }
.values i { font-style: normal; }
pre { background: var(--block); border: 1px solid var(--line); border-radius: 6px; padding: 10px 12px;
  overflow-x: auto; font-size: 12.5px; }
pre.sample { white-space: pre-wrap; margin: 0; } td.sample { min-width: 260px; }
details { margin: 8px 0; } summary { cursor: pointer; }
""" + "".join(
    f".c{place} {{ stroke: var(--c{place}); }} .dot.c{place} {{ fill: var(--c{place}); }} i.c{place} {{ color: var(--c{place}); }}\n"
    for place in range(10)
)

SCRIPT = """
"use strict";
for (const svg of document.querySelectorAll("svg[data-curves]")) {
  const told = JSON.parse(svg.dataset.curves), [left, top, width] = svg.dataset.box.split(" ").map(Number);
  const cursor = svg.querySelector(".cursor"), box = svg.parentElement.querySelector(".values");
  const hide = () => { cursor.style.visibility = box.style.visibility = "hidden"; };
  svg.addEventListener("pointerleave", hide);
  svg.addEventListener("pointermove", (event) => {
    const place = svg.getBoundingClientRect();
    const x = (event.clientX - place.left) / place.width * svg.viewBox.baseVal.width;
    if (x < left || x > left + width) { hide(); return; }
    const step = told.x[0] + (x - left) / width * (told.x[1] - told.x[0]);
    cursor.setAttribute("x1", x); cursor.setAttribute("x2", x);
    box.replaceChildren();
    for (const line of told.lines) {
      let low = 0, high = line.p.length - 1;
      while (high - low > 1) { const middle = (low + high) >> 1; if (line.p[middle][0] <= step) low = middle; else high = middle; }
      const near = Math.abs(line.p[low][0] - step) <= Math.abs(line.p[high][0] - step) ? line.p[low] : line.p[high];
      const mark = document.createElement("i");
      mark.className = "c" + line.c; mark.textContent = "\\u25cf ";
      const value = near[1] === null ? "not finite" : Number(near[1].toPrecision(5));
      box.append(mark, line.n + ": " + value + " at " + near[0] + "\\n");
    }
    cursor.style.visibility = box.style.visibility = "visible";
    box.style.left = x > left + width / 2 ? "8%" : "auto"; box.style.right = x > left + width / 2 ? "auto" : "8px";
  });
}
"""
