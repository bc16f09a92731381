"use strict";
// The first screen: what was run, which configuration is best and by how much, what mattered.

function head() {
  main.append(el("h1", { text: DATA.title }));
  for (const run of DATA.runs) {
    const facts = [
      `${ONE_RUN ? "" : `${run.name}: `}${run.algorithm} on ${run.env}`,
      run.shape,
      run.status,
      run.scheduler,
      run.labels.tags.map((tag) => `#${tag}`).join(" "),
      `${new Date(run.created).toISOString().slice(0, 16).replace("T", " ")} UTC`,
    ];
    main.append(el("p", { class: "soft what", text: facts.filter(Boolean).join(" · ") }));
    if (run.labels.note) main.append(el("p", { class: "small", text: run.labels.note }));
    if (run.problems.length) main.append(problems(run));
    if (run.kinds) main.append(el("p", { class: "small", text: run.kinds }));
  }
  if (DATA.leader) main.append(leaderPanel(DATA.leader));
  else if (!DATA.profiles) main.append(...DATA.runs.map(numbers));
  for (const run of DATA.runs) {
    if (run.expect) main.append(...expectation(run));
    main.append(...run.switches.map((one) => el("p", { class: "small", text: switchText(run, one) })));
  }
}

function problems(run) {
  return el(
    "div",
    { class: "problems", role: "alert" },
    el("strong", { text: `${run.name}: what could not be read` }),
    el(
      "ul",
      {},
      run.problems.map((text) => el("li", { text })),
    ),
  );
}

function switchText(run, one) {
  const back = one.regained_at === null ? "" : `, regained at ${number(one.regained_at)} ${DATA.steps}`;
  return `${one.trial}: evaluation ${number(one.before)} at the end of ${run.after}, ${number(one.lowest)} after the switch (${one.drop < 0 ? "gain" : "drop"} ${number(Math.abs(one.drop))}${back})`;
}

/** The best configuration, the next ones, and what mattered. */
function leaderPanel(leader) {
  const [best, next] = leader.first;
  const row = DATA.configurations.find((one) => one.label === best.label);
  const values = Object.entries(row.values);
  const what = mattered();
  const card = (title, ...children) => el("div", { class: "card" }, el("h2", { text: title }), ...children);
  return el(
    "div",
    { class: what ? "panel" : "panel two" },
    card(
      `${leader.is_settled ? "Best" : "First"} of ${leader.configurations}`,
      el("div", { class: "big", text: number(best.iqm.value) }),
      el("p", { class: "soft small", text: scoreText(best) }),
      values.length
        ? el(
            "dl",
            { class: "values" },
            ...(ONE_RUN ? [] : [["run", row.run]]).concat(values).flatMap(([name, value]) => [
              el("dt", { text: name }),
              el("dd", { text: typeof value === "number" ? fourDigits(value) : value }),
            ]),
          )
        : el("p", {}, el("strong", { text: best.label })),
    ),
    card("By how much", leadersPicture(leader), ...leadTexts(leader, best, next).map((text) => el("p", { class: "small", text }))),
    what && card("What mattered", ...what),
  );
}

function scoreText(best) {
  if (best.seeds < 2) return `${DATA.metric} of its single seed`;
  const at = DATA.comparison ? ` at ${number(Math.round(DATA.comparison.stop))} ${DATA.steps}` : "";
  return `${DATA.metric}${at}, IQM of ${best.seeds} seeds; 95%: ${interval(best.iqm)}`;
}

function leadTexts({ lead, probability, is_settled, configurations }, best, next) {
  const gap = lead ? lead.value : Math.abs(best.iqm.value - next.iqm.value);
  const ahead = gap ? `Ahead of ${shortName(next.label)} by ${number(gap)}` : `Level with ${shortName(next.label)}`;
  const verdict = DATA.comparison ? `Verdict: ${sentence(byRank(DATA.comparison.verdict))}` : "";
  if (!lead) return [`${ahead}.`, verdict];
  const wins = probability
    ? ` A seed of it beats one of the other's in ${percent(probability.value)} of pairs (95%: ${percents(probability)}).`
    : "";
  const chosen =
    configurations > 4 && !is_settled ? ` It was chosen out of ${configurations} by these seeds: new ones may do worse.` : "";
  return [`${ahead} (95%: ${interval(lead)}).${wins}`, `${verdict}${chosen}`];
}

/** The best few with their intervals, and below them all configurations as marks. */
function leadersPicture({ first }) {
  const row = 24,
    top = 4,
    height = top + (first.length + 1) * row + 24;
  const all = DATA.configurations.filter((one) => one.iqm).map((one) => one.iqm.value);
  const span = extent([all, first.flatMap((one) => [one.iqm.low, one.iqm.high])], 0.03);
  const names = first.map((one) => shortName(one.label));
  const left = 14 + 6.6 * Math.max(6, ...names.map((name) => Math.min(name.length, 20)));
  return figure({
    name: "best configurations",
    rows: () => [["configuration", "seeds", "IQM", "low", "high"], ...first.map((one) => [one.label, one.seeds, one.iqm.value, one.iqm.low, one.iqm.high])],
    picture(width, tip) {
      const svg = canvas(width, height);
      const x = scaleOf(span, left, width - 10);
      for (const tick of x.ticks(width / 90)) {
        svg.append(draw("line", { class: "grid", x1: x(tick), x2: x(tick), y1: top, y2: height - 20 }));
        svg.append(draw("text", { x: x(tick), y: height - 4, "text-anchor": "middle", text: x.text(tick) }));
      }
      first.forEach((one, place) => {
        const y = top + (place + 0.5) * row,
          color = place ? "var(--other)" : "var(--accent)";
        svg.append(
          draw("text", { class: place ? null : "strong", x: left - 10, y: y + 4, "text-anchor": "end", text: names[place] }),
          draw("line", { x1: x(one.iqm.low), x2: x(one.iqm.high), y1: y, y2: y, style: `stroke: ${color}`, "stroke-width": 3 }),
          draw("circle", { cx: x(one.iqm.value), cy: y, r: 5, style: `fill: ${place ? "var(--soft)" : color}` }),
          tip.over(draw("rect", { y: y - row / 2, width, height: row, fill: "transparent" }), () => [
            one.label,
            [[null, "IQM", number(one.iqm.value)], [null, "95%", one.seeds > 1 ? interval(one.iqm) : "–"]],
          ]),
        );
      });
      const y = top + (first.length + 0.5) * row;
      svg.append(draw("text", { x: left - 10, y: y + 4, "text-anchor": "end", text: `all ${all.length}` }));
      for (const value of all)
        svg.append(draw("line", { x1: x(value), x2: x(value), y1: y - 6, y2: y + 6, style: "stroke: var(--soft)", "stroke-opacity": 0.6 }));
      return svg;
    },
  }).node;
}

/** Which parameters go with the score, in short; null without a sweep. */
function mattered() {
  const found = ONE_RUN && DATA.runs[0].sweep?.importance;
  if (!found) return null;
  if (!found.effects.length) return [el("p", { class: "small", text: sentence(found.caveat) })];
  return [
    el(
      "div",
      { class: "bars" },
      found.effects.slice(0, 6).flatMap((effect) => [
        el("span", { text: effect.name, title: effect.name }),
        el("i", {
          style: `--share: ${Math.max(0, Math.min(1, effect.share))}; --swatch: var(--${effect.share > effect.chance ? "accent" : "other"})`,
        }),
        el("b", { text: percent(Math.max(0, effect.share)) }),
      ]),
    ),
    el("p", { class: "small", text: importanceText(found) }),
  ];
}

function importanceText(found) {
  const real = found.effects.filter((effect) => effect.share > effect.chance);
  if (!real.length) return "No parameter alone stands out from what chance would show.";
  const best = real[0];
  const more = real.length > 1 ? ` So do ${listed(real.slice(1).map((effect) => effect.name))}, to a lesser part.` : "";
  return `${best.name} alone goes with ${percent(best.share)} of the differences between configurations (95%: ${percents(best)}).${more.replace("So do", real.length === 2 ? "So does" : "So do")}`;
}

/** The main numbers of a run without several configurations. */
function numbers(run) {
  const row = DATA.configurations.find((one) => one.run === run.name);
  const mine = DATA.trials.filter((trial) => trial.run === run.name);
  const shown = [
    row?.iqm && [`${DATA.metric}${row.seeds > 1 ? `, IQM of ${row.seeds} seeds` : ", last"}`, number(row.iqm.value), row.seeds > 1 ? `95%: ${interval(row.iqm)}` : ""],
    run.best && [
      "best value",
      number(run.best.value),
      run.best.checkpoint ? `checkpoint ${run.best.checkpoint.split("/").pop()}` : "no checkpoint",
    ],
    row && row.counterpart !== null && [COUNTERPART, number(row.counterpart), DATA.counterpart],
    row?.steps && [DATA.steps, number(Math.round(row.steps)), mine.length > 1 ? "mean over trials" : mine[0]?.stopped],
    run.speed && ["env steps/s", number(Math.round(run.speed)), "in the last iteration"],
    row?.seconds && ["training", duration(row.seconds), mine.length > 1 ? `${mine.length} trials together` : ""],
  ].filter(Boolean);
  if (!shown.length) return el("p", { text: "No values yet." });
  return el(
    "div",
    { class: "numbers" },
    shown.map(([name, value, note]) =>
      el(
        "div",
        { class: "card" },
        el("div", { class: "soft small", text: breakable(name) }),
        el("div", { class: "big", text: value }),
        el("div", { class: "soft small", text: breakable(note || "") }),
      ),
    ),
  );
}

function expectation(run) {
  const rows = run.expect.rows;
  const verdict = (row) => {
    const which = rows.length > 1 ? `${row.label}: ` : ONE_RUN ? "" : `${run.name}: `;
    const said = `${which}${row.passed ? "reached" : row.missed ? "missed" : "not reached yet"}: ${run.expect.text}`;
    const when = row.when.length
      ? ` after ${listed(row.when.map((at) => number(Math.round(at))))} ${row.counter.replace("_", " ")}`
      : "";
    const seeds = row.seeds === 1 ? (when ? `in training${when}` : "") : `${row.reached} of ${row.seeds} seeds reached it in training${when}; ${row.needed} must`;
    const left = row.passed || row.missed ? "" : underWay(row);
    const look = row.passed ? "good" : row.missed ? "bad" : "";
    return el("p", { class: `verdict ${look}`.trim(), text: [said, seeds, left].filter(Boolean).join("; ") });
  };
  if (rows.length <= 3) return rows.map(verdict);
  const passed = rows.filter((row) => row.passed).length;
  const open = rows.filter((row) => !row.passed && !row.missed).length;
  const text = `${passed} of ${plural(rows.length, "configuration")} reached in training: ${run.expect.text}`;
  return [
    el("p", {
      class: `verdict ${passed ? "good" : open ? "" : "bad"}`.trim(),
      text: open ? `${text}; ${open} not yet` : text,
    }),
    el("details", {}, el("summary", { text: "Each configuration" }), rows.map(verdict)),
  ];
}

/** How far the seeds are that may still reach what is expected: "913 of 3,000 env steps". */
function underWay(row) {
  const ends = [row.under_way[0], row.under_way[row.under_way.length - 1]].map(number);
  const steps = ends[0] === ends[1] ? ends[0] : `${ends[0]} to ${ends[1]}`;
  return `${steps}${row.budget === null ? "" : ` of ${number(row.budget)}`} ${row.counter.replace("_", " ")}`;
}
