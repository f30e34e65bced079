// Plot: how many items are returned at least so often, raw, corrected and by chance; log axes, to zoom.

import { count, drawn, element, several } from "./elements.js";

const HEIGHT = 330;
const EDGES = { left: 56, right: 14, top: 12, bottom: 44 };
const LEAST_ITEMS = 0.7; // the floor of the plot: one item stands clearly above it
const LEAST_DRAG_PIXELS = 6;
const ZOOM_STEP = 1.5;
const NARROWEST = Math.log10(1.2); // the smallest span of counts, on the log axis
const SERIES = { chance: "by chance", raw: "raw", corrected: "corrected" };

/** Return [[count, items returned at least as often], ...], counts rising from the smallest above 0. */
export function atLeast(counts) {
  const rising = counts.filter(([often]) => often > 0).sort((one, other) => one[0] - other[0]);
  let left = rising.reduce((sum, [, items]) => sum + items, 0);
  return rising.map(([often, items]) => {
    const here = [often, left];
    left -= items;
    return here;
  });
}

/** How many items are returned at least `often` times. */
export function itemsAt(levels, often) {
  return levels.find(([level]) => level >= often)?.[1] ?? 0;
}

/** Round numbers for a log axis between two values. */
export function ticks(low, high, most) {
  const decades = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power += 1)
    decades.push(10 ** power);
  for (const steps of [[1, 1.5, 2, 3, 4, 5, 7], [1, 2, 5], [1]]) {
    const all = decades
      .flatMap((decade) => steps.map((step) => step * decade))
      .filter((one) => one >= low && one <= high && one === Math.round(one));
    if (all.length <= most && all.length > 1) return all;
    if (steps.length === 1) return all.filter((_, index) => index % Math.ceil(all.length / most) === 0);
  }
  return [];
}

export function countsPlot({ counts, mean }) {
  const levels = Object.fromEntries(Object.keys(SERIES).map((name) => [name, atLeast(counts[name] ?? [])]));
  const widest = Math.log10(1.15 * Math.max(2, ...Object.values(levels).map((one) => one.at(-1)?.[0] ?? 1)));
  const whole = [0, widest]; // of log10 of the count
  let view = whole;
  let width = 600;

  const svg = drawn("svg", {
    class: "plot",
    tabindex: "0",
    role: "img",
    "aria-label":
      "How many items are returned at least so often. Plus and minus zoom, the arrows move, 0 shows everything.",
  });
  const readout = element(
    "p",
    { class: "note readout", "aria-live": "polite" },
    "Drag over a part to zoom in. Point at the plot to read it.",
  );
  const button = (text, label, act) =>
    element("button", { type: "button", "aria-label": label, title: label, on: { click: act } }, text);
  const root = element(
    "figure",
    { class: "plot-figure" },
    element(
      "figcaption",
      { class: "plot-head" },
      element(
        "span",
        { class: "legend" },
        Object.entries(SERIES)
          .reverse()
          .map(([name, text]) => element("span", {}, element("i", { class: name }), text)),
      ),
      element(
        "span",
        { class: "buttons" },
        button("+", "Zoom in", () => zoom(1 / ZOOM_STEP)),
        button("\u2212", "Zoom out", () => zoom(ZOOM_STEP)),
        button("all", "Show everything", () => look(whole)),
      ),
    ),
    svg,
    readout,
  );

  const inner = () => width - EDGES.left - EDGES.right;
  const xOf = (often) => EDGES.left + ((Math.log10(often) - view[0]) / (view[1] - view[0])) * inner();
  const oftenAt = (x) => 10 ** (view[0] + ((x - EDGES.left) / inner()) * (view[1] - view[0]));

  /** Look at a part, kept inside the whole. */
  function look([low, high]) {
    const span = Math.min(widest, Math.max(NARROWEST, high - low));
    const begin = Math.min(Math.max(0, low), widest - span);
    view = [begin, begin + span];
    draw();
  }

  function zoom(factor, about = (view[0] + view[1]) / 2) {
    look([about - (about - view[0]) * factor, about + (view[1] - about) * factor]);
  }

  function draw() {
    const begin = 10 ** view[0];
    const most = Math.max(2, ...Object.values(levels).map((one) => itemsAt(one, begin)));
    const [floor, roof] = [Math.log10(LEAST_ITEMS), Math.log10(most * 1.15)];
    const bottom = HEIGHT - EDGES.bottom;
    const yOf = (items) =>
      bottom - ((Math.log10(Math.max(items, LEAST_ITEMS)) - floor) / (roof - floor)) * (bottom - EDGES.top);
    const right = width - EDGES.right;
    const marks = [];
    for (const often of ticks(begin, 10 ** view[1], width / 60)) {
      marks.push(
        drawn("line", { class: "grid", x1: xOf(often), x2: xOf(often), y1: EDGES.top, y2: bottom }),
        drawn("text", { x: xOf(often), y: bottom + 18, "text-anchor": "middle" }, count(often)),
      );
    }
    for (const items of ticks(1, most * 1.15, 6)) {
      marks.push(
        drawn("line", { class: "grid", x1: EDGES.left, x2: right, y1: yOf(items), y2: yOf(items) }),
        drawn("text", { x: EDGES.left - 8, y: yOf(items) + 4, "text-anchor": "end" }, count(items)),
      );
    }
    const clip = drawn(
      "clipPath",
      { id: "inside" },
      drawn("rect", { x: EDGES.left, y: EDGES.top - 2, width: inner(), height: bottom - EDGES.top + 2 }),
    );
    const lines = Object.entries(levels).map(([name, level]) =>
      drawn("path", { class: `curve ${name}`, d: stairs(level, yOf), "clip-path": "url(#inside)" }),
    );
    const average =
      Math.log10(mean) > view[0] && Math.log10(mean) < view[1]
        ? [
            drawn("line", { class: "average", x1: xOf(mean), x2: xOf(mean), y1: EDGES.top, y2: bottom }),
            drawn(
              "text",
              {
                class: "average",
                x: xOf(mean) + (xOf(mean) > width / 2 ? -5 : 5),
                y: bottom - 8,
                "text-anchor": xOf(mean) > width / 2 ? "end" : "start",
              },
              `an equal share: ${mean < 10 ? mean.toFixed(1) : Math.round(mean)}`,
            ),
          ]
        : [];
    svg.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    svg.replaceChildren(
      drawn("defs", {}, clip),
      ...marks,
      ...average,
      ...lines,
      drawn(
        "text",
        { class: "axis", x: EDGES.left + inner() / 2, y: HEIGHT - 6, "text-anchor": "middle" },
        "returned at least so often",
      ),
      drawn(
        "text",
        {
          class: "axis",
          x: 14,
          y: EDGES.top + (bottom - EDGES.top) / 2,
          "text-anchor": "middle",
          transform: `rotate(-90 14 ${EDGES.top + (bottom - EDGES.top) / 2})`,
        },
        "items",
      ),
    );
    svg.dataset.from = String(begin);
    svg.dataset.to = String(10 ** view[1]);
  }

  /** The path of a curve: flat up to each count, then down. */
  function stairs(level, yOf) {
    if (!level.length) return "";
    const parts = [`M${xOf(1)} ${yOf(level[0][1])}`];
    level.forEach(([often], index) => parts.push(`H${xOf(often)}V${yOf(level[index + 1]?.[1] ?? 0)}`));
    return parts.join("");
  }

  function read(x) {
    const often = Math.max(1, Math.round(oftenAt(x)));
    const each = Object.entries(levels)
      .reverse()
      .map(([name, level]) => {
        const items = itemsAt(level, often);
        return `${SERIES[name]} ${items > 0 && items < 1 ? "under 1" : count(Math.round(items))}`;
      });
    readout.textContent = `Returned ${several(often, "time")} or more: ${each.join(", ")}.`;
  }

  const place = (event) =>
    ((event.clientX - svg.getBoundingClientRect().left) / svg.getBoundingClientRect().width) * width;
  let drag = null; // where it began, and the band that shows it

  svg.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    drag = {
      from: place(event),
      band: drawn("rect", { class: "band", y: EDGES.top, height: HEIGHT - EDGES.top - EDGES.bottom, width: 0 }),
    };
    svg.append(drag.band);
    svg.setPointerCapture(event.pointerId);
  });
  svg.addEventListener("pointermove", (event) => {
    const here = Math.min(Math.max(place(event), EDGES.left), width - EDGES.right);
    read(here);
    if (!drag) return;
    drag.band.setAttribute("x", Math.min(drag.from, here));
    drag.band.setAttribute("width", Math.abs(here - drag.from));
  });
  svg.addEventListener("pointerup", (event) => {
    if (!drag) return;
    const [from, to] = [drag.from, place(event)].sort((one, other) => one - other);
    drag.band.remove();
    drag = null;
    if (to - from >= LEAST_DRAG_PIXELS) look([Math.log10(oftenAt(from)), Math.log10(oftenAt(to))]);
  });
  svg.addEventListener("pointercancel", () => {
    drag?.band.remove();
    drag = null;
  });
  svg.addEventListener("dblclick", () => look(whole));
  svg.addEventListener(
    "wheel",
    (event) => {
      const isWhole = view[1] - view[0] >= widest;
      if (event.deltaY > 0 && isWhole) return; // nothing to zoom out of: the page scrolls
      event.preventDefault();
      zoom(event.deltaY < 0 ? 1 / ZOOM_STEP : ZOOM_STEP, Math.log10(oftenAt(place(event))));
    },
    { passive: false },
  );

  const step = () => (view[1] - view[0]) / 8;
  const keys = {
    "+": () => zoom(1 / ZOOM_STEP),
    "=": () => zoom(1 / ZOOM_STEP),
    "-": () => zoom(ZOOM_STEP),
    ArrowLeft: () => look([view[0] - step(), view[1] - step()]),
    ArrowRight: () => look([view[0] + step(), view[1] + step()]),
    0: () => look(whole),
    Escape: () => look(whole),
  };
  svg.addEventListener("keydown", (event) => {
    if (!Object.hasOwn(keys, event.key) || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    keys[event.key]();
    readout.textContent = `Showing items returned ${count(Math.round(10 ** view[0]))} to ${count(Math.round(10 ** view[1]))} times.`;
  });

  const observer = new ResizeObserver(([entry]) => {
    width = Math.max(280, Math.round(entry.contentRect.width));
    draw();
  });
  observer.observe(svg);
  draw();
  return { root, close: () => observer.disconnect() };
}
