import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { type ClusterConnection, EventLog } from '@dormouse/cluster'
import type { EventFeed, RelayedEvent } from '../fleet/event-feed.ts'
import type { Log } from '../log.ts'

export interface ShareEvents {
  readonly connection: ClusterConnection
  readonly feed: EventFeed
  readonly hostId: string
  readonly replicas: number
  /** Hears of what has happened on other hosts. */
  readonly onOthers: (event: RelayedEvent) => void
  readonly log: Log
}

/** What a reader that lost its connection can catch up on. */
const CATCH_UP = 10_000
const RETRY_MS = 500
/** Events that wait for a NATS that does not answer. */
const WAITING_MAX = 10_000

/** The event stream of all hosts: each host publishes what happens on it, and shows what happens on any. */
export async function shareEvents({
  connection,
  feed,
  hostId,
  replicas,
  onOthers,
  log,
}: ShareEvents): Promise<AsyncDisposable> {
  const { jetstream, manager, key } = connection
  const events = await EventLog.open({ jetstream, manager, key, replicas, hostId })
  const place = await events.place(CATCH_UP)
  const session = randomUUID()
  let count = 0
  let isOver = false
  const sendOne = async (event: RelayedEvent) => {
    const id = `${session}-${count++}`
    while (!isOver) {
      try {
        return await events.publish(event, id)
      } catch (err) {
        log.warn({ err }, 'an event is not in the stream of the cluster yet')
        await sleep(RETRY_MS, undefined, { ref: false })
      }
    }
  }
  feed.join(
    {
      send: async (batch) => {
        const isTooMuch = batch.length > WAITING_MAX
        if (isTooMuch) await sendOne({ ...NOTHING, type: 'restart', atMs: Date.now() })
        for (const event of batch.slice(-WAITING_MAX)) await sendOne(event)
      },
    },
    { baseSeq: events.baseSeq, ...place },
  )
  await events.follow(place, ({ seq, host, event }) => {
    const relayed = event as RelayedEvent
    if (host !== hostId) onOthers(relayed)
    feed.receive(seq, relayed, host === hostId)
  })
  return {
    [Symbol.asyncDispose]: async () => {
      isOver = true
      await events[Symbol.asyncDispose]()
    },
  }
}

const NOTHING = { owner: undefined, sandboxId: undefined, data: {} }
