import { execFileSync } from 'node:child_process'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { measureIdleShare } from './cpu-time.mjs'

const UPKEEP_MAX_MS = 20 * 60_000
const QUIET_MAX_MS = 5 * 60_000
const QUIET_SHARE = 0.02
/** Before each result. */
export const PAUSE_MS = 300

/** Times first results of `times` sandboxes that are picked at random, and puts each back to sleep. */
export async function measureWakes(client, sandboxes, { tier, times }) {
  const samples = []
  for (const sandbox of pickRandom(sandboxes, times)) {
    samples.push(await timeResult(client, sandbox))
    await client.standby(sandbox.id, tier)
  }
  return samples
}

/** The same, in turns with sandboxes that stayed awake: what of a first result is not the wake. */
export async function measureWakesBesideAwake(client, { asleep, awake, tier }) {
  const samples = { asleep: [], awake: [] }
  const picked = pickRandom(asleep, awake.length)
  for (const [turn, sandbox] of picked.entries()) {
    samples.asleep.push(await timeResult(client, sandbox))
    await client.standby(sandbox.id, tier)
    samples.awake.push(await timeResult(client, awake[turn]))
  }
  return samples
}

async function timeResult(client, { id, number }) {
  await sleep(PAUSE_MS)
  const began = performance.now()
  const { stdout } = await client.run(id, 'print(x)')
  const took = performance.now() - began
  if (stdout !== `${number}\n`) throw new Error(`sandbox ${number} printed ${stdout}`)
  return took
}

/** Each at most once. */
function pickRandom(items, count) {
  const left = [...items]
  const picked = Array.from({ length: Math.min(count, items.length) })
  return picked.map(() => left.splice(Math.floor(Math.random() * left.length), 1)[0])
}

/**
 * Waits until upkeep has folded every snapshot, which it begins a minute after the last sleep. Returns how many of them
 * are not folded when it takes too long.
 */
export async function untilFolded(stateDir) {
  const snapshots = join(stateDir, 'snapshots')
  const deadline = performance.now() + UPKEEP_MAX_MS
  let left = (await readdir(snapshots)).filter((name) => name.startsWith('sn-'))
  for (;;) {
    const unfolded = []
    for (const name of left) if (await isUnfolded(join(snapshots, name, 'manifest.json'))) unfolded.push(name)
    left = unfolded
    if (left.length === 0 || performance.now() > deadline) return left.length
    await sleep(2000)
  }
}

async function isUnfolded(path) {
  const text = await readFile(path, 'utf8').catch(() => undefined)
  if (text === undefined) return false
  const { kind, folded } = JSON.parse(text)
  return kind === 'full' && folded !== true
}

/** Waits until the server has done what follows from its last requests: upkeep, the scrub of new snapshots. */
export async function untilQuiet(server) {
  const deadline = performance.now() + QUIET_MAX_MS
  while (performance.now() < deadline && (await measureIdleShare(server, 10)) > QUIET_SHARE);
}

export async function residentBytes({ child }) {
  const status = await readFile(`/proc/${child.pid}/status`, 'latin1')
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)[1]) * 1024
}

/** What the host could give to new programs. */
export async function availableBytes() {
  return Number(/^MemAvailable:\s+(\d+) kB$/m.exec(await readFile('/proc/meminfo', 'latin1'))[1]) * 1024
}

export function diskBytes(directory) {
  return Number(execFileSync('du', ['-sB1', directory], { encoding: 'utf8' }).split('\t')[0])
}

export function percent(share) {
  return `${(share * 100).toFixed(2)} %`
}
