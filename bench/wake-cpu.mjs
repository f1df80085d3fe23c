// Counts the CPU time of a wake, by process: which one to make faster. Needs `perf` (Debian's linux-perf).
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { report, summarize, table } from './measure.mjs'
import { requirePackages } from './require-packages.mjs'
import { checkAnswer, growTree } from './sleep/tree.mjs'
import { atWorkbench, readOptions } from './workbench.mjs'

const options = readOptions()
requirePackages('linux-perf')
const times = options.quick ? 5 : 40
const HEAP_BYTES = 1000e6
const SAMPLE_MS = 0.05
/** The names of processes, as the kernel has them, by what they are. CRIU runs by way of its own dynamic loader. */
const PROCESSES = [
  {
    title: 'CRIU, and the processes that it restores until they continue',
    names: ['ld-linux-x86-64', 'criu'],
  },
  { title: 'dormouse-init', names: ['dormouse-init'] },
  { title: 'agent', names: ['dormouse-agent'] },
  { title: 'kernel', names: ['dormouse-kernel'] },
  { title: 'Node: the engine', names: ['node', 'MainThread', 'V8Worker', 'libuv-worker'] },
]
const PHASES = ['call', 'first result', 'around it']

const nowSeconds = () => Number(process.hrtime.bigint()) / 1e9

async function wakeOften({ engine, pause }, { id, sandboxId }, count) {
  const marks = []
  for (let i = 0; i < count; i++) {
    await pause()
    const start = nowSeconds()
    const burrow = await engine.restore(id, { sandboxId })
    const called = nowSeconds()
    await checkAnswer(burrow)
    marks.push({ start, called, end: nowSeconds() })
    await burrow.destroy()
  }
  await pause()
  return marks
}

/** Samples both CPUs with the clock that `nowSeconds` reads. */
async function whileSampling(path, work) {
  const args = [
    'record',
    '-q',
    '-a',
    '-e',
    'cpu-clock',
    '-k',
    'mono',
    '-F',
    String(1000 / SAMPLE_MS),
    '-o',
    path,
  ]
  const perf = spawn('perf', args, { stdio: 'inherit' })
  await once(perf, 'spawn')
  const result = await work()
  perf.kill('SIGINT')
  await once(perf, 'exit')
  return result
}

function readSamples(path) {
  const text = execFileSync('perf', ['script', '-i', path, '-F', 'comm,pid,time'], {
    encoding: 'utf8',
    maxBuffer: 2 ** 30,
  })
  return [...text.matchAll(/^\s*(?<name>.+?)\s+(?<pid>\d+)\s+(?<time>\d+\.\d+):/gm)].map(
    ({ groups }) => groups,
  )
}

/**
 * The milliseconds of each wake, by process and phase. What happens after a wake and before the next one is around it.
 * Other programs of the machine do not count; of those called `node` only this one.
 */
function count(samples, marks) {
  const rows = PROCESSES.map(({ title }) => ({
    title,
    wakes: marks.map(() => PHASES.map(() => 0)),
  }))
  for (const { name, pid, time } of samples) {
    const row = PROCESSES.findIndex(({ names }) => names.includes(name))
    if (row === -1 || (row === PROCESSES.length - 1 && Number(pid) !== process.pid)) continue
    const at = Number(time)
    const wake = marks.findLastIndex(({ start }) => at >= start)
    if (wake === -1) continue
    const { called, end } = marks[wake]
    rows[row].wakes[wake][at < called ? 0 : at < end ? 1 : 2] += SAMPLE_MS
  }
  const together = marks.map((_, wake) =>
    PHASES.map((_, phase) => sum(rows.map(({ wakes }) => wakes[wake][phase]))),
  )
  return [...rows, { title: 'together', wakes: together }].map(({ title, wakes }) => ({
    title,
    phases: PHASES.map((_, phase) => summarize(wakes.map((wake) => wake[phase]))),
    together: summarize(wakes.map(sum)),
  }))
}

function sum(values) {
  return values.reduce((total, value) => total + value, 0)
}

const result = await atWorkbench(options, async (bench) => {
  const burrow = await growTree(bench.engine, HEAP_BYTES)
  await bench.pause()
  const { snapshot } = await bench.engine.snapshot(burrow, { leave: 'gone' })
  // Until the server's own code is compiled.
  await wakeOften(bench, snapshot, options.quick ? 2 : 20)
  const directory = await mkdtemp(join(tmpdir(), 'dormouse-bench-'))
  try {
    const path = join(directory, 'perf.data')
    const marks = await whileSampling(path, () => wakeOften(bench, snapshot, times))
    return { rows: count(readSamples(path), marks) }
  } finally {
    await rm(directory, { recursive: true })
  }
})

const pair = ({ p50, p99 }) => `${p50.toFixed(1)} / ${p99.toFixed(1)}`
const text = table(
  ['process', ...PHASES, 'together'],
  result.rows.map(({ title, phases, together }) => [title, ...phases.map(pair), pair(together)]),
)
await report({
  name: 'wake-cpu',
  options,
  result,
  text: `CPU milliseconds of one wake of 1 GB from \`stored\`, p50 / p99 of ${times} in a row; medians do not add up.
"Around it" is what happens after it, until the next one: making the spare that the next wake takes, and removing the
burrow:\n\n${text}`,
})
