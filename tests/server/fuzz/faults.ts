import fc from 'fast-check'
import type { Caller, Draft, Fixtures, Pick } from './draft.ts'
import type { Json } from './openapi.ts'
import { NASTY_TEXTS, NASTY_VALUES } from './values.ts'

/** Breaks a request in one way. */
type Fault = (draft: Draft, pick: Pick, fixtures: Fixtures) => void

const nasty = fc.constantFrom(...NASTY_VALUES)
const nastyText = fc.constantFrom(...NASTY_TEXTS)

/** Every place in a JSON value, as a path. */
function places(value: Json, at: string[] = []): string[][] {
  if (typeof value !== 'object' || value === null) return [at]
  return [at, ...Object.keys(value).flatMap((key) => places(value[key], [...at, key]))]
}

function replaced(value: Json, [key, ...rest]: string[], by: unknown): Json {
  if (key === undefined) return by
  const copy = Array.isArray(value) ? [...value] : { ...value }
  copy[key] = replaced(copy[key], rest, by)
  return copy
}

function pathParameter(draft: Draft, pick: Pick): string | undefined {
  const names = [...draft.operation.path.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => name)
  return names.length === 0 ? undefined : pick(fc.constantFrom(...names))
}

const BODY_FAULTS: Record<string, Fault> = {
  'an unknown field': (draft, pick) => {
    const field = pick(fc.constantFrom('unknown', '__proto__', 'constructor', 'Code', 'toString', ''))
    // Written by hand: an assignment to __proto__ would not be sent.
    const text = JSON.stringify(draft.body ?? {})
    draft.bytes = Buffer.from(text.replace(/^\{/, `{${JSON.stringify(field)}:1${text === '{}' ? '' : ','}`))
  },
  'a value replaced': (draft, pick) => {
    draft.body = replaced(draft.body, pick(fc.constantFrom(...places(draft.body))), pick(nasty))
  },
  'a field left out': (draft, pick) => {
    const keys = Object.keys(draft.body ?? {})
    if (keys.length > 0) draft.body = { ...draft.body, [pick(fc.constantFrom(...keys))]: undefined }
  },
  'a number beyond all ranges': (draft) => {
    draft.bytes = Buffer.from(JSON.stringify(draft.body ?? {}).replace(/:\d+/g, ':1e999'))
  },
  'no JSON': (draft, pick) => {
    draft.bytes = Buffer.from(
      pick(fc.constantFrom('{', '', 'null', '[]', '"x"', '{"a":1}}', "{'a':1}", '\0', 'a=1')),
    )
  },
  'no UTF-8': (draft) => {
    const text = JSON.stringify(draft.body ?? {})
    draft.bytes = Buffer.concat([
      Buffer.from(text.slice(0, -1)),
      Buffer.from([0x22, 0xc3, 0x28, 0xff, 0x22]),
      Buffer.from('}'),
    ])
  },
  'deep nesting': (draft) => {
    draft.bytes = Buffer.from(`${'{"a":'.repeat(20_000)}1${'}'.repeat(20_000)}`)
  },
  'another content type': (draft, pick) => {
    draft.bytes ??= Buffer.from(JSON.stringify(draft.body ?? {}))
    draft.headers['content-type'] = pick(
      fc.constantFrom(
        'text/plain',
        'application/xml',
        'x',
        'application/json; charset=utf-16',
        'multipart/form-data',
        '',
      ),
    )
  },
  'a compressed body': (draft) => {
    draft.headers['content-encoding'] = 'gzip'
  },
}

const QUERY_FAULTS: Record<string, Fault> = {
  'an unknown query parameter': (draft, pick) => {
    draft.query.push([
      pick(fc.constantFrom('unknown', '__proto__[x]', 'constructor', '', 'limit[]', '[a]')),
      '1',
    ])
  },
  'a query parameter replaced': (draft, pick) => {
    const names = draft.operation.parameters.filter((one) => one.in === 'query').map(({ name }) => name)
    if (names.length === 0) return
    const name = pick(fc.constantFrom<string>(...names))
    draft.query = [...draft.query.filter(([other]) => other !== name), [name, String(pick(nasty))]]
  },
  'a query parameter twice': (draft) => {
    draft.query.push(...draft.query)
  },
  'a query that is no UTF-8': (draft) => {
    draft.query.push(['path', '\x01RAW%ff%fe'])
  },
}

const ADDRESS_FAULTS: Record<string, Fault> = {
  'another path parameter': (draft, pick) => {
    const name = pathParameter(draft, pick)
    if (name !== undefined) draft.params[name] = pick(nastyText)
  },
  'a path that cannot be read': (draft, pick) => {
    const name = pathParameter(draft, pick)
    if (name !== undefined)
      draft.params[name] = `\x01RAW${pick(fc.constantFrom('%', '%zz', '%ff', '%00', '%c0%ae', '..', 'é'))}`
  },
  'the id of something deleted': (draft, _, { deletedSandbox }) => {
    if ('id' in draft.params) draft.params['id'] = deletedSandbox
  },
  'the id of something of others': (draft, _, { others }) => {
    const isSnapshot = draft.operation.path.startsWith('/v1/snapshots')
    draft.params['id'] = isSnapshot ? others.snapshot : others.sandbox
    if (draft.body?.snapshotId !== undefined) draft.body.snapshotId = others.snapshot
  },
  'a run of others': (draft, _, { others }) => {
    draft.params['runId'] = others.run
  },
  'another method': (draft, pick) => {
    draft.method = pick(
      fc.constantFrom('PUT', 'POST', 'GET', 'PATCH', 'DELETE', 'OPTIONS', 'TRACE', 'HEAD', 'PROPFIND'),
    )
  },
}

const HEADER_FAULTS: Record<string, Fault> = {
  'another key': (draft, pick) => {
    draft.caller = pick(fc.constantFrom<Caller>('none', 'garbage', 'revoked', 'reader', 'other'))
  },
  'another `Accept`': (draft, pick) => {
    draft.headers['accept'] = pick(
      fc.constantFrom('image/png', 'x', '*/*;q=0', ';;;', 'application/json;q=nan', ''),
    )
  },
  'odd headers': (draft, pick) => {
    const [name, value] = pick(
      fc.constantFrom(
        ...[
          ['range', 'bytes=-1-5'],
          ['range', 'bytes=99999999999999999999-'],
          ['range', 'x'],
          ['last-event-id', '-1'],
        ],
        ...[
          ['last-event-id', '1e9'],
          ['last-event-id', '%00'],
          ['if-none-match', '*'],
          ['x-forwarded-for', '::1'],
        ],
        ...[
          ['x-http-method-override', 'DELETE'],
          ['upgrade', 'websocket'],
          ['expect', 'x'],
          ['host', 'evil.example'],
        ],
        ...[
          ['x-request-id', 'mine"}'],
          ['cookie', 'a=b'],
          ['accept-encoding', 'gzip'],
          ['origin', 'http://evil.example'],
        ],
      ),
    ) as [string, string]
    draft.headers[name] = value
  },
  'large headers': (draft) => {
    draft.headers['x-large'] = 'x'.repeat(20_000)
  },
}

/** 0 to 2 of them. */
export function breakDraft(draft: Draft, pick: Pick, fixtures: Fixtures): void {
  const groups = [
    ...(draft.operation.bodyType === 'application/json' ? [BODY_FAULTS, BODY_FAULTS] : []),
    ...[QUERY_FAULTS, ADDRESS_FAULTS, HEADER_FAULTS],
  ]
  const count = pick(fc.constantFrom(0, 1, 1, 1, 2))
  for (let done = 0; done < count; done += 1) {
    const group = pick(fc.constantFrom(...groups))
    const name = pick(fc.constantFrom(...Object.keys(group)))
    draft.faults.push(name)
    group[name]?.(draft, pick, fixtures)
  }
  boundWait(draft)
}

/** Nothing listens on the port. Without a `timeoutMs` the server would wait for its default, which is half a minute. */
function boundWait(draft: Draft): void {
  if (draft.operation.id !== 'waitForPort') return
  const text = draft.bytes?.toString() ?? JSON.stringify(draft.body) ?? ''
  if (text !== '' && text !== '{}') return
  draft.body = { timeoutMs: 0 }
  draft.bytes = undefined
}
