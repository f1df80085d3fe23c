// What the guard costs a process that never slept: a malloc-heavy program with and without it, turn by turn, in CPU time.
import { execFileSync } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { describeMachine, percentiles } from './measure.mjs'

const { values } = parseArgs({ options: { times: { type: 'string', default: '300' } } })
const times = Number(values.times)
const dir = mkdtempSync(join(tmpdir(), 'dormouse-bench-guard-'))
const guard = fileURLToPath(
  new URL('../packages/engine-linux/native/build/libdormouse-guard.so', import.meta.url),
)
const empty = join(dir, 'empty.so')
const source = fileURLToPath(new URL('malloc-heavy.c', import.meta.url))
const program = join(dir, 'malloc-heavy')
const JEMALLOC = '/usr/lib/x86_64-linux-gnu/libjemalloc.so.2'

const PURGE_AT_ONCE = { MALLOC_CONF: 'dirty_decay_ms:0,muzzy_decay_ms:0' }
const jemallocs = [
  { title: 'jemalloc', libraries: [JEMALLOC], goal: '< 1.01' },
  { title: 'jemalloc, purging at once', libraries: [JEMALLOC], env: PURGE_AT_ONCE, goal: '< 1.01' },
  { title: 'jemalloc, all memory restored', libraries: [JEMALLOC], args: ['slept'] },
  {
    title: 'jemalloc, purging at once, all memory restored',
    libraries: [JEMALLOC],
    env: PURGE_AT_ONCE,
    args: ['slept'],
  },
]
const allocators = [
  { title: 'noise: glibc with an empty library instead', libraries: [], preload: empty },
  { title: 'glibc', libraries: [], goal: '< 1.01' },
  ...(existsSync(JEMALLOC) ? jemallocs : []),
]

function runMs({ libraries, env = {}, args = [] }) {
  const out = execFileSync(program, args, { env: { ...env, LD_PRELOAD: libraries.join(':') } })
  return Number(out) / 1e6
}

/** Without, with, with, without: a machine that slows down or speeds up favours neither side. */
function compare(plain) {
  const guarded = { ...plain, libraries: [plain.preload ?? guard, ...plain.libraries] }
  const samples = { plain: [], guarded: [], ratio: [] }
  for (let i = 0; i < times; i++) {
    const [a, b, c, d] = [plain, guarded, guarded, plain].map(runMs)
    samples.plain.push(a, d)
    samples.guarded.push(b, c)
    samples.ratio.push((b + c) / (a + d))
  }
  const median = (values) => percentiles(values).p50Ms
  return {
    plainMs: median(samples.plain),
    guardedMs: median(samples.guarded),
    ratio: median(samples.ratio),
  }
}

try {
  execFileSync('gcc', ['-O2', '-D_GNU_SOURCE', '-o', program, source])
  execFileSync('gcc', ['-shared', '-x', 'c', '-o', empty, '/dev/null'])
  console.log('| allocator | rounds | without ms | with ms | with / without | median of rounds | goal |')
  console.log('|---|---|---|---|---|---|---|')
  for (const allocator of allocators) {
    const { plainMs, guardedMs, ratio } = compare(allocator)
    const cells = [allocator.title, times, plainMs.toFixed(1), guardedMs.toFixed(1)]
    console.log(
      `| ${[...cells, (guardedMs / plainMs).toFixed(4), ratio.toFixed(4)].join(' | ')} | ${allocator.goal ?? ''} |`,
    )
  }
  console.log(`\n${describeMachine()}. \`node bench/guard.mjs\``)
} finally {
  rmSync(dir, { recursive: true, force: true })
}
