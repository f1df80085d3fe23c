import { join } from 'node:path'
import { PublicDialer } from '@dormouse/egress'
import type { ServerConfig } from '../config/config.ts'
import { EventFeed } from '../fleet/event-feed.ts'
import type { Closing } from '../host/closing.ts'
import type { Log } from '../log.ts'
import { SealedValues } from '../secrets/sealed-values.ts'
import { WebhookService } from '../webhooks/webhook-service.ts'
import type { OpenedSandboxes } from './open-sandboxes.ts'
import type { Stores } from './open-stores.ts'

/** The feed of events, its history on disk, and the webhooks that send them. */
export function openEvents(
  { config, log }: { readonly config: ServerConfig; readonly log: Log },
  { stores, opened }: { stores: Stores; opened: OpenedSandboxes },
  closing: Closing,
): { feed: EventFeed; webhooks: WebhookService } {
  const { proxy, ownAddresses } = config.network
  const nowMs = stores.clock.wallMs
  const webhooks = closing.use(
    new WebhookService({
      ...{ rows: stores.webhooks, sandboxes: opened.service, nowMs, log },
      values: SealedValues.open(join(config.dataDir, 'secrets.key')),
      dialer: new PublicDialer({ proxy, ownAddresses }),
      allowPrivate: config.webhooks.allowPrivate,
      findKey: (keyId) => opened.access.find(keyId),
    }),
  )
  const feed = closing.use(
    new EventFeed(nowMs, {
      rows: stores.events,
      onWrite: (event) => webhooks.enqueue(event),
      onError: (err) => log.warn({ err }, 'events could not be written'),
    }),
  )
  return { feed, webhooks }
}
