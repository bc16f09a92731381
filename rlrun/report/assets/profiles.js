"use strict";
// Methods over several envs: performance profiles and interquartile means with intervals (Agarwal et al. 2021).

function envProfiles() {
  const found = DATA.profiles;
  if (!found) return;
  const { methods, thresholds } = found;
  const chart = curveChart({
    name: "performance profiles",
    height: 320,
    content: () => ({
      curves: methods.map(({ label, profile }, place) => ({
        label,
        xs: thresholds,
        ys: profile.map((share) => share.value),
        low: profile.map((share) => share.low),
        high: profile.map((share) => share.high),
        color: place < COLORS ? `var(--s${place})` : "var(--other)",
        text: percent,
        end: shortened(label, 26),
      })),
      xName: "normalised score τ",
      yName: "share of runs with a score of at least τ",
      y: { low: 0, high: 1 },
    }),
  });
  const span = extent(methods.map(({ iqm }) => [iqm.low, iqm.high]), 0.02);
  const estimate = (name, key) => ({
    name,
    value: (row) => row[key].value,
    show: (row) => el("span", { class: "named" }, el("b", { text: number(row[key].value) }), `\n${interval(row[key])}`),
  });
  const columns = [
    { name: "method", value: (row) => row.label, wide: true, fixed: 1 },
    estimate("IQM", "iqm"),
    { name: "IQM and interval", value: (row) => row.iqm.value, show: (row) => intervalBar(row.iqm, span) },
    estimate("mean", "mean"),
    estimate("median", "median"),
    estimate("optimality gap", "optimality_gap"),
    {
      name: `${methods[0].label} beats it in`,
      value: (row) => row.probability?.value ?? null,
      show: (row) =>
        row.probability
          ? el("span", { class: "named" }, el("b", { text: percent(row.probability.value) }), `\n${percents(row.probability)}`)
          : "–",
    },
  ];
  const ends = Object.entries(found.tasks).map(([task, [worst, best]]) => `${task} ${number(worst)} to ${number(best)}`);
  section(
    `Over ${plural(ends.length, "env")}`,
    el("p", { class: "verdict", text: `${methods[0].label} has the highest interquartile mean: ${number(methods[0].iqm.value)} (95%: ${interval(methods[0].iqm)}).` }),
    chart.node,
    ...sortable(columns, methods),
    el("p", {
      class: "soft small",
      text: `Scores are scaled for each env from 0, the lowest last value of ${DATA.metric}, to 1, the highest: ${ends.join("; ")}. Bands and intervals are 95% stratified bootstraps.${found.left_out.length ? ` Left out, as they lack an env: ${listed(found.left_out)}.` : ""}${found.equal.length ? ` Without ${listed(found.equal)}, where all scores are equal.` : ""}`,
    }),
  );
}
