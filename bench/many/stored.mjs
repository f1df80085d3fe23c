import { megabytes, ms, summarize, table, verdict } from '../measure.mjs'
import { COUNTED_CPU, measureIdleShare } from './cpu-time.mjs'
import { CHANGE_BYTES } from './make-sleeping.mjs'
import { measureWakes, percent, residentBytes, untilQuiet } from './observe.mjs'

const LISTS = 50

/** What many stored sandboxes cost a server that is up, and the time until it is up again after `kill -9`. */
export async function measureStored({ server, client, restart, sandboxes, wakes, idleSeconds }) {
  const list = await measureList(client)
  await untilQuiet(server)
  const idleShare = await measureIdleShare(server, idleSeconds)
  const resident = await residentBytes(server)
  const wake = summarize(await measureWakes(client, sandboxes, { tier: 'stored', times: wakes }))
  const { readyMs, client: again } = await restart()
  const wakeAfterRestart = summarize(await measureWakes(again, sandboxes, { tier: 'stored', times: wakes }))
  return {
    count: sandboxes.length,
    list,
    idleSeconds,
    idleShare,
    residentBytes: resident,
    wake,
    readyMs,
    wakeAfterRestart,
  }
}

async function measureList(client) {
  const samples = []
  for (let n = 0; n < LISTS; n++) {
    const began = performance.now()
    await client.call('GET', '/v1/sandboxes?limit=100')
    samples.push(performance.now() - began)
  }
  return summarize(samples)
}

export function describeStored(result) {
  const { count, list, wakeWithFew, wake, wakeAfterRestart, diskPerSandbox, readyMs, idleShare } = result
  const value = (title, shown, seen, goal, unit) => [title, shown, '', verdict(seen, goal, unit)]
  const times = (title, { p50, p99 }, goal) => [
    title,
    `${ms(p50)} ms`,
    `${ms(p99)} ms`,
    verdict(p50, goal, 'ms'),
  ]
  const megabytesOf = (title, bytes, atMost) =>
    value(title, `${megabytes(bytes)} MB`, bytes / 1e6, { atMost }, 'MB')
  const rows = [
    megabytesOf('disk per sandbox beyond what it changed', diskPerSandbox, 2),
    megabytesOf('resident memory of the server', result.residentBytes, 300),
    value(
      `CPU of the server and its child processes, for ${result.idleSeconds} s with all asleep`,
      percent(idleShare),
      idleShare * 100,
      { atMost: 0.5 },
      '%',
    ),
    times('list of 100', list, { atMost: 20 }),
    value('ready after `kill -9`', `${ms(readyMs)} ms`, readyMs, { atMost: 5000 }, 'ms'),
    times('first result, another server with ten stored', wakeWithFew),
    times(`first result with ${count} stored`, wake),
    times('… after the restart', wakeAfterRestart),
  ]
  return `${table([`${count} sandboxes, forked from one and stored`, 'value, or p50', 'p99', 'goal'], rows)}\n\nEach sandbox has changed ${megabytes(CHANGE_BYTES)} MB of its own. ${count - result.unfolded} of ${count} snapshots had folded pages, and all of those that were woken with ten stored. ${COUNTED_CPU}`
}
