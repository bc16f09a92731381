"use strict";
// The sections of the report, made from the data in the page.

const DATA = JSON.parse(document.getElementById("data").textContent);
const COLORS = 8;
const AXIS_NAMES = { env_steps: "env steps", time: "s of training" };
const main = document.getElementById("report");

const plural = (count, noun) => `${count.toLocaleString("en-US")} ${noun}${count === 1 ? "" : "s"}`;
const sum = (numbers) => numbers.reduce((total, one) => total + one, 0);
const listed = (words) => (words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} and ${words[words.length - 1]}`);
const interval = (estimate) => (estimate ? `${number(estimate.low)} to ${number(estimate.high)}` : "–");
const gridOf = (curve) => curve.mean.map((_, i) => curve.from + ((curve.to - curve.from) * i) / Math.max(1, curve.mean.length - 1));
const shade = (share) => `color-mix(in oklab, var(--high) ${Math.round(100 * Math.min(1, Math.max(0, share)))}%, var(--low))`;

function section(title, ...children) {
  main.append(el("section", {}, el("h2", { text: title }), ...children));
}

/** A share from 0 (worst) to 1 (best) of each score, for its colour. */
function goodness(scores) {
  const span = extent([scores]);
  if (!span || span.low === span.high) return scores.map(() => 0.5);
  return scores.map((score) => (score === null ? 0 : DATA.mode === "min" ? (span.high - score) / (span.high - span.low) : (score - span.low) / (span.high - span.low)));
}

// ---------------------------------------------------------------- what it is

function head() {
  main.append(el("h1", { text: DATA.title }));
  for (const run of DATA.runs) {
    const best = run.best && `${number(run.best.value)} by ${run.best.trial}` + (run.best.checkpoint ? `, checkpoint ${run.best.checkpoint.split("/").pop()}` : ", which has no checkpoint");
    const facts = {
      [DATA.runs.length > 1 ? "run" : "what"]: `${DATA.runs.length > 1 ? run.name + ": " : ""}${run.algorithm} on ${run.env}, ${run.shape}`,
      status: run.status,
      [run.families.length ? "starts with" : "varies"]: Object.entries(run.varied).map(([name, values]) => `${name}: ${values}`).join("; "),
      scheduler: run.scheduler,
      [`best ${DATA.metric}`]: best || "no value yet",
      started: new Date(run.created).toISOString().slice(0, 16).replace("T", " ") + " UTC",
    };
    main.append(el("dl", { class: "facts" }, Object.entries(facts).filter(([, said]) => said).flatMap(([what, said]) => [el("dt", { text: what }), el("dd", { text: said })])));
    if (run.problems.length) main.append(el("div", { class: "problems", role: "alert" }, el("strong", { text: `${run.name}: what could not be read` }), el("ul", {}, run.problems.map((text) => el("li", { text })))));
    if (run.expect) main.append(...expectation(run));
  }
}

function expectation(run) {
  return run.expect.rows.map((row) => {
    const which = run.expect.rows.length > 1 ? `${row.label}: ` : "";
    const when = row.when.length ? `, after ${listed(row.when.map((steps) => number(Math.round(steps))))} env steps` : "";
    const verdict = `${which}${row.passed ? "reached" : "missed"}: ${run.expect.text}, in training by ${row.reached} of ${plural(row.seeds, "seed")} (${row.needed} must)${when}`;
    return el("p", { class: `verdict ${row.passed ? "good" : "bad"}`, text: verdict });
  });
}

// ---------------------------------------------------------------- learning curves

function learningCurves() {
  const featured = DATA.groups.filter((group) => group.featured);
  const others = DATA.groups.filter((group) => !group.featured);
  const view = { metric: DATA.metrics[0], axis: "env_steps", seeds: false, others: true, hidden: new Set(), bold: null };

  const chart = curveChart({
    content() {
      const curves = [];
      const add = (group, look) => {
        const curve = group.curves[view.metric][view.axis];
        if (curve) curves.push({ label: group.label, xs: gridOf(curve), ys: curve.mean, low: curve.low, high: curve.high, whole: curve.whole, seeds: view.seeds ? curve.seeds : null, bold: view.bold === group.label, ...look });
      };
      if (view.others) others.forEach((group) => add(group, view.bold === group.label ? { color: "var(--ink)" } : { color: "var(--other)", muted: true, faint: others.length > 100 }));
      featured.forEach((group, place) => { if (!view.hidden.has(group.label)) add(group, { color: `var(--s${place % COLORS})` }); });
      return { curves, xName: AXIS_NAMES[view.axis], yName: view.metric, empty: `no values of ${view.metric} yet` };
    },
  });

  const choose = (name, values, texts) => el("select", { change: (event) => { view[name] = event.target.value; chart.render(); } }, values.map((value) => el("option", { value, text: texts ? texts[value] : value })));
  const check = (name, text) => el("label", {}, el("input", { type: "checkbox", ...(view[name] ? { checked: "" } : {}), change: (event) => { view[name] = event.target.checked; chart.render(); } }), text);
  const emphasise = (label) => { if (view.bold !== label) { view.bold = label; chart.render(); } };
  const legend = el("div", { class: "legend" }, featured.map((group, place) => el("button", {
    type: "button", "aria-pressed": "true",
    click(event) {
      const hide = !view.hidden.delete(group.label);
      if (hide) view.hidden.add(group.label);
      event.currentTarget.setAttribute("aria-pressed", String(!hide));
      chart.render();
    },
    pointerenter: () => emphasise(group.label), pointerleave: () => emphasise(null), title: group.label,
  }, el("i", { style: `--swatch: var(--s${place % COLORS})` }), el("span", { text: `${group.label}${group.seeds > 1 ? ` (${group.seeds} seeds)` : ""}` }))));

  section("Learning curves",
    el("div", { class: "controls" },
      DATA.metrics.length > 1 ? el("label", {}, "metric", choose("metric", DATA.metrics)) : null,
      el("label", {}, "over", choose("axis", Object.keys(AXIS_NAMES), AXIS_NAMES)),
      featured.some((group) => group.seeds > 1) ? check("seeds", "single seeds") : null,
      others.length ? check("others", `${others.length} others in grey`) : null),
    legend, chart.node, el("p", { class: "soft small", text: curvesNote(featured) }));
  return emphasise;
}

function curvesNote(featured) {
  const parts = [];
  if (featured.some((group) => group.seeds > 1)) parts.push("A line is the mean over seeds, its band reaches from the worst to the best of them. It is dashed where not every seed has come to; one that is done counts on with its last value.");
  if (DATA.groups.some((group) => !group.featured)) parts.push("The best ones by their ends are coloured.");
  if (DATA.runs.some((run) => run.families.length)) parts.push("A population is shown by the best of its members at each point; single members are grey.");
  parts.push("Values are as reported in training, not smoothed.");
  return parts.join(" ");
}

// ---------------------------------------------------------------- tables

/** A table whose columns can be sorted: {name, value(row), show(row), number, wide}. */
function sortable(columns, rows, { onHover, filter } = {}) {
  const body = el("tbody");
  let order = null, ascending = true, wanted = "";
  const cell = (column, row) => {
    const shown = column.show ? column.show(row) : number(column.value(row));
    const td = el("td", { class: [column.number ? "number" : "", column.wide ? "wide" : ""].join(" ").trim() || null });
    td.append(shown instanceof Node ? shown : String(shown ?? "–"));
    return td;
  };
  const nodes = new Map(rows.map((row) => [row, el("tr", onHover ? { pointerenter: () => onHover(row), pointerleave: () => onHover(null) } : {}, columns.map((column) => cell(column, row)))]));
  const compare = (a, b) => {
    const [x, y] = [order.value(a), order.value(b)];
    if (x === null || x === undefined || y === null || y === undefined) return (x === null || x === undefined) - (y === null || y === undefined);
    const both = typeof x === "number" && typeof y === "number";
    return (ascending ? 1 : -1) * (both ? x - y : String(x).localeCompare(String(y), "en", { numeric: true }));
  };
  function render() {
    const shown = rows.filter((row) => !wanted || nodes.get(row).textContent.toLowerCase().includes(wanted));
    body.replaceChildren(...(order ? [...shown].sort(compare) : shown).map((row) => nodes.get(row)));
  }
  const headings = columns.map((column) => el("th", { scope: "col", class: column.number ? "number" : null }, el("button", {
    type: "button", text: column.name,
    click(event) {
      ascending = order === column ? !ascending : !column.number;
      order = column;
      headings.forEach((th) => th.removeAttribute("aria-sort"));
      event.currentTarget.parentNode.setAttribute("aria-sort", ascending ? "ascending" : "descending");
      render();
    },
  })));
  render();
  const table = el("div", { class: "scroll", tabindex: "0" }, el("table", {}, el("thead", {}, el("tr", {}, headings)), body));
  if (!filter || rows.length < 15) return [table];
  const search = el("input", { type: "search", placeholder: "filter", "aria-label": "filter the trials", input: (event) => { wanted = event.target.value.toLowerCase(); render(); } });
  return [el("div", { class: "controls" }, search), table];
}

/** A dot with its interval on a common scale. */
function intervalBar(estimate, span) {
  if (!estimate) return "–";
  const x = scaleOf(span, 4, 156);
  return draw("svg", { width: 160, height: 16, viewBox: "0 0 160 16", role: "img", "aria-label": interval(estimate) },
    draw("line", { class: "grid", x1: 4, x2: 156, y1: 8, y2: 8 }),
    draw("line", { x1: x(estimate.low), x2: x(estimate.high), y1: 8, y2: 8, style: "stroke: var(--accent)", "stroke-width": 3, "stroke-opacity": 0.5 }),
    draw("circle", { cx: x(estimate.value), cy: 8, r: 4, style: "fill: var(--accent)" }));
}

function configurations(emphasise) {
  const rows = DATA.configurations;
  if (!rows.some((row) => row.seeds > 1)) return; // each is a single trial, and the trials have a table of their own
  const span = extent(rows.flatMap((row) => (row.iqm ? [[row.iqm.low, row.iqm.high]] : [])), 0.02) || { low: 0, high: 1 };
  const names = [...new Set(rows.flatMap((row) => Object.keys(row.values)))];
  const named = names.length && names.length <= 8 && rows.every((row) => Object.keys(row.values).length)
    ? [...(DATA.runs.length > 1 ? [{ name: "run", value: (row) => row.run }] : []), ...names.map((name) => ({ name, value: (row) => row.values[name], number: rows.every((row) => typeof (row.values[name] ?? 0) === "number") }))]
    : [{ name: "configuration", value: (row) => row.label, wide: true }];
  const columns = [
    ...named,
    { name: "seeds", value: (row) => row.seeds, number: true },
    { name: "status", value: (row) => row.status, wide: rows.some((row) => row.status.length > 24) },
    { name: "env steps", value: (row) => row.env_steps && Math.round(row.env_steps), number: true },
    { name: "mean", value: (row) => row.mean && row.mean.value, number: true },
    { name: "IQM", value: (row) => row.iqm && row.iqm.value, number: true },
    { name: "95 %", value: (row) => row.iqm && row.iqm.low, show: (row) => (row.seeds > 1 ? interval(row.iqm) : "–") },
    { name: "IQM and interval", value: (row) => row.iqm && row.iqm.value, show: (row) => intervalBar(row.iqm, span) },
    { name: "best", value: (row) => row.best, number: true },
  ];
  const comparison = DATA.comparison;
  const said = comparison ? [el("p", { class: "verdict", text: comparison.verdict + "." }), ...comparison.notes.map((text) => el("p", { class: "soft small", text: `Note: ${text}.` }))] : [];
  section(DATA.runs.every((run) => run.families.length) ? "Populations" : "Configurations", ...said,
    ...sortable(columns, rows, { onHover: (row) => emphasise(row && row.label), filter: true }),
    el("p", { class: "soft small", text: `${DATA.metric}: each seed's last value; IQM is the interquartile mean, the interval a 95 % stratified bootstrap (Agarwal et al. 2021); best is the best value at any time.` }),
    ...(comparison && comparison.sides.length ? [comparisonTables(comparison)] : []));
}

function comparisonTables(comparison) {
  const at = number(Math.round(comparison.stop)), from = number(Math.round(comparison.start));
  const estimates = (name, key) => [
    { name, value: (side) => side[key].iqm.value, number: true },
    { name: "95 %", value: (side) => side[key].iqm.low, show: (side) => (side.samples > 1 ? interval(side[key].iqm) : "–") },
  ];
  const sides = sortable([{ name: "configuration", value: (side) => side.label, wide: true }, ...estimates(`IQM at ${at} env steps`, "at_end"), ...estimates(`IQM of the mean height from ${from} to ${at}`, "under_curve")], comparison.sides);
  const percent = (share) => `${Math.round(100 * share)} %`;
  const pairs = sortable([
    { name: "probability that", value: (pair) => pair.ahead, wide: true },
    { name: "beats", value: (pair) => pair.behind, wide: true },
    { name: "at the end", value: (pair) => pair.probability.value, number: true, show: (pair) => percent(pair.probability.value) },
    { name: "95 %", value: (pair) => pair.probability.low, show: (pair) => `${percent(pair.probability.low)} to ${percent(pair.probability.high)}` },
    { name: "by area", value: (pair) => pair.probability_of_area.value, number: true, show: (pair) => percent(pair.probability_of_area.value) },
    { name: "p", value: (pair) => pair.p_value, number: true, show: (pair) => Number(pair.p_value.toPrecision(2)) },
    { name: "settled", value: (pair) => (pair.settled ? "yes" : "no") },
  ], comparison.pairs);
  return el("details", {}, el("summary", { text: "Against each other, at equal env steps" }), ...sides, el("p"), ...pairs,
    el("p", { class: "soft small", text: "p: how often chance alone would set two that far apart (a permutation test of ranks, adjusted for the number of pairs after Holm); settled from 0.05 on down." }));
}

function trials() {
  const names = [...new Set(DATA.trials.flatMap((trial) => Object.keys(trial.params)))];
  const has = (key) => DATA.trials.some((trial) => trial[key] !== null && trial[key] !== undefined && trial[key] !== "");
  const differ = new Set(DATA.trials.filter((trial) => trial.stopped).map((trial) => trial.stopped.split(" ")[0])).size > 1;
  const short = (name) => name.match(/^\d+/)?.[0] ?? name;
  const columns = [
    DATA.runs.length > 1 && { name: "run", value: (trial) => trial.run },
    { name: "trial", value: (trial) => trial.name, show: (trial) => el("span", { title: trial.name, text: names.length ? short(trial.name) : trial.name }) },
    ...names.map((name) => ({ name, value: (trial) => trial.params[name], number: DATA.trials.every((trial) => typeof (trial.params[name] ?? 0) === "number") })),
    { name: "seed", value: (trial) => trial.seed, number: true },
    { name: "status", value: (trial) => trial.status, show: (trial) => el("span", { class: trial.status === "error" ? "bad" : null, text: trial.status }) },
    { name: "env steps", value: (trial) => trial.env_steps, number: true },
    { name: "last", value: (trial) => trial.last, number: true },
    { name: "best", value: (trial) => trial.best, number: true },
    has("evaluation") && { name: "evaluation", value: (trial) => trial.evaluation, number: true },
    { name: "seconds", value: (trial) => trial.seconds && Math.round(trial.seconds * 10) / 10, number: true },
    differ && { name: "stopped by", value: (trial) => trial.stopped, show: (trial) => trial.stopped || "–", wide: DATA.trials.some((trial) => trial.stopped.length > 40) },
  ].filter(Boolean);
  section(`Trials`, ...sortable(columns, DATA.trials, { filter: true }),
    el("p", { class: "soft small", text: `last and best: ${DATA.metric}${has("evaluation") ? "; evaluation: the newest evaluation/episode_return_mean" : ""}.${DATA.runs.some((run) => run.families.length) ? " Settings are those that members started with." : ""}` }));
  const failed = DATA.trials.filter((trial) => trial.error);
  if (failed.length) section(`Failures`, ...failed.slice(0, 50).map((trial) => el("details", failed.length < 4 ? { open: "" } : {}, el("summary", { text: trial.name }), el("pre", { text: trial.error }))), failed.length > 50 ? el("p", { text: `${failed.length - 50} more: see the error.txt of each trial.` }) : null);
}

// ---------------------------------------------------------------- sweeps

function parallelAxes(sweep) {
  const columns = [...sweep.axes, { name: DATA.metric, kind: "linear", values: sweep.scores, isScore: true }];
  const shares = goodness(sweep.scores);
  const order = sweep.scores.map((_, i) => i).sort((a, b) => shares[a] - shares[b]);
  const brushes = new Map();
  const chart = el("div", { class: "chart wide-chart" });
  const tip = tipOf(chart);
  const told = el("p", { class: "soft small" });
  const height = 340, top = 44, bottom = height - 22;
  let lines = [];

  function render() {
    const width = Math.max(95 * columns.length, chart.clientWidth || 1000);
    const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "parallel coordinates", style: `min-width: ${95 * columns.length}px` });
    const place = (n) => 64 + (n * (width - 150)) / (columns.length - 1);
    const scales = columns.map((column) => {
      const span = column.kind === "choice" ? { low: 0, high: 1 } : extent([column.values], column.kind === "log" ? 0 : 0.03);
      return scaleOf({ ...span, kind: column.kind, choices: column.choices }, bottom, top);
    });
    // Configurations with the same choice lie beside each other, so that their lines can be told apart.
    const spread = (column, i) => (column.kind === "choice" ? (((i * 0.618) % 1) - 0.5) * 0.34 : 0);
    const yOf = (n, i) => scales[n](columns[n].values[i] + spread(columns[n], i));
    lines = order.map((i) => {
      const d = columns.map((_, n) => `${n ? "L" : "M"}${place(n).toFixed(1)},${yOf(n, i).toFixed(1)}`).join("");
      const node = svg.appendChild(draw("path", { d, fill: "none", "stroke-width": order.length > 200 ? 1 : 1.6, "stroke-opacity": order.length > 200 ? 0.2 + 0.6 * shares[i] ** 2 : 0.85, style: `stroke: ${shade(shares[i])}` }));
      node.addEventListener("pointerenter", (event) => { node.setAttribute("stroke-width", 4); tip.show(event, sweep.labels[i], [[shade(shares[i]), DATA.metric, number(sweep.scores[i])]]); });
      node.addEventListener("pointerleave", () => { node.setAttribute("stroke-width", order.length > 200 ? 1 : 1.6); tip.hide(); });
      return [i, node];
    });
    columns.forEach((column, n) => {
      const at = place(n), scale = scales[n], last = n === columns.length - 1;
      svg.append(draw("line", { class: "axis", x1: at, x2: at, y1: top, y2: bottom }));
      for (const tick of scale.ticks(6)) svg.append(draw("text", { x: at + (last ? 8 : -8), y: scale(tick) + 4, "text-anchor": last ? "start" : "end", text: scale.text(tick) }));
      svg.append(draw("text", { class: "strong", x: at, y: n % 2 && columns.length * 110 > width ? top - 28 : top - 12, "text-anchor": last ? "middle" : n ? "middle" : "start", ...(n ? {} : { dx: -20 }), text: shortened(column.name, 24) }));
      brushable(svg, at, n, scale);
    });
    const old = chart.querySelector("svg");
    if (old) old.replaceWith(svg); else chart.prepend(svg);
    select();
  }

  function brushable(svg, at, n, scale) {
    const mark = svg.appendChild(draw("rect", { class: "brush", x: at - 7, width: 14, visibility: "hidden" }));
    const show = () => {
      const range = brushes.get(n);
      mark.setAttribute("visibility", range ? "visible" : "hidden");
      if (range) { mark.setAttribute("y", Math.min(...range)); mark.setAttribute("height", Math.abs(range[1] - range[0])); }
    };
    const zone = svg.appendChild(draw("rect", { x: at - 12, width: 24, y: top - 6, height: bottom - top + 12, fill: "transparent", style: "cursor: ns-resize; touch-action: none" }));
    let start = null;
    const inside = (event) => { const box = svg.getBoundingClientRect(); return Math.min(bottom, Math.max(top, ((event.clientY - box.top) / box.height) * height)); };
    zone.addEventListener("pointerdown", (event) => { start = inside(event); zone.setPointerCapture(event.pointerId); brushes.delete(n); show(); select(); });
    zone.addEventListener("pointermove", (event) => {
      if (start === null) return;
      const now = inside(event);
      if (Math.abs(now - start) > 3) { brushes.set(n, [start, now]); brushes.get(n).scale = scale; show(); select(); }
    });
    zone.addEventListener("pointerup", () => { start = null; });
    show();
  }

  function select() {
    const chosen = [];
    for (const [i, node] of lines) {
      const kept = [...brushes].every(([n, range]) => { const y = range.scale(columns[n].values[i]); return y >= Math.min(...range) - 0.5 && y <= Math.max(...range) + 0.5; });
      node.style.opacity = kept ? "" : "0.06";
      node.style.pointerEvents = kept ? "" : "none";
      if (kept) chosen.push(sweep.scores[i]);
    }
    const mean = chosen.length ? number(sum(chosen) / chosen.length) : "–";
    told.textContent = brushes.size
      ? `${plural(chosen.length, "configuration")} of ${order.length} chosen, ${DATA.metric} ${mean} in the mean. Click an axis to take its range away.`
      : `Each line is a configuration; the darker (in the dark: the brighter), the better its mean at the end. Drag along an axis to choose a range.`;
  }

  follow(chart, render);
  return [chart, told];
}

function importanceBars(found) {
  if (!found.effects.length) return [el("p", { text: `${found.caveat}.` })];
  const chart = el("div", { class: "chart" });
  const tip = tipOf(chart);
  const row = 30, top = 26, height = top + found.effects.length * row + 34;
  const most = Math.min(1, Math.max(0.25, ...found.effects.map((effect) => Math.max(effect.high, effect.chance) + 0.03)));
  follow(chart, () => {
    const width = Math.max(320, chart.clientWidth || 1000);
    const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "parameter importance" });
    const x = scaleOf({ low: 0, high: most }, Math.min(190, width * 0.3), width - 20);
    for (const tick of x.ticks(width / 110)) {
      svg.append(draw("line", { class: "grid", x1: x(tick), x2: x(tick), y1: top - 6, y2: height - 28 }));
      svg.append(draw("text", { x: x(tick), y: height - 12, "text-anchor": "middle", text: `${Math.round(tick * 100)} %` }));
    }
    svg.append(draw("text", { class: "strong", x: 0, y: 12, text: `share of the variance of ${DATA.metric} between configurations` }));
    found.effects.forEach((effect, n) => {
      const y = top + n * row + row / 2, share = Math.max(0, effect.share), real = effect.share > effect.chance;
      const color = real ? "var(--accent)" : "var(--other)";
      svg.append(draw("text", { class: "strong", x: x(0) - 10, y: y + 4, "text-anchor": "end", text: shortened(effect.name, 26) }));
      svg.append(draw("rect", { x: x(0), y: y - 8, width: Math.max(1, x(share) - x(0)), height: 16, style: `fill: ${color}`, "fill-opacity": 0.75 }));
      svg.append(draw("line", { class: "axis", x1: x(effect.low), x2: x(effect.high), y1: y, y2: y }));
      for (const end of [effect.low, effect.high]) svg.append(draw("line", { class: "axis", x1: x(end), x2: x(end), y1: y - 4, y2: y + 4 }));
      svg.append(draw("line", { x1: x(effect.chance), x2: x(effect.chance), y1: y - 12, y2: y + 12, style: "stroke: var(--bad)", "stroke-width": 2, "stroke-dasharray": "3 2" }));
      const zone = svg.appendChild(draw("rect", { x: 0, y: y - row / 2, width, height: row, fill: "transparent" }));
      zone.addEventListener("pointermove", (event) => tip.show(event, `${effect.name}: mean ${DATA.metric} by value`, effect.bins.map(([label, count, mean]) => [null, `${label} (${count})`, number(mean)])));
      zone.addEventListener("pointerleave", () => tip.hide());
    });
    const old = chart.querySelector("svg");
    if (old) old.replaceWith(svg); else chart.prepend(svg);
  });
  const best = found.effects[0];
  const say = best.share > best.chance
    ? `${best.name} alone goes with ${Math.round(100 * best.share)} % of the differences between configurations (95 % interval ${Math.round(100 * best.low)} to ${Math.round(100 * best.high)} %).`
    : "No parameter alone stands out from what chance would show.";
  return [
    el("p", { class: "verdict", text: say }), chart,
    el("p", { class: "soft small", text: `From ${plural(found.configurations, "configuration")}. Each parameter's values are put into bins, and the bar is the share of the variance of the score that lies between bins, less what as many random bins would show (epsilon squared). Whiskers: 95 % bootstrap interval. Red mark: what shuffled scores reach for some parameter in one of 20 sweeps; a bar below it says nothing. Effects that two parameters have only together are not seen. Trials that were stopped early count with their last value.` }),
    found.caveat ? el("p", { class: "soft small", text: `Note: ${found.caveat}.` }) : null,
  ];
}

function sweeps() {
  for (const run of DATA.runs.filter((one) => one.sweep)) {
    const which = DATA.runs.length > 1 ? `: ${run.name}` : "";
    section(`Sweep${which}`, ...parallelAxes(run.sweep));
    main.lastChild.append(el("h3", { text: "Which parameter matters" }), ...importanceBars(run.sweep.importance).filter(Boolean));
  }
}

// ---------------------------------------------------------------- populations

function lineage(family) {
  const chart = el("div", { class: "chart" });
  const tip = tipOf(chart);
  const row = Math.max(5, Math.min(26, 520 / family.members.length)), top = 16;
  const height = top + family.members.length * row + 44;
  const shares = goodness(family.stretches.map((stretch) => stretch.score));
  const at = (member) => top + (member + 0.5) * row;
  follow(chart, () => {
    const width = Math.max(320, chart.clientWidth || 1000);
    const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "lineage of the population" });
    const x = scaleOf(extent([family.stretches.map((s) => s.start), family.stretches.map((s) => s.stop)]), 64, width - 16);
    const bottom = height - 40;
    if (row > 9) family.members.forEach((name, member) => svg.append(draw("text", { x: 54, y: at(member) + 4, "text-anchor": "end", class: member === family.best ? "strong" : null, text: shortened(name.match(/^\d+/)?.[0] ?? name, 8) }, draw("title", { text: name }))));
    svg.append(draw("line", { class: "axis", x1: 64, x2: width - 16, y1: bottom, y2: bottom }));
    for (const tick of x.ticks(width / 110)) svg.append(draw("text", { x: x(tick), y: bottom + 18, "text-anchor": "middle", text: x.text(tick) }));
    svg.append(draw("text", { x: width - 16, y: bottom + 34, "text-anchor": "end", text: "env steps" }));
    const copies = family.stretches.filter((stretch) => stretch.parent !== null);
    const link = (stretch) => {
      const from = at(stretch.parent), to = at(stretch.member), px = x(stretch.start), bend = Math.min(14, 4 + Math.abs(to - from) / 6);
      svg.append(draw("path", { d: `M${px},${from}C${px - bend},${from} ${px - bend},${to} ${px},${to}`, fill: "none", style: `stroke: ${stretch.is_ancestor ? "var(--s1)" : "var(--soft)"}`, "stroke-width": stretch.is_ancestor ? 2.5 : 1, "stroke-opacity": stretch.is_ancestor ? 1 : 0.55, "pointer-events": "none" }));
    };
    const bar = (stretch, n) => {
      const y = at(stretch.member), thick = Math.min(row - 2, stretch.is_ancestor ? 12 : 6);
      const node = svg.appendChild(draw("rect", { x: x(stretch.start), y: y - thick / 2, width: Math.max(1, x(stretch.stop) - x(stretch.start) - 1), height: thick, style: `fill: ${stretch.score === null ? "var(--other)" : shade(shares[n])}; stroke: ${stretch.is_ancestor ? "var(--s1)" : "none"}`, "stroke-width": 2 }));
      node.addEventListener("pointermove", (event) => tip.show(event, `${family.members[stretch.member]}, generation ${stretch.generation}`, [
        [null, stretch.parent === null ? stretch.how : `${stretch.how}, from ${family.members[stretch.parent]}`, ""],
        ...Object.entries(stretch.params).map(([name, value]) => [null, name, value]), [null, `${DATA.metric} at its end`, number(stretch.score)]]));
      node.addEventListener("pointerleave", () => tip.hide());
    };
    const dot = (stretch) => svg.append(draw("circle", { cx: x(stretch.start), cy: at(stretch.member), r: Math.min(4, row / 3), style: `fill: ${stretch.is_ancestor ? "var(--s1)" : "var(--page)"}; stroke: ${stretch.is_ancestor ? "var(--s1)" : "var(--soft)"}`, "pointer-events": "none" }));
    copies.filter((stretch) => !stretch.is_ancestor).forEach(link);
    family.stretches.forEach(bar);
    copies.filter((stretch) => !stretch.is_ancestor).forEach(dot);
    copies.filter((stretch) => stretch.is_ancestor).forEach((stretch) => { link(stretch); dot(stretch); });
    const old = chart.querySelector("svg");
    if (old) old.replaceWith(svg); else chart.prepend(svg);
  });
  return chart;
}

/** The values of one setting over time: every member thin, the ancestors of the best one thick. */
function schedule(family, setting) {
  const course = (stretches) => {
    const last = stretches[stretches.length - 1];
    const points = stretches.map((stretch) => [stretch.start, setting.values[family.stretches.indexOf(stretch)]]);
    points.push([last.stop, points[points.length - 1][1]]);
    return { xs: points.map((point) => point[0]), ys: points.map((point) => point[1]) };
  };
  const text = (value) => (setting.kind === "choice" ? setting.choices[value] : number(value));
  const members = family.members.map((_, member) => family.stretches.filter((stretch) => stretch.member === member)).filter((stretches) => stretches.length);
  const ancestors = family.stretches.filter((stretch) => stretch.is_ancestor).sort((a, b) => a.start - b.start);
  const y = setting.kind === "choice" ? { kind: "choice", choices: setting.choices } : { kind: setting.kind };
  return curveChart({
    height: 220,
    content: () => ({
      curves: [...members.map((stretches) => ({ ...course(stretches), label: "", color: "var(--other)", muted: true, step: true })), ...(ancestors.length ? [{ ...course(ancestors), label: "ancestors of the best", color: "var(--s1)", step: true, bold: true, text }] : [])],
      xName: "env steps", yName: setting.name, y,
    }),
  }).node;
}

function populations() {
  for (const run of DATA.runs) {
    for (const family of run.families) {
      const which = [DATA.runs.length > 1 ? run.name : "", run.families.length > 1 ? `population of seed ${family.population}` : ""].filter(Boolean).join(", ");
      section(`Lineage${which ? ": " + which : ""}`,
        el("p", { text: `${plural(family.members.length, "member")}, ${family.copies === 1 ? "1 copy" : `${family.copies} copies`}${family.best === null ? "" : `; ${run.is_done ? "best in the end" : "best so far"}: ${family.members[family.best]}`}.` }),
        lineage(family),
        el("p", { class: "soft small", text: "Each row is a member; the darker (in the dark: the brighter) a stretch, the better it was at its end. A line into a dot is a copy of weights, after which settings change. Orange: the stretches whose weights the best member has." }),
        ...(family.settings.length ? [el("h3", { text: "The schedule it found" }), ...family.settings.map((setting) => schedule(family, setting)), el("p", { class: "soft small", text: "Orange: the settings under which the best member's weights were trained, one after the other. Grey: all members." })] : []));
    }
  }
}

// ---------------------------------------------------------------- stops, spec

function stops() {
  for (const run of DATA.runs.filter((one) => one.stops.length)) {
    const mine = DATA.trials.filter((trial) => trial.run === run.name);
    const times = [...new Set(run.stops.map((stop) => stop.time))].sort((a, b) => a - b);
    const end = Math.max(times[times.length - 1], ...mine.map((trial) => trial.env_steps || 0));
    const left = (time) => mine.length - run.stops.filter((stop) => stop.time <= time).length;
    const xs = [0, ...times, end];
    const chart = curveChart({ height: 200, content: () => ({ curves: [{ label: "not stopped", xs, ys: xs.map((time) => (time === 0 ? mine.length : left(time))), color: "var(--accent)", step: true }], xName: "where they were stopped", yName: "trials not stopped", y: { low: 0 } }) });
    section(`Stopped by ${run.scheduler || "the scheduler"}${DATA.runs.length > 1 ? ": " + run.name : ""}`,
      el("p", { text: `${run.stops.length} of ${plural(mine.length, "trial")} were stopped before their end.` }), chart.node,
      el("details", {}, el("summary", { text: "Each decision" }), ...sortable([
        { name: "trial", value: (stop) => stop.trial }, { name: "at", value: (stop) => stop.time, number: true },
        { name: "score", value: (stop) => stop.score, number: true }, { name: "reason", value: (stop) => stop.reason, wide: true }], run.stops)));
  }
}

function origins() {
  for (const run of DATA.runs) {
    section(`Spec and versions${DATA.runs.length > 1 ? ": " + run.name : ""}`,
      el("dl", { class: "facts" }, el("dt", { text: "command" }), el("dd", {}, el("code", { text: run.command })), el("dt", { text: "directory" }), el("dd", {}, el("code", { text: run.path })), el("dt", { text: "versions" }), el("dd", { text: Object.entries(run.versions).map(([name, version]) => `${name} ${version}`).join(", ") })),
      el("details", DATA.runs.length > 1 ? {} : { open: "" }, el("summary", { text: "Resolved spec" }), el("pre", { text: run.spec || "cannot be read" })));
  }
  main.append(el("footer", { text: `Made ${DATA.made.slice(0, 16).replace("T", " ")} UTC by rlrun ${DATA.rlrun}. Judged by ${DATA.metric}, ${DATA.mode === "min" ? "less" : "more"} is better. This page holds all of its data and fetches nothing.` }));
}

head();
const emphasise = learningCurves();
configurations(emphasise);
sweeps();
populations();
stops();
trials();
origins();
addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((node) => node.setAttribute("open", "")));
