import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { summarize } from '../measure.mjs'

const UPKEEP_MAX_MS = 20 * 60_000
const QUIET_MAX_MS = 5 * 60_000
const QUIET_SHARE = 0.02

/** Times first results of sandboxes that are picked at random, and puts each back to sleep. */
export async function measureWakes(client, sandboxes, { tier, times }) {
  const samples = []
  for (let n = 0; n < times; n++) {
    const { id, number } = sandboxes[Math.floor(Math.random() * sandboxes.length)]
    await sleep(300)
    const began = performance.now()
    const { stdout } = await client.run(id, 'print(x)')
    samples.push(performance.now() - began)
    if (stdout !== `${number}\n`) throw new Error(`sandbox ${number} printed ${stdout}`)
    await client.standby(id, tier)
  }
  return summarize(samples)
}

/** The share of one core that the server uses while no request comes. */
export async function measureIdleShare({ child }, seconds) {
  const ticks = async () => {
    const fields = (await readFile(`/proc/${child.pid}/stat`, 'utf8')).split(') ')[1].split(' ')
    return Number(fields[11]) + Number(fields[12])
  }
  await sleep(3000)
  const before = await ticks()
  await sleep(seconds * 1000)
  return ((await ticks()) - before) / 100 / seconds
}

/** Waits until upkeep has folded every snapshot, which it begins a minute after the last sleep. */
export async function untilFolded(stateDir) {
  const snapshots = join(stateDir, 'snapshots')
  const isLeft = (name) => name.startsWith('sn-') && existsSync(join(snapshots, name, 'images'))
  const deadline = performance.now() + UPKEEP_MAX_MS
  while ((await readdir(snapshots)).some(isLeft) && performance.now() < deadline) await sleep(2000)
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
