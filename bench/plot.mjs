import { mkdir, writeFile } from 'node:fs/promises'

const SIZE = { width: 720, height: 400, left: 64, right: 170, top: 44, bottom: 48 }
/** Readable on white and on GitHub's dark background. */
const STYLE = `text{font:13px system-ui,sans-serif;fill:#24292f}.title{font-weight:600;font-size:15px}
.axis{stroke:#57606a}.grid{stroke:#d0d7de}polyline{fill:none;stroke-width:2.5}
.c0{stroke:#0969da;fill:#0969da}.c1{stroke:#8250df;fill:#8250df}.c2{stroke:#bc4c00;fill:#bc4c00}.c3{stroke:#57606a;fill:#57606a}
text.c0,text.c1,text.c2,text.c3{stroke:none}polyline.c0,polyline.c1,polyline.c2,polyline.c3{fill:none}
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.axis{stroke:#8b949e}.grid{stroke:#30363d}
.c0{stroke:#58a6ff;fill:#58a6ff}.c1{stroke:#bc8cff;fill:#bc8cff}.c2{stroke:#ffa657;fill:#ffa657}.c3{stroke:#8b949e;fill:#8b949e}}`

/**
 * Draws lines over a linear x axis and a logarithmic y axis, with the name of each line at its end. `lines` have a
 * `name` and `points` of [x, y]. Writes docs/plots/<name>.svg and returns the Markdown that shows it.
 */
export async function drawLines({ name, title, xLabel, yLabel, lines, dry }) {
  const xs = lines.flatMap(({ points }) => points.map(([x]) => x))
  const ys = lines.flatMap(({ points }) => points.map(([, y]) => y))
  const [low, high] = [
    10 ** Math.floor(Math.log10(Math.min(...ys))),
    10 ** Math.ceil(Math.log10(Math.max(...ys))),
  ]
  const xMax = Math.max(...xs)
  const { width, height, left, right, top, bottom } = SIZE
  const toX = (x) => left + (x / xMax) * (width - left - right)
  const toY = (y) =>
    height - bottom - (Math.log10(y / low) / Math.log10(high / low)) * (height - top - bottom)
  const grid = []
  for (let value = low; value <= high; value *= 10) {
    grid.push(`<line class="grid" x1="${left}" x2="${width - right}" y1="${toY(value)}" y2="${toY(value)}"/>`)
    grid.push(`<text x="${left - 8}" y="${toY(value) + 4}" text-anchor="end">${value}</text>`)
  }
  for (const x of new Set(xs))
    grid.push(`<text x="${toX(x)}" y="${height - bottom + 20}" text-anchor="middle">${x}</text>`)
  const svg = [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" role="img" aria-label="${title}">`,
    `<style>${STYLE}</style>`,
    `<text class="title" x="${left}" y="20">${title}</text>`,
    ...grid,
    `<line class="axis" x1="${left}" x2="${width - right}" y1="${height - bottom}" y2="${height - bottom}"/>`,
    `<text x="${(left + width - right) / 2}" y="${height - 8}" text-anchor="middle">${xLabel}</text>`,
    `<text x="${left}" y="${top - 6}">${yLabel}</text>`,
    ...drawNamed(lines, { toX, toY }),
    '</svg>',
  ]
  const plots = new URL('../docs/plots/', import.meta.url)
  await mkdir(plots, { recursive: true })
  if (!dry) await writeFile(new URL(`${name}.svg`, plots), `${svg.join('\n')}\n`)
  return `![${title}](plots/${name}.svg)`
}

/** Names that would cover each other are moved apart. */
function drawNamed(lines, { toX, toY }) {
  const LINE_HEIGHT = 17
  const ends = lines
    .map(({ points }, index) => ({ index, y: toY(points.at(-1)[1]) }))
    .sort((one, other) => one.y - other.y)
  for (let at = 1; at < ends.length; at++) ends[at].y = Math.max(ends[at].y, ends[at - 1].y + LINE_HEIGHT)
  const nameY = new Map(ends.map(({ index, y }) => [index, y]))
  return lines.flatMap(({ name, points }, index) => {
    const places = points.map(([x, y]) => [toX(x).toFixed(1), toY(y).toFixed(1)])
    return [
      `<polyline class="c${index}" points="${places.map((place) => place.join()).join(' ')}"/>`,
      ...places.map(([x, y]) => `<circle class="c${index}" cx="${x}" cy="${y}" r="3.5"/>`),
      `<text class="c${index}" x="${SIZE.width - SIZE.right + 10}" y="${nameY.get(index) + 4}">${name}</text>`,
    ]
  })
}
