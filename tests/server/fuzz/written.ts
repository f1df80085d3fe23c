import type { Draft } from './draft.ts'
import type { Request } from './send.ts'

/** Marks text that is already as it shall go over the wire. */
const RAW = '\x01RAW'

/** As it goes over the wire. */
export function written(draft: Draft, authorization: string | undefined): Request {
  const path = draft.operation.path.replace(/\{(\w+)\}/g, (_, name: string) =>
    encoded(draft.params[name] ?? ''),
  )
  const query = draft.query.map(([name, value]) => `${encoded(name)}=${encoded(value)}`).join('&')
  const body = draft.bytes ?? (draft.body === undefined ? undefined : Buffer.from(JSON.stringify(draft.body)))
  return {
    method: draft.method,
    target: query === '' ? path : `${path}?${query}`,
    headers: {
      ...(authorization !== undefined && { authorization }),
      ...(body !== undefined && { 'content-type': draft.operation.bodyType ?? 'application/json' }),
      ...draft.headers,
    },
    body: draft.method === 'GET' || draft.method === 'HEAD' ? undefined : body,
  }
}

function encoded(text: string): string {
  if (text.startsWith(RAW)) return text.slice(RAW.length)
  // Half of a pair of surrogates has no encoding of its own: its bytes are written as some programs would.
  return encodeURIComponent(text.replace(/\p{Surrogate}/gu, '\u0001')).replaceAll('%01', '%ed%a0%80')
}
