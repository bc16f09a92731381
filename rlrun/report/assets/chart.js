"use strict";
// A chart of curves: bands, names at the lines' ends, lines of what is expected, zoom, smoothing, logarithmic axes.

/** What a reader has chosen for one chart or for several: a range of x, smoothing from 0 to 0.98, axes. */
const newView = () => ({ zoom: null, smoothing: 0, logX: false, logY: false });

/**
 * A chart of curves.
 *
 * `content()` returns what is shown now: {curves, xName, yName, y, lines, empty}; a curve has xs, ys, color, label and
 * may have low and high (a band), whole (so many points are drawn solid, the rest dashed), seeds, muted, faint, step,
 * dots, bold, end (a name at its end). Lines are [{x or y, name}]. `zoomed` is called when the reader has chosen a range.
 */
function curveChart({ name, height = 380, view = newView(), zoomed, small = false, content }) {
  let state = null;
  const chart = figure({ name, picture, rows: () => curveRows(content()), caption: small ? breakable(content().yName) : "" });

  function picture(width) {
    const { curves, xName, yName, y: yAxis = {}, lines = [], empty = "nothing to draw yet", note } = content();
    const svg = canvas(width, height);
    const shown = curves.map((curve) => seen(curve, view));
    const ends = shown.filter((curve) => curve.end);
    const room = ends.length ? Math.min(width * 0.3, 14 + 7 * Math.max(...ends.map((curve) => curve.end.length))) : 14;
    const [left, right, top, bottom] = small ? [42, width - 8, 24, height - 22] : [58, width - room, 34, height - 44];
    const spanX = extent(shown.map((curve) => curve.xs));
    const level = lines.filter((line) => line.y !== undefined);
    const spanY = extent(
      [...shown.flatMap((curve) => [curve.ys, curve.low || [], curve.high || []]), level.map((line) => line.y)],
      view.logY || yAxis.kind === "log" ? 0 : 0.04,
    );
    state = null;
    if (!spanX || !spanY) {
      svg.append(draw("text", { x: left, y: height / 2, text: empty }));
      return svg;
    }
    const x = scaleOf({ ...spanX, kind: view.logX ? "log" : "linear" }, left, right);
    const y = scaleOf({ ...spanY, kind: view.logY && spanY.low > 0 ? "log" : "linear", ...yAxis }, bottom, top);
    axes(svg, x, y, {
      ...{ left, right, top, bottom },
      yName: small ? "" : yName,
      xName: small ? "" : xName,
      xTicks: width / 110,
      yTicks: small ? 3 : Math.max(4, (bottom - top) / 52),
    });
    if (note) svg.append(draw("text", { class: "strong", x: right, y: top - 12, "text-anchor": "end", text: note }));
    const inside = svg.appendChild(clipped(svg, left, right, top, bottom));
    for (const curve of [...shown].sort((a, b) => weight(a) - weight(b))) drawCurve(inside, curve, x, y);
    for (const line of lines) drawLine(svg, line, x, y, { left, right, top, bottom, small });
    endNames(svg, ends, x, y, { right, top, bottom });
    const cursor = svg.appendChild(
      draw("line", { class: "axis", y1: top, y2: bottom, "stroke-dasharray": "2 3", visibility: "hidden" }),
    );
    const brush = svg.appendChild(draw("rect", { class: "brush", y: top, height: bottom - top, visibility: "hidden" }));
    state = { x, y, cursor, brush, curves: shown, width, xName, left, right, spanX };
    return svg;
  }

  const place = (event) => {
    const box = chart.node.getBoundingClientRect();
    return ((event.clientX - box.left) / box.width) * state.width;
  };

  function hover(event) {
    if (!state) return;
    const px = place(event);
    if (px < state.left - 4 || px > state.right + 4) return leave();
    const rows = [];
    let at = null;
    for (const curve of state.curves.filter((one) => !one.muted)) {
      const i = nearest(curve, px, state.x);
      if (i === null) continue;
      at = at === null || Math.abs(state.x(curve.xs[i]) - px) < Math.abs(state.x(at) - px) ? curve.xs[i] : at;
      const band = curve.low ? `  (${number(curve.low[i])} to ${number(curve.high[i])})` : "";
      const value = curve.text ? curve.text(curve.ys[i]) : number(curve.ys[i]);
      rows.push([curve.color, shortened(curve.label, 60), value + band, curve.ys[i]]);
    }
    if (at === null) return leave();
    state.cursor.setAttribute("x1", state.x(at));
    state.cursor.setAttribute("x2", state.x(at));
    state.cursor.setAttribute("visibility", "visible");
    rows.sort((a, b) => b[3] - a[3]);
    chart.tip.show(event, `${number(at >= 100 ? Math.round(at) : at)} ${state.xName}`, rows.slice(0, 14));
  }

  function leave() {
    chart.tip.hide();
    if (state) state.cursor.setAttribute("visibility", "hidden");
  }

  chart.node.addEventListener("pointermove", hover);
  chart.node.addEventListener("pointerleave", leave);
  if (zoomed) zoomable(chart.node, () => state, place, view, zoomed);
  return chart;
}

/** Lets a range of x be chosen by dragging; a double click shows all again. */
function zoomable(node, stateOf, place, view, zoomed) {
  let start = null;
  node.classList.add("zoomable");
  node.addEventListener("pointerdown", (event) => {
    if (stateOf() && !event.target.closest("button")) start = place(event);
  });
  node.addEventListener("pointermove", (event) => {
    const state = stateOf();
    if (start === null || !state) return;
    const ends = [start, place(event)].map((px) => Math.min(state.right, Math.max(state.left, px)));
    state.brush.setAttribute("visibility", "visible");
    state.brush.setAttribute("x", Math.min(...ends));
    state.brush.setAttribute("width", Math.abs(ends[1] - ends[0]));
  });
  node.addEventListener("pointerup", (event) => {
    const state = stateOf();
    if (start === null || !state) return;
    const ends = [start, place(event)].map((px) => Math.min(state.right, Math.max(state.left, px))).sort((a, b) => a - b);
    start = null;
    state.brush.setAttribute("visibility", "hidden");
    if (ends[1] - ends[0] < 8) return;
    view.zoom = ends.map((px) => state.x.back(px));
    zoomed();
  });
  node.addEventListener("pointercancel", () => {
    start = null;
  });
  node.addEventListener("dblclick", () => {
    view.zoom = null;
    zoomed();
  });
}

/** A curve as the view shows it: its part within the zoom, smoothed, without places that a logarithm has not. */
function seen(curve, view) {
  const ys = view.smoothing && !curve.step ? smoothed(curve.ys, view.smoothing) : curve.ys;
  const raw = ys === curve.ys || curve.muted ? null : curve.ys;
  const kept = curve.xs
    .map((_, i) => i)
    .filter((i) => (!view.logX || curve.xs[i] > 0) && (!view.zoom || nearRange(curve.xs, i, view.zoom)));
  const drawable = (value) => (view.logY && value <= 0 ? null : value);
  const part = (values) => values && kept.map((i) => drawable(values[i]));
  return {
    ...curve,
    xs: kept.map((i) => curve.xs[i]),
    ys: part(ys),
    low: raw ? undefined : part(curve.low),
    high: raw ? undefined : part(curve.high),
    seeds: [...(curve.seeds || []), ...(raw ? [raw] : [])].map(part),
    whole: curve.whole === undefined ? undefined : kept.filter((i) => i < curve.whole).length,
  };
}

const nearRange = (xs, i, [low, high]) => xs[i] >= low && xs[i] <= high;

/** Exponential moving average without bias; the weight is that of a hundredth of the curve's length. */
function smoothed(values, weight) {
  const keep = weight ** (100 / Math.max(1, values.length - 1));
  let mean = 0,
    mass = 0;
  return values.map((value) => {
    if (value === null) return null;
    mean = keep * mean + (1 - keep) * value;
    mass = keep * mass + (1 - keep);
    return mean / mass;
  });
}

const weight = (curve) => (curve.bold ? 2 : curve.muted ? 0 : 1);

let clips = 0;

function clipped(svg, left, right, top, bottom) {
  const id = `clip${(clips += 1)}`;
  svg.append(
    draw("clipPath", { id }, draw("rect", { x: left, y: top - 2, width: right - left + 2, height: bottom - top + 4 })),
  );
  return draw("g", { "clip-path": `url(#${id})` });
}

function nearest(curve, px, x) {
  let best = null;
  for (let i = 0; i < curve.xs.length; i += 1) {
    if (curve.ys[i] === null) continue;
    if (curve.step) {
      if (x(curve.xs[i]) <= px + 1) best = i;
      continue;
    }
    if (best === null || Math.abs(x(curve.xs[i]) - px) < Math.abs(x(curve.xs[best]) - px)) best = i;
  }
  if (best === null || curve.step) return best;
  return Math.abs(x(curve.xs[best]) - px) > 30 ? null : best;
}

function drawCurve(svg, curve, x, y) {
  const { xs, ys, color } = curve;
  const line = (values, width, extra = {}, part = {}) =>
    svg.append(
      draw("path", {
        d: path(xs, values, x, y, { step: curve.step, ...part }),
        fill: "none",
        style: `stroke: ${color}`,
        "stroke-width": width,
        "stroke-linejoin": "round",
        ...extra,
      }),
    );
  if (curve.low)
    svg.append(
      draw("path", { d: area(xs, curve.low, curve.high, x, y), style: `fill: ${color}`, "fill-opacity": 0.16 }),
    );
  if (curve.dots) return drawDots(svg, curve, x, y);
  for (const seed of curve.seeds || []) line(seed, 0.8, { "stroke-opacity": 0.5 });
  const whole = curve.whole ?? xs.length;
  line(ys, curve.bold ? 3 : curve.muted ? 0.9 : 2, curve.muted ? { "stroke-opacity": curve.faint ? 0.35 : 0.75 } : {}, {
    to: whole,
  });
  if (whole < xs.length) line(ys, 1.6, { "stroke-dasharray": "5 4" }, { from: Math.max(0, whole - 1) });
}

function drawDots(svg, { xs, ys, color }, x, y) {
  xs.forEach((value, i) => {
    if (ys[i] !== null) svg.append(draw("circle", { cx: x(value), cy: y(ys[i]), r: 3.5, style: `fill: ${color}` }));
  });
}

/** A line of what is expected or of where a trial stops, with its name. */
function drawLine(svg, line, x, y, { left, right, top, bottom, small }) {
  const at = line.y === undefined ? x(line.x) : y(line.y);
  const [low, high] = line.y === undefined ? [left, right] : [top, bottom];
  if (!(at >= low - 1 && at <= high + 1)) return;
  const ends = line.y === undefined ? { x1: at, x2: at, y1: top, y2: bottom } : { x1: left, x2: right, y1: at, y2: at };
  svg.append(draw("line", { class: "goal", ...ends }));
  if (small) return;
  const text = { class: "goal", text: line.name };
  if (line.y === undefined) svg.append(draw("text", { ...text, x: at - 5, y: bottom - 6, "text-anchor": "end" }));
  else svg.append(draw("text", { ...text, x: left + 6, y: at < top + 12 ? at + 14 : at - 5 }));
}

/** Names at the ends of lines, moved apart; grey ones are left out where there is no room. */
function endNames(svg, curves, x, y, { right, top, bottom }) {
  const last = (curve) => curve.ys.reduce((found, value, i) => (value === null ? found : i), -1);
  const names = curves
    .map((curve) => ({ curve, i: last(curve) }))
    .filter(({ i }) => i >= 0)
    .map(({ curve, i }) => ({ curve, from: y(curve.ys[i]), px: x(curve.xs[i]) }));
  const placed = [];
  for (const name of names.sort((a, b) => weight(b.curve) - weight(a.curve))) {
    const free = (at) => placed.every((other) => Math.abs(other.at - at) >= 13);
    const tries = name.curve.muted ? [0, 7, -7, 13] : [0, 13, -13, 26, -26, 39, -39, 52, -52];
    const at = tries.map((by) => name.from + by).find((place) => free(place) && place >= top - 4 && place <= bottom + 4);
    if (at !== undefined) placed.push({ ...name, at });
  }
  for (const { curve, at, from, px } of placed) {
    if (Math.abs(at - from) > 7 || right - px > 14)
      svg.append(draw("line", { class: "grid", x1: px + 2, x2: right + 4, y1: from, y2: at }));
    svg.append(
      draw("text", {
        class: curve.muted ? null : "name",
        style: curve.muted ? null : `fill: ${curve.color}`,
        x: right + 6,
        y: at + 4,
        text: shortened(curve.end, 26),
      }),
    );
  }
}

function curveRows({ curves, xName, yName }) {
  const rows = [["curve", xName, yName, "low", "high"]];
  for (const curve of curves)
    curve.xs.forEach((x, i) => {
      if (curve.ys[i] !== null) rows.push([curve.label, x, curve.ys[i], curve.low?.[i], curve.high?.[i]]);
    });
  return rows;
}
