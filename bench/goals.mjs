// Writes the table of goals in docs/benchmarks.md from bench/results, without measuring anything.
import { fileURLToPath } from 'node:url'
import { median, table } from './measure.mjs'
import { readResult } from './results.mjs'
import { writeSection } from './write-section.mjs'

const highest = (values) => Math.max(...values)
const ofSize = (resume, size) => resume.sizes.find(({ heapMB }) => heapMB === size)
const forkOf = (fork, n) => fork.saved.find(({ count }) => count === n).answers.p50
const crowdRate = ({ count, roundMs }) => (count / median(roundMs)) * 1000
const seconds = (values) => median(values) / 1000
const privateOfForks = ({ saved }) => highest(saved.map(({ perChild }) => perChild.privateDirty.p50)) / 1e6

const serviceRatio = ({ tiers }, tier) =>
  tiers[tier].p50 / (tiers[`${tier}, wake alone`].p50 + tiers.awake.p50)
const hopOf =
  (kind) =>
  ({ hop }) =>
    hop[kind].addedP50Ms
const slowestList = ({ list }) => highest(Object.values(list).map(({ p50 }) => p50))

/** In each row: what it is, the result it is read from, how, the goal, and its unit. */
const GOALS = [
  [
    '1,000 frozen: memory that only they have',
    'frozen',
    (r) => (r.privateBytes / r.count) * 1e-6,
    { atMost: 6 },
    'GB',
  ],
  [
    '… CPU of the server, all asleep',
    'frozen',
    ({ idleShare }) => idleShare * 100,
    { atMost: 0.5 },
    '% of a core',
  ],
  ['… first result of one of them', 'frozen', ({ wake }) => wake.p50, { atMost: 4 }, 'ms'],
  ['`frozen` → first result over HTTP', 'wakes', ({ frozen }) => frozen.p50, { atMost: 4 }, 'ms'],
  [
    'a list of small objects: touched / untouched',
    'heaps',
    ({ sizes }) => highest(sizes.map(({ ratio }) => ratio)),
    { atMost: 1.3 },
    '×',
  ],
  [
    '… copied at a wake',
    'heaps',
    ({ sizes }) => highest(sizes.map(({ copiedBytes }) => copiedBytes)) / 1e6,
    { atMost: 8 },
    'MB',
  ],
  [
    '… disk / resident memory',
    'heaps',
    ({ sizes }) => highest(sizes.map((size) => size.diskBytes / size.residentBytes)),
    { atMost: 1.2 },
    '×',
  ],
  [
    'other heaps: touched / untouched',
    'heap-kinds',
    ({ kinds }) => highest(kinds.map(({ ratio }) => ratio)),
    { atMost: 1.3 },
    '×',
  ],
  [
    '… copied at a wake',
    'heap-kinds',
    ({ kinds }) => highest(kinds.map(({ copiedBytes }) => copiedBytes)) / 1e6,
    { atMost: 8 },
    'MB',
  ],
  [
    '… disk / resident memory',
    'heap-kinds',
    ({ kinds }) => highest(kinds.map((kind) => kind.diskBytes / kind.residentBytes)),
    { atMost: 1.2 },
    '×',
  ],
  ['a call while 600 MB fall asleep, longest', 'interrupt', ({ all }) => all.max, { atMost: 80 }, 'ms'],
  ['… p50', 'interrupt', ({ all }) => all.p50, { atMost: 80 }, 'ms'],
  ['… because a caller asked, longest', 'interrupt', (r) => r.asked?.max, { atMost: 80 }, 'ms'],
  ['pause for a piece of memory that moves, p50', 'alive', ({ pause }) => pause.p50, { atMost: 10 }, 'ms'],
  ['… p99', 'alive', ({ pause }) => pause.p99, { atMost: 10 }, 'ms'],
  ['wake of 1 GB from `stored`, call', 'resume', (r) => ofSize(r, 1000).ours.call.p50, { atMost: 25 }, 'ms'],
  ['… stock CRIU / ours', 'resume', (r) => ofSize(r, 1000).stockByOurs.call, { atLeast: 30 }, '×'],
  ['… first result over HTTP', 'wakes', ({ stored }) => stored.p50, { atMost: 33 }, 'ms'],
  ['memory of a forked child', 'fork', privateOfForks, { atMost: 4 }, 'MB'],
  [
    'cold page cache: first result cold / warm',
    'cold',
    ({ cold }) => cold.ratios.answer,
    { atMost: 2.5 },
    '×',
  ],
  ['… with folded pages', 'cold', ({ cold }) => cold.ratios.foldedAnswer, { atMost: 2.5 }, '×'],
  ['… first sum of 1 GB / reading the file', 'cold', ({ cold }) => cold.ratios.sum, { atMost: 1.3 }, '×'],
  ['fork(1) of 1 GB, saved before', 'fork', (r) => forkOf(r, 1), { atMost: 120 }, 'ms'],
  ['fork(10)', 'fork', (r) => forkOf(r, 10), { atMost: 300 }, 'ms'],
  ['fork(100)', 'fork', (r) => forkOf(r, 100), { atMost: 2500 }, 'ms'],
  ['fork(5), never saved before', 'fork', ({ first }) => first.answers.p50, { atMost: 900 }, 'ms'],
  [
    '… / copying the memory once',
    'fork',
    ({ first }) => first.answers.p50 / first.control.p50,
    { atMost: 1.5 },
    '×',
  ],
  ['sleep after 10 MB of changes', 'snapshots', ({ changed }) => changed.p50, { atMost: 100 }, 'ms'],
  [
    'first sleep of 1 GB / copying the memory once',
    'snapshots',
    ({ first, control }) => first.p50 / control.p50,
    { atMost: 1.5 },
    '×',
  ],
  ['200 stored, woken by 16 clients', 'crowd', crowdRate, { atLeast: 45 }, 'per second'],
  ['… p50', 'crowd', ({ p50 }) => p50, { atMost: 350 }, 'ms'],
  [
    'new sandbox for each call, ten at a time',
    'once',
    (r) => r.together.perSecond,
    { atLeast: 30 },
    'per second',
  ],
  ['… one after the other', 'once', ({ inTurn }) => inTurn.p50, { atMost: 35 }, 'ms'],
  ['hot run over HTTP', 'hot', ({ hot }) => hot.ours.p50, { atMost: 1.2 }, 'ms'],
  ['… plain ipykernel / ours', 'hot', ({ hot }) => hot.ipykernel?.p50 / hot.ours.p50, { atLeast: 4 }, '×'],
  ['create and first result', 'hot', ({ create }) => create.p50, { atMost: 12 }, 'ms'],
  [
    '… the tenth in a row, after a burst before',
    'hot',
    ({ bursts }) => bursts.tenth.p50,
    { atMost: 12 },
    'ms',
  ],
  [
    'preview, wrk with 16 connections',
    'ports',
    (r) => r.preview.many.perSecond,
    { atLeast: 12_000 },
    'per second',
  ],
  ['… one client', 'ports', ({ preview }) => preview.one.p50, { atMost: 0.5 }, 'ms'],
  [
    '… a large response / direct',
    'ports',
    ({ preview, direct }) => (preview.bytesPerSecond / direct.bytesPerSecond) * 100,
    { atLeast: 70 },
    '%',
  ],
  ['many stored: disk beyond what each changed', 'many', (r) => r.diskPerSandbox / 1e6, { atMost: 2 }, 'MB'],
  ['… memory of the server', 'many', (r) => r.residentBytes / 1e6, { atMost: 300 }, 'MB'],
  ['… CPU of the server, all asleep', 'many', (r) => r.idleShare * 100, { atMost: 0.5 }, '% of a core'],
  ['… list of 100', 'many', ({ list }) => list.p50, { atMost: 20 }, 'ms'],
  ['… ready after `kill -9`', 'many', ({ readyMs }) => readyMs / 1000, { atMost: 5 }, 's'],
  ['… first result / with ten stored', 'many', (r) => r.wake.p50 / r.wakeWithFew.p50, { atMost: 1.1 }, '×'],
  [
    'template of a 300 MB image / `skopeo copy` and `tar -x`',
    'images',
    ({ template, control }) => median(template.map((value, round) => value / control[round])),
    { atMost: 1.5 },
    '×',
  ],
  ['… its layers again', 'images', ({ importedAgain }) => seconds(importedAgain), { atMost: 1 }, 's'],
  ['… rebuild after a change of the last `COPY`', 'images', (r) => seconds(r.rebuild), { atMost: 5 }, 's'],
  [
    'request to a frozen service / wake alone and its own time',
    'services',
    (r) => serviceRatio(r, 'frozen'),
    { atMost: 1.2 },
    '×',
  ],
  ['… to a stored one', 'services', (r) => serviceRatio(r, 'stored'), { atMost: 1.2 }, '×'],
  ['a request through another host: added by the hop', 'cluster', hopOf('get'), { atMost: 0.5 }, 'ms'],
  ['… a run', 'cluster', hopOf('run'), { atMost: 0.5 }, 'ms'],
  [
    'wake of 1 GB on another host / stored wake, first result',
    'cluster',
    ({ wakes }) => wakes.ratio,
    { atMost: 10 },
    '×',
  ],
  ['… of its memory moved by then', 'cluster', ({ wakes }) => wakes.movedPart * 100, { atMost: 10 }, '%'],
  ['upload / object store alone', 'cluster', ({ depot }) => depot.part * 100, { atLeast: 50 }, '%'],
  ['list of 10,000 sandboxes, slowest page', 'cluster', slowestList, { atMost: 100 }, 'ms'],
]

const ABSENT = '**absent**'

export async function writeGoals() {
  await writeSection('goals', await describeGoals())
}

/** The table of goals, from what was measured last. A row whose figure no result has stays, as `absent`. */
export async function describeGoals(read = readResult) {
  const rows = []
  for (const [title, name, see, goal, unit] of GOALS) {
    const result = await read(name)
    const seen = result && see(result)
    rows.push([title, ...describeGoal(seen, goal, unit), `\`${name}\``])
  }
  const count = (verdict) => rows.filter((row) => row[3] === verdict).length
  const absent = count(ABSENT) === 0 ? '' : `, and ${count(ABSENT)} have no figure`
  const head = ['what', 'goal', 'seen', 'verdict', 'section']
  return `${count('met')} of ${rows.length} goals are met${absent}.\n\n${table(head, rows)}`
}

function describeGoal(seen, { atMost, atLeast }, unit) {
  const goal = `${atMost === undefined ? `≥ ${atLeast}` : `≤ ${atMost}`} ${unit}`
  if (!Number.isFinite(seen)) return [goal, '', ABSENT]
  const isMet = atMost === undefined ? seen >= atLeast : seen <= atMost
  const off = atMost === undefined ? atLeast / seen : seen / atMost
  return [goal, shown(seen), isMet ? 'met' : `**missed**, by ${off.toFixed(2)} ×`]
}

function shown(value) {
  return value >= 100 ? String(Math.round(value)) : value.toPrecision(value < 1 ? 2 : 3)
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await writeGoals()
