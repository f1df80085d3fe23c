import { batch, computed, signal } from '@preact/signals'
import type { Overview, SandboxActivity, SandboxInfo, ServerEvent } from 'dormouse'
import { client } from '../client.ts'

/** All sandboxes, live. Maps are changed in place; `version` tells that they were. */
const sandboxes = new Map<string, SandboxInfo>()
const activities = new Map<string, SandboxActivity>()
const version = signal(0)
export const isLoaded = signal(false)
export const overview = signal<Overview | undefined>(undefined)
/** The last wakes and sleeps that this page saw, by sandbox. */
export const transitions = signal<ReadonlyMap<string, Transition>>(new Map())

export interface Transition {
  readonly event: string
  readonly latencyMs: number | undefined
  readonly atMs: number
}

const LIST_PAGE = 1000
const ACTIVITY_PAGE = 100
const ACTIVITY_WAIT_MS = 60
const OVERVIEW_WAIT_MS = 800
const RECONNECT_MS = 1000

export const fleet = computed(() => {
  version.value
  return [...sandboxes.values()]
})

export function sandboxOf(id: string): SandboxInfo | undefined {
  version.value
  const found = sandboxes.get(id)
  if (found !== undefined) return found
  for (const info of sandboxes.values()) if (info.name === id) return info
  return undefined
}

export function activityOf(id: string): SandboxActivity | undefined {
  version.value
  return activities.get(id)
}

type Listener = (event: ServerEvent) => void
const listeners = new Set<Listener>()

/** Tells of every event until the returned function is called. */
export function onEvent(listener: Listener): () => void {
  listeners.add(listener)
  return () => listeners.delete(listener)
}

/** Follows the server until `stop` aborts, through restarts of the server. */
export async function followFleet(stop: AbortSignal): Promise<void> {
  while (!stop.aborted) {
    try {
      for await (const event of client.events({ signal: stop })) {
        if (event.type === 'gap') void readAll(stop)
        batch(() => apply(event))
        for (const listener of listeners) listener(event)
      }
    } catch {
      await new Promise((resolve) => setTimeout(resolve, RECONNECT_MS))
    }
  }
}

let reading: Promise<void> | undefined

function readAll(stop: AbortSignal): Promise<void> {
  reading ??= readPages(stop)
    .catch(() => {})
    .finally(() => {
      reading = undefined
    })
  return reading
}

async function readPages(stop: AbortSignal): Promise<void> {
  const seen = new Set<string>()
  const pages = client.listSandboxes({ signal: stop })
  let cursor: string | undefined
  do {
    const page = await pages.page({ limit: LIST_PAGE, cursor })
    for (const info of page.items) {
      sandboxes.set(info.id, info)
      seen.add(info.id)
    }
    cursor = page.nextCursor
    changed()
  } while (cursor !== undefined)
  for (const id of sandboxes.keys()) if (!seen.has(id)) sandboxes.delete(id)
  activities.clear()
  batch(() => {
    isLoaded.value = true
    version.value += 1
  })
  readOverviewSoon()
}

function apply(event: ServerEvent): void {
  const { type, sandboxId, data } = event
  if (sandboxId === undefined) return
  if (type === 'sandbox.changed') sandboxes.set(sandboxId, data as unknown as SandboxInfo)
  if (type === 'sandbox.deleted') {
    sandboxes.delete(sandboxId)
    activities.delete(sandboxId)
  }
  if (type === 'sandbox.ledger') noteTransition(sandboxId, data)
  const known = activities.get(sandboxId)
  if (type === 'sandbox.usage' && known !== undefined)
    activities.set(sandboxId, { ...known, memoryBytes: Number(data['memoryBytes']) })
  else if (known !== undefined) stale.add(sandboxId)
  changed()
  if (type !== 'sandbox.usage') readOverviewSoon()
}

function noteTransition(id: string, data: Readonly<Record<string, unknown>>): void {
  const { event, latencyMs } = data as { event: string; latencyMs?: number }
  const next = new Map(transitions.value)
  const before = next.get(id)
  // The latency of a wake may follow its entry.
  const isSame = before?.event === event && latencyMs === undefined
  if (!isSame) next.set(id, { event, latencyMs, atMs: Date.now() })
  transitions.value = next
}

let frame = 0

/** At most one update per frame: a thousand sandboxes may change at once. */
function changed(): void {
  if (frame !== 0) return
  frame = requestAnimationFrame(() => {
    frame = 0
    version.value += 1
  })
}

const stale = new Set<string>()
const wanted = new Set<string>()
let activityTimer: ReturnType<typeof setTimeout> | undefined

/** Reads the activity of the sandboxes that are on the screen, those that it does not have or that changed. */
export function wantActivity(ids: readonly string[]): void {
  for (const id of ids) if (!activities.has(id) || stale.has(id)) wanted.add(id)
  if (wanted.size === 0) return
  if (activityTimer === undefined) activityTimer = setTimeout(() => void readActivity(), ACTIVITY_WAIT_MS)
}

async function readActivity(): Promise<void> {
  const ids = [...wanted].slice(0, ACTIVITY_PAGE)
  for (const id of ids) {
    wanted.delete(id)
    stale.delete(id)
  }
  try {
    for (const one of await client.activity(ids)) activities.set(one.sandboxId, one)
    changed()
  } catch {
    // The next event of a sandbox, or the next scroll, asks again.
  }
  activityTimer = undefined
  if (wanted.size > 0) wantActivity([])
}

let overviewTimer: ReturnType<typeof setTimeout> | undefined

function readOverviewSoon(): void {
  if (overviewTimer !== undefined) return
  overviewTimer = setTimeout(
    () => {
      overviewTimer = undefined
      client.overview().then(
        (read) => {
          overview.value = read
        },
        () => {},
      )
    },
    overview.value === undefined ? 0 : OVERVIEW_WAIT_MS,
  )
}
