"use strict";
// Games against the opponent of evaluations: rates of wins, draws and losses, which say more than a mean return.

const OUTCOMES = [
  ["won", "--good"],
  ["drawn", "--other"],
  ["lost", "--bad"],
];

function games() {
  const rows = DATA.games;
  if (!rows.length) return;
  const columns = [
    rankOf.size > 1 && { name: "configuration", value: (row) => row.label, show: (row) => named(row), wide: true },
    { name: "side", value: (row) => row.side },
    ...OUTCOMES.map(([name]) => ({ name, value: (row) => row[name], show: (row) => tenths(row[name]), number: true })),
    { name: "share", value: (row) => row.won - row.lost, show: outcomeBar, only: "desk" },
  ].filter(Boolean);
  const opponents = [...new Set(DATA.runs.map((run) => run.opponent).filter(Boolean))];
  section(
    `Games against ${listed(opponents)}`,
    ...sortable(columns, rows),
    el("p", { class: "soft small", text: "In the last evaluation, as a mean over seeds. First and second are the sides of a game." }),
  );
}

const tenths = (share) => `${(100 * share).toFixed(1)}%`;

/** Wins, draws and losses as parts of a bar. */
function outcomeBar(row) {
  const width = 160;
  let x = 0;
  const said = OUTCOMES.map(([name]) => `${tenths(row[name])} ${name}`).join(", ");
  const bar = draw("svg", { width, height: 12, viewBox: `0 0 ${width} 12`, role: "img", "aria-label": said });
  for (const [name, color] of OUTCOMES) {
    bar.append(draw("rect", { x, y: 0, width: width * row[name], height: 12, style: `fill: var(${color})` }));
    x += width * row[name];
  }
  return bar;
}
