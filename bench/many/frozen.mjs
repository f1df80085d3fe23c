import { setTimeout as sleep } from 'node:timers/promises'
import { megabytes, ms, table, verdict } from '../measure.mjs'
import { makeSleeping } from './make-sleeping.mjs'
import { availableBytes, measureIdleShare, measureWakes, percent, untilQuiet } from './observe.mjs'

const GOAL_BYTES_EACH = 6e6

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
  const { items: sample } = await client.call('GET', '/v1/sandboxes?limit=200')
  const frozen = sample.filter(({ tier }) => tier === 'frozen').length / sample.length
  const wake = await measureWakes(client, sandboxes, { tier: 'frozen', times: wakes })
  return { count, idleShare, privateBytes, hostBytes, frozen, wake }
}

export function describeFrozen({ count, idleShare, privateBytes, hostBytes, frozen, wake }) {
  const goalGB = (count * GOAL_BYTES_EACH) / 1e9
  const rows = [
    [
      'memory that only they have',
      `${megabytes(privateBytes)} MB`,
      '',
      verdict(privateBytes / 1e9, { atMost: goalGB }, 'GB'),
    ],
    ['less memory available on the host, page cache not counted', `${megabytes(hostBytes)} MB`, '', ''],
    ['CPU of the server', percent(idleShare), '', verdict(idleShare * 100, { atMost: 0.5 }, '%')],
    ['first result', `${ms(wake.p50)} ms`, `${ms(wake.p99)} ms`, verdict(wake.p50, { atMost: 4 }, 'ms')],
  ]
  const share = `${percent(frozen)} of the newest were still frozen when they were counted.`
  return `${table([`${count} sandboxes, forked from one and frozen`, 'value, or p50', 'p99', 'goal'], rows)}\n\n${share}`
}
