import type { CreateWebhook, Delivery } from 'dormouse'
import { formatFields, formatTable } from '../../format/table.ts'
import type { Call } from '../call.ts'
import { UsageError } from '../cli-error.ts'
import { omitUndefined } from '../omit-undefined.ts'

interface EventFlags {
  readonly event?: readonly string[]
}

export async function createWebhook(
  call: Call,
  name: string,
  url: string,
  { event, sandbox }: EventFlags & { sandbox?: string },
): Promise<void> {
  if (event === undefined)
    throw new UsageError('say which events to send', 'Use --event job.ended, several times.')
  const events = [...event] as CreateWebhook['events']
  const webhook = await call.client.webhooks.create(
    { name, url, events, ...omitUndefined({ sandbox }) },
    { signal: call.signal },
  )
  call.printResult(webhook, `${webhook.secret}\n`)
  call.note('This secret signs the deliveries. It is shown only now.')
}

export async function listWebhooks(call: Call, { quiet }: { quiet?: boolean }): Promise<void> {
  const webhooks = await call.client.webhooks.list({ signal: call.signal }).all()
  if (quiet === true) return call.printNames(webhooks)
  const rows = webhooks.map(({ name, url, events, enabled }) => [
    name,
    url,
    events.join(', '),
    enabled ? 'on' : 'off',
  ])
  call.printResult(
    { webhooks },
    rows.length === 0 ? '' : formatTable([['NAME', 'URL', 'EVENTS', 'STATE'], ...rows]),
  )
  if (rows.length === 0) call.note('There are no webhooks. Create one with `dormouse webhook create`.')
}

export async function showWebhook(call: Call, name: string): Promise<void> {
  const webhook = await call.client.webhooks.get(name, { signal: call.signal })
  const deliveries = await call.client.webhooks.deliveries(name, { signal: call.signal })
  const fields = formatFields([
    ['name', webhook.name],
    ['url', webhook.url],
    ['events', webhook.events.join(', ')],
    ['sandbox', webhook.sandboxId],
    ['state', webhook.enabled ? 'on' : 'off'],
    ['created', webhook.createdAt],
  ])
  const rows = deliveries.map((delivery) => [delivery.createdAt, delivery.type, shown(delivery)])
  call.printResult(
    { ...webhook, deliveries },
    rows.length === 0 ? fields : `${fields}\n${formatTable([['SINCE', 'EVENT', 'DELIVERY'], ...rows])}`,
  )
}

export async function updateWebhook(
  call: Call,
  name: string,
  { to: url, event, on, off }: EventFlags & { to?: string; on?: boolean; off?: boolean },
): Promise<void> {
  if (on === true && off === true) throw new UsageError('--on and --off exclude each other')
  const events = event && ([...event] as CreateWebhook['events'])
  const enabled = on === true ? true : off === true ? false : undefined
  const change = omitUndefined({ url, events, enabled })
  if (Object.keys(change).length === 0) throw new UsageError('there is nothing to change')
  const webhook = await call.client.webhooks.update(name, change, { signal: call.signal })
  call.printResult(webhook, `${webhook.name}\n`)
}

export async function rotateWebhook(call: Call, name: string): Promise<void> {
  const webhook = await call.client.webhooks.rotate(name, { signal: call.signal })
  call.printResult(webhook, `${webhook.secret}\n`)
}

export async function testWebhook(call: Call, name: string): Promise<number> {
  const delivery = await call.withProgress(
    'Sending',
    call.client.webhooks.test(name, { signal: call.signal }),
  )
  call.printResult(delivery, `${shown(delivery)}\n`)
  return delivery.state === 'delivered' ? 0 : 1
}

export async function removeWebhooks(call: Call, names: readonly string[]): Promise<void> {
  for (const name of names) await call.client.webhooks.delete(name, { signal: call.signal })
  call.printResult({ deleted: names }, names.map((name) => `${name}\n`).join(''))
}

function shown({ state, attempts, status, error }: Delivery): string {
  const reason = error ?? (status === undefined ? '' : String(status))
  return `${state} after ${attempts} ${attempts === 1 ? 'attempt' : 'attempts'}${reason === '' ? '' : `: ${reason}`}`
}
