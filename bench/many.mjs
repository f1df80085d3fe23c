// Measures a server with many sleeping sandboxes: memory, disk, idle CPU, lists, a restart after kill -9, and wakes.
// `--state DIR` keeps the sandboxes, so that ten thousand can be made in several runs (`--make`) and measured in one;
// `--remove` removes them afterwards.
import { existsSync } from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describeFrozen, measureFrozen } from './many/frozen.mjs'
import { CHANGE_BYTES, makeSleeping } from './many/make-sleeping.mjs'
import { diskBytes, measureWakes, untilFolded } from './many/observe.mjs'
import { describeStored, measureStored } from './many/stored.mjs'
import { report, summarize } from './measure.mjs'
import { atServer } from './server/at-server.mjs'
import { readOptions } from './workbench.mjs'

const options = readOptions({
  count: { type: 'string' },
  frozen: { type: 'string' },
  only: { type: 'string', default: 'stored,frozen' },
  state: { type: 'string' },
  make: { type: 'boolean', default: false },
  remove: { type: 'boolean', default: false },
})
const parts = options.only.split(',')
const COUNT = Number(options.count ?? (options.quick ? 20 : 1000))
const FROZEN = Number(options.frozen ?? (options.quick ? 10 : 1000))
const times = options.quick
  ? { wakes: 5, wakesWithFew: 5, idleSeconds: 3 }
  : { wakes: 40, wakesWithFew: 20, idleSeconds: 60 }
const FEW = 10

if (options.make) await atServer(options, makeMore)
else {
  if (parts.includes('stored')) await reportStored()
  if (parts.includes('frozen')) await atServer({ data: options.data }, reportFrozen)
}

async function reportStored() {
  const wakeWithFew = await atServer({ data: options.data }, measureWithFew)
  await atServer(options, async (context) => {
    const { sandboxes, unfolded, diskPerSandbox } = await makeMore(context)
    const measured = await measureStored({ ...context, ...times, sandboxes })
    const result = { ...measured, unfolded, diskPerSandbox, wakeWithFew }
    await report({ name: 'many', options, result, text: describeStored(result) })
  })
}

/** As with many, each wake is the first one of a folded snapshot. So the ten are folded before each pass over them. */
async function measureWithFew({ client, stateDir }) {
  const few = await makeSleeping(client, { count: FEW, tier: 'stored' })
  const samples = []
  while (samples.length < times.wakesWithFew) {
    await untilFolded(stateDir)
    const missing = Math.min(FEW, times.wakesWithFew - samples.length)
    samples.push(...(await measureWakes(client, few, { tier: 'stored', times: missing })))
  }
  return summarize(samples)
}

async function reportFrozen({ server, client }) {
  const result = await measureFrozen(server, client, { ...times, count: FROZEN })
  await report({ name: 'frozen', program: 'many', options, result, text: describeFrozen(result) })
}

/** Makes sandboxes until there are `COUNT`. The first ones do not count for the disk: they share what they need. */
async function makeMore({ client, stateDir }) {
  const path = join(stateDir, 'made.json')
  const made = existsSync(path) ? JSON.parse(await readFile(path, 'utf8')) : { sandboxes: [] }
  const { sandboxes } = made
  const until = async (count) => {
    const missing = { count: count - sandboxes.length, tier: 'stored', from: sandboxes.length }
    if (missing.count > 0) sandboxes.push(...(await makeSleeping(client, missing)))
    await writeFile(path, JSON.stringify(made))
  }
  await until(FEW)
  if (made.diskBefore === undefined) {
    await untilFolded(stateDir)
    made.diskBefore = diskBytes(stateDir)
  }
  await until(COUNT)
  const unfolded = await untilFolded(stateDir)
  const added = sandboxes.length - FEW
  return {
    sandboxes,
    unfolded,
    diskPerSandbox: (diskBytes(stateDir) - made.diskBefore) / added - CHANGE_BYTES,
  }
}
