"use strict";
// Tables of configurations, their comparison, and trials, which can be sorted.

/** A table whose columns can be sorted: {name, value(row), show(row), number, wide, only: "phone" or "desk", fixed: 1 or 2}. */
function sortable(columns, rows, { onHover, onClick, filter } = {}) {
  const body = el("tbody");
  let order = null,
    ascending = true,
    wanted = "";
  const cell = (column, row) => {
    const shown = column.show ? column.show(row) : number(column.value(row));
    const td = el("td", { class: classOf(column) });
    td.append(shown instanceof Node ? shown : String(shown ?? "–"));
    return td;
  };
  const nodes = new Map(
    rows.map((row) => [
      row,
      el(
        "tr",
        {
          ...(onHover ? { pointerenter: () => onHover(row), pointerleave: () => onHover(null) } : {}),
          ...(onClick ? { click: () => onClick(row) } : {}),
        },
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
      { scope: "col", class: classOf(column) },
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

const classOf = ({ number, wide, only, fixed }) =>
  [number ? "number" : "", wide ? "wide" : "", only ? `only-${only}` : "", fixed ? `fixed-${fixed}` : ""].join(" ").trim() || null;

/** The cell of a parameter, spelled as in the names of configurations. */
const parameter = (name, rows, valuesOf) => ({
  name,
  value: (row) => valuesOf(row)[name],
  show: (row) => (typeof valuesOf(row)[name] === "number" ? fourDigits(valuesOf(row)[name]) : valuesOf(row)[name]),
  number: rows.every((row) => typeof (valuesOf(row)[name] ?? 0) === "number"),
});

/** A dot with its interval on a common scale, and a mark on it. */
function intervalBar(estimate, span, mark) {
  if (!estimate) return "–";
  const x = scaleOf(span, 4, 156);
  return draw(
    "svg",
    { width: 160, height: 16, viewBox: "0 0 160 16", role: "img", "aria-label": interval(estimate) },
    draw("line", { class: "grid", x1: 4, x2: 156, y1: 8, y2: 8 }),
    mark === undefined ? null : draw("line", { class: "axis", x1: x(mark), x2: x(mark), y1: 2, y2: 14 }),
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

/** A configuration's rank and name, a parameter in a line. */
const named = (row) =>
  el("span", { class: "named" }, el("b", { text: `#${rankOf.get(row.label)} ` }), row.label.replaceAll(", ", "\n"));

function configurations({ emphasise, toggle }) {
  const rows = DATA.configurations;
  if (rows.length < 2 && !rows.some((row) => row.seeds > 1)) return; // a single trial, and trials have their own table
  const span = extent(
    rows.flatMap((row) => (row.iqm ? [[row.iqm.low, row.iqm.high]] : [])),
    0.02,
  ) || { low: 0, high: 1 };
  const names = [...new Set(rows.flatMap((row) => Object.keys(row.values)))];
  const isNamed = names.length && names.length <= 8 && rows.every((row) => Object.keys(row.values).length);
  const several = rows.some((row) => row.seeds > 1);
  const columns = [
    { name: "#", value: (row) => rankOf.get(row.label), number: true, only: "desk" },
    { name: "configuration", value: (row) => row.label, show: named, wide: true, fixed: 1, only: isNamed ? "phone" : null },
    { name: several ? "IQM" : "last", value: (row) => row.iqm && row.iqm.value, number: true, fixed: 2 },
    several && { name: "95%", value: (row) => row.iqm && row.iqm.low, show: (row) => (row.seeds > 1 ? interval(row.iqm) : "–") },
    several && { name: "IQM and interval", value: (row) => row.iqm && row.iqm.value, show: (row) => intervalBar(row.iqm, span) },
    isNamed && !ONE_RUN && { name: "run", value: (row) => row.run, only: "desk" },
    ...(isNamed ? names.map((name) => ({ ...parameter(name, rows, (row) => row.values), only: "desk" })) : []),
    rows.some((row) => row.seeds > 3) && { name: "mean", value: (row) => row.mean && row.mean.value, number: true },
    { name: "best", value: (row) => row.best, number: true },
    rows.some((row) => row.counterpart !== null) && { name: COUNTERPART, value: (row) => row.counterpart, number: true },
    several && { name: "seeds", value: (row) => row.seeds, number: true },
    { name: DATA.steps, value: (row) => row.steps && Math.round(row.steps), number: true },
    { name: "training", value: (row) => row.seconds, show: (row) => duration(row.seconds), number: true },
    new Set(rows.map((row) => row.status)).size > 1 && { name: "status", value: (row) => row.status, wide: true },
  ].filter(Boolean);
  const { notes = [], verdict = "", sides = [] } = DATA.comparison ?? {};
  const isSaid = DATA.leader || !verdict;
  section(
    DATA.runs.every((run) => run.families.length) ? "Populations" : "Configurations",
    isSaid ? null : el("p", { class: "verdict", text: sentence(byRank(verdict)) }),
    ...notes.map((text) => el("p", { class: "soft small", text: `Note: ${byRank(text)}.` })),
    ...sortable(columns, rows, {
      onHover: (row) => emphasise(row && row.label),
      onClick: (row) => toggle(row.label),
      filter: true,
    }),
    el("p", {
      class: "soft small",
      text: `${DATA.metric}: each seed's last value; IQM is the interquartile mean, the interval a 95% stratified bootstrap (Agarwal et al. 2021); best is the best value at any time; training is that of all seeds together.${rankNote()}${rows.some((row) => row.counterpart !== null) ? ` ${counterpartNote()}` : ""}`,
    }),
    sides.length && several ? comparisonTables(DATA.comparison) : null,
  );
}

function rankNote() {
  const { sides = [], stop } = DATA.comparison ?? {};
  return sides.length ? ` Ranks are by the IQM at ${number(Math.round(stop))} ${DATA.steps}, which all have reached.` : "";
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
      name: "95%",
      value: (side) => side[key].iqm.low,
      show: (side) => (side.samples > 1 ? interval(side[key].iqm) : "–"),
    },
  ];
  const sides = sortable(
    [
      { name: "configuration", value: (side) => side.label, wide: true, fixed: 1 },
      ...estimates(`IQM at ${at} ${DATA.steps}`, "at_end"),
      ...estimates(`IQM of the mean height from ${from} to ${at}`, "under_curve"),
    ],
    comparison.sides,
  );
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
        name: "95%",
        value: (pair) => pair.probability.low,
        show: (pair) => percents(pair.probability),
      },
      {
        name: "0 to 100%",
        value: (pair) => pair.probability.value,
        show: (pair) => intervalBar(pair.probability, { low: 0, high: 1 }, 0.5),
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
    el("summary", { text: `Against each other, at equal ${DATA.steps}${rankOf.size > comparison.sides.length ? `: the best ${comparison.sides.length}` : ""}` }),
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
    {
      name: "trial",
      fixed: 1,
      value: (trial) => trial.name,
      show: (trial) => el("span", { title: trial.name, text: names.length ? short(trial.name) : trial.name }),
    },
    !ONE_RUN && { name: "run", value: (trial) => trial.run },
    { name: "last", value: (trial) => trial.last, number: true },
    { name: "best", value: (trial) => trial.best, number: true },
    has("counterpart") && { name: COUNTERPART, value: (trial) => trial.counterpart, number: true },
    ...names.map((name) => parameter(name, DATA.trials, (trial) => trial.params)),
    DATA.runs.some((run) => !run.families.length) && {
      name: "seed",
      value: (trial) => trial.seed,
      show: (trial) => trial.seed,
      number: true,
    },
    {
      name: "status",
      value: (trial) => trial.status,
      show: (trial) => el("span", { class: trial.status === "error" ? "bad" : null, text: trial.status }),
    },
    { name: DATA.steps, value: (trial) => trial.steps, number: true },
    { name: "training", value: (trial) => trial.seconds, show: (trial) => duration(trial.seconds), number: true },
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
