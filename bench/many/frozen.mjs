import { setTimeout as sleep } from 'node:timers/promises'
import { megabytes, ms, summarize, table, verdict } from '../measure.mjs'
import { COUNTED_CPU, measureIdleShare } from './cpu-time.mjs'
import { makeSleeping } from './make-sleeping.mjs'
import { availableBytes, measureWakesBesideAwake, PAUSE_MS, percent, untilQuiet } from './observe.mjs'

const GOAL_BYTES_EACH = 6e6
const PAGE = 1000

/** Frozen sandboxes: memory that only they have, CPU of the server, first results. */
export async function measureFrozen(server, client, { count, wakes, idleSeconds }) {
  await sleep(3000)
  const before = await availableBytes()
  const sandboxes = await makeSleeping(client, { count, tier: 'frozen' })
  await untilQuiet(server)
  const idleShare = await measureIdleShare(server, idleSeconds)
  const hostBytes = before - (await availableBytes())
  let privateBytes = 0
  for (const { id } of sandboxes) {
    const { memory } = await client.call('GET', `/v1/sandboxes/${id}/metrics?memory=true`)
    privateBytes += memory?.privateBytes ?? 0
  }
  const frozen = await countFrozen(client)
  // Made last, so that no other figure includes them.
  const awake = await makeSleeping(client, { count: Math.min(wakes, count), from: count })
  const first = await measureWakesBesideAwake(client, { asleep: sandboxes, awake, tier: 'frozen' })
  return {
    ...{ count, idleSeconds, idleShare, privateBytes, hostBytes, frozen },
    ...{ wake: summarize(first.asleep), awake: summarize(first.awake) },
  }
}

/** How many of all sandboxes are frozen now. */
async function countFrozen(client) {
  let frozen = 0
  let cursor
  do {
    const page = await client.call('GET', `/v1/sandboxes?limit=${PAGE}${cursor ? `&cursor=${cursor}` : ''}`)
    frozen += page.items.filter(({ tier }) => tier === 'frozen').length
    cursor = page.nextCursor
  } while (cursor)
  return frozen
}

export function describeFrozen(result) {
  const { count, idleSeconds, idleShare, privateBytes, hostBytes, frozen, wake, awake } = result
  const goalGB = (count * GOAL_BYTES_EACH) / 1e9
  const rows = [
    [
      'memory that only they have',
      `${megabytes(privateBytes)} MB`,
      '',
      verdict(privateBytes / 1e9, { atMost: goalGB }, 'GB'),
    ],
    ['less memory available on the host, page cache not counted', `${megabytes(hostBytes)} MB`, '', ''],
    [
      `CPU of the server and its child processes, for ${idleSeconds} s`,
      percent(idleShare),
      '',
      verdict(idleShare * 100, { atMost: 0.5 }, '%'),
    ],
    ['first result', `${ms(wake.p50)} ms`, `${ms(wake.p99)} ms`, verdict(wake.p50, { atMost: 4 }, 'ms')],
    ['control: first result of one that stayed awake', `${ms(awake.p50)} ms`, `${ms(awake.p99)} ms`, ''],
  ]
  const share = `${frozen} of all ${count} were still frozen before the first results. ${COUNTED_CPU} First results come in turns, after pauses of ${PAUSE_MS} ms, each from another sandbox.`
  return `${table([`${count} sandboxes, forked from one and frozen`, 'value, or p50', 'p99', 'goal'], rows)}\n\n${share}`
}
