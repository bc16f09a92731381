"use strict";
// Tables of configurations, their comparison, and trials, which can be sorted.

/** A table whose columns can be sorted: {name, value(row), show(row), number, wide}. */
function sortable(columns, rows, { onHover, filter } = {}) {
  const body = el("tbody");
  let order = null,
    ascending = true,
    wanted = "";
  const cell = (column, row) => {
    const shown = column.show ? column.show(row) : number(column.value(row));
    const td = el("td", { class: [column.number ? "number" : "", column.wide ? "wide" : ""].join(" ").trim() || null });
    td.append(shown instanceof Node ? shown : String(shown ?? "–"));
    return td;
  };
  const nodes = new Map(
    rows.map((row) => [
      row,
      el(
        "tr",
        onHover ? { pointerenter: () => onHover(row), pointerleave: () => onHover(null) } : {},
        columns.map((column) => cell(column, row)),
      ),
    ]),
  );
  const compare = (a, b) => {
    const [x, y] = [order.value(a), order.value(b)];
    if (x === null || x === undefined || y === null || y === undefined)
      return (x === null || x === undefined) - (y === null || y === undefined);
    const both = typeof x === "number" && typeof y === "number";
    return (ascending ? 1 : -1) * (both ? x - y : String(x).localeCompare(String(y), "en", { numeric: true }));
  };
  function render() {
    const shown = rows.filter((row) => !wanted || nodes.get(row).textContent.toLowerCase().includes(wanted));
    body.replaceChildren(...(order ? [...shown].sort(compare) : shown).map((row) => nodes.get(row)));
  }
  const headings = columns.map((column) =>
    el(
      "th",
      { scope: "col", class: column.number ? "number" : null },
      el("button", {
        type: "button",
        text: column.name,
        click(event) {
          ascending = order === column ? !ascending : !column.number;
          order = column;
          headings.forEach((th) => th.removeAttribute("aria-sort"));
          event.currentTarget.parentNode.setAttribute("aria-sort", ascending ? "ascending" : "descending");
          render();
        },
      }),
    ),
  );
  render();
  const table = el(
    "div",
    { class: "scroll", tabindex: "0" },
    el("table", {}, el("thead", {}, el("tr", {}, headings)), body),
  );
  if (!filter || rows.length < 15) return [table];
  const search = el("input", {
    type: "search",
    placeholder: "filter",
    "aria-label": "filter the trials",
    input: (event) => {
      wanted = event.target.value.toLowerCase();
      render();
    },
  });
  return [el("div", { class: "controls" }, search), table];
}

/** A dot with its interval on a common scale. */
function intervalBar(estimate, span) {
  if (!estimate) return "–";
  const x = scaleOf(span, 4, 156);
  return draw(
    "svg",
    { width: 160, height: 16, viewBox: "0 0 160 16", role: "img", "aria-label": interval(estimate) },
    draw("line", { class: "grid", x1: 4, x2: 156, y1: 8, y2: 8 }),
    draw("line", {
      x1: x(estimate.low),
      x2: x(estimate.high),
      y1: 8,
      y2: 8,
      style: "stroke: var(--accent)",
      "stroke-width": 3,
      "stroke-opacity": 0.5,
    }),
    draw("circle", { cx: x(estimate.value), cy: 8, r: 4, style: "fill: var(--accent)" }),
  );
}

function configurations(emphasise) {
  const rows = DATA.configurations;
  if (!rows.some((row) => row.seeds > 1)) return; // each is a single trial, and the trials have a table of their own
  const span = extent(
    rows.flatMap((row) => (row.iqm ? [[row.iqm.low, row.iqm.high]] : [])),
    0.02,
  ) || { low: 0, high: 1 };
  const names = [...new Set(rows.flatMap((row) => Object.keys(row.values)))];
  const named =
    names.length && names.length <= 8 && rows.every((row) => Object.keys(row.values).length)
      ? [
          ...(DATA.runs.length > 1 ? [{ name: "run", value: (row) => row.run }] : []),
          ...names.map((name) => ({
            name,
            value: (row) => row.values[name],
            number: rows.every((row) => typeof (row.values[name] ?? 0) === "number"),
          })),
        ]
      : [{ name: "configuration", value: (row) => row.label, wide: true }];
  const columns = [
    ...named,
    { name: "seeds", value: (row) => row.seeds, number: true },
    { name: "status", value: (row) => row.status, wide: rows.some((row) => row.status.length > 24) },
    { name: DATA.steps, value: (row) => row.steps && Math.round(row.steps), number: true },
    { name: "mean", value: (row) => row.mean && row.mean.value, number: true },
    { name: "IQM", value: (row) => row.iqm && row.iqm.value, number: true },
    { name: "95 %", value: (row) => row.iqm && row.iqm.low, show: (row) => (row.seeds > 1 ? interval(row.iqm) : "–") },
    { name: "IQM and interval", value: (row) => row.iqm && row.iqm.value, show: (row) => intervalBar(row.iqm, span) },
    { name: "best", value: (row) => row.best, number: true },
    rows.some((row) => row.counterpart !== null) && {
      name: COUNTERPART,
      value: (row) => row.counterpart,
      number: true,
    },
  ].filter(Boolean);
  const comparison = DATA.comparison;
  const said = comparison
    ? [
        el("p", { class: "verdict", text: comparison.verdict + "." }),
        ...comparison.notes.map((text) => el("p", { class: "soft small", text: `Note: ${text}.` })),
      ]
    : [];
  section(
    DATA.runs.every((run) => run.families.length) ? "Populations" : "Configurations",
    ...said,
    ...sortable(columns, rows, { onHover: (row) => emphasise(row && row.label), filter: true }),
    el("p", {
      class: "soft small",
      text: `${DATA.metric}: each seed's last value; IQM is the interquartile mean, the interval a 95 % stratified bootstrap (Agarwal et al. 2021); best is the best value at any time.${rows.some((row) => row.counterpart !== null) ? ` ${counterpartNote()}` : ""}`,
    }),
    ...(comparison && comparison.sides.length ? [comparisonTables(comparison)] : []),
  );
}

function counterpartNote() {
  return `${COUNTERPART[0].toUpperCase()}${COUNTERPART.slice(1)}: the last ${DATA.counterpart}.`;
}

function comparisonTables(comparison) {
  const at = number(Math.round(comparison.stop)),
    from = number(Math.round(comparison.start));
  const estimates = (name, key) => [
    { name, value: (side) => side[key].iqm.value, number: true },
    {
      name: "95 %",
      value: (side) => side[key].iqm.low,
      show: (side) => (side.samples > 1 ? interval(side[key].iqm) : "–"),
    },
  ];
  const sides = sortable(
    [
      { name: "configuration", value: (side) => side.label, wide: true },
      ...estimates(`IQM at ${at} ${DATA.steps}`, "at_end"),
      ...estimates(`IQM of the mean height from ${from} to ${at}`, "under_curve"),
    ],
    comparison.sides,
  );
  const percent = (share) => `${Math.round(100 * share)} %`;
  const pairs = sortable(
    [
      { name: "probability that", value: (pair) => pair.ahead, wide: true },
      { name: "beats", value: (pair) => pair.behind, wide: true },
      {
        name: "at the end",
        value: (pair) => pair.probability.value,
        number: true,
        show: (pair) => percent(pair.probability.value),
      },
      {
        name: "95 %",
        value: (pair) => pair.probability.low,
        show: (pair) => `${percent(pair.probability.low)} to ${percent(pair.probability.high)}`,
      },
      {
        name: "by area",
        value: (pair) => pair.probability_of_area.value,
        number: true,
        show: (pair) => percent(pair.probability_of_area.value),
      },
      { name: "p", value: (pair) => pair.p_value, number: true, show: (pair) => Number(pair.p_value.toPrecision(2)) },
      { name: "settled", value: (pair) => (pair.settled ? "yes" : "no") },
    ],
    comparison.pairs,
  );
  return el(
    "details",
    {},
    el("summary", { text: `Against each other, at equal ${DATA.steps}` }),
    ...sides,
    el("p"),
    ...pairs,
    el("p", {
      class: "soft small",
      text: "p: how often chance alone would set two that far apart (a permutation test of ranks, adjusted for the number of pairs after Holm); settled from 0.05 on down.",
    }),
  );
}

function trials() {
  const names = [...new Set(DATA.trials.flatMap((trial) => Object.keys(trial.params)))];
  const has = (key) =>
    DATA.trials.some((trial) => trial[key] !== null && trial[key] !== undefined && trial[key] !== "");
  const differ =
    new Set(DATA.trials.filter((trial) => trial.stopped).map((trial) => trial.stopped.split(" ")[0])).size > 1;
  const short = (name) => name.match(/^\d+/)?.[0] ?? name;
  const columns = [
    DATA.runs.length > 1 && { name: "run", value: (trial) => trial.run },
    {
      name: "trial",
      value: (trial) => trial.name,
      show: (trial) => el("span", { title: trial.name, text: names.length ? short(trial.name) : trial.name }),
    },
    ...names.map((name) => ({
      name,
      value: (trial) => trial.params[name],
      number: DATA.trials.every((trial) => typeof (trial.params[name] ?? 0) === "number"),
    })),
    { name: "seed", value: (trial) => trial.seed, show: (trial) => trial.seed, number: true },
    {
      name: "status",
      value: (trial) => trial.status,
      show: (trial) => el("span", { class: trial.status === "error" ? "bad" : null, text: trial.status }),
    },
    { name: DATA.steps, value: (trial) => trial.steps, number: true },
    { name: "last", value: (trial) => trial.last, number: true },
    { name: "best", value: (trial) => trial.best, number: true },
    has("counterpart") && { name: COUNTERPART, value: (trial) => trial.counterpart, number: true },
    { name: "seconds", value: (trial) => trial.seconds && Math.round(trial.seconds * 10) / 10, number: true },
    differ && {
      name: "stopped by",
      value: (trial) => trial.stopped,
      show: (trial) => trial.stopped || "–",
      wide: DATA.trials.some((trial) => trial.stopped.length > 40),
    },
  ].filter(Boolean);
  section(
    `Trials`,
    ...sortable(columns, DATA.trials, { filter: true }),
    el("p", {
      class: "soft small",
      text: `Last and best: ${DATA.metric}.${has("counterpart") ? ` ${counterpartNote()}` : ""}${DATA.runs.some((run) => run.families.length) ? " Settings are the newest ones." : ""}`,
    }),
  );
  const failed = DATA.trials.filter((trial) => trial.error);
  if (failed.length)
    section(
      `Failures`,
      ...failed
        .slice(0, 50)
        .map((trial) =>
          el(
            "details",
            failed.length < 4 ? { open: "" } : {},
            el("summary", { text: trial.name }),
            el("pre", { text: trial.error }),
          ),
        ),
      failed.length > 50 ? el("p", { text: `${failed.length - 50} more: see the error.txt of each trial.` }) : null,
    );
}
