import { randomUUID } from 'node:crypto'
import { Code, ConnectError, type HandlerContext } from '@connectrpc/connect'
import { hasErrorCode } from '@dormouse/contracts'
import type { FileChange, Guest } from '@dormouse/engine'
import type { BackendSandbox } from '../backend.ts'
import { EVENT_TYPE, type FilesystemEvent, type WatchRequest } from '../wire/filesystem.ts'
import { endedStream, keepaliveMs, sandboxOf, translated, userOf } from './caller.ts'
import { entryOf } from './entry-info.ts'
import { absolutePath } from './paths.ts'
import { withKeepalive } from './with-keepalive.ts'

interface Watched extends WatchRequest {
  readonly user?: string
}

/** Streams the changes below a directory. The first message says that from now on none is missed. */
export async function* watchDirectory(
  request: WatchRequest,
  context: HandlerContext,
): AsyncGenerator<object> {
  const { signal } = context
  const sandbox = sandboxOf(context)
  const changes = await translated(() => openWatch(sandbox, { ...request, ...userOf(context) }, signal))
  try {
    for await (const events of withKeepalive(changes, keepaliveMs(context))) {
      if (events === undefined) yield { event: { case: 'keepalive', value: {} } }
      else if (events === 'ready') yield { event: { case: 'start', value: {} } }
      else for (const event of events) yield { event: { case: 'filesystem', value: event } }
    }
  } catch (error) {
    throw signal.aborted ? signal.reason : endedStream(sandbox, error)
  }
}

/** Events of a watcher that no client reads are dropped beyond this number. */
const KEPT_EVENTS = 10_000
const WATCHERS_PER_SANDBOX = 64

interface Watcher {
  readonly sandboxId: string
  readonly end: AbortController
  readonly events: FilesystemEvent[]
  error: unknown
}

/** Watchers whose events clients fetch instead of reading a stream. They end with the server. */
export class Watchers {
  readonly #watchers = new Map<string, Watcher>()

  async create(request: WatchRequest, context: HandlerContext): Promise<{ watcherId: string }> {
    const sandbox = sandboxOf(context)
    const own = [...this.#watchers.values()].filter(({ sandboxId }) => sandboxId === sandbox.id)
    if (own.length >= WATCHERS_PER_SANDBOX)
      throw new ConnectError(`the sandbox has ${own.length} watchers`, Code.ResourceExhausted)
    const end = new AbortController()
    const changes = await openWatch(sandbox, { ...request, ...userOf(context) }, end.signal)
    const watcher: Watcher = { sandboxId: sandbox.id, end, events: [], error: undefined }
    const iterator = changes[Symbol.asyncIterator]()
    await iterator.next()
    void collect(watcher, { [Symbol.asyncIterator]: () => iterator })
    const watcherId = randomUUID()
    this.#watchers.set(watcherId, watcher)
    return { watcherId }
  }

  events({ id }: BackendSandbox, watcherId: string): { events: FilesystemEvent[] } {
    const watcher = this.#get(id, watcherId)
    if (watcher.error !== undefined) throw watcher.error
    return { events: watcher.events.splice(0) }
  }

  remove({ id }: BackendSandbox, watcherId: string): object {
    this.#get(id, watcherId).end.abort()
    this.#watchers.delete(watcherId)
    return {}
  }

  forget(sandboxId: string): void {
    for (const [id, watcher] of this.#watchers) {
      if (watcher.sandboxId !== sandboxId) continue
      watcher.end.abort()
      this.#watchers.delete(id)
    }
  }

  #get(sandboxId: string, watcherId: string): Watcher {
    const watcher = this.#watchers.get(watcherId)
    if (watcher?.sandboxId === sandboxId) return watcher
    throw new ConnectError(`watcher with id ${watcherId} not found`, Code.NotFound)
  }
}

async function collect(
  watcher: Watcher,
  changes: AsyncIterable<'ready' | readonly FilesystemEvent[]>,
): Promise<void> {
  try {
    for await (const events of changes) {
      if (events === 'ready') continue
      watcher.events.push(...events)
      watcher.events.splice(0, watcher.events.length - KEPT_EVENTS)
    }
  } catch (error) {
    if (!watcher.end.signal.aborted) watcher.error = error
  }
}

async function openWatch(
  sandbox: BackendSandbox,
  request: Watched,
  signal: AbortSignal,
): Promise<AsyncIterable<'ready' | readonly FilesystemEvent[]>> {
  const path = await sandbox.use({ cause: 'file', what: 'watching a directory', signal }, async (guest) => {
    const path = await absolutePath(guest, request)
    const { type } = await statOrNotFound(guest, path)
    if (type !== 'directory') throw new ConnectError(`path ${path} not a directory`, Code.InvalidArgument)
    return path
  })
  const options = { recursive: request.recursive, user: 'root', signal }
  return sandbox.attach({ cause: 'file', what: `watching ${path}`, signal }, async function* (guest) {
    for await (const change of guest.files.watch(path, options)) {
      if (change.type === 'ready') yield 'ready' as const
      else yield await eventsOf(guest, change, { base: path, withEntry: request.includeEntry })
    }
  })
}

async function statOrNotFound(guest: Guest, path: string) {
  try {
    return await guest.files.stat(path, { user: 'root' })
  } catch (error) {
    if (!hasErrorCode(error, 'not_found')) throw error
    throw new ConnectError(`path ${path} not found`, Code.NotFound)
  }
}

async function eventsOf(
  guest: Guest,
  change: FileChange,
  { base, withEntry }: { base: string; withEntry: boolean },
): Promise<FilesystemEvent[]> {
  const nameOf = (path: string) => (path === base ? '' : path.slice(base === '/' ? 1 : base.length + 1))
  const describe = async (path: string, type: number): Promise<FilesystemEvent> => {
    const isThere = type === EVENT_TYPE.created || type === EVENT_TYPE.modified
    if (!withEntry || !isThere) return { name: nameOf(path), type }
    try {
      const entry = await entryOf(guest, await guest.files.stat(path, { user: 'root', follow: false }))
      return { name: nameOf(path), type, entry }
    } catch {
      // It is gone again.
      return { name: nameOf(path), type }
    }
  }
  if (change.type === 'moved')
    return [await describe(change.from, EVENT_TYPE.renamed), await describe(change.path, EVENT_TYPE.created)]
  if (change.type === 'ready' || change.type === 'overflow') return []
  const event = await describe(change.path, EVENT_TYPE[change.type])
  // Files that clients write appear with their content, in one step. For E2B that is two.
  const hasContent = change.type === 'created' && (await isFilled(guest, change.path))
  return hasContent ? [event, { ...event, type: EVENT_TYPE.modified }] : [event]
}

async function isFilled(guest: Guest, path: string): Promise<boolean> {
  try {
    const { type, sizeBytes } = await guest.files.stat(path, { user: 'root', follow: false })
    return type === 'file' && sizeBytes > 0
  } catch {
    return false
  }
}
