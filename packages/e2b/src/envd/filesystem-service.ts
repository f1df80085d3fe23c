import type { DescService } from '@bufbuild/protobuf'
import { Code, ConnectError, type HandlerContext, type ServiceImpl } from '@connectrpc/connect'
import { hasErrorCode } from '@dormouse/contracts'
import type { FileStat, Guest } from '@dormouse/engine'
import type { EntryInfo, WatchRequest } from '../wire/filesystem.ts'
import { asOwner } from './as-owner.ts'
import { sandboxOf, translated, userOf } from './caller.ts'
import { entryOf } from './entry-info.ts'
import { absolutePath, type UserPath } from './paths.ts'
import { type Watchers, watchDirectory } from './watchers.ts'

/** E2B's agent looks at files as root for every user. */
const ROOT = { user: 'root' } as const
const ENTRIES_MAX = 100_000

type Method<Request> = (guest: Guest, request: Request & { user?: string }) => Promise<object>

/** E2B's filesystem service. Requests and answers are the messages of `wire/filesystem.ts`. */
export function filesystemMethods(watchers: Watchers): Partial<ServiceImpl<DescService>> {
  return {
    stat: inSandbox(stat, 'looking at a file'),
    makeDir: inSandbox(makeDir, 'making a directory'),
    move: inSandbox(move, 'moving a file'),
    listDir: inSandbox(listDir, 'listing a directory'),
    remove: inSandbox(remove, 'removing a file'),
    watchDir: watchDirectory,
    createWatcher: (request: WatchRequest, context: HandlerContext) =>
      translated(() => watchers.create(request, context)),
    getWatcherEvents: ({ watcherId }: { watcherId: string }, context: HandlerContext) =>
      translated(async () => watchers.events(sandboxOf(context), watcherId)),
    removeWatcher: ({ watcherId }: { watcherId: string }, context: HandlerContext) =>
      translated(async () => watchers.remove(sandboxOf(context), watcherId)),
  } as unknown as Partial<ServiceImpl<DescService>>
}

function inSandbox<Request>(method: Method<Request>, what: string) {
  return (request: Request, context: HandlerContext) =>
    translated(() =>
      sandboxOf(context).use({ cause: 'file', what, signal: context.signal }, (guest) =>
        method(guest, { ...request, ...userOf(context) }),
      ),
    )
}

async function stat(guest: Guest, request: UserPath): Promise<object> {
  return { entry: await entryAt(guest, await absolutePath(guest, request)) }
}

async function makeDir(guest: Guest, request: UserPath): Promise<object> {
  const path = await absolutePath(guest, request)
  const existing = await find(guest, path)
  if (existing?.type === 'directory')
    throw new ConnectError(`directory already exists: ${path}`, Code.AlreadyExists)
  if (existing !== undefined)
    throw new ConnectError(`path already exists but it is not a directory: ${path}`, Code.InvalidArgument)
  await asOwner(guest, { path, user: request.user }, (as) =>
    guest.files.mkdir(path, { parents: true, ...as }),
  )
  return { entry: await entryAt(guest, path) }
}

async function move(
  guest: Guest,
  { source, destination, user }: { source: string; destination: string; user?: string },
): Promise<object> {
  const as = user === undefined ? {} : { user }
  const from = await absolutePath(guest, { path: source, ...as })
  const to = await absolutePath(guest, { path: destination, ...as })
  if ((await find(guest, from, false)) === undefined)
    throw new ConnectError(`source file not found: ${from}`, Code.NotFound)
  const parent = to.slice(0, to.lastIndexOf('/')) || '/'
  if ((await find(guest, parent)) === undefined)
    await asOwner(guest, { path: parent, user }, (who) =>
      guest.files.mkdir(parent, { parents: true, ...who }),
    )
  await guest.files.move({ from, to }, { overwrite: true, ...ROOT })
  return { entry: await entryAt(guest, to) }
}

async function listDir(guest: Guest, { depth, ...request }: UserPath & { depth: number }): Promise<object> {
  const requested = await absolutePath(guest, request)
  const directory = await find(guest, requested)
  if (directory === undefined) throw new ConnectError(`path not found: ${requested}`, Code.NotFound)
  if (directory.type !== 'directory')
    throw new ConnectError(`path is not a directory: ${requested}`, Code.InvalidArgument)
  const entries: EntryInfo[] = []
  // With a slash at its end, a link to a directory is that directory.
  const listed = requested === '/' ? '/' : `${requested}/`
  for await (const found of guest.files.list(listed, { depth: depth || 1, ...ROOT })) {
    if (entries.length === ENTRIES_MAX)
      throw new ConnectError(`more than ${ENTRIES_MAX} entries`, Code.ResourceExhausted)
    entries.push(await entryOf(guest, found, found.path.replace(/\/{2,}/g, '/')))
  }
  return { entries }
}

async function remove(guest: Guest, request: UserPath): Promise<object> {
  const path = await absolutePath(guest, request)
  try {
    await guest.files.remove(path, { recursive: true, ...ROOT })
  } catch (error) {
    if (!hasErrorCode(error, 'not_found')) throw error
  }
  return {}
}

async function entryAt(guest: Guest, path: string): Promise<EntryInfo> {
  return entryOf(guest, await guest.files.stat(path, { follow: false, ...ROOT }))
}

async function find(guest: Guest, path: string, follow = true): Promise<FileStat | undefined> {
  try {
    return await guest.files.stat(path, { follow, ...ROOT })
  } catch (error) {
    if (hasErrorCode(error, 'not_found')) return undefined
    throw error
  }
}
