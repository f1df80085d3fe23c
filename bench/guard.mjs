// Measures the CPU time that the guard costs a process that never slept: a malloc-heavy program with and without it, in
// turns.
import { execFileSync } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { median, report, table } from './measure.mjs'
import { readOptions } from './workbench.mjs'

const options = readOptions({ rounds: { type: 'string' } })
const rounds = Number(options.rounds ?? (options.quick ? 5 : 100))
/** Each turn has four runs. */
const TURNS = 3
const native = fileURLToPath(new URL('../packages/engine-linux/native/', import.meta.url))
const guard = join(native, 'build/libdormouse-guard.so')
const source = fileURLToPath(new URL('malloc-heavy.c', import.meta.url))
const JEMALLOC = '/usr/lib/x86_64-linux-gnu/libjemalloc.so.2'
const PURGE_AT_ONCE = { MALLOC_CONF: 'dirty_decay_ms:0,muzzy_decay_ms:0' }
const GOAL = 1.01

const dir = mkdtempSync(join(tmpdir(), 'dormouse-bench-guard-'))
const program = join(dir, 'malloc-heavy')
const empty = join(dir, 'empty.so')

/** The first case has no guard and shows the noise of the method. */
const cases = [
  { title: 'glibc, with an empty library instead of the guard', preload: empty },
  { title: 'glibc', goal: GOAL },
  ...(existsSync(JEMALLOC)
    ? [
        { title: 'jemalloc', libraries: [JEMALLOC], goal: GOAL },
        { title: 'jemalloc, purging at once', libraries: [JEMALLOC], env: PURGE_AT_ONCE, goal: GOAL },
        { title: 'jemalloc, all memory restored', libraries: [JEMALLOC], args: ['slept'] },
        {
          title: 'jemalloc, purging at once, all memory restored',
          libraries: [JEMALLOC],
          env: PURGE_AT_ONCE,
          args: ['slept'],
        },
      ]
    : []),
]

function cpuMs({ preload, libraries = [], env = {}, args = [] }) {
  const loaded = [...(preload === undefined ? [] : [preload]), ...libraries].join(':')
  return Number(execFileSync(program, args, { env: { ...env, LD_PRELOAD: loaded } })) / 1e6
}

/**
 * Runs without, with, with, without, …, so that a machine that slows down or speeds up favours neither side.
 * Neighbours on the machine only add CPU time, through shared caches, so the fastest of a few runs is closest to the
 * program's own.
 */
function runRound(plain, samples) {
  const guarded = { ...plain, preload: plain.preload ?? guard }
  const without = { ...plain, preload: undefined }
  const least = { without: Number.POSITIVE_INFINITY, with: Number.POSITIVE_INFINITY }
  const run = (side, how) => {
    least[side] = Math.min(least[side], cpuMs(how))
  }
  for (let turn = 0; turn < TURNS; turn++) {
    run('without', without)
    run('with', guarded)
    run('with', guarded)
    run('without', without)
  }
  samples.without.push(least.without)
  samples.with.push(least.with)
  samples.ratio.push(least.with / least.without)
}

/** The median of the rounds and its 95 % confidence interval, which assumes no distribution of the noise. */
function summarizeRatios(ratios) {
  const sorted = [...ratios].sort((a, b) => a - b)
  const at = (rank) => sorted[Math.min(sorted.length - 1, Math.max(0, Math.round(rank)))]
  const half = sorted.length / 2
  const spread = 0.98 * Math.sqrt(sorted.length)
  return {
    median: median(ratios),
    interval: [at(half - spread - 1), at(half + spread)],
    quartiles: [at(sorted.length / 4), at((sorted.length * 3) / 4)],
  }
}

/** False if even the case without a guard differs by more than the goal: the machine is then too busy to decide. */
function isQuiet([{ interval }]) {
  return interval[0] > 2 - GOAL && interval[1] < GOAL
}

function verdictOf({ interval: [low, high], goal }) {
  if (goal === undefined) return ''
  if (!isQuiet(result)) return `< ${goal}, too noisy to tell`
  if (high < goal) return `< ${goal}, met`
  return `< ${goal}, ${low < goal ? 'not decided by this run' : '**missed**'}`
}

function measureAll() {
  execFileSync('gcc', ['-O2', '-D_GNU_SOURCE', `-I${native}/src`, '-o', program, source])
  execFileSync('gcc', ['-shared', '-x', 'c', '-o', empty, '/dev/null'])
  const samples = cases.map(() => ({ without: [], with: [], ratio: [] }))
  // Every round has all cases, so that a slow minute affects all of them.
  for (let round = 0; round < rounds; round++)
    for (const [index, each] of cases.entries()) runRound(each, samples[index])
  return cases.map(({ title, goal }, index) => ({
    title,
    rounds,
    withoutMs: median(samples[index].without),
    withMs: median(samples[index].with),
    ...summarizeRatios(samples[index].ratio),
    ...(goal !== undefined && { goal }),
  }))
}

let result
try {
  result = measureAll()
} finally {
  rmSync(dir, { recursive: true, force: true })
}
const range = ([low, high]) => `${low.toFixed(4)} – ${high.toFixed(4)}`
const text = table(
  ['allocator', 'rounds', 'without, CPU ms', 'with, CPU ms', 'with / without', '95 %', 'quartiles', 'goal'],
  result.map((row) => [
    row.title,
    row.rounds,
    row.withoutMs.toFixed(2),
    row.withMs.toFixed(2),
    row.median.toFixed(4),
    range(row.interval),
    range(row.quartiles),
    verdictOf(row),
  ]),
)
await report({ name: 'guard', options, result, text })
