import fc, { type GeneratorValue } from 'fast-check'
import type { Json, OpenApi, Operation } from './openapi.ts'
import { valuesOf } from './values.ts'

/** What is there to be named in requests. */
export interface Fixtures {
  readonly sandbox: string
  readonly run: string
  readonly processId: string
  readonly context: string
  readonly snapshot: string
  readonly template: string
  readonly key: string
  readonly volume: string
  readonly secret: string
  readonly sshKey: string
  readonly takenName: string
  /** Of another tenant, of the same kinds. */
  readonly others: { readonly sandbox: string; readonly snapshot: string; readonly run: string }
  readonly deletedSandbox: string
}

export type Caller = 'own' | 'reader' | 'admin' | 'other' | 'revoked' | 'garbage' | 'none'

/** A request before it is written down. */
export interface Draft {
  readonly operation: Operation
  method: string
  params: Record<string, string>
  query: [string, string][]
  headers: Record<string, string>
  body: Json
  /** Written instead of `body`, as it is. */
  bytes: Buffer | undefined
  caller: Caller
  /** In words, what was done to a request that was right. */
  readonly faults: string[]
}

export type Pick = <Value>(values: fc.Arbitrary<Value>) => Value

export function picker(generator: GeneratorValue): Pick {
  return (values) => generator(() => values as never)
}

/** A request that the document allows; whether it is granted depends on what is there. */
export function draft(api: OpenApi, operation: Operation, fixtures: Fixtures, pick: Pick): Draft {
  const inQuery = operation.parameters.filter((parameter) => parameter.in === 'query')
  const query = inQuery
    .filter(({ required, name }) => required || name === 'path' || pick(fc.nat(3)) === 0)
    .flatMap(({ name, schema }): [string, string][] => {
      const value = QUERY[name]?.(fixtures, pick) ?? pick(valuesOf(api, schema))
      if (typeof value !== 'object' || value === null) return [[name, String(value)]]
      return Object.entries(value).map(([key, one]) => [`${name}[${key}]`, String(one)])
    })
  const isJson = operation.bodyType === 'application/json'
  const body = isJson ? tame(pick(valuesOf(api, operation.bodySchema)) as Json, fixtures, pick) : undefined
  // Nothing ever listens there.
  if (operation.id === 'waitForPort') body.timeoutMs = pick(fc.nat(500))
  return {
    operation,
    method: operation.method.toUpperCase(),
    params: paramsOf(operation, fixtures),
    query,
    headers: pick(fc.nat(3)) === 0 ? { accept: pick(fc.constantFrom(...ACCEPTS)) } : {},
    body,
    bytes: operation.bodyType === 'application/octet-stream' ? Buffer.from(pick(fc.uint8Array())) : undefined,
    caller: operation.scope === 'admin' ? 'admin' : 'own',
    faults: [],
  }
}

const ACCEPTS = ['application/json', 'application/x-ndjson', 'text/event-stream', '*/*', 'text/csv']
const PATHS = [
  '/root/fuzz/a.txt',
  '/root/fuzz/new.txt',
  '/root/fuzz',
  '/etc/hostname',
  '/root/fuzz/dir/b',
  'x',
]

const QUERY: Record<string, (fixtures: Fixtures, pick: Pick) => unknown> = {
  path: (_, pick) => pick(fc.constantFrom(...PATHS)),
  user: (_, pick) => pick(fc.constantFrom('root', 'nobody')),
  sandboxId: ({ sandbox }) => sandbox,
  // Shells that no request ends would be left.
  command: () => 'true',
}

function paramsOf({ path }: Operation, fixtures: Fixtures): Record<string, string> {
  const { sandbox, snapshot, key, run, processId, context, template } = fixtures
  const id = path.startsWith('/v1/snapshots') ? snapshot : path.startsWith('/v1/keys') ? key : sandbox
  const name = path.includes('/contexts')
    ? context
    : path.startsWith('/v1/templates')
      ? template
      : path.startsWith('/v1/secrets')
        ? fixtures.secret
        : path.startsWith('/v1/ssh-keys')
          ? fixtures.sshKey
          : fixtures.volume
  return { id, name, runId: run, processId, port: '8000' }
}

/** Bounds what a granted request costs: the machine is shared, and a minute is all there is. */
function tame(body: Json, fixtures: Fixtures, pick: Pick): Json {
  if (typeof body !== 'object' || body === null) return body
  const some = (chance: number) => pick(fc.nat(chance)) === 0
  if ('code' in body || 'command' in body || 'args' in body)
    body.timeoutMs = pick(fc.integer({ min: 1, max: 1500 }))
  if ('code' in body && some(1))
    body.code = pick(fc.constantFrom('x = 1', 'print("é" * 99)', '1/0', 'exit 3', 'x'))
  if ('context' in body && some(1)) body.context = fixtures.context
  if ('template' in body && !some(4)) body.template = 'python'
  if ('name' in body && some(4)) body.name = fixtures.takenName
  if ('snapshotId' in body && some(1)) body.snapshotId = fixtures.snapshot
  if ('user' in body && some(1)) body.user = 'root'
  if ('cwd' in body && some(1)) body.cwd = '/root'
  if ('volumes' in body && !some(4)) body.volumes = []
  if ('secrets' in body && !some(4)) body.secrets = some(1) ? [fixtures.secret] : []
  if ('command' in body && 'args' in body) delete body[some(1) ? 'command' : 'args']
  for (const name of ['path', 'from', 'to', 'source', 'target']) {
    if (name in body && !some(2)) body[name] = pick(fc.constantFrom(...PATHS))
  }
  return body
}
